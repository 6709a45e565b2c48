"""The way of a message: accepted, in the outbox, published, read by a group, leased; where it stands still, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from stanchion.authority.pipeline import KNOWN
from stanchion.authority.rows import Row
from stanchion.authority.samples import PLATFORM

from ..drawing.chart import Chart, chart
from ..view import Asked, Page, Shown, Twin

LATE_SECONDS: Final = 5.0
HISTORY: Final = timedelta(hours=1)
SPAN_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the way: what stands there, and whether it is the one that is broken."""

    name: str
    count: int | None
    note: str
    broken: bool = False


def show(asked: Asked) -> Shown:
    """The strip, the outbox with its relays, and how far the readers are."""
    tenant_id, of_all = asked.visitor.tenant_id, asked.visitor.may("metrics.read")
    outbox = asked.reads.pipeline.outbox(tenant_id, of_all=of_all)
    lag = asked.reads.pipeline.lag(tenant_id, of_all=of_all)
    queues = asked.reads.queues.of(tenant_id)
    return Shown(
        "pipeline",
        "Outbox and lag",
        ("strip", "outbox", "lag", "rates"),
        {
            "stages": _stages(outbox, lag, queues),
            "outbox": outbox,
            "lag": lag,
            "is_known": lag["state"] == KNOWN,
            "of_all": of_all,
            "charts": _charts(asked) if of_all else None,
        },
        Twin("stanchion outbox status", "GET /v1/outbox"),
        "pipeline",
    )


def _stages(outbox: Row, lag: Row, queues: list[Row]) -> list[Stage]:
    late = (outbox["oldest_seconds"] or 0) > LATE_SECONDS
    unheld = outbox["held"] < len(outbox["partitions"])
    behind = sum(group["lag"] or 0 for group in lag["groups"]) if lag["state"] == KNOWN else None
    running = sum(queue["running"] for queue in queues)
    ready = sum(queue["ready"] for queue in queues)
    relay_note = (
        "no relay holds all of it" if unheld else f"the oldest {outbox['oldest_seconds']:.1f} s" if late else ""
    )
    return [
        Stage("outbox", outbox["waiting"], relay_note, broken=unheld or late),
        Stage("published", None, _rate(outbox["published_rate"]), broken=unheld and outbox["waiting"] > 0),
        Stage("behind", behind, "" if behind is not None else f"the broker is {lag['state']}", broken=behind is None),
        Stage("ready", ready, ""),
        Stage("leased", running, ""),
    ]


def _rate(rate: float | None) -> str:
    return "no rate is known" if rate is None else f"{rate:,.1f}/s"


def _charts(asked: Asked) -> list[Chart]:
    samples = asked.reads.queues.samples
    now = asked.reads.search.now(asked.visitor.tenant_id)
    names = ("relay_messages", "outbox_rows", "outbox_lag_seconds", "relays", "relay_partitions")
    found = samples.series(PLATFORM, names, now - HISTORY, now, SPAN_SECONDS)
    values: dict[str, Any] = found.values
    return [
        chart(
            "Published a second",
            found.at,
            [("messages", "running", values[names[0]])],
            scale=1 / SPAN_SECONDS,
            unit="/s",
        ),
        chart("In the outbox", found.at, [("waiting", "ready", values[names[1]])]),
        chart("Age of the oldest", found.at, [("oldest", "retrying", values[names[2]])], unit="s"),
    ]


PAGES: Final = (Page("/pipeline", show, "worker.read"),)
