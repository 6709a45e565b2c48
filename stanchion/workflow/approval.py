"""Questions to people: what a step asks, and what it gets for an answer.

    @report.approval(after=draft, by=("editors", "person:ann"), needs=2, within="4h")
    def review(ctx: Ctx, page: Page) -> Ask:
        return Ask(f"Publish {page.title}?", payload=page, operation=publish, key=page.id, resource=page.version)

    @report.step(after=(draft, review))
    async def send(ctx: Ctx, page: Page, decision: Decision) -> Receipt:
        return await ctx.op(publish, page, key=page.id, approval=decision)

What is approved is what was shown: that payload, of that operation, for that version of an artifact, until that time,
once. The database compares all of it when the operation is about to leave, and again whenever it is to be sent anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from stanchion.contracts import ids, limits, payload
from stanchion.errors import Rejected, TooLarge
from stanchion.workflow.artifact import Artifact
from stanchion.workflow.carrier import Unfit, carrier
from stanchion.workflow.durations import Duration, seconds
from stanchion.workflow.faults import Site, refusal
from stanchion.workflow.graph import AskSpec
from stanchion.workflow.operation import AnyOperation, Operation

__all__ = ["Ask", "Decision", "EncodedAsk", "ask_spec", "encode_ask"]

T = TypeVar("T")

_HANDLE: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
WITHIN_SECONDS_MAX: Final = 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What people are asked: a question in plain words, a rendered summary, and the payload that is bound.

    With `operation` the answer allows that effect with exactly this payload, and with `key` only under this key.
    `resource` is the version of an artifact that it is about: it must be the latest when people are asked, and still be
    when the effect leaves. The payload has at most 64 KiB; what is larger is shown as an artifact.
    """

    question: str
    payload: Any = None
    operation: AnyOperation | None = None
    key: str | None = None
    resource: Artifact | str | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a question: the result of an approval step.

    `outcome` is granted, rejected, expired or revoked, `by` who approved or rejected it. `approval_id` names the approval
    for `ctx.op(..., approval=decision)`: being told that something was approved allows nothing by itself. When an approver
    `edited` what was shown, that is the `payload` (as JSON), and no other is approved: `decision.applied_to(page)`.
    """

    approval_id: str
    approved: bool
    outcome: str
    by: list[str] = field(default_factory=list)
    reason: str | None = None
    edited: bool = False
    payload: Any = None

    def applied_to(self, shown: T) -> T:
        """What was approved, as the type of what was shown: `shown` itself, or what an approver made of it.

        Raises Rejected E-STEP-32 for an edit that is no value of that type.
        """
        if not self.edited:
            return shown
        try:
            return cast("T", carrier(type(shown)).take_in(self.payload, "$.payload"))
        except Unfit as unfit:
            raise _unfit("approval", f"was edited into something else: {unfit.text()}", unfit.path) from None


@dataclass(frozen=True, slots=True)
class EncodedAsk:
    """A question, ready to be stored; `resource` is the id of a version."""

    question: str
    summary: str | None
    payload: Any
    operation: str | None
    key: str | None
    resource: str | None


def encode_ask(step: str, ask: Ask, declared: Iterable[AnyOperation]) -> EncodedAsk:
    """Check what a step asks, and give its payload the form in which the operation would send it.

    Raises Rejected E-STEP-32 for what does not fit, Rejected E-STEP-33 for an operation that the workflow
    does not declare, TooLarge E-SIZE-01.
    """
    if not isinstance(ask.question, str) or not ask.question.strip() or len(ask.question) > limits.QUESTION_CHARACTERS:
        raise _unfit(step, f"asks nothing, or in more than {limits.QUESTION_CHARACTERS} characters", "$.question")
    if not isinstance(ask.summary, str) or len(ask.summary) > limits.SUMMARY_CHARACTERS:
        raise _unfit(step, f"has a summary of more than {limits.SUMMARY_CHARACTERS:,} characters", "$.summary")
    if ask.operation is not None and not any(one is ask.operation for one in declared):
        raise refusal(
            "E-STEP-33",
            f"{step}() asks for {getattr(ask.operation, 'kind', ask.operation)!r}, which its workflow does not declare",
            step,
            fix="name it in operations=",
        )
    if ask.key is not None and ask.operation is None:
        raise _unfit(step, "names a key and no operation", "$.key")
    body = payload.check(_payload(step, ask))
    if (size := payload.size(body)) > limits.INLINE_BYTES:
        raise TooLarge(
            "E-SIZE-01",
            f"{step}() shows people a payload of {size:,} bytes",
            fix="write it as an artifact, and ask about that version: Ask(..., resource=artifact)",
            limit=limits.INLINE_BYTES,
        )
    return EncodedAsk(
        ask.question.strip(),
        ask.summary or None,
        body,
        ask.operation.kind if isinstance(ask.operation, Operation) else None,
        None if ask.key is None else payload.check_key(ask.key, "key"),
        None if ask.resource is None else str(ids.parse(_id_of(ask.resource), ids.ARTIFACT)),
    )


def _payload(step: str, ask: Ask) -> Any:
    if ask.operation is not None:
        return ask.operation.encode(ask.payload)
    try:
        return carrier(type(ask.payload)).write_out(ask.payload, "$.payload")
    except Unfit as unfit:
        raise _unfit(step, f"shows a payload that is no plain value: {unfit.text()}", unfit.path) from None


def _id_of(resource: Artifact | str) -> str:
    return resource.id if isinstance(resource, Artifact) else resource


def _unfit(step: str, what: str, path: str) -> Rejected:
    return refusal("E-STEP-32", f"the question of {step}() {what}", path, fix="see stanchion.Ask")


def ask_spec(
    by: str | Iterable[str],
    needs: int,
    within: Duration,
    timeout: str,
    rejected: str | None,
    four_eyes: bool,
    where: Site,
) -> AskSpec:
    """Who decides, and for how long, as the graph says it; raises Rejected E-STEP-40 or E-STEP-41."""
    people: list[str] = []
    teams: list[str] = []
    for one in (by,) if isinstance(by, str) else tuple(by):
        kind, _, name = one.rpartition(":") if isinstance(one, str) else ("", "", "")
        if kind not in ("", "person", "team") or not _HANDLE.fullmatch(name):
            raise _bad(f"by={one!r} names nobody", where, '"editors" (a team), "team:editors" or "person:ann"')
        (people if kind == "person" else teams).append(name)
    if len(people) + len(teams) > limits.APPROVERS:
        raise _bad(
            f"by= names {len(people) + len(teams)} people and teams", where, f"at most {limits.APPROVERS}: a team"
        )
    if isinstance(needs, bool) or not isinstance(needs, int) or not 1 <= needs <= limits.APPROVERS:
        raise _bad(f"needs={needs!r} is no number of approvals", where, f"1 to {limits.APPROVERS}")
    if people and not teams and needs > len(set(people)):
        raise _bad(f"needs={needs} of {len(set(people))} people", where, "name more of them, or need fewer")
    if timeout not in ("reject", "fail"):
        raise _bad(f"timeout={timeout!r} is no answer", where, '"reject" or "fail": silence never approves')
    if rejected not in ("end", "continue", None):
        raise _bad(f"rejected={rejected!r} is no way to go on", where, '"end" or "continue"')
    if not isinstance(four_eyes, bool):
        raise _bad(f"four_eyes={four_eyes!r} is not True or False", where, "four_eyes=True")
    return AskSpec(
        people=tuple(dict.fromkeys(people)),
        teams=tuple(dict.fromkeys(teams)),
        needs=needs,
        within_seconds=min(seconds(within, "within", where, least=1.0), WITHIN_SECONDS_MAX),
        on_timeout=timeout,
        on_rejected=rejected,
        four_eyes=four_eyes,
    )


def _bad(what: str, where: Site, fix: str) -> Rejected:
    return refusal("E-STEP-40", what, where, fix=fix)
