"""Care for the membership in a consumer group, where the client library or the embedded broker drops the thread.

The library (kafka-python 3.0) can forget that it is joining: when metadata changes, it begins to join again, and if that
outlasts one poll while the metadata turns out to fit after all, no later poll takes the answer. The member then waits
for ever, with its heartbeats off, and burns a core. So after each poll a member that is joining and has forgotten why is
told to.

The embedded broker (Tansu 0.6) keeps a leader that left while another member was joining: nobody hands out partitions
any more, and the group is stuck for good, for members that come later too. So before a member leaves it asks whether a
join is under way, and then finishes it first; if that takes too long it vanishes without a word, which the broker
handles well, by the session's end. The gap between the question and the leave is a millisecond: a group that has not
come to rest for a long time all the same is deleted and given its offsets back.

It also answers a fetch beyond the end of its log with nothing, instead of an error. A position from before the broker
lost its data (it keeps them in memory, so each of its restarts is such a loss) then stays ahead of everything that
comes. So a member that has heard nothing for a while compares its positions with the high watermarks that the fetches
brought. (The offset API can't be asked: there it counts batches, not records.)

`fragile_groups` is off in production, where Apache Kafka leaves groups in order and refuses such fetches.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any, Final

from stanchion.bus.admin import with_admin
from stanchion.bus.library import MemberState, OffsetAndMetadata
from stanchion.runtime.clock import Deadline, monotonic, pause
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.runtime.logging import get_logger

SESSIONS_TO_REST: Final = 5  # a group that has not come to rest for so many sessions is stuck
LEAVE_SECONDS: Final = 0.5
QUIET_SECONDS: Final = 3.0  # after so long without a record, and as often, positions are held against the ends
_STEP_MS: Final = 100
_BETWEEN_SECONDS: Final = 0.3

log = get_logger()


class GroupCare:
    """For one consumer, on its own thread."""

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        self.settings = settings
        self.group = group
        self._restless_since: float | None = None
        self._asked_at = monotonic()
        # Several members see the same stuck group: they need not all repair it at the same moment.
        self._patience = settings.session_timeout_ms / 1000 * SESSIONS_TO_REST * random.uniform(1.0, 1.5)  # noqa: S311 - spreads load, guards nothing

    def look(self, consumer: Any) -> None:
        """Called after every poll: notices a join that was forgotten, and a group that does not come to rest."""
        if consumer.group_metadata().state is not MemberState.REBALANCING:
            self._restless_since = None
            return
        if not consumer._coordinator.need_rejoin():
            consumer._coordinator.request_rejoin()
        if not self.settings.fragile_groups:
            return
        if self._restless_since is None:
            self._restless_since = monotonic()
        elif monotonic() - self._restless_since > self._patience:
            self._restless_since = None
            with suppress(Exception):  # the next look tries again
                repair(self.settings, self.group)

    def stranded(self, consumer: Any, heard_at: float) -> list[Any]:
        """The partitions whose position is beyond their end, for a member that heard its last record at `heard_at`."""
        now = monotonic()
        mine = consumer.assignment()
        if not self.settings.fragile_groups or not mine or now - max(heard_at, self._asked_at) < QUIET_SECONDS:
            return []
        self._asked_at = now
        return [one for one in mine if _is_beyond(consumer, one)]

    def leave(self, consumer: Any, deadline: Deadline) -> None:
        """Leave the group and close the consumer, by `deadline`."""
        if self.settings.fragile_groups and not self._at_rest(consumer, deadline):
            with suppress(Exception):
                consumer._client.close()  # without the request to leave
            return
        with suppress(Exception):
            consumer.close(autocommit=False, timeout_ms=deadline.left_ms)

    def _at_rest(self, consumer: Any, deadline: Deadline) -> bool:
        """Whether no join is under way; waits for the end of one, as long as there is time to leave then."""
        wait = Deadline(deadline.left - LEAVE_SECONDS)
        coordinator = consumer._coordinator
        try:
            while True:
                if consumer.group_metadata().state is MemberState.UNJOINED:
                    return True
                if coordinator.stable():
                    coordinator._net.run(coordinator._do_heartbeat)  # the answer tells of a join
                    if coordinator.stable() and not coordinator.need_rejoin():
                        return True
                if wait.passed:
                    return False
                consumer.poll(timeout_ms=min(_STEP_MS, wait.left_ms))  # what it fetches is read again by others
        except Exception:  # noqa: BLE001 - the broker is away: there is nothing to leave
            return False


def _is_beyond(consumer: Any, partition: Any) -> bool:
    state = consumer._subscription.assignment.get(partition)
    if state is None or not state.has_valid_position or state.highwater is None:
        return False  # not fetched yet
    return bool(state.position.offset > state.highwater)


def repair(settings: KafkaSettings, group: str, *, timeout: float = 2.0) -> None:
    """Delete a stuck group and give it its offsets back; its members join again by themselves. Raises Unavailable when
    the broker has not done it within `timeout` seconds.

    A member that joins between the two makes the broker refuse the offsets, and one that repairs too can see the group
    between them: so what is refused is done again, and offsets are never given back lower than they were seen. Such a
    member reads from the beginning until then, which its handlers stand: what was done once is known.
    """
    offsets: dict[Any, int] = {}

    def work(admin: Any) -> None:
        for _ in range(2):
            for place, found in admin.list_group_offsets(group).get(group, {}).items():
                offsets[place] = max(found.offset, offsets.get(place, 0))
            if offsets:
                break
            pause(_BETWEEN_SECONDS)  # another member may be giving them back
        admin.delete_groups([group])
        # Written afresh: the broker does not keep the metadata of an offset, and can't read a missing one.
        given = {place: OffsetAndMetadata(offset) for place, offset in offsets.items()}
        for error in set(admin.alter_group_offsets(group, given).values()) if given else ():
            if error.errno:
                raise error

    with_admin(settings, work, timeout=timeout)
    log.warning("bus.group_repaired", group=group)
