"""Every view that the suite holds to the rules of all pages: one line each.

A new page of the dashboard needs a line here; `test_browser_views.py` fails while it has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from browser_flows import BIDI, EMOJI, MARKUP
from browser_seeding import NARROW_QUEUE, Seeded

from stanchion.contracts import ids

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


def first(path: str, prefix: str, *, last: bool = False) -> Callable[[Seeded], str]:
    """A path with the id of the first (or last) of a kind of thing."""
    return lambda seeded: path.format(seeded.first(prefix, last=last))


def of(path: str, prefix: str, name: str, *given: str) -> Callable[[Seeded], str]:
    """A path with the id of the first of a kind of thing that a seeded task has."""
    return lambda seeded: path.format(seeded.first(prefix, seeded.uuid(name), *given))


def compared(seeded: Seeded) -> str:
    """Two versions of one artifact beside each other."""
    newest, before = seeded.first(ids.ARTIFACT, last=True), seeded.version_before_the_last()
    return f"/artifacts/{newest}/compare?with={before}"


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
    View("tasks that a filter finds", at(f"/tasks?q={quote('tag:nightly state:running')}")),
    View("tasks that nothing fits", at(f"/tasks?q={quote('workflow:nowhere')}")),
    View("operations of a task", task("unknown", "/operations")),
    View("approvals of a task", task("asking", "/approvals")),
    View("artifacts of a task", task("completed", "/artifacts")),
    View("audit of a task", task("cancelled", "/audit"), texts=(MARKUP,)),
    View("outliers", task("held", "/fan/fetch/outliers")),
    View("approvals", at("/approvals")),
    View("approvals for all", at("/approvals?for=all")),
    View("approval", of("/approvals/{}", ids.APPROVAL, "asking")),
    View("approval, seen by an approver", of("/approvals/{}", ids.APPROVAL, "asking"), role="approver"),
    View("hostile approval", of("/approvals/{}", ids.APPROVAL, "hostile question"), texts=(MARKUP,)),
    View("operations", at("/operations")),
    View("operation that a check may find", of("/operations/{}", ids.OPERATION, "unknown", "mail.send")),
    View("operation that people must decide", of("/operations/{}", ids.OPERATION, "unknown", "sms.send")),
    View("hostile operation", of("/operations/{}", ids.OPERATION, "hostile mail", "mail.send"), texts=(MARKUP,)),
    View("workers", at("/workers")),
    View("worker", first("/workers/{}", ids.WORKER)),
    View("queue", at("/queues/default")),
    View("queue that is paused", at(f"/queues/{NARROW_QUEUE}"), texts=(MARKUP,)),
    View("pipeline", at("/pipeline")),
    View("charts", at("/charts?span=1h")),
    View("dead letters", at("/dead-letters"), texts=HOSTILE),
    View("dead letter", first("/dead-letters/{}", ids.DEAD_LETTER), texts=HOSTILE),
    View("errors", at("/errors")),
    View("error", first("/errors/{}", ids.ERROR, last=True)),
    View("jobs", at("/jobs")),
    View("job", first("/jobs/{}", ids.JOB), texts=(MARKUP,)),
    View("artifacts", at("/artifacts")),
    View("artifact", first("/artifacts/{}", ids.ARTIFACT, last=True)),
    View("artifacts compared", compared),
    View("audit", at("/audit")),
    View("audit verified", at("/audit/verify")),
    View("keys", at("/keys"), texts=(MARKUP[:50],)),
    View("people", at("/people")),
    View("sessions", at("/sessions?of=all")),
    View("webhooks", at("/webhooks")),
    View("tenant", at("/tenant")),
    View("words", at("/words")),
    View("keyboard", at("/keyboard")),
    View("find", at(f"/find?q={quote(MARKUP)}")),
    View("status", at("/status")),
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
