"""Everything that people may do to what is there: one entry each, the same on the page, in the API and on the command line.

`why` names actions as ways out, pages make buttons and forms of them, and every button shows the request and the command
that do the same.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from . import ids, limits
from .action_forms import (
    BARRIER,
    GIVEN_REASON,
    POSITIONAL,
    PROOF,
    REASON,
    Action,
    Field,
)
from .actions_access import ACCESS

__all__ = ("ACTIONS", "BARRIER", "POSITIONAL", "Action", "Field", "Way", "act", "command_of", "words_of")

SHOWN: Final = Field("payload_hash", "Hash of what is shown", "hidden", flag="--hash")
"""Which payload a decision is about: the API refuses one about anything else (E-APR-04)."""
COMMENT: Final = Field("comment", "Comment", "long", hint="It stands with the approval, and in the audit log.")
GIVEN_COMMENT: Final = Field("comment", "Comment", "long", True, hint="It stands with the approval, for all to see.")


def _say(
    verb: str, title: str, effect: str, *fields: Field, right: str = "approval.decide", final: bool = False
) -> Action:
    path, command = f"/v1/approvals/{{id}}/{verb}", f"stanchion approval {verb} {{id}}"
    for one in fields:
        command += f" {{{one.name}}}" if one.flag == POSITIONAL else ""
    return Action(f"approval.{verb}", title, effect, right, path, command, ids.APPROVAL, fields=fields, final=final)


_SAY: Final = (
    _say(
        "approve",
        "Approve",
        "Your yes is about exactly what was shown. The last one that is needed lets its step go on, and what it allows leave once.",
        SHOWN,
        COMMENT,
    ),
    _say("reject", "Reject", "One no is enough: nothing that it asks for leaves.", SHOWN, COMMENT, final=True),
    _say("ask-back", "Ask back", "What you want to know stands with it; nothing is decided.", SHOWN, GIVEN_COMMENT),
    _say(
        "answer",
        "Answer",
        "Your answer stands with it; nothing is decided.",
        SHOWN,
        GIVEN_COMMENT,
        right="task.operate",
    ),
    _say(
        "delegate",
        "Delegate",
        "Somebody else gets your vote, and you keep none.",
        SHOWN,
        Field("to", "To whom", required=True, flag=POSITIONAL, hint="The name of another approver.", most=64),
        COMMENT,
        final=True,
    ),
    _say(
        "edit",
        "Edit",
        "This question ends, and the changed one is asked instead. Under four eyes somebody else has to approve it.",
        SHOWN,
        Field(
            "payload",
            "Payload",
            "json",
            True,
            flag=POSITIONAL,
            hint="The whole of it, with the same fields and kinds of values.",
            most=limits.INLINE_BYTES,
        ),
        COMMENT,
        final=True,
    ),
    _say(
        "revoke",
        "Revoke",
        "It allows nothing any more. What has left under it stays done.",
        GIVEN_REASON,
        final=True,
    ),
)

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
        "job.start",
        "Do to all that fit",
        "One act is done to each task that fits the filter, at a rate, in your name. It can be stopped, not taken back.",
        "task.operate",
        "/v1/jobs",
        "stanchion job start {id}",
        fields=(
            Field(
                "action",
                "Action",
                "choice",
                True,
                choices=("task.cancel", "task.pause", "task.resume", "task.retry", "task.reopen"),
            ),
            Field("reason", "Reason", "long", hint="It stands in the history of each; needed to cancel."),
            Field("node", "Node", hint="Whose failed steps are reopened."),
            Field("rate", "A second at most", "number"),
        ),
        id_field="filter",
        lands="/jobs/{job_id}",
        final=True,
    ),
    Action(
        "job.stop",
        "Stop",
        "Nothing is acted on any more from now on; what was done stays.",
        "task.operate",
        "/v1/jobs/{id}/stop",
        "stanchion job stop {id}",
        ids.JOB,
        fields=(REASON,),
    ),
    Action(
        "error.mark",
        "Mark",
        "The group says that it is known, who looks after it, and where more stands; failures are counted as before.",
        "task.operate",
        "/v1/errors/{id}/mark",
        "stanchion error mark {id}",
        ids.ERROR,
        fields=(
            Field("known", "Known", "yes"),
            Field("note", "Note", "long"),
            Field("link", "Link"),
            Field("assigned_to", "Assigned to"),
        ),
    ),
    Action(
        "view.save",
        "Save view",
        "The filter is kept under a name, for you or for everybody in the tenant.",
        "task.read",
        "/v1/views",
        "stanchion view save {id}",
        fields=(
            Field("query", "Filter", required=True, flag="", hint="state:failed tag:nightly"),
            Field("order", "Order", "choice", choices=("newest", "oldest", "still")),
            Field("shared", "Shared", "yes"),
        ),
        id_field="name",
    ),
    Action(
        "view.remove",
        "Remove view",
        "The view is gone; tasks stay as they are.",
        "task.read",
        "/v1/views/{id}",
        "stanchion view rm {id}",
        ids.VIEW,
        method="DELETE",
    ),
    *ACCESS,
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
        tells=True,
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
    *_SAY,
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
    words = {f"{{{one.name}}}": _word(given.get(one.name)) for one in action.fields if one.flag == POSITIONAL}
    words["{id}"] = shlex.quote(target)
    parts = [words.get(word, word) for word in action.command.split()]
    for one in action.fields:
        value = given.get(one.name)
        if one.flag == POSITIONAL:
            continue
        if one.kind == "yes":
            parts += [one.option] if value else []
        elif one.kind == "list":
            parts += [part for word in words_of(value) or [""] * one.required for part in (one.option, _word(word))]
        elif one.required or value not in (None, ""):
            parts += [one.option, _word(value)]
    return " ".join(parts)


def words_of(value: Any) -> list[str]:
    """The words of a list, which comes as one text or as several."""
    return (
        re.split(r"[\s,]+", value.strip(" ,\t\r\n"))
        if isinstance(value, str) and value.strip(" ,\t\r\n")
        else list(value or ())
    )


def _word(value: Any) -> str:
    if value in (None, ""):
        return '"..."'
    return shlex.quote(value if isinstance(value, str) else json.dumps(value))
