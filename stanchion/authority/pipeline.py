"""The way from an accepted task to a lease: the outbox, the relays that publish it, and how far readers of Kafka are.

The broker is asked in the background, every five seconds by one of the orchestrators; a request reads what was found
then. Unknown is a state of its own: a broker that is away, one that does not let us ask, and a look that nobody takes any
more are three different signs, and none of them is zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, func, select

from stanchion.contracts.topics import queue_of
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import NotAllowed, StanchionError

from .queries import rows_of
from .rows import Row, missing
from .samples import PLATFORM, Samples

EVERY: Final = timedelta(seconds=5)
STALE_SECONDS: Final = 20.0  # of a look that is older nobody can tell what is so now
STUCK_SECONDS: Final = 15.0  # a partition that has not come on for so long, while others of its group have
MOVING_RATE: Final = 0.01  # messages a second below which a reader is not taken to come on
LATELY: Final = timedelta(minutes=5)  # rebalances within it are counted

KNOWN: Final = "known"
UNREACHABLE: Final = "unreachable"
NOT_ALLOWED: Final = "not_allowed"
UNKNOWN: Final = "unknown"

REBALANCING: Final = "rebalancing"
"""The state of a group that shares its partitions out anew."""

_LOOK, _GROUP, _LAG = tables.lag_look.c, tables.consumer_group.c, tables.consumer_lag.c


class Pipeline:
    """Reading under the task service's or the dashboard's login; `turn` and `note` are the orchestrator's."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.samples = Samples(database)

    # --- the orchestrator ---

    def turn(self, who: str) -> bool:
        """Whether it is `who`'s turn to ask the broker."""
        rows = self.database.call("maintain", "SELECT stanchion.take_lag_look(%s, %s)", (who, EVERY * 0.9))
        return bool(rows[0][0])

    def note(self, groups: Sequence[Row], standings: Sequence[Row]) -> None:
        """Keep what a look found."""
        self._note(Jsonb(list(groups)), Jsonb(list(standings)), None)

    def note_fault(self, fault: StanchionError) -> None:
        """Keep why a look found nothing; what was known stays as it was."""
        state = NOT_ALLOWED if isinstance(fault, NotAllowed) else UNREACHABLE
        told = {"state": state, "code": fault.code, "what": fault.what, "why": fault.why}
        self._note(Jsonb([]), Jsonb([]), Jsonb(told))

    def _note(self, groups: Jsonb, standings: Jsonb, fault: Jsonb | None) -> None:
        self.database.call("maintain", "SELECT stanchion.note_lag(%s, %s, %s)", (groups, standings, fault))

    # --- people ---

    def outbox(self, tenant_id: UUID, *, of_all: bool) -> Row:
        """What waits to be published, and who publishes it.

        Unless `of_all`, without the topics and without the relays' names: these tell of other tenants' queues and of
        machines.
        """
        (row,) = self.database.read("SELECT * FROM stanchion.outbox_state(%s)", (tenant_id,))
        waiting, own, oldest_at, ages, topics, partitions = row
        if not of_all:
            topics = None
            partitions = [part | {"relay": None, "relay_id": None} for part in partitions]
        lately = self.samples.lately(PLATFORM)
        return {
            "waiting": waiting,
            "own": own,
            "oldest_at": oldest_at,
            "oldest_seconds": lately_age(oldest_at, self._now()),
            "published_rate": lately and round(lately.rate("relay_messages"), 3),
            "held": sum(part["held"] for part in partitions),
            "ages": ages,
            "topics": topics,
            "partitions": partitions,
        }

    def lag(self, tenant_id: UUID, *, of_all: bool, group: str | None = None) -> Row:
        """How far each group is, by topic and partition, as it was found at the last look; raises NotFound for a group
        that is not there.

        Unless `of_all`, of the topics of queues only those that the tenant has something to do with, and no owner's name.
        """
        with self.database.tenant(tenant_id) as connection:
            look = looked(connection)
            groups = rows_of(connection, select(tables.consumer_group).order_by(_GROUP.name))
            found = rows_of(connection, select(tables.consumer_lag).order_by(_LAG.topic, _LAG.partition))
            queues = None if of_all else _queues_of(connection, tenant_id)
        if group is not None:
            groups = [one for one in groups if one["name"] == group]
            if not groups:
                raise missing("group of readers")
        if queues is not None:
            found = [row | {"owner": None} for row in found if queue_of(row["topic"]) in queues | {None}]
        return look | {"groups": [_group(one, found, look["now"]) for one in groups]}

    def _now(self) -> datetime:
        now: datetime = self.database.read("SELECT stanchion.clock()")[0][0]
        return now


