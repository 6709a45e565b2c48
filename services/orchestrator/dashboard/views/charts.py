"""Rates, times and levels of a tenant over a time of one's choice, all from samples in the database."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ..drawing.chart import Chart, chart
from ..view import Asked, Page, Shown, Twin

SPANS: Final[dict[str, tuple[timedelta, int]]] = {
    "1h": (timedelta(hours=1), 10),
    "6h": (timedelta(hours=6), 60),
    "24h": (timedelta(hours=24), 300),
    "7d": (timedelta(days=7), 3_600),
    "90d": (timedelta(days=90), 21_600),
}
"""How long back, and the seconds of one point."""

PICTURES: Final = (
    (
        "Tasks a second",
        "/s",
        True,
        (
            ("submitted", "ready", "tasks_submitted"),
            ("completed", "succeeded", "tasks_completed"),
            ("failed", "dead", "tasks_failed"),
        ),
    ),
    (
        "Steps a second",
        "/s",
        True,
        (
            ("leased", "running", "steps_leased"),
            ("succeeded", "succeeded", "steps_succeeded"),
            ("retried", "retrying", "steps_retried"),
        ),
    ),
    (
        "Lost and refused",
        "",
        False,
        (("lost leases", "retrying", "leases_reaped"), ("refused writes", "dead", "steps_refused")),
    ),
    ("Ready", "", False, (("waiting", "ready", "ready_steps"), ("running", "running", "steps_running"))),
    (
        "Waiting for a worker",
        "s",
        False,
        (("median", "ready", "queue_wait_seconds_p50"), ("of 20 the slowest", "retrying", "queue_wait_seconds_p95")),
    ),
    (
        "Running",
        "s",
        False,
        (("median", "running", "step_seconds_p50"), ("of 20 the slowest", "retrying", "step_seconds_p95")),
    ),
    (
        "For people",
        "",
        False,
        (("questions", "person", "approvals_open"), ("unknown operations", "unknown", "operations_in_doubt")),
    ),
)
"""Each chart: its title, unit, whether it shows a rate, and its lines with their shape and sample."""


def of_tenant(asked: Asked, back: timedelta, span: int) -> list[Chart]:
    """All charts of the tenant, `back` until now, in points of `span` seconds."""
    samples, tenant_id = asked.reads.queues.samples, asked.visitor.tenant_id
    now = asked.reads.search.now(tenant_id)
    names = tuple(name for _, _, _, lines in PICTURES for _, _, name in lines)
    found = samples.series(tenant_id, names, now - back, now, span)
    return [
        chart(
            title,
            found.at,
            [(label, shape, found.values[name]) for label, shape, name in lines],
            unit=unit,
            scale=1 / span if is_rate else 1.0,
        )
        for title, unit, is_rate, lines in PICTURES
    ]


def show(asked: Asked) -> Shown:
    """The charts by themselves."""
    wanted = asked.one_of("span", tuple(SPANS)) or "1h"
    back, span = SPANS[wanted]
    return Shown(
        "charts",
        "Metrics",
        ("charts",),
        {"charts": of_tenant(asked, back, span), "spans": tuple(SPANS), "span": wanted},
        Twin("stanchion top", "GET /v1/metrics/series"),
        "home",
        (("Home", "/"),),
        every=10.0,
    )


PAGES: Final = (Page("/charts", show, query=("span",)),)
