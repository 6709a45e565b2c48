"""The webhook courier: calls endpoints, at least once, and writes down what came of it.

It holds nothing that the database does not know. A delivery is taken with a lease, which is a due time in the future, and
a fence: when this process is killed or frozen in the middle of a call, the delivery is due again for any replica, and
what this one still reports is refused. So an endpoint may be called twice for one event, and drops the second by its id.

An endpoint that hangs holds a few hands and no more; the others go on with what else is due.
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final
from uuid import UUID

from stanchion.authority.webhooks import NO_MASTER, REFUSED, Delivery, Webhooks
from stanchion.contracts import ids, limits, payload
from stanchion.contracts.envelope import format_time
from stanchion.contracts.webhook_signing import (
    EVENT_ID_HEADER,
    EVENT_TYPE_HEADER,
    SIGNATURE_HEADER,
    TRY_HEADER,
    sign,
)
from stanchion.errors import StanchionError
from stanchion.runtime import outside
from stanchion.runtime.clock import Deadline, monotonic, utc_now
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

EACH: Final = 4  # calls of one webhook under way here at once
LEASE_SECONDS: Final = 30.0  # three times what a call may take
TRIM_SECONDS: Final = 600.0
FIRST_BACKOFF_SECONDS: Final = 1.0

_KINDS: Final = {"task_id": ids.TASK, "run_id": ids.RUN, "step_id": ids.STEP, "approval_id": ids.APPROVAL}
_SUBJECTS: Final = {"task": ids.TASK, "approval": ids.APPROVAL}

log = get_logger()


class WebhookCourier:
    """`run_once` takes what is due and there are hands for; the calls are made in threads, which wake the loop."""

    def __init__(
        self,
        webhooks: Webhooks,
        rules: outside.Rules,
        *,
        hands: int,
        wake: threading.Event | None = None,
        seconds: float = limits.WEBHOOK_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        assert lease_seconds > seconds, "a call ends before its lease does"
        self.webhooks = webhooks
        self.rules = rules
        self.hands = hands
        self.wake = wake or threading.Event()
        self.seconds = seconds
        self.lease_seconds = lease_seconds
        self._pool = ThreadPoolExecutor(max_workers=max(1, hands), thread_name_prefix="webhook")
        self._lock = threading.Lock()
        self._busy: list[UUID] = []
        self._trim_at = 0.0

    name = "webhook-courier"

    def start(self) -> None:
        """Nothing: the loop begins."""

    def busy(self) -> bool:
        """Whether calls are under way."""
        return bool(self._under_way())

    def stop(self, timeout: float = 0.0) -> bool:
        """Wait for the calls that are under way, up to `timeout` seconds; what is left is made again by a replica."""
        deadline = Deadline(timeout)
        while self._under_way() and not deadline.passed:
            self.wake.wait(min(0.1, deadline.left))
            self.wake.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not self._under_way()

    def run_once(self) -> bool:
        """Take deliveries and hand them out; True while there may be more for hands that are free."""
        if monotonic() >= self._trim_at:
            self._trim_at = monotonic() + TRIM_SECONDS
            self.webhooks.trim()
        busy = self._under_way()
        free = self.hands - len(busy)
        if free <= 0:
            return False  # the end of a call wakes this loop
        taken = Deadline(self.lease_seconds)
        deliveries = self.webhooks.claim(free, EACH, busy, self.lease_seconds)
        for delivery in deliveries:
            with self._lock:
                self._busy.append(delivery.webhook_id)
            future = self._pool.submit(self._deliver, delivery, taken)
            future.add_done_callback(partial(self._ended, delivery))
        return len(deliveries) == free

    def _under_way(self) -> list[UUID]:
        with self._lock:
            return list(self._busy)

    def _ended(self, delivery: Delivery, done: Future[None]) -> None:
        with self._lock:
            self._busy.remove(delivery.webhook_id)
        if not done.cancelled() and (error := done.exception()) is not None:
            # the database is away: the lease runs out, and the call is made again
            log.warning("webhook.lost", delivery=str(delivery.delivery_id), error=type(error).__name__)
        self.wake.set()

    def _deliver(self, delivery: Delivery, lease: Deadline) -> None:
        if lease.left <= self.seconds:
            return  # this process stood still: another one has the delivery by now, or will
        status, error = self._call(delivery)
        sent = error is None
        delay = 0.0 if sent else backoff_seconds(delivery.tries)
        outcome = self.webhooks.finish(delivery, sent=sent, status=status, error=error, delay_seconds=delay)
        facts = {"webhook": ids.public(ids.WEBHOOK, delivery.webhook_id), "type": delivery.type, "status": status}
        metrics.webhook_calls.labels(outcome or "lost").inc()
        if outcome is None:
            log.info("webhook.lost", **facts)
        elif outcome == "sent":
            log.debug("webhook.sent", **facts)
        elif outcome == "failed":
            log.warning("webhook.given_up", error=error, tries=delivery.tries + 1, **facts)
        else:
            log.info("webhook.refused", error=error, tries=delivery.tries + 1, **facts)

    def _call(self, delivery: Delivery) -> tuple[int | None, str | None]:
        """The status of the answer, and the code of what went wrong; nothing else of it is kept."""
        secret = self.webhooks.masters.secret_of(delivery.master, delivery.webhook_id)
        if secret is None:
            return None, NO_MASTER
        body = body_of(delivery)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "stanchion-webhook",
            EVENT_ID_HEADER: ids.public(ids.EVENT, delivery.event_id),
            EVENT_TYPE_HEADER: delivery.type,
            TRY_HEADER: str(delivery.tries + 1),
            SIGNATURE_HEADER: sign(secret, body, int(utc_now().timestamp())),
        }
        started = monotonic()
        try:
            answer = outside.request(
                "POST",
                delivery.url,
                rules=self.rules,
                headers=headers,
                body=body,
                seconds=self.seconds,
                most_bytes=limits.WEBHOOK_ANSWER_BYTES,
            )
        except StanchionError as error:
            return None, error.code
        finally:
            metrics.webhook_seconds.observe(monotonic() - started)
        return answer.status, None if 200 <= answer.status < 300 else REFUSED


def body_of(delivery: Delivery) -> bytes:
    """What is sent: the same bytes at every try."""
    data = {name: _shown(name, value) for name, value in delivery.body.items()}
    prefix = _SUBJECTS.get(delivery.type.partition(".")[0])
    document: dict[str, Any] = {
        "id": ids.public(ids.EVENT, delivery.event_id),
        "type": delivery.type,
        "at": format_time(delivery.created_at),
        "tenant": delivery.tenant,
        "subject": _public(prefix, delivery.subject) if prefix else delivery.subject,
        "data": data,
    }
    return payload.dumps(document)


def backoff_seconds(tries: int) -> float:
    """How long to wait after so many tries before this one: doubling, capped, and spread by half."""
    most = min(limits.WEBHOOK_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(tries, 30))
    return most * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing


def _shown(name: str, value: Any) -> Any:
    return _public(_KINDS[name], value) if name in _KINDS and isinstance(value, str) else value


def _public(prefix: str, text: str) -> str:
    """An id as people see it; anything that is no id as it came."""
    try:
        return ids.public(prefix, UUID(text))
    except ValueError:
        return text