def lately_age(since: datetime | None, now: datetime) -> float | None:
    """Seconds since then; None for no time."""
    return None if since is None else round(max(0.0, (now - since).total_seconds()), 3)


def looked(connection: Connection) -> Row:
    """How the last look at the broker went: its state, and since when."""
    now = connection.execute(select(func.stanchion.clock())).scalar()
    assert now is not None
    rows = rows_of(connection, select(_LOOK.taken_at, _LOOK.answered_at, _LOOK.failing_since, _LOOK.fault))
    look = rows[0] if rows else {"taken_at": None, "answered_at": None, "failing_since": None, "fault": None}
    age = lately_age(look["taken_at"], now)
    if age is None or age > STALE_SECONDS:
        state = UNKNOWN  # no orchestrator looks
    elif look["fault"] is not None:
        state = look["fault"]["state"]
    else:
        state = KNOWN if look["answered_at"] is not None else UNKNOWN
    return look | {"state": state, "now": now}


def _queues_of(connection: Connection, tenant_id: UUID) -> set[str | None]:
    worker, ready = tables.worker.c, tables.ready.c
    serving = worker.tenants.is_(None) | worker.tenants.contains([tenant_id])
    served = connection.execute(select(func.unnest(worker.queues)).where(serving).distinct()).scalars()
    return {*served, *connection.execute(select(ready.queue).distinct()).scalars()}


def _group(group: Row, found: Sequence[Row], now: datetime) -> Row:
    mine = [row for row in found if row["group_name"] == group["name"]]
    moving = any(not _halted(row, now) if _lag(row) else row["rate_out"] > MOVING_RATE for row in mine)
    topics: dict[str, list[Row]] = defaultdict(list)
    for row in mine:
        topics[row["topic"]].append(_partition(row, now, moving=moving))
    return {
        "name": group["name"],
        "state": group["state"],
        "since": group["since"],
        "members": len(group["members"]),
        "rebalances": group["rebalances"],
        "rebalances_lately": sum(now - at < LATELY for at in group["rebalances"]),
        "lag": sum(_lag(row) for row in mine),
        "topics": [
            {
                "topic": topic,
                "queue": queue_of(topic),
                "lag": sum(part["lag"] for part in parts),
                "drain_seconds": _longest([part["drain_seconds"] for part in parts]),
                "stuck": sum(part["stuck"] for part in parts),
                "partitions": parts,
            }
            for topic, parts in topics.items()
        ],
    }


def _partition(row: Row, now: datetime, *, moving: bool) -> Row:
    lag = _lag(row)
    return {
        "partition": row["partition"],
        "end": row["end_offset"],
        "committed": row["committed"],
        "lag": lag,
        "drain_seconds": drain_seconds(row),
        "rate_in": round(row["rate_in"], 3),
        "rate_out": round(row["rate_out"], 3),
        "owner": row["owner"],
        "moved_at": row["moved_at"],
        "stuck": moving and bool(lag) and _halted(row, now),
    }


def _lag(row: Row) -> int:
    return max(0, int(row["end_offset"]) - int(row["committed"] or 0))


def drain_seconds(row: Row) -> float | None:
    """How long the reader takes for what is there, at the rate of the last looks; None when it does not come on."""
    lag = _lag(row)
    if not lag:
        return 0.0
    return round(lag / row["rate_out"], 1) if row["rate_out"] >= MOVING_RATE else None


def _halted(row: Row, now: datetime) -> bool:
    return bool((now - row["moved_at"]).total_seconds() > STUCK_SECONDS)


def _longest(seconds: list[Any]) -> float | None:
    return None if None in seconds else max(seconds, default=0.0)
