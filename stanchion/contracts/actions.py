"""Everything that people may do to what is there: one entry each, the same on the page, in the API and on the command line.

`why` names actions as ways out, pages make buttons and forms of them, and every button shows the request and the command
that do the same.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from . import ids, limits

BARRIER: Final = "bar"

Kind = Literal["text", "long", "number", "json", "choice", "yes", "hidden"]


@dataclass(frozen=True, slots=True)
class Field:
    """Something that is asked before an action: `name` in the request's body, `flag` on the command line."""

    name: str
    label: str
    kind: Kind = "text"
    required: bool = False
    flag: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    most: int = limits.REASON_CHARACTERS

    @property
    def option(self) -> str:
        """How it is called on the command line."""
        return self.flag or f"--{self.name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do. `{id}` in path and command is the public id (or the name) of its target."""

    name: str
    title: str
    effect: str
    right: str
    path: str
    command: str
    target: str = ""
    method: str = "POST"
    fields: tuple[Field, ...] = ()
    id_field: str = ""
    """The field of the body that holds the target's id, where the path does not."""
    final: bool = False
    """It can't be taken back: the page asks once more."""


REASON: Final = Field("reason", "Reason", "long", hint="It stands in the history and in the audit log.")
GIVEN_REASON: Final = Field("reason", "Reason", "long", True, hint="It stands in the history and in the audit log.")
PROOF: Final = Field("proof", "Proof", "text", True, hint="An id or a text of the outside system that shows it.")

