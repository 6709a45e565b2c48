"""Which tasks an act is about: ids, or all that fit a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import click

from stanchion.cli.api import Api
from stanchion.cli.exit_codes import DONE, PARTLY_DONE, USAGE, of_error
from stanchion.cli.printer import say
from stanchion.errors import StanchionError, Unprocessable

MOST: Final = 10_000
_PAGE: Final = 1_000
_NAMES: Final = ("state", "workflow", "tag", "submitted_after")


def filter_of(text: str) -> dict[str, str]:
    """`state:running,failed tag:x workflow:brief` as a query; raises Unprocessable E-CLI-01."""
    query: dict[str, str] = {}
    for word in text.split():
        name, colon, value = word.partition(":")
        if not colon or not value or name not in _NAMES or name in query:
            raise Unprocessable(
                USAGE, f"{word[:60]!a} is no filter", fix=f"'state:running tag:x'; names are {', '.join(_NAMES)}"
            )
        query[name] = value
    if not query:
        raise Unprocessable(USAGE, "the filter is empty", fix="'state:running tag:x'")
    return query


def every_task(api: Api, query: Mapping[str, Any], most: int | None = MOST) -> Iterator[Mapping[str, Any]]:
    """All tasks that fit, newest first, page by page."""
    cursor, count = None, 0
    while True:
        rest = _PAGE if most is None else min(_PAGE, most - count)
        page = api.client.page("/v1/tasks", {**query, "limit": rest, "cursor": cursor})
        yield from page.items
        count += len(page.items)
        cursor = page.next
        if cursor is None or (most is not None and count >= most):
            return


def chosen(api: Api, texts: Sequence[str], text: str | None) -> list[str]:
    """The tasks of an act; raises Unprocessable E-CLI-01 when neither or both are given."""
    if bool(texts) == (text is not None):
        raise Unprocessable(USAGE, "name tasks, or give a --filter", fix="@last, or --filter 'state:running tag:x'")
    if text is None:
        return api.task_ids(texts)
    found = [str(task["task_id"]) for task in every_task(api, filter_of(text), MOST + 1)]
    if len(found) > MOST:
        say(
            api.session, f"more than {MOST:,} tasks fit; this is about the newest {MOST:,}: run it again for the others"
        )
    return found[:MOST]


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
