"""`stanchion task cancel | pause | resume | retry | reopen | open-barrier`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from stanchion.cli import budgets, completing, inputs
from stanchion.cli.amounts import counted
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.confirming import Consent, dangerous
from stanchion.cli.exit_codes import CONFLICT, DONE, PARTLY_DONE, USAGE
from stanchion.cli.job import begin
from stanchion.cli.printer import Printer, say
from stanchion.cli.selecting import AT_ONCE, FILTER, chosen, do_all, each
from stanchion.cli.session import Session
from stanchion.errors import Unprocessable

_TASKS = click.argument("tasks", nargs=-1, metavar="[TASK]...", shell_complete=completing.tasks)
_REASON = click.option("--reason", default="", metavar="TEXT", help="Why; it stands in the history.")
_REASON_NEEDED = click.option("--reason", required=True, metavar="TEXT", help="Why; it stands in the history.")
_REOPENED_AT_ONCE = 1_000
_REFUSED_SHOWN = 20


@verb(
    "cancel",
    examples=[
        "stanchion task cancel @last",
        "stanchion task cancel --filter 'state:running tag:nightly' --reason 'wrong input'",
        "stanchion task cancel tsk_01JX4 --yes",
    ],
    see_also=["stanchion task pause", "stanchion task retry"],
)
@_TASKS
@FILTER
@_REASON
@dangerous
def cancel(session: Session, tasks: tuple[str, ...], selection: str | None, reason: str, consent: Consent) -> int:
    """Cancel tasks: what has not started never will, what runs gets a grace of 30 seconds."""
    api = Api(session)
    found = chosen(api, tasks, selection)
    if found.filter is not None:
        return begin(api, {"action": "task.cancel", "filter": found.filter, "reason": reason or None}, consent)
    if not found or not consent.obtain(session, f"cancel {_counted(found.ids)}", len(found.ids), where=_place(api)):
        return DONE
    return each(api, found.ids, lambda one: api.client.cancel(one, reason=reason))


@verb(
    "pause",
    examples=["stanchion task pause @last", "stanchion task pause --filter 'workflow:brief state:running'"],
    see_also=["stanchion task resume"],
)
@_TASKS
@FILTER
def pause(session: Session, tasks: tuple[str, ...], selection: str | None) -> int:
    """Start nothing new of a task; what runs goes on."""
    api = Api(session)
    return do_all(api, chosen(api, tasks, selection), api.client.pause, "task.pause")


@verb("resume", examples=["stanchion task resume @last"], see_also=["stanchion task pause"])
@_TASKS
@FILTER
def resume(session: Session, tasks: tuple[str, ...], selection: str | None) -> int:
    """Go on with a paused task."""
    api = Api(session)
    return do_all(api, chosen(api, tasks, selection), api.client.resume, "task.resume")


@verb(
    "retry",
    examples=[
        "stanchion task retry @last",
        "stanchion task retry @last --budget usd=10",
        "stanchion task retry --filter 'state:failed workflow:brief'",
    ],
    see_also=["stanchion task reopen", "stanchion task show"],
)
@_TASKS
@FILTER
@_REASON
@budgets.BUDGET
@dangerous
def retry(
    session: Session,
    tasks: tuple[str, ...],
    *,
    selection: str | None,
    reason: str,
    budget: tuple[str, ...],
    consent: Consent,
) -> int:
    """Run tasks again that have failed, were cancelled or rejected; results of their succeeded steps are taken over."""
    allowed = budgets.given(budget)
    api = Api(session)
    found = chosen(api, tasks, selection)
    if found.filter is not None:
        if allowed:
            fix = "narrow the filter, or leave --budget out: each goes on with what it has"
            raise Unprocessable(USAGE, f"more than {AT_ONCE:,} tasks fit, and a job gives no budgets", fix=fix)
        return begin(api, {"action": "task.retry", "filter": found.filter, "reason": reason or None}, consent)
    # One task by its name is what the person means; many by a filter deserve a look.
    asked = Consent(consent.yes or selection is None, consent.dry_run, consent.expect_count)
    if not found or not asked.obtain(session, f"retry {_counted(found.ids)}", len(found.ids), where=_place(api)):
        return DONE
    return each(api, found.ids, lambda one: api.client.retry(one, reason=reason, budget=allowed))


@verb(
    "reopen",
    examples=[
        "stanchion task reopen @last --reason 'the site is back'",
        "stanchion task reopen @last --node fetch --dry-run --reason test",
        "stanchion task reopen @last stp_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --reason 'fixed the file'",
    ],
    see_also=["stanchion task open-barrier", "stanchion task retry", "stanchion why"],
)
@click.argument("task", shell_complete=completing.tasks)
@click.argument("steps", nargs=-1, metavar="[STEP]...")
@click.option("--node", metavar="NAME", help="Only the failed steps of this node.")
@click.option(
    "--input",
    "edited",
    metavar="JSON|@FILE",
    help="Another item for children; for other steps the arguments that it names.",
)
@_REASON_NEEDED
@dangerous
def reopen(
    session: Session,
    task: str,
    steps: tuple[str, ...],
    *,
    node: str | None,
    edited: str | None,
    reason: str,
    consent: Consent,
) -> int:
    """Give failed steps another try while their run is live and a join holds for them: the steps named, or all."""
    if steps and node:
        raise Unprocessable(USAGE, "name steps, or a --node, not both")
    api = Api(session)
    step_input = None if edited is None else inputs.parse([f"input:={edited}"])["input"]
    found = list(steps) or [str(step["step_id"]) for step in _failed_steps(api, api.task_id(task), node)]
    if not found:
        say(session, "no step has failed")
        return DONE
    if not consent.obtain(session, f"reopen {counted(len(found), 'step')} of {task}", len(found), where=_place(api)):
        return DONE
    done: list[str] = []
    refused: list[Any] = []
    for start in range(0, len(found), _REOPENED_AT_ONCE):
        answer = api.client.reopen(found[start : start + _REOPENED_AT_ONCE], reason=reason, step_input=step_input)
        done += answer["reopened"]
        refused += answer["refused"]
    for one in refused[:_REFUSED_SHOWN]:
        say(session, f"{one['step_id']} stays {one['state']}: {one['why']}")
    data = {"reopened": done, "refused": refused}
    Printer(session).document(data, f"{len(done):,} of {len(found):,} steps run again")
    if not refused:
        return DONE
    return PARTLY_DONE if done else CONFLICT


@verb(
    "open-barrier",
    examples=["stanchion task open-barrier bar_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --reason '42 pages are gone for good'"],
    see_also=["stanchion task reopen", "stanchion why"],
)
@click.argument("barrier")
@_REASON_NEEDED
@dangerous
def open_barrier(session: Session, barrier: str, reason: str, consent: Consent) -> int:
    """Open a join without the failed branches that hold it. It can't be closed again."""
    api = Api(session)
    if not consent.obtain(session, f"open {barrier} without what it waits for", 1, where=_place(api)):
        return DONE
    answer = api.client.open_barrier(barrier, reason=reason)
    Printer(session).document({"barrier_id": barrier, **answer}, f"{barrier} is open", ident="barrier_id")
    return DONE


def _failed_steps(api: Api, task_id: str, node: str | None) -> Iterator[Any]:
    cursor = None
    while True:
        page = api.client.steps(task_id, node=node, state="failed", limit=1_000, cursor=cursor)
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _counted(found: list[str]) -> str:
    return found[0] if len(found) == 1 else counted(len(found), "task")


def _place(api: Api) -> str:
    """The installation, for every question that changes something."""
    profile = f", profile {api.session.profile}" if api.session.profile else ""
    return f"{api.connections.api_url}{profile}"
