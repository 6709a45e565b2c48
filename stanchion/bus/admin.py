"""Topics: created explicitly, before anybody names them; some brokers create what is named, with their own counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from stanchion.bus.client import build_admin, translate
from stanchion.bus.library import kafka_errors
from stanchion.contracts.topics import TopicSpec
from stanchion.errors import NotAllowed, Rejected, StanchionError, Unavailable
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.runtime.logging import get_logger

R = TypeVar("R")

# While brokers register with their controller, a replication factor that will be right is still refused.
_PASSING = (kafka_errors.InvalidReplicationFactorError, kafka_errors.NotControllerError)
# A rule of whoever runs the cluster; asking again changes nothing.
_FORBIDDEN = (kafka_errors.PolicyViolationError,)

log = get_logger()


def as_settings(bootstrap: str | KafkaSettings) -> KafkaSettings:
    """Settings from a bare address, with production's timeouts."""
    return bootstrap if isinstance(bootstrap, KafkaSettings) else KafkaSettings(bootstrap, "stanchion-admin")


def with_admin(bootstrap: str | KafkaSettings, work: Callable[[Any], R], *, timeout: float) -> R:
    """Run `work` with an admin client, again and with backoff while the broker does not answer; then close it.

    Raises Rejected at once for what never passes, Unavailable when `timeout` seconds are over.
    """
    settings = as_settings(bootstrap)
    deadline, backoff = Deadline(timeout), Backoff(0.1, 2.0)
    while True:
        admin = None
        try:
            admin = build_admin(settings)
            return work(admin)
        except Exception as error:
            ours = translate(error, settings.bootstrap)
            if isinstance(ours, Rejected) or deadline.passed:
                raise ours from error
            if backoff.failures == 0:
                log.warning("bus.broker_away", bootstrap=settings.bootstrap, what=ours.what, why=ours.why)
            pause(min(backoff.next(), deadline.left))
        finally:
            if admin is not None:
                with suppress(Exception):
                    admin.close()


def ensure_topics(bootstrap: str | KafkaSettings, specs: Sequence[TopicSpec], *, timeout: float = 60.0) -> None:
    """Create what is missing of `specs` and wait until all can be used; also while the broker is still starting.

    Raises Unavailable when `timeout` seconds are over, NotAllowed without the right. Topics that exist are left alone,
    also when they have another number of partitions.
    """

    def work(admin: Any) -> None:
        if missing := _missing(admin, specs):
            for error in _create(admin, missing).values():
                raise error
            admin.wait_for_topics([spec.name for spec in missing])

    with_admin(bootstrap, work, timeout=timeout)
    log.info("bus.topics_ready", topics=len(specs))


def ensure_each(settings: KafkaSettings, specs: Sequence[TopicSpec], *, timeout: float) -> dict[str, StanchionError]:
    """The same for each topic by itself: those that can't be used now, and why; all others are ready.

    Rejected: the broker will never make it so; anything else may pass. Raises like `ensure_topics` when the broker
    can't be asked at all.
    """

    def work(admin: Any) -> dict[str, StanchionError]:
        missing = _missing(admin, specs)
        failed = _create(admin, missing) if missing else {}
        made = [spec.name for spec in missing if spec.name not in failed]
        try:
            admin.wait_for_topics(made, timeout_ms=round(timeout * 1000))
        except kafka_errors.KafkaTimeoutError as error:
            late = {
                name: Unavailable("E-NET-02", "the topic is not ready yet", where=name, why=str(error)) for name in made
            }
            return failed | late
        return failed

    return with_admin(settings, work, timeout=timeout)


def _missing(admin: Any, specs: Sequence[TopicSpec]) -> list[TopicSpec]:
    existing = set(admin.list_topics())
    return [spec for spec in specs if spec.name not in existing]


def missing_topics(bootstrap: str | KafkaSettings, names: Sequence[str], *, timeout: float = 10.0) -> list[str]:
    """Those of `names` that do not exist; asking does not create them."""
    existing = set(with_admin(bootstrap, lambda admin: admin.list_topics(), timeout=timeout))
    return [name for name in names if name not in existing]


def _create(admin: Any, specs: Sequence[TopicSpec]) -> dict[str, StanchionError]:
    """Create topics; returns for each that was not made why."""
    wanted = {
        spec.name: {
            "num_partitions": spec.partitions,
            "replication_factor": spec.replication,
            "configs": spec.configs,
        }
        for spec in specs
    }
    failed: dict[str, StanchionError] = {}
    answer = admin.create_topics(wanted, raise_errors=False)
    for topic in answer["topics"]:
        error = kafka_errors.for_code(topic["error_code"])
        if error in (kafka_errors.NoError, kafka_errors.TopicAlreadyExistsError):
            continue
        text = f"{topic['name']}: {topic.get('error_message') or error.__name__}"
        if error in _PASSING:
            failed[topic["name"]] = Unavailable("E-NET-01", "the brokers are not ready to hold a new topic", why=text)
        elif error in _FORBIDDEN:
            failed[topic["name"]] = NotAllowed("E-NET-06", "the broker refuses", where=topic["name"], why=text)
        else:
            failed[topic["name"]] = translate(error(text), topic["name"])
    return failed