_ALL: Final = (
    Action(
        "task.cancel",
        "Cancel",
        "What has not started never will; what runs gets a grace. What was sent outside is accounted for first.",
        "task.cancel",
        "/v1/tasks/{id}/cancel",
        "stanchion task cancel {id}",
        ids.TASK,
        fields=(REASON,),
        final=True,
    ),
    Action(
        "task.pause",
        "Pause",
        "Nothing new of the task is started; what runs goes on.",
        "task.operate",
        "/v1/tasks/{id}/pause",
        "stanchion task pause {id}",
        ids.TASK,
    ),
    Action(
        "task.resume",
        "Resume",
        "The task goes on where it was paused.",
        "task.operate",
        "/v1/tasks/{id}/resume",
        "stanchion task resume {id}",
        ids.TASK,
    ),
    Action(
        "task.retry",
        "Retry",
        "A new run begins; results of steps that succeeded, and still fit, are taken over.",
        "task.operate",
        "/v1/tasks/{id}/retry",
        "stanchion task retry {id}",
        ids.TASK,
        fields=(
            REASON,
            Field("budget", "Budget", "json", hint='What it may spend in all of its runs, like {"usd": 10}.'),
        ),
    ),
    Action(
        "task.reopen",
        "Reopen failed steps",
        "Each failed step of the node gets one more attempt; the join that they hold goes on waiting.",
        "task.operate",
        "/v1/steps/reopen",
        "stanchion task reopen {id}",
        ids.TASK,
        fields=(Field("node", "Node", required=True), GIVEN_REASON),
        id_field="task_id",
    ),
    Action(
        "barrier.open",
        "Open without the failed ones",
        "The join opens with what has arrived; the failed branches are missing in what comes after. It can't be closed again.",
        "task.operate",
        "/v1/barriers/{id}/open",
        "stanchion task open-barrier {id}",
        BARRIER,
        fields=(GIVEN_REASON,),
        final=True,
    ),
    Action(
        "operation.reconcile",
        "Check now",
        "A worker asks the outside system now what became of it.",
        "operation.settle",
        "/v1/operations/{id}/reconcile",
        "stanchion op reconcile {id}",
        ids.OPERATION,
    ),
    Action(
        "operation.mark-done",
        "Mark done",
        "The operation counts as done and is never sent again; its step goes on with that.",
        "operation.settle",
        "/v1/operations/{id}/mark-done",
        "stanchion op mark-done {id}",
        ids.OPERATION,
        fields=(
            GIVEN_REASON,
            PROOF,
            Field("receipt", "Receipt", "json", hint="What the outside system answered, as JSON, if you have it."),
        ),
        final=True,
    ),
    Action(
        "operation.mark-not-done",
        "Mark not done",
        "Its step sends it again, with the same key. If it was done after all, the outside may have it twice.",
        "operation.settle",
        "/v1/operations/{id}/mark-not-done",
        "stanchion op mark-not-done {id}",
        ids.OPERATION,
        fields=(GIVEN_REASON, PROOF),
        final=True,
    ),
    Action(
        "operation.compensate",
        "Undo",
        "A worker undoes the effect as the operation declares, in a step of its own.",
        "operation.settle",
        "/v1/operations/{id}/compensate",
        "stanchion op compensate {id}",
        ids.OPERATION,
        fields=(GIVEN_REASON,),
        final=True,
    ),
    Action(
        "worker.drain",
        "Drain",
        "The worker takes no new work, finishes what it runs, and ends.",
        "worker.operate",
        "/v1/workers/{id}/drain",
        "stanchion worker drain {id}",
        ids.WORKER,
    ),
    Action(
        "queue.pause",
        "Pause queue",
        "Nothing new of the queue is leased or offered for this tenant; what runs goes on. The reason is shown to all who wait.",
        "task.operate",
        "/v1/queues/{id}/pause",
        "stanchion queue pause {id}",
        fields=(GIVEN_REASON,),
    ),
    Action(
        "queue.resume",
        "Resume queue",
        "What waits in the queue is offered again at once.",
        "task.operate",
        "/v1/queues/{id}/resume",
        "stanchion queue resume {id}",
    ),
    Action(
        "task.republish",
        "Offer again",
        "All ready steps of the task are offered again. A step that is offered twice is leased once.",
        "task.operate",
        "/v1/tasks/{id}/republish",
        "stanchion outbox republish {id}",
        ids.TASK,
    ),
    Action(
        "dead.redrive",
        "Send again",
        "The message is sent to its topic again, as it came.",
        "task.operate",
        "/v1/dead-letters/{id}/redrive",
        "stanchion dead redrive {id}",
        ids.DEAD_LETTER,
        fields=(Field("again", "Also if it was sent again before", "yes"),),
    ),
    Action(
        "key.revoke",
        "Revoke",
        "The key opens nothing any more, within seconds in every process.",
        "keys.manage",
        "/v1/keys/{id}/revoke",
        "stanchion key revoke {id}",
        ids.KEY,
        final=True,
    ),
    Action(
        "artifact.pin",
        "Pin",
        "Neither retention nor a deletion takes this version until it is let go.",
        "artifact.manage",
        "/v1/artifacts/{id}/pin",
        "stanchion artifact pin {id}",
        ids.ARTIFACT,
    ),
    Action(
        "artifact.unpin",
        "Let go",
        "The version goes with its task's payloads, as any other.",
        "artifact.manage",
        "/v1/artifacts/{id}/unpin",
        "stanchion artifact pin {id} --off",
        ids.ARTIFACT,
    ),
    Action(
        "artifact.verify",
        "Verify",
        "The stored content is read again and held against its hash.",
        "artifact.read",
        "/v1/artifacts/{id}/verify",
        "stanchion artifact verify {id}",
        ids.ARTIFACT,
    ),
    Action(
        "artifact.delete",
        "Delete",
        "The content is removed; its hash and its history stay.",
        "artifact.manage",
        "/v1/artifacts/{id}",
        "stanchion artifact rm {id}",
        ids.ARTIFACT,
        method="DELETE",
        final=True,
    ),
)

ACTIONS: Final[dict[str, Action]] = {action.name: action for action in _ALL}
"""By name, in the order in which pages show them."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way out: an action on a target with what is known already, or (without one) a command to type."""

    command: str
    action: str | None = None
    target: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What its button says; the command when there is none."""
        return ACTIONS[self.action].title if self.action else self.command


def act(name: str, target: str, **given: Any) -> Way:
    """The way that does an action; what is required and not given shows as `"..."` in its command."""
    action = ACTIONS[name]
    return Way(command_of(action, target, given), name, target, dict(given))


def command_of(action: Action, target: str, given: Mapping[str, Any]) -> str:
    """The line to type that does an action with these values."""
    parts = [action.command.replace("{id}", shlex.quote(target))]
    for one in action.fields:
        value = given.get(one.name)
        if one.kind == "yes":
            parts += [one.option] if value else []
        elif value not in (None, ""):
            parts += [one.option, shlex.quote(value if isinstance(value, str) else json.dumps(value))]
        elif one.required:
            parts += [one.option, '"..."']
    return " ".join(parts)
