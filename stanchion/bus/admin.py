"""Topics: created explicitly, before anybody names them; some brokers create what is named, with their own counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from stanchion.bus.client import build_admin, translate
from stanchion.bus.library import kafka_errors
from stanchion.contracts.topics import TopicSpec
from stanchion.errors import Rejected, Unavailable
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.runtime.logging import get_logger

R = TypeVar("R")

# While brokers register with their controller, a replication factor that will be right is still refused.
_PASSING = (kafka_errors.InvalidReplicationFactorError, kafka_errors.NotControllerError)

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
        missing = [spec for spec in specs if spec.name not in set(admin.list_topics())]
        if missing:
            _create(admin, missing)
            admin.wait_for_topics([spec.name for spec in missing])

    with_admin(bootstrap, work, timeout=timeout)
    log.info("bus.topics_ready", topics=len(specs))


def missing_topics(bootstrap: str | KafkaSettings, names: Sequence[str], *, timeout: float = 10.0) -> list[str]:
    """Those of `names` that do not exist; asking does not create them."""
    existing = set(with_admin(bootstrap, lambda admin: admin.list_topics(), timeout=timeout))
    return [name for name in names if name not in existing]


def _create(admin: Any, specs: Sequence[TopicSpec]) -> None:
    wanted = {
        spec.name: {
            "num_partitions": spec.partitions,
            "replication_factor": spec.replication,
            "configs": spec.configs,
        }
        for spec in specs
    }
    answer = admin.create_topics(wanted, raise_errors=False)
    for topic in answer["topics"]:
        error = kafka_errors.for_code(topic["error_code"])
        if error in (kafka_errors.NoError, kafka_errors.TopicAlreadyExistsError):
            continue
        text = f"{topic['name']}: {topic.get('error_message') or error.__name__}"
        if error in _PASSING:
            raise Unavailable("E-NET-01", "the brokers are not ready to hold a new topic", why=text)
        raise translate(error(text), topic["name"])
