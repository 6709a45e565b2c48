"""What holds many at once, or shows that nothing does: the database, the relays, damage, dead letters, and the pace."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import LargeBinary, cast, func, literal, or_, select, text
from sqlalchemy.dialects.postgresql import JSONB

from stanchion.db import tables

from . import why_around_texts as texts
from .rows import Row
from .why_codes import Reason
from .why_look import Look

LAG_SECONDS: Final = 5.0  # younger messages are on their way
LETTERS_READ: Final = 1_000
EVENTS_READ: Final = 2_000
WINDOW_SECONDS: Final = 60
SETTLED: Final = ("StepSucceeded", "StepFailed", "StepAdopted")

_PART, _RELAY, _EVENT = tables.outbox_partition.c, tables.relay.c, tables.event.c
_ASIDE, _LETTER = tables.set_aside.c, tables.dead_letter.c

# Not what a login is set to: one that only reads says nothing of the database.
STANDING: Final = text("""
SELECT stanchion.clock() AS now, pg_is_in_recovery() AS standby,
  (SELECT p.setting = 'on' AND p.source IN ('configuration file', 'command line', 'database', 'global', 'environment variable')
   FROM pg_settings p WHERE p.name = 'default_transaction_read_only') AS read_only
""")


def database(look: Look, standing: Any) -> list[Reason]:
    """A database that takes no writes."""
    if not (standing.standby or standing.read_only):
        return []
    look.could_not("since when the database takes no writes: PostgreSQL does not tell")
    return [texts.database(standing.standby)]


def messages(look: Look) -> list[Reason]:
    """An outbox whose oldest message waits: nobody holds a part of it, or its relays are behind."""
    if look.lag_seconds <= LAG_SECONDS:
        return []
    unheld = or_(_PART.owner.is_(None), _PART.lease_until < look.now)
    row = look.rows(
        select(
            func.count().label("parts"),
            func.count().filter(unheld).label("unheld"),
            func.min(_PART.part).filter(unheld).label("part"),
            # one that no relay ever held has been free since before all time
            func.max(_PART.lease_until).filter(unheld, func.isfinite(_PART.lease_until)).label("until"),
            select(func.max(_RELAY.seen_at)).scalar_subquery().label("seen_at"),
            select(func.count()).select_from(tables.relay).scalar_subquery().label("relays"),
        )
    )[0]
    return [texts.relay_down(look, row) if row["unheld"] else texts.outbox(look, row)]


def damage(look: Look, run: Row, target: Any = None) -> list[Reason]:
    """Upkeep of a run, or of one thing in it, that the database refuses."""
    which = _ASIDE.run_id == run["run_id"] if target is None else _ASIDE.target_id == target
    names = ("kind", "target_id", "code", "why", "tries", "since", "retry_at")
    row = look.first(
        select(*(_ASIDE[name] for name in names), func.count().over().label("count"))
        .where(which, _ASIDE.retry_at > look.now)
        .order_by(_ASIDE.since)
    )
    return [texts.damage(look, run, row)] if row else []


def poison(look: Look, run: Row) -> list[Reason]:
    """Dead letters that name the run, and were not sent again."""
    newest = (
        select(*(_LETTER[name] for name in ("dead_letter_id", "topic", "partition", "offset", "code", "reason", "at")))
        .add_columns(_LETTER.key, _LETTER.headers, _LETTER.redriven_at)
        .where(_LETTER.tenant_id == look.tenant_id)
        .order_by(_LETTER.dead_letter_id.desc())
        .limit(LETTERS_READ)
        .subquery()
    )
    named = str(run["run_id"])
    about = or_(
        newest.c.key == cast(literal(named.encode()), LargeBinary),
        newest.c.headers.op("@>")(cast(literal([["ce_correlationid", named]], JSONB), JSONB)),
    )
    row = look.first(
        select(newest, func.count().over().label("count"))
        .where(about, newest.c.redriven_at.is_(None))
        .order_by(newest.c.at)
    )
    return [texts.poison(row)] if row else []


def pace(look: Look, run: Row, reasons: list[Reason]) -> list[Reason]:
    """That it moves: how fast its steps have ended lately, and how long the largest join still takes at that."""
    if run["paused_at"] is not None or run["state"] not in ("created", "running"):
        return []
    if not any(reason.code == "W-LEASE" for reason in reasons):
        return []
    newest = (
        select(_EVENT.at, _EVENT.kind)
        .where(_EVENT.run_id == run["run_id"])
        .order_by(_EVENT.xid.desc(), _EVENT.event_id.desc())
        .limit(EVENTS_READ)
        .subquery()
    )
    row = look.rows(
        select(
            func.count().filter(newest.c.kind.in_(SETTLED)).label("settled"),
            func.min(newest.c.at).label("first"),
            func.max(newest.c.at).label("last"),
        ).where(newest.c.at > look.now - timedelta(seconds=WINDOW_SECONDS))
    )[0]
    if not row["settled"]:
        return []
    return [texts.moving(look, run, row, _left(reasons))]


def _left(reasons: list[Reason]) -> tuple[str, int] | None:
    """The join that most is missing at, and how much that is."""
    joins = [r.details for r in reasons if r.code in ("W-BARRIER", "W-HELD") and r.details["rule"] == "all"]
    if not joins:
        return None
    largest = max(joins, key=lambda join: join["left"])
    return largest["node"], largest["left"]
