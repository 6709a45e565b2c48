"""A database of its own for each test, a receiver, and a courier that a test works by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from kit.engine import Admin, Engine
from kit.receiver import Receiver

from services.orchestrator.webhook_courier import WebhookCourier
from stanchion.authority.webhooks import Masters, Webhooks
from stanchion.db.engine import Database
from stanchion.db.grants import ORCHESTRATOR, TASK_SERVICE
from stanchion.runtime.outside import Rules, networks_of

LOOPBACK = Rules(networks_of(["127.0.0.0/8"]))


@pytest.fixture
def engine(db: Callable[[str], Database], admin: Admin, tenant: UUID) -> Engine:
    """Runs driven by hand, for one tenant."""
    return Engine(db, admin, tenant)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A real server on loopback."""
    with Receiver() as running:
        yield running


@pytest.fixture
def hooks(db: Callable[[str], Database]) -> Webhooks:
    """What the task service does with webhooks."""
    return Webhooks(db(TASK_SERVICE), Masters.of_dev())


@pytest.fixture
def make_courier(db: Callable[[str], Database]) -> Iterator[Callable[..., WebhookCourier]]:
    """`make_courier(hands=4)`: a courier under the orchestrator's login; calls get two seconds."""
    made: list[WebhookCourier] = []

    def make(hands: int = 8, rules: Rules = LOOPBACK, masters: Masters | None = None) -> WebhookCourier:
        webhooks = Webhooks(db(ORCHESTRATOR), masters or Masters.of_dev())
        made.append(WebhookCourier(webhooks, rules, hands=hands, seconds=2.0, lease_seconds=6.0))
        return made[-1]

    yield make
    for courier in made:
        courier.stop(10)


@pytest.fixture
def courier(make_courier: Callable[..., WebhookCourier]) -> WebhookCourier:
    """One."""
    return make_courier()
