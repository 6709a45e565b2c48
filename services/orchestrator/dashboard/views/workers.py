"""Queues and the workers that serve them: what waits, how fast it goes, what is missing, who is there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import select

from stanchion.authority.queries import rows_of
from stanchion.authority.rows import Row
from stanchion.contracts import ids
from stanchion.contracts.limits import CLOCK_SKEW_SECONDS
from stanchion.db import tables

from ..drawing.chart import Chart, chart
from ..view import Asked, Page, Shown, Twin

SHOWN: Final = 50
RUNNING_SHOWN: Final = 50
HISTORY: Final = timedelta(hours=1)
SPAN_SECONDS: Final = 60
STATES: Final = ("active", "draining", "silent", "gone")


def show(asked: Asked) -> Shown:
    """All queues of the tenant, and the workers that serve it."""
    tenant_id = asked.visitor.tenant_id
    state = asked.one_of("state", STATES)
    before = asked.chosen_id("before", ids.WORKER)
    rows = asked.reads.inventory.workers(
        tenant_id, of_all=asked.visitor.may("worker.operate"), limit=SHOWN + 1, before=before, state=state
    )
    more = ids.public(ids.WORKER, rows[SHOWN - 1]["worker_id"]) if len(rows) > SHOWN else None
    return Shown(
        "workers",
        "Workers",
        ("queues", "workers"),
        {
            "queues": asked.reads.queues.of(tenant_id),
            "workers": rows[:SHOWN],
            "state": state,
            "states": STATES,
            "before": before,
            "next": more,
            "skewed_ms": CLOCK_SKEW_SECONDS * 1_000,
        },
        Twin("stanchion worker list" + (f" --state {state}" if state else ""), f"GET /v1/workers?{asked.link()}"),
        "workers",
    )


def queue(asked: Asked) -> Shown:
    """One queue: what waits, its rates over the last hour, the versions that its workers have."""
    tenant_id, name = asked.visitor.tenant_id, asked.path["queue"]
    found = asked.reads.queues.get(tenant_id, name)
    return Shown(
        "queue",
        f"Queue {name}",
        ("head", "rates", "waiting"),
        {"queue": found, "charts": _charts(asked, name), "waiting": _waiting(asked, name)},
        Twin(f"stanchion queue show {name}", f"GET /v1/queues/{name}"),
        "workers",
        (("Workers", "/workers"),),
    )


def worker(asked: Asked) -> Shown:
    """One worker: what it serves and holds of this tenant."""
    tenant_id, worker_id = asked.visitor.tenant_id, asked.id("worker_id", ids.WORKER)
    of_all = asked.visitor.may("worker.operate")
    found = asked.reads.inventory.worker(tenant_id, worker_id, of_all=of_all)
    wrk = ids.public(ids.WORKER, worker_id)
    return Shown(
        "worker",
        f"Worker {found['name']}",
        ("head", "running"),
        {"worker": found, "wrk": wrk, "running": _held(asked, found), "skewed_ms": CLOCK_SKEW_SECONDS * 1_000},
        Twin("stanchion worker list", "GET /v1/workers"),
        "workers",
        (("Workers", "/workers"),),
    )


def _charts(asked: Asked, name: str) -> list[Chart]:
    samples, tenant_id = asked.reads.queues.samples, asked.visitor.tenant_id
    now = asked.reads.search.now(tenant_id)
    names = tuple(f"{one}:{name}" for one in ("steps_made_ready", "steps_leased", "ready_steps", "ready_age_seconds"))
    found = samples.series(tenant_id, names, now - HISTORY, now, SPAN_SECONDS)
    values = found.values
    return [
        chart(
            "Steps a second",
            found.at,
            [("made ready", "ready", values[names[0]]), ("leased", "running", values[names[1]])],
            scale=1 / SPAN_SECONDS,
            unit="/s",
        ),
        chart("Ready", found.at, [("waiting", "ready", values[names[2]])]),
        chart("Age of the oldest", found.at, [("oldest", "retrying", values[names[3]])], unit="s"),
    ]


def _waiting(asked: Asked, name: str) -> list[Row]:
    """The steps that come next, as the queue orders them."""
    ready, step, run = tables.ready.c, tables.step.c, tables.run.c
    columns = (
        ready.step_id,
        ready.node,
        ready.workflow,
        ready.workflow_version,
        ready.priority,
        ready.since,
        ready.offers,
    )
    found = (
        select(*columns, step.idx.label("index"), step.fan_id, run.task_id)
        .select_from(
            tables.ready.join(tables.step, step.step_id == ready.step_id).join(tables.run, run.run_id == step.run_id)
        )
        .where(ready.queue == name)
        .order_by(ready.priority.desc(), ready.since)
        .limit(RUNNING_SHOWN)
    )
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        return rows_of(connection, found)


def _held(asked: Asked, found: Row) -> list[Row]:
    """What a worker holds of this tenant, the oldest lease first."""
    attempt, step, run = tables.attempt.c, tables.step.c, tables.run.c
    columns: list[Any] = [
        attempt[name] for name in ("step_id", "fence", "number", "granted_at", "started_at", "lease_until")
    ]
    held = (
        select(*columns, step.node, step.idx.label("index"), step.fan_id, step.queue, step.workflow, run.task_id)
        .select_from(
            tables.attempt.join(tables.step, step.step_id == attempt.step_id).join(
                tables.run, run.run_id == attempt.run_id
            )
        )
        .where(attempt.worker_id == found["worker_id"], attempt.ended_at.is_(None))
        .order_by(attempt.granted_at)
        .limit(RUNNING_SHOWN)
    )
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        return rows_of(connection, held)


PAGES: Final = (
    Page("/workers", show, "worker.read", ("state", "before")),
    Page("/workers/{worker_id}", worker, "worker.read"),
    Page("/queues/{queue}", queue, "worker.read"),
)
