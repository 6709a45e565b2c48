"""Why ready steps reach no worker though workers serve them: a paused queue, and readers of Kafka that are behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import select

from stanchion.contracts.actions import Way, act
from stanchion.contracts.topics import WORKERS_GROUP, worker_commands
from stanchion.db import tables

from .pipeline import KNOWN, LATELY, REBALANCING, drain_seconds, looked
from .rows import Row
from .why_codes import Evidence, Reason
from .why_look import Look

HALTED: Final = timedelta(seconds=5)  # a partition that has not come on for so long holds what is in it
BEHIND: Final = 1_000  # one that does come on takes a while for so many messages

_PAUSE, _GROUP, _LAG = tables.queue_pause.c, tables.consumer_group.c, tables.consumer_lag.c


def held_back(look: Look, groups: Sequence[Row]) -> tuple[list[Reason], list[Row]]:
    """What holds these groups of ready steps (each with `queue`, `count` and `since`) back before any worker is asked,
    and the groups that nothing does."""
    if not groups:
        return [], []
    names = sorted({group["queue"] for group in groups})
    columns = (_PAUSE.queue, _PAUSE.reason, _PAUSE.paused_by, _PAUSE.since)
    pauses = look.rows(select(*columns).where(_PAUSE.queue.in_(names)).order_by(_PAUSE.queue))
    paused = {row["queue"] for row in pauses}
    free = [group for group in groups if group["queue"] not in paused]
    return [*map(_paused, pauses), *_readers(look, [n for n in names if n not in paused])], free


def _paused(row: Row) -> Reason:
    return Reason(
        "W-PAUSED",
        f"queue {row['queue']} is paused by {row['paused_by']}: {row['reason']}",
        row["since"],
        ways=(act("queue.resume", row["queue"]),),
        evidence=(Evidence("queue", row["queue"]),),
        details={"queue": row["queue"], "by": row["paused_by"]},
    )


def _readers(look: Look, names: Sequence[str]) -> list[Reason]:
    if not names:
        return []
    looked_at = looked(look.connection)
    if looked_at["state"] != KNOWN:
        look.could_not(f"what Kafka holds: the lag of its groups is {looked_at['state']}")
        return []  # what is not known holds nothing
    now = looked_at["now"]
    found = [*_rebalance(look, now)]
    topics = [worker_commands(name) for name in names]
    behind = (_LAG.group_name == WORKERS_GROUP) & _LAG.topic.in_(topics)
    rows = look.rows(select(tables.consumer_lag).where(behind).order_by(_LAG.topic, _LAG.partition))
    for topic in topics:
        late = [row for row in rows if row["topic"] == topic and _holds(row, now)]
        found += [_lagging(max(late, key=_lag))] if late else []
    return found


def _rebalance(look: Look, now: datetime) -> list[Reason]:
    columns = (_GROUP.state, _GROUP.since, _GROUP.rebalances)
    row = look.first(select(*columns).where(_GROUP.name == WORKERS_GROUP, _GROUP.state == REBALANCING))
    if row is None:
        return []
    lately = sum(now - at < LATELY for at in row["rebalances"])
    seconds = max(0, round((now - row["since"]).total_seconds()))
    return [
        Reason(
            "W-REBALANCE",
            f"the group of workers shares its partitions out anew for {seconds} s, {lately} times in 5 min",
            row["since"],
            then="It goes on once all of its members have their partitions.",
            ways=(Way("stanchion lag"),),
            evidence=(Evidence("group", WORKERS_GROUP),),
            details={"rebalances": lately},
        )
    ]


def _lag(row: Row) -> int:
    return int(row["end_offset"]) - int(row["committed"] or 0)


def _holds(row: Row, now: datetime) -> bool:
    return _lag(row) > 0 and (now - row["moved_at"] > HALTED or _lag(row) >= BEHIND)


def _lagging(row: Row) -> Reason:
    drain = drain_seconds(row)
    owner = f"; {row['owner']} reads it" if row["owner"] else ""
    place = f"partition {row['partition']} of {row['topic']}"
    pace = "" if drain else " and does not come on"
    return Reason(
        "W-LAG",
        f"offers were published, and {place} is {_lag(row):,} messages behind{pace}{owner}",
        row["moved_at"],
        then=f"At this pace it is read in about {drain:,.0f} s."
        if drain
        else "It goes on once somebody reads it again.",
        ways=(Way(f"stanchion lag {WORKERS_GROUP}"),),
        evidence=(Evidence("partition", f"{row['topic']}[{row['partition']}]"),),
        details={"topic": row["topic"], "partition": row["partition"], "lag": _lag(row), "seconds": drain},
    )
