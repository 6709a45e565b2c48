"""Which tasks an act is about: ids, or all that fit a filter; what is about many becomes a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from stanchion.cli.api import Api
from stanchion.cli.exit_codes import DONE, PARTLY_DONE, USAGE, of_error
from stanchion.errors import StanchionError, Unprocessable

AT_ONCE: Final = 1_000
"""Above so many that fit a filter, the maintenance worker does it as a job: this command may be closed."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The tasks of an act by id; or, when more fit the filter than are done from here, the filter alone."""

    ids: list[str] = field(default_factory=list)
    filter: str | None = None

    def __bool__(self) -> bool:
        return bool(self.ids) or self.filter is not None


def every_task(api: Api, query: Mapping[str, Any], most: int | None) -> Iterator[Mapping[str, Any]]:
    """All tasks that fit, in order, page by page."""
    cursor, count = None, 0
    while True:
        rest = AT_ONCE if most is None else min(AT_ONCE, most - count)
        page = api.client.page("/v1/tasks", {**query, "limit": rest, "cursor": cursor})
        yield from page.items
        count += len(page.items)
        cursor = page.next
        if cursor is None or (most is not None and count >= most):
            return


def chosen(api: Api, texts: Sequence[str], text: str | None) -> Chosen:
    """The tasks of an act; raises Unprocessable E-CLI-01 when neither or both are given, E-FILTER-... for a bad filter."""
    from stanchion.contracts.filters import needed

    if bool(texts) == (text is not None):
        raise Unprocessable(USAGE, "name tasks, or give a --filter", fix="@last, or --filter 'state:running tag:x'")
    if text is None:
        return Chosen(api.task_ids(texts))
    wanted = str(needed(text, "--filter"))
    found = [str(task["task_id"]) for task in every_task(api, {"q": wanted, "scope": "all"}, AT_ONCE + 1)]
    return Chosen(filter=wanted) if len(found) > AT_ONCE else Chosen(found)


def do_all(api: Api, tasks: Chosen, act: Callable[[str], Mapping[str, Any]], action: str) -> int:
    """Do an act that can be taken back to each, or start the job that does; the exit code."""
    if tasks.filter is None:
        return each(api, tasks.ids, act)
    from stanchion.cli.confirming import Consent
    from stanchion.cli.job import begin

    return begin(api, {"action": action, "filter": tasks.filter}, Consent(yes=True, dry_run=False, expect_count=None))


def each(api: Api, task_ids: Sequence[str], act: Callable[[str], Mapping[str, Any]]) -> int:
    """Do an act to each, print what came of it, and return the exit code: 8 when only some could be done."""
    from stanchion.cli.errors_text import tell
    from stanchion.cli.printer import Printer

    printer, failures = Printer(api.session), list[StanchionError]()
    for task_id in task_ids:
        try:
            answer = act(task_id)
        except StanchionError as error:
            error.where = error.where or (task_id if len(task_ids) > 1 else None)
            failures.append(error)
            tell(error, api.session)
            continue
        row = {"task_id": task_id, **answer}
        text = " ".join(str(row[name]) for name in ("task_id", "state") if row.get(name))
        text += " (paused)" if row.get("paused") else ""
        printer.document(row, text, ident="task_id")
    if not failures:
        return DONE
    return PARTLY_DONE if len(failures) < len(task_ids) else of_error(failures[0])


FILTER = click.option("--filter", "selection", metavar="TEXT", help="All tasks that fit, e.g. 'state:running tag:x'.")
