"""Home: is it healthy, what needs people, what changed. One screen, and the rates of the last hour below."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import func, select

from stanchion.authority.audit import AuditFilter
from stanchion.authority.queries import rows_of
from stanchion.authority.rows import Row
from stanchion.authority.samples import Lately
from stanchion.contracts import ids
from stanchion.db import tables

from .. import look
from ..view import Asked, Page, Shown, Twin, query_text
from . import charts

CHANGES_SHOWN: Final = 12
COUNTED: Final = 1_000
HELD_SHOWN: Final = 8
LATE_SECONDS: Final = 60.0
"""A ready step that is older waits for something that is not there."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that waits for people: how many, since when, and where to go."""

    shape: str
    text: str
    href: str
    since: Any = None


def show(asked: Asked) -> Shown:
    """The home page."""
    tenant_id = asked.visitor.tenant_id
    queues = asked.reads.queues.of(tenant_id)
    lately = asked.reads.queues.samples.lately(tenant_id)
    needs = [*_waiting(asked), *_held(asked), *_stuck(queues)]
    changes = None
    if asked.visitor.may("audit.read"):
        now = asked.reads.search.now(tenant_id)
        wanted = AuditFilter(after=now - timedelta(hours=24))
        changes = asked.reads.audit.acts(tenant_id, wanted, limit=CHANGES_SHOWN)
    return Shown(
        "home",
        "Home",
        ("health", "needs", "changes", "charts"),
        {
            "health": _sentence(queues, lately, len(needs)),
            "state": "unknown" if lately is None else "bad" if any(n.shape == "dead" for n in needs) else "good",
            "needs": needs,
            "changes": changes,
            "charts": charts.of_tenant(asked, timedelta(hours=1), 60),
        },
        Twin("stanchion top", "GET /v1/queues"),
        "home",
        every=5.0,
        said=_sentence(queues, lately, len(needs)),
    )


def _sentence(queues: list[Row], lately: Lately | None, needs: int) -> str:
    """How it is, in one sentence."""
    ages = [queue["ready_age_seconds"] for queue in queues if queue["ready_age_seconds"] is not None]
    parts = []
    if lately is None:
        parts.append("no samples in the last minutes: no orchestrator takes them")
    else:
        parts.append(f"{lately.rate('steps_succeeded'):,.1f} steps/s")
    parts.append(f"the oldest ready step waits {look.duration(max(ages))}" if ages else "nothing waits")
    parts.append(f"{needs} {'thing needs' if needs == 1 else 'things need'} people" if needs else "nobody is needed")
    return ", ".join(parts)


def _waiting(asked: Asked) -> list[Need]:
    """What the tenant's tables say that people have to do."""
    operation, approval, task = tables.operation.c, tables.approval.c, tables.task.c
    now = func.stanchion.clock()
    looks = {
        "unknown": select(operation.unknown_since.label("since")).where(operation.state == "unknown"),
        "approvals": select(approval.created_at.label("since")).where(approval.state == "requested"),
        "failed": select(task.ended_at.label("since")).where(
            task.ended_at.is_not(None), task.state == "failed", task.ended_at > now - timedelta(hours=24)
        ),
    }
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        found = {}
        for name, look_ in looks.items():
            window = look_.limit(COUNTED).subquery()
            counted: Any = select(func.count().label("count"), func.min(window.c.since).label("since"))
            found[name] = rows_of(connection, counted)[0]
    texts = {
        "unknown": ("unknown", "operation of unknown fate", "operations of unknown fate", "/operations"),
        "approvals": ("person", "question waits for an answer", "questions wait for an answer", "/approvals"),
        "failed": (
            "dead",
            "task has failed in the last 24 h",
            "tasks have failed in the last 24 h",
            f"/tasks?{query_text(q='state:failed ended:<24h')}",
        ),
    }
    needs = []
    for name, (shape, one, many, href) in texts.items():
        count = found[name]["count"]
        if count:
            shown = f"{count:,}" if count < COUNTED else f"{COUNTED:,}+"
            needs.append(Need(shape, f"{shown} {one if count == 1 else many}", href, found[name]["since"]))
    return needs


def _held(asked: Asked) -> list[Need]:
    """Joins that failed children hold until somebody decides."""
    barrier, run, task = tables.barrier.c, tables.run.c, tables.task.c
    held: Any = (
        select(barrier.node, barrier.failed, barrier.created_at, task.task_id, task.workflow)
        .select_from(
            tables.barrier.join(tables.run, run.run_id == barrier.run_id).join(
                tables.task, (task.task_id == run.task_id) & (task.run_id == run.run_id)
            )
        )
        .where(barrier.state == "waiting", barrier.on_failed == "hold", barrier.failed > 0, run.paused_at.is_(None))
        .order_by(barrier.barrier_id.desc())
        .limit(HELD_SHOWN)
    )
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        rows = rows_of(connection, held)
    return [
        Need(
            "dead",
            f"{row['workflow']}: {row['failed']:,} failed {'step holds' if row['failed'] == 1 else 'steps hold'}"
            f" the join before {row['node']}",
            f"/tasks/{ids.public(ids.TASK, row['task_id'])}",
            row["created_at"],
        )
        for row in rows
    ]


def _stuck(queues: list[Row]) -> list[Need]:
    """Queues in which something waits for what is not there."""
    needs = []
    for queue in queues:
        href = f"/queues/{queue['queue']}"
        if queue["paused"]:
            needs.append(Need("person", f"queue {queue['queue']} is paused: {queue['paused']['reason']}", href))
        elif queue["ready"] and not queue["workers"]:
            text = f"{queue['ready']:,} steps wait in queue {queue['queue']}, which no live worker serves"
            needs.append(Need("dead", text, href, queue["oldest_ready_at"]))
        elif (queue["ready_age_seconds"] or 0) > LATE_SECONDS:
            needs.append(Need("retrying", f"queue {queue['queue']}: {queue['advice']}", href, queue["oldest_ready_at"]))
    return needs


PAGES: Final = (Page("/", show),)
