"""Why ready steps reach no worker though workers serve them: a paused queue, and readers of Kafka that are behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, select

from stanchion.contracts.topics import WORKERS_GROUP, worker_commands
from stanchion.db import tables

from .pipeline import KNOWN, LATELY, REBALANCING, drain_seconds, looked
from .queries import rows_of
from .rows import Row
from .why_codes import Reason

HALTED: Final = timedelta(seconds=5)  # a partition that has not come on for so long holds what is in it
BEHIND: Final = 1_000  # one that does come on takes a while for so many messages

_PAUSE, _GROUP, _LAG = tables.queue_pause.c, tables.consumer_group.c, tables.consumer_lag.c


def held_back(connection: Connection, groups: Sequence[Row]) -> tuple[list[Reason], list[Row]]:
    """What holds these groups of ready steps (each with `queue`, `count` and `since`) back before any worker is asked,
    and the groups that nothing does."""
    if not groups:
        return [], []
    names = sorted({group["queue"] for group in groups})
    columns = (_PAUSE.queue, _PAUSE.reason, _PAUSE.paused_by, _PAUSE.since)
    pauses = rows_of(connection, select(*columns).where(_PAUSE.queue.in_(names)).order_by(_PAUSE.queue))
    paused = {row["queue"] for row in pauses}
    free = [group for group in groups if group["queue"] not in paused]
    return [*map(_paused, pauses), *_readers(connection, [n for n in names if n not in paused])], free


def _paused(row: Row) -> Reason:
    text = f"queue {row['queue']} is paused by {row['paused_by']}: {row['reason']}"
    fix = (f"stanchion queue resume {row['queue']}",)
    return Reason("W-PAUSED", text, row["since"], fix=fix, details={"queue": row["queue"], "by": row["paused_by"]})


def _readers(connection: Connection, names: Sequence[str]) -> list[Reason]:
    if not names:
        return []
    look = looked(connection)
    if look["state"] != KNOWN:
        return []  # what is not known holds nothing
    found = [*_rebalance(connection, look["now"])]
    topics = [worker_commands(name) for name in names]
    behind = (_LAG.group_name == WORKERS_GROUP) & _LAG.topic.in_(topics) & (_LAG.seen_at > look["now"] - HALTED * 3)
    rows = rows_of(connection, select(tables.consumer_lag).where(behind).order_by(_LAG.topic, _LAG.partition))
    for topic in topics:
        late = [row for row in rows if row["topic"] == topic and _holds(row, look["now"])]
        found += [_lagging(max(late, key=_lag))] if late else []
    return found


def _rebalance(connection: Connection, now: datetime) -> list[Reason]:
    columns = (_GROUP.state, _GROUP.since, _GROUP.rebalances)
    rows = rows_of(connection, select(*columns).where(_GROUP.name == WORKERS_GROUP, _GROUP.state == REBALANCING))
    if not rows:
        return []
    lately = sum(now - at < LATELY for at in rows[0]["rebalances"])
    seconds = max(0, round((now - rows[0]["since"]).total_seconds()))
    text = f"the group of workers shares its partitions out anew for {seconds} s, {lately} times in 5 min"
    return [Reason("W-REBALANCE", text, rows[0]["since"], fix=("stanchion lag",), details={"rebalances": lately})]


def _lag(row: Row) -> int:
    return int(row["end_offset"]) - int(row["committed"] or 0)


def _holds(row: Row, now: datetime) -> bool:
    return _lag(row) > 0 and (now - row["moved_at"] > HALTED or _lag(row) >= BEHIND)


def _lagging(row: Row) -> Reason:
    drain = drain_seconds(row)
    owner = f"; {row['owner']} reads it" if row["owner"] else ""
    pace = f", about {drain:,.0f} s" if drain else " and does not come on"
    text = f"offers were published, and partition {row['partition']} of {row['topic']} is {_lag(row):,} messages behind{pace}{owner}"
    details = {"topic": row["topic"], "partition": row["partition"], "lag": _lag(row), "seconds": drain}
    return Reason("W-LAG", text, row["moved_at"], fix=(f"stanchion lag {WORKERS_GROUP}",), details=details)
