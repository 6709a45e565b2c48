"""`stanchion job list | show | start | watch | stop`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from stanchion.cli import exit_codes
from stanchion.cli.amounts import age
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.confirming import Consent, dangerous
from stanchion.cli.person import every
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.contracts import ids, limits
from stanchion.errors import Conflict
from stanchion.runtime.clock import pause

_PATH: Final = "/v1/jobs"
_LOOK_SECONDS: Final = 1.0
_ENDED: Final = ("done", "stopped", "halted", "failed")
_ACTS: Final = ("task.cancel", "task.pause", "task.resume", "task.retry", "task.reopen")
_SHOWN: Final = 20


@verb("list", examples=["stanchion job list", "stanchion job list --json"], see_also=["stanchion job show"])
def list_jobs(session: Session) -> None:
    """List jobs in bulk, the newest first."""
    columns = [
        field("job", "job_id"),
        field("action"),
        field("state"),
        Column("done", lambda row: f"{row['done']:,} of {_count(row)}", right=True),
        field("skipped", right=True),
        field("failed", right=True),
        field("filter"),
        field("by"),
        Column("age", lambda row: age(row["created_at"]), right=True),
    ]
    if not Printer(session).listing(every(Api(session), _PATH), columns, ident="job_id"):
        say(session, "there are no jobs")


@verb(
    "show",
    examples=["stanchion job show job_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", "stanchion job show 01JX4Q2R --json"],
    see_also=["stanchion job watch", "stanchion job stop"],
)
@click.argument("job")
def show(session: Session, job: str) -> None:
    """Show a job: how far it is, what it skipped and why, and what stopped it."""
    api = Api(session)
    found = api.client.read(f"{_PATH}/{_id(api, job)}")
    printer = Printer(session)
    printer.document(found, lambda: _lines(api, printer, found), ident="job_id")


@verb(
    "start",
    examples=[
        "stanchion job start 'state:failed workflow:brief ended:<1d' --action task.retry --reason 'the site is back'",
        "stanchion job start 'workflow:brief' --action task.reopen --node fetch --reason fixed --rate 5",
        "stanchion job start 'tag:nightly' --action task.cancel --reason 'wrong input' --dry-run",
    ],
    see_also=["stanchion job watch", "stanchion task list"],
)
@click.argument("filter_", metavar="FILTER")
@click.option("--action", required=True, type=click.Choice(_ACTS), help="What is done to each task.")
@click.option("--reason", default="", metavar="TEXT", help="Why; it stands in the history. Needed for task.cancel.")
@click.option(
    "--rate", type=click.IntRange(1, limits.JOB_RATE_MAX), help=f"At most so many a second; default {limits.JOB_RATE}."
)
@click.option("--node", metavar="NAME", help="Whose failed steps task.reopen is about.")
@click.option("--canary/--no-canary", default=None, help="One first; the others once it did not fail again.")
@dangerous
def start(session: Session, filter_: str, *, consent: Consent, **given: Any) -> int:
    """Do one act to all tasks that fit a filter, as a job: this command may be closed meanwhile."""
    return begin(Api(session), {"filter": filter_, **{name: value or None for name, value in given.items()}}, consent)


@verb(
    "watch",
    examples=["stanchion job watch job_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", "stanchion job watch 01JX4Q2R --json"],
    see_also=["stanchion job stop"],
)
@click.argument("job")
def watch(session: Session, job: str) -> int:
    """Follow a job until it ends. Ctrl-C detaches; the job goes on. Exit code 8 when not all of it was done."""
    api = Api(session)
    job_id, said = _id(api, job), ""
    try:
        while True:
            found = api.client.read(f"{_PATH}/{job_id}")
            if found["state"] in _ENDED:
                break
            if (line := _line(found)) != said:
                say(session, said := line)
            pause(_LOOK_SECONDS)
    except KeyboardInterrupt:
        say(session, f"detached: {job_id} goes on; stanchion job watch {job_id}")
        return exit_codes.INTERRUPTED
    printer = Printer(session)
    printer.document(found, lambda: _lines(api, printer, found), ident="job_id")
    whole = found["state"] == "done" and not found["skipped"] and not found["failed"]
    return exit_codes.DONE if whole else exit_codes.PARTLY_DONE


@verb(
    "stop",
    examples=["stanchion job stop job_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --reason 'wrong filter'"],
    see_also=["stanchion job show"],
)
@click.argument("job")
@click.option("--reason", default="", metavar="TEXT", help="Why; it stands in the audit log.")
def stop(session: Session, job: str, reason: str) -> None:
    """Stop a job: nothing is acted on any more, what was done stays."""
    api = Api(session)
    answer = api.client.act(f"{_PATH}/{_id(api, job)}/stop", {"reason": reason}, repeatable=True)
    Printer(session).document(answer, _line(answer), ident="job_id")


def begin(api: Api, wanted: Mapping[str, Any], consent: Consent) -> int:
    """Say what a job would be about, ask, and start it; the exit code."""
    session = api.session
    plan = api.client.act(_PATH, {**wanted, "dry_run": True}, repeatable=True)
    count = plan["count"]
    if consent.expect_count is not None and (not count["exact"] or count["number"] != consent.expect_count):
        what = f"{_count(plan)} found, {consent.expect_count} expected: nothing was done"
        raise Conflict("E-CONFLICT-01", what, fix="look again")
    if count["number"] == 0:
        say(session, "nothing fits")
        return exit_codes.DONE
    thing = "failed steps" if wanted.get("node") else "tasks"
    for task in plan["first"]:
        say(session, f"  {task['task_id']} {task['workflow']} {task['state']}")
    asked = Consent(consent.yes, consent.dry_run, None)
    if not asked.obtain(
        session, f"{plan['action']} of {_count(plan)} {thing}", count["number"], where=api.connections.api_url
    ):
        return exit_codes.DONE
    from stanchion.contracts.ids import new_id

    job_id = ids.public(ids.JOB, new_id())  # named from here, so that a lost answer makes no second job
    answer = api.client.act(_PATH, {**wanted, "job_id": job_id}, repeatable=True)
    say(session, f"follow it: stanchion job watch {job_id}")
    Printer(session).document(answer, _line(answer), ident="job_id")
    return exit_codes.DONE


def _id(api: Api, text: str) -> str:
    return api.find(text, ids.JOB, lambda: every(api, _PATH), "job_id")


def _count(row: Mapping[str, Any]) -> str:
    return f"{row['count']['number']:,}" + ("" if row["count"]["exact"] else "+")


def _line(job: Mapping[str, Any]) -> str:
    counts = f"{job['done']:,} of {_count(job)} done, {job['skipped']:,} skipped, {job['failed']:,} failed"
    return f"{job['job_id']} {job['action']} {job['state']}: {counts}"


def _lines(api: Api, printer: Printer, job: Mapping[str, Any]) -> Iterator[str]:
    yield printer.bold(_line(job))
    yield f"  filter: {job['filter']}"
    for name in ("node", "reason", "by", "canary"):
        if job.get(name):
            yield f"  {name}: {job[name]}"
    yield f"  rate: {job['rate']} a second"
    if job.get("halted"):
        halted = job["halted"]
        yield f"  halted: {halted['failed']:,} of {halted['settled']:,} that ended since have failed again"
    if job.get("stopped"):
        yield f"  stopped by {job['stopped']['by']}: {job['stopped'].get('reason') or 'no reason given'}"
    if job.get("error"):
        yield f"  error: {job['error']['code']} {job['error']['what']}"
    for code, count in sorted(job["reasons"].items()):
        yield f"  {count:,} {code}"
    for outcome in ("failed", "skipped"):
        if job[outcome]:
            query = {"outcome": outcome, "limit": _SHOWN}
            for one in api.client.page(f"{_PATH}/{job['job_id']}/targets", query).items:
                yield f"  {outcome} {one['target']}: {one['code']} {one['what']}"
