"""metrics.md and log-events.md: what a process says about itself."""

from __future__ import annotations

from itertools import groupby

from stanchion.telemetry import metrics, names

from . import comments
from .markdown import code, flow, page, section, table

_METRICS = """
Every service with `STANCHION_HTTP_PORT` serves these at `/metrics` in Prometheus' text format. All exist from the start
of a process; one that a service never touches stays at zero. Beside them stand the `process_*` metrics of the
Prometheus client. Histograms have `_bucket`, `_sum` and `_count`.
"""
_SAMPLES = """
Kept in the database and read with `GET /v1/metrics/series`: counts of what happened in a span, and levels of what stood at
its end (in longer spans the highest). A count has the name of its counter without `stanchion_` and `_total`, a level that
of its gauge without `stanchion_`. What is said to be by queue is there as a whole, and as `name:queue`.
"""
_EVENTS = """
Services log one JSON object a line on standard output (a readable form on a terminal). `event` is one of the names
below and never varies; what varies stands in fields of its own. Secrets are redacted before a line is written.
"""


def metrics_page() -> str:
    """Every metric with its kind, labels and meaning."""
    said = {entry.name: entry.comment for entry in comments.literals(names, "MetricName")}
    kinds = {_name(family.name, family.type): family for family in metrics.REGISTRY.collect()}
    rows = [
        (code(name), kinds[name].type, ", ".join(code(label) for label in _labels(name)) or "", meaning)
        for name, meaning in said.items()
    ]
    samples = [
        (code(entry.name), kind, entry.section, entry.comment)
        for kind, literal in (("count", "SampleCount"), ("level", "SampleLevel"))
        for entry in comments.literals(names, literal)
    ]
    return page(
        "Metrics",
        _METRICS,
        table(("metric", "kind", "labels", "what it measures"), rows),
        section("Samples", flow(_SAMPLES), table(("sample", "kind", "whose", "what it measures"), samples)),
    )


def log_events_page() -> str:
    """Every log event and span."""
    events = comments.literals(names, "LogEvent")
    blocks = [
        section(title.capitalize(), table(("event", "what happened"), ((code(e.name), e.comment) for e in group)))
        for title, group in groupby(events, key=lambda entry: entry.section)
    ]
    return page("Log events", _EVENTS, *blocks)


def _name(name: str, kind: str) -> str:
    return name + "_total" if kind == "counter" else name


def _labels(name: str) -> tuple[str, ...]:
    plain = name.removeprefix("stanchion_").removesuffix("_total")
    found = getattr(metrics, plain, None)
    return tuple(getattr(found, "_labelnames", ()))
