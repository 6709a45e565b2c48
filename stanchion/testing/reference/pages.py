"""The list of reference pages: file, title for the index, what a reader finds there, and what renders it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import (
    api_page,
    cli_page,
    database_page,
    error_page,
    failpoint_page,
    filters_page,
    limit_page,
    message_page,
    python_page,
    rights_page,
    settings_page,
    state_page,
    telemetry_page,
    why_page,
)
from .markdown import page, table

CHECKOUT: Final = Path(__file__).resolve().parents[3]
GOLDEN: Final = CHECKOUT / "tests" / "unit" / "contracts" / "golden"


_INDEX = """
These pages are rendered from the code by `make generate`; `make verify` and the tests fail when one of them is out of
date. For reasons see the [concepts](../concepts/overview.md) and the [decisions](../decisions/README.md).
"""


@dataclass(frozen=True, slots=True)
class Page:
    """One generated file of `docs/reference`."""

    file: str
    title: str
    about: str
    render: Callable[[], str]


PAGES: Final[tuple[Page, ...]] = (
    Page("python.md", "Python", "what `stanchion` exports", python_page.python_page),
    Page("http-api.md", "HTTP API", "every route of the task service", api_page.api_page),
    Page("cli.md", "Command line", "every command, exit codes", cli_page.cli_page),
    Page("filters.md", "Filters", "how tasks are filtered", filters_page.filters_page),
    Page("topics.md", "Topics", "who reads what, keys, retention", message_page.topics_page),
    Page(
        "messages.md",
        "Messages",
        "commands, replies, events, with examples",
        lambda: message_page.messages_page(GOLDEN),
    ),
    Page("states.md", "States", "the state machines", state_page.states),
    Page("errors.md", "Errors", "every code, and the way out", error_page.errors_page),
    Page("why.md", "Reasons", "what `stanchion why` says", why_page.why_page),
    Page("settings.md", "Settings", "every variable of every service", settings_page.settings_page),
    Page("limits.md", "Limits", "every number that one can run into", limit_page.limits_page),
    Page("rights.md", "Rights", "what keys may do, roles", rights_page.rights_page),
    Page("metrics.md", "Metrics", "what `/metrics` says", telemetry_page.metrics_page),
    Page("log-events.md", "Log events", "every line that a service may log", telemetry_page.log_events_page),
    Page("database.md", "Database", "functions, logins, tables", database_page.database_page),
    Page("failpoints.md", "Failpoints", "where tests kill and freeze", failpoint_page.failpoints_page),
)


def index() -> str:
    """The page that lists the others."""
    rows = ((f"[{one.title}]({one.file})", one.about) for one in PAGES)
    return page("Reference", _INDEX, table(("page", "what it has"), rows))
