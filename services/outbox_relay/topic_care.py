"""Which topics can be sent to. One that can't be made holds up its own messages, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from stanchion.bus.admin import ensure_each
from stanchion.contracts.topics import ALL, DEAD_LETTER_SUFFIX, TopicSpec, queue_of, worker_specs
from stanchion.errors import Rejected, StanchionError, Unavailable
from stanchion.runtime.clock import monotonic
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.runtime.logging import get_logger

log = get_logger()

ENSURE_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = (
    1.0  # before a topic is asked for again that could not be made: asking takes time from the others
)
REFUSED_SECONDS: Final = 30.0  # the same for one that was refused


class TopicCare:
    """Before the first message to a topic, and after one that did not get through, sees that the topic exists.

    Queues are named by workflows: their topics come with their first offer.
    """

    def __init__(self, settings: KafkaSettings, partitions: int) -> None:
        self.settings = settings
        self.partitions = partitions
        self._ready: set[str] = set()
        self._faults: dict[str, tuple[float, StanchionError]] = {}

    def faults(self, topics: Iterable[str]) -> Mapping[str, StanchionError]:
        """Those that can't be sent to now, and why: Rejected for ever, anything else may pass."""
        wanted, now = set(topics), monotonic()
        asked = {name for name in wanted - self._ready if name not in self._faults or self._faults[name][0] <= now}
        if asked:
            self._ask(asked)
        return {name: self._faults[name][1] for name in wanted if name in self._faults}

    def doubt(self, topic: str) -> None:
        """Look again before the next message: a topic may have gone with a broker that came back empty."""
        self._ready.discard(topic)

    def _ask(self, topics: set[str]) -> None:
        specs = [replace(s, partitions=self.partitions) for name in sorted(topics) for s in _specs_of(name)]
        try:
            failed = ensure_each(self.settings, specs, timeout=ENSURE_SECONDS) if specs else {}
        except StanchionError as error:
            # Nobody was let in or nobody answered: that says nothing about these topics, so nothing is parked for it.
            away = Unavailable(error.code, error.what, where=error.where, why=error.why)
            failed = dict.fromkeys(topics, away)
        for name in topics:
            self._note(name, failed.get(name))

    def _note(self, name: str, error: StanchionError | None) -> None:
        before = self._faults.pop(name, None)
        if error is None:
            self._ready.add(name)
            return
        if before is None or before[1].code != error.code:
            log.warning("relay.topic_failed", topic=name, code=error.code, what=error.what, why=error.why)
        wait = REFUSED_SECONDS if isinstance(error, Rejected) else AGAIN_SECONDS
        self._faults[name] = (monotonic() + wait, error)


def _specs_of(topic: str) -> Sequence[TopicSpec]:
    if queue := queue_of(topic):
        return worker_specs(queue)
    return [spec for spec in ALL if spec.name in (topic, topic + DEAD_LETTER_SUFFIX)]
