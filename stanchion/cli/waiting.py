"""Following tasks until they end: what is drawn meanwhile, what is said without a terminal, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from stanchion.cli import exit_codes
from stanchion.cli.amounts import duration, since
from stanchion.cli.api import Api
from stanchion.cli.printer import Printer, say
from stanchion.cli.region import Region
from stanchion.cli.session import Session
from stanchion.cli.task_lines import Pace as Speed
from stanchion.cli.task_lines import Painter, can_be_reopened, held_barriers, needs_a_person, one_line
from stanchion.contracts.failures import told
from stanchion.errors import Unavailable
from stanchion.runtime.clock import Deadline, monotonic, pause
from stanchion.sdk.client import Pace
from stanchion.sdk.models import ENDED

STATUS_SECONDS: Final = 10.0  # how often progress is said where it can't be drawn
_DRAW_SECONDS: Final = 0.5

Task = Mapping[str, Any]


class Follower:
    """Looks at tasks until each has ended; draws all that go on."""

    def __init__(self, api: Api, *, stop_for_people: bool) -> None:
        self.api = api
        self.stop_for_people = stop_for_people
        session = api.session
        self.region = Region(lively=session.lively)
        self.painter = Painter(color=session.colored(sys.stderr), ascii_only=session.ascii)
        self._speeds: dict[str, Speed] = {}
        self._said_at = monotonic()
        self._told: set[str] = set()  # for which tasks it was said that a person is needed
        self._away = False

    def follow(self, task_ids: Sequence[str], timeout: float | None) -> dict[str, Task]:
        """The last look at each; those that have not ended ran out of time, or wait for a person."""
        deadline = None if timeout is None else Deadline(timeout)
        seen: dict[str, Task] = {}
        open_ids, pace = list(task_ids), Pace()
        try:
            while True:
                for task_id in open_ids:
                    seen[task_id] = self._look(task_id, seen.get(task_id), deadline)
                open_ids = [one for one in open_ids if not self._settled(seen[one])]
                if not open_ids or (deadline is not None and deadline.passed):
                    return seen
                self._show([seen[one] for one in open_ids])
                wait = pace.next()
                if self.region.lively:
                    wait = max(wait, _DRAW_SECONDS if len(seen) > 1 else 0.1)
                pause(wait if deadline is None else min(wait, deadline.left))
        finally:
            self.region.clear()

    def _look(self, task_id: str, before: Task | None, deadline: Deadline | None) -> Task:
        try:
            found = self.api.client.read(
                f"/v1/tasks/{task_id}", timeout=None if deadline is None else deadline.left + 0.1
            )
        except Unavailable as error:
            if before is None:
                raise
            # A service that restarts must not end a watch of hours.
            if not self._away:
                self._away = True
                self._say(f"{error.what}; trying again")
            return before
        self._away = False
        return found

    def _settled(self, task: Task) -> bool:
        if task["state"] in ENDED:
            return True
        if not needs_a_person(task):
            return False
        if task["task_id"] not in self._told:
            self._told.add(str(task["task_id"]))
            for line in person_lines(task):
                self._say(line)
        return self.stop_for_people

    def _show(self, tasks: Sequence[Task]) -> None:
        now = monotonic()
        if self.region.lively:
            lines = []
            for task in tasks:
                speed = self._speeds.setdefault(str(task["task_id"]), Speed())
                speed.look(task["nodes"], now)
                lines.append(self.painter.head(task))
                lines += list(self.painter.nodes(task, speed)) if len(tasks) <= 3 else []
            self.region.draw(lines)
        elif now - self._said_at >= STATUS_SECONDS:
            self._said_at = now
            for task in tasks[:5]:
                took = duration(since(task.get("created_at")) or 0.0)
                self._say(f"{task['task_id']} {task['state']} {took}: {one_line(task)}")
            if len(tasks) > 5:
                self._say(f"and {len(tasks) - 5} more tasks")

    def _say(self, text: str) -> None:
        if self.region.lively:
            self.region.above(text)
        else:
            say(self.api.session, text)


def person_lines(task: Task) -> list[str]:
    """What a person can do for a task whose join is held by failed branches."""
    lines = []
    for node in held_barriers(task):
        barrier = node["barrier"]
        lines.append(f"{node['name']} waits for a person: {barrier['failed']:,} failed branches hold its join")
        ways = [f"stanchion task reopen {task['task_id']} --reason TEXT"] if can_be_reopened(task, node) else []
        if barrier.get("barrier_id"):
            ways.append(f"stanchion task open-barrier {barrier['barrier_id']} --reason TEXT")
        lines += [f"  fix: {ways[0]}", *(f"   or: {way}" for way in ways[1:])] if ways else []
    return lines


def leave_picture(session: Session, task: Task) -> None:
    """Let the last picture of a task stay on the terminal, if there is one."""
    if session.lively:
        painter = Painter(color=session.colored(sys.stderr), ascii_only=session.ascii)
        say(session, "\n".join([painter.head(task), *painter.nodes(task)]))


def code_of(task: Task) -> int:
    """The exit code that waiting for a task ends with."""
    if task["state"] in ENDED:
        return exit_codes.of_task(str(task["state"]))
    return exit_codes.TASK_NEEDS_A_PERSON if needs_a_person(task) else exit_codes.TIMED_OUT


def report(api: Api, tasks: Sequence[Task], details: Callable[[Task], Mapping[str, Any]] | None = None) -> int:
    """Print how tasks have ended, one line each, and return the exit code: the first that is not 0."""
    printer = Printer(api.session)
    rows = [details(task) if details else summary(task) for task in tasks]
    if len(rows) == 1:
        row = rows[0]
        printer.document(row, line_of(printer, row), ident="task_id")
    elif api.session.machine or api.session.quiet or api.session.format:
        printer.listing(rows, [], ident="task_id")
    else:
        for row in rows:
            printer.line(line_of(printer, row))
    return next((code for task in tasks if (code := code_of(task))), exit_codes.DONE)


def summary(task: Task) -> dict[str, Any]:
    """What is printed of a task at its end."""
    names = ("task_id", "run_id", "workflow", "version", "state", "reason", "created_at", "ended_at")
    return {name: task.get(name) for name in names}


def line_of(printer: Printer, row: Mapping[str, Any]) -> str:
    """One line for people."""
    from stanchion.cli.amounts import between

    took = between(row.get("created_at"), row.get("ended_at"))
    text = f"{row['task_id']} {printer.state(str(row['state']))}"
    text += f" in {duration(took)}" if took is not None else ""
    reason = row.get("reason")
    if isinstance(reason, Mapping) and row["state"] != "completed":
        causes = told(reason)
        text += f": {causes}" if causes else ""
    return text
