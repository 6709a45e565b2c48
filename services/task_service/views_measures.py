"""What goes out about how things stand: queues, samples, the outbox, readers of Kafka."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from .views import TaskId, View


class VersionServed(View):
    """What live workers serve of a queue."""

    workflow: str
    workers: int
    slots: int


class QueuePaused(View):
    """Who paused a queue, since when and why."""

    reason: str
    paused_by: str
    since: datetime


class QueueView(View):
    """One queue of the tenant. Counts are its own; workers and slots serve others as well.

    Rates are steps a second that became ready and that were leased, over about a minute up to `rates_until`; null: no
    samples. `drain_seconds` is null when it can't be told, or the backlog grows; `workers_needed` are those that would be
    through with it in five minutes.
    """

    queue: str
    ready: int
    oldest_ready_at: datetime | None
    ready_age_seconds: float | None
    running: int
    workers: int
    slots: int
    versions: list[VersionServed]
    rate_in: float | None
    rate_out: float | None
    rates_until: datetime | None
    drain_seconds: float | None
    workers_needed: int | None
    advice: str
    paused: QueuePaused | None


class QueueChanged(QueueView):
    """A queue after it was paused or resumed; `changed` is false when it was so before."""

    changed: bool


class QueueList(View):
    """All queues of the tenant, by name."""

    items: list[QueueView]


class SeriesView(View):
    """Values by name, each list as long as `at`: what began then and lasted `resolution` seconds.

    Counts are added up, of levels the highest stands. null: nobody sampled then, or there was no such thing.
    """

    of: Literal["tenant", "platform"]
    resolution: int
    at: list[datetime]
    values: dict[str, list[float | None]]


class Ages(View):
    """How many messages are younger than so many seconds, and not in the row before; null: all that are older."""

    below_seconds: int | None
    waiting: int


class OutboxTopic(View):
    """What waits for one topic."""

    topic: str
    waiting: int
    oldest_at: datetime


class OutboxPart(View):
    """One partition of the outbox: the relay that holds it, under which fence and until when."""

    part: int
    held: bool
    relay: str | None
    relay_id: str | None
    fence: int
    lease_until: datetime | None
    seen_at: datetime | None
    waiting: int
    oldest_at: datetime | None


class OutboxView(View):
    """What waits to be published (100,000 are counted), how much of it is the tenant's `own`, and who publishes it.

    `topics`, and the names of relays, need metrics.read; `published_rate` is messages a second, null without samples.
    """

    waiting: int
    own: int
    oldest_at: datetime | None
    oldest_seconds: float | None
    published_rate: float | None
    held: int
    ages: list[Ages]
    topics: list[OutboxTopic] | None
    partitions: list[OutboxPart]


class PartitionLag(View):
    """How far a group is in one partition; `drain_seconds` is the time to read what is there at the rate of the last looks,
    null when it does not come on. `stuck`: it has not for a while, and others of the group have."""

    partition: int
    end: int
    committed: int | None
    lag: int
    drain_seconds: float | None
    rate_in: float
    rate_out: float
    owner: str | None
    moved_at: datetime
    stuck: bool


class TopicLag(View):
    """How far a group is in one topic; `queue` for the offers of a queue."""

    topic: str
    queue: str | None
    lag: int
    drain_seconds: float | None
    stuck: int
    partitions: list[PartitionLag]


class GroupLag(View):
    """A group of readers, since when it is so, and when it shared its partitions out anew."""

    name: str
    state: Literal["steady", "rebalancing", "empty", "unknown"]
    since: datetime
    members: int
    rebalances: list[datetime]
    rebalances_lately: int
    lag: int
    topics: list[TopicLag]


class LookFault(View):
    """What kept the broker from answering."""

    state: str
    code: str
    what: str
    why: str | None


class LagView(View):
    """What the last look at the broker found, every five seconds.

    `state`: known; unreachable and not_allowed (with `fault`; what stands below is from `answered_at`); unknown: no
    orchestrator looks. None of them is a lag of zero.
    """

    state: Literal["known", "unreachable", "not_allowed", "unknown"]
    taken_at: datetime | None
    answered_at: datetime | None
    failing_since: datetime | None
    fault: LookFault | None
    groups: list[GroupLag]


class Republished(View):
    """A task whose ready steps are offered again, and how many there are."""

    task_id: TaskId
    steps: Annotated[int, Field(ge=0)]
