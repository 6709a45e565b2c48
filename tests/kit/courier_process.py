"""A courier as a process of its own, to be killed and frozen: `python -m kit.courier_process URL LEASE_SECONDS`."""

from __future__ import annotations

import sys
import threading

from services.orchestrator.webhook_courier import WebhookCourier
from stanchion.authority.webhooks import Masters, Webhooks
from stanchion.db.engine import Database
from stanchion.runtime.outside import Rules, networks_of


def main() -> None:
    """Look ten times a second, for ever."""
    url, lease_seconds = sys.argv[1], float(sys.argv[2])
    webhooks = Webhooks(Database(url, name="courier process", pool_size=2), Masters.of_dev())
    rules = Rules(networks_of(["127.0.0.0/8"]))
    courier = WebhookCourier(webhooks, rules, hands=4, seconds=lease_seconds / 2, lease_seconds=lease_seconds)
    while True:
        courier.run_once()
        threading.Event().wait(0.1)


if __name__ == "__main__":
    main()
