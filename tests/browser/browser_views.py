"""Every view that the suite holds to the rules of all pages: one line each.

A new page of the dashboard needs a line here; `test_browser_views.py` fails while it has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from browser_flows import BIDI, EMOJI, MARKUP
from browser_seeding import Seeded

Role = str


@dataclass(frozen=True, slots=True)
class View:
    """A name, where it is, who looks (None: nobody has signed in), its status, and texts that must stand there as they are."""

    name: str
    path: Callable[[Seeded], str]
    role: Role | None = "admin"
    status: int = 200
    texts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def task(name: str, rest: str = "") -> Callable[[Seeded], str]:
    """The page of a seeded task, or what lies below it."""
    return lambda seeded: f"/tasks/{seeded.tasks[name]}{rest}"


def step(name: str, node: str, state: str | None = None) -> Callable[[Seeded], str]:
    """The page of a step."""
    return lambda seeded: f"/steps/{seeded.step(name, node, state)}"


def act(action: str, name: str, rest: str = "") -> Callable[[Seeded], str]:
    """The page that says what an action does to a seeded task."""
    return lambda seeded: f"/do/{action}/{seeded.tasks[name]}{rest}"


def at(path: str) -> Callable[[Seeded], str]:
    """A path that needs nothing of what was seeded."""
    return lambda seeded: path


HOSTILE: Final = (MARKUP, BIDI, EMOJI)

VIEWS: Final = (
    View("home", at("/")),
    View("tasks", at("/tasks")),
    View("tasks of one state", at("/tasks?state=failed")),
    View("tasks, none", at("/tasks?state=rejected")),
    View("tasks, not signed in", at("/tasks"), role=None),
    View("task that holds", task("held")),
    View("task that runs", task("running")),
    View("task that is paused", task("paused")),
    View("task that completed", task("completed")),
    View("task that failed", task("failed")),
    View("task that was cancelled", task("cancelled"), texts=(MARKUP,)),
    View("task with a refused write", task("frozen")),
    View("task with unknown operations", task("unknown")),
    View("task that asks", task("asking")),
    View("task, seen by a viewer", task("held"), role="viewer"),
    View("steps", task("held", "/steps")),
    View("steps that failed", task("held", "/steps?node=fetch&state=failed")),
    View("timeline", task("held", "/timeline")),
    View("timeline of one step", task("completed", "/timeline")),
    View("history", task("held", "/history")),
    View("fan-out", task("held", "/fan/fetch")),
    View("fan-out, all", task("held", "/fan/fetch?state=all")),
    View("step that failed", step("held", "fetch", "failed")),
    View("step that will be tried again", step("held", "fetch", "retry_wait")),
    View("step that succeeded", step("completed", "outline")),
    View("step with a refused write", step("frozen", "hold_on")),
    View("step with an unknown operation", step("unknown", "send_mail")),
    View("step that asks", step("asking", "review")),
    View("step, seen by a viewer", step("completed", "outline"), role="viewer"),
    View("plan of a cancel", act("task.cancel", "running")),
    View("plan of a reopening", act("task.reopen", "held", "?node=fetch")),
    View("plan, not signed in", act("task.pause", "running"), role=None),
    View("plan, not allowed", act("task.cancel", "running"), role="viewer"),
    View("sign in", at("/sign-in"), role=None),
    View("sign out", at("/sign-out")),
    View("no such page", at("/nothing-here"), status=404),
    View("no such task", at("/tasks/tsk_01M8R0D21GEHGBN282SWSW88G3"), status=404),
    View("a query that is refused", at(f"/tasks?state={quote(MARKUP)}%00"), status=422),
    View("hostile task", task("hostile"), texts=HOSTILE),
    View("hostile steps", task("hostile", "/steps"), texts=HOSTILE),
    View("hostile history", task("hostile", "/history")),
    View("hostile step", step("hostile", "echo"), texts=HOSTILE),
    View("hostile step that failed", step("hostile", "choke"), texts=HOSTILE),
    View("hostile operation's step", step("hostile mail", "send_mail")),
    View("hostile plan", act("task.retry", "hostile"), texts=(MARKUP,)),
    View("lengthy task", task("lengthy")),
    View("lengthy steps", task("lengthy", "/steps")),
    View("lengthy step", step("lengthy", "echo")),
)
