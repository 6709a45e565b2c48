"""`stanchion task watch` and `stanchion task wait`."""

from __future__ import annotations

import click

from stanchion.cli import completing, exit_codes
from stanchion.cli.api import LAST, Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Printer, say
from stanchion.cli.session import Session
from stanchion.cli.spans import Span
from stanchion.cli.waiting import Follower, code_of, leave_picture, report, summary

_TIMEOUT = click.option(
    "--timeout", type=Span(), metavar="TIME", help="Give up waiting after this: seconds, or 90s, 30m, 4h."
)


@verb(
    "watch",
    examples=[
        "stanchion task watch @last",
        "stanchion task watch tsk_01JX4",
        "stanchion task watch @last --jsonl   # every event as one line",
    ],
    see_also=["stanchion task wait", "stanchion why"],
)
@click.argument("task", default=LAST, shell_complete=completing.tasks)
@_TIMEOUT
def watch(session: Session, task: str, timeout: float | None) -> int:
    """Follow a task until it ends, with a bar for each fan-out. Ctrl-C detaches; the task goes on.

    Without a terminal there is one line of status every 10 seconds. With --jsonl the events come, one a line. The exit
    code says how the task ended, as that of `task wait`.
    """
    api = Api(session)
    task_id = api.task_id(task)
    try:
        if session.jsonl:
            return _events(api, task_id, timeout)
        seen = Follower(api, stop_for_people=False).follow([task_id], timeout)[task_id]
    except KeyboardInterrupt:
        say(session, f"detached: {task_id} goes on; stanchion task watch {task_id}")
        return exit_codes.INTERRUPTED
    leave_picture(session, seen)
    return report(api, [seen])


@verb(
    "wait",
    examples=[
        "stanchion task wait @last && echo done",
        "stanchion task wait tsk_01JX4 tsk_01JX5 --timeout 10m",
        "stanchion task wait @last --json",
    ],
    see_also=["stanchion task watch", "stanchion task result"],
)
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...", shell_complete=completing.tasks)
@_TIMEOUT
def wait(session: Session, tasks: tuple[str, ...], timeout: float | None) -> int:
    """Wait until tasks have ended.

    Exit code 0 when all have completed, 10 failed, 11 cancelled, 14 rejected, 12 when nothing but a person can move it on, 7 when
    the time is over. Those of the command itself are 1 to 6.
    """
    api = Api(session)
    wanted = api.task_ids(tasks)
    seen = Follower(api, stop_for_people=True).follow(wanted, timeout)
    return report(api, [seen[task_id] for task_id in wanted])


def _events(api: Api, task_id: str, timeout: float | None) -> int:
    printer = Printer(api.session)
    for event in api.client.events(task_id, timeout=timeout):
        printer.event({"id": event.id, "type": event.type, "data": event.data}, f"{event.type} {event.data}")
    task = api.client.read(f"/v1/tasks/{task_id}")
    printer.event({"type": "end", "data": summary(task)}, "")
    return code_of(task)
