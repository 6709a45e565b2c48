"""Approvals that can't be declared so, and questions that can't be asked."""

from __future__ import annotations

from typing import Any

from refusal_kit import CASES

from stanchion.workflow import Ctx, Workflow
from stanchion.workflow.approval import Ask, Decision
from stanchion.workflow.operation import Call, Operation


async def send(call: Call, payload: dict[str, Any]) -> str:
    return call.key


async def find(call: Call, payload: dict[str, Any]) -> str | None:
    return None


PRINT = Operation("press.print", do=send, check=find)


def refused(code: str, message: str, **policy: Any) -> None:
    def declare(wf: Workflow) -> None:
        @wf.approval(**policy)
        def review(ctx: Ctx) -> Ask: ...

    CASES.append((code, message, declare))


refused("E-STEP-40", "by='Editors' names nobody", by="Editors")
refused("E-STEP-40", "by='key:web' names nobody", by="key:web")
refused("E-STEP-40", "by=7 names nobody", by=(7,))
refused("E-STEP-40", "by= names 21 people and teams", by=tuple(f"person:p{n}" for n in range(21)))
refused("E-STEP-40", "needs=0 is no number of approvals", needs=0)
refused("E-STEP-40", "needs=True is no number of approvals", needs=True)
refused("E-STEP-40", "needs=2 of 1 people", needs=2, by=("person:ann", "person:ann"))
refused("E-STEP-40", "timeout='approve' is no answer", timeout="approve")
refused("E-STEP-40", "four_eyes='yes' is not True or False", four_eyes="yes")
refused("E-STEP-41", "within", within="soon")


def asks_nothing(wf: Workflow) -> None:
    @wf.approval()
    def review(ctx: Ctx) -> str: ...


def asks_unasked(wf: Workflow) -> None:
    @wf.step()
    def review(ctx: Ctx) -> Ask: ...


def asks_perhaps(wf: Workflow) -> None:
    @wf.step()
    def review(ctx: Ctx) -> Ask | None: ...


def takes_another(wf: Workflow) -> None:
    @wf.approval()
    def review(ctx: Ctx) -> Ask: ...

    @wf.step(after=review)
    def send(ctx: Ctx, ok: bool) -> None: ...


CASES.append(("E-STEP-15", "review() asks people and returns str", asks_nothing))
CASES.append(("E-STEP-17", "review() returns Ask", asks_unasked))
CASES.append(("E-STEP-17", "review() returns", asks_perhaps))
CASES.append(("E-WIRE-01", "takes ok: bool but review() returns Decision", takes_another))


def asked(code: str, message: str, **question: Any) -> None:
    def ask(wf: Workflow) -> None:
        @wf.approval()
        def review(ctx: Ctx) -> Ask: ...

        @wf.step(after=review)
        def send(ctx: Ctx, decision: Decision) -> None: ...

        given = {"question": "May it?"} | question
        review.codec.encode_result(Ask(**given))

    CASES.append((code, message, ask))


asked("E-STEP-32", "asks nothing", question=" ")
asked("E-STEP-32", "in more than 500 characters", question="x" * 501)
asked("E-STEP-32", "has a summary of more than 20,000 characters", summary="x" * 20_001)
asked("E-STEP-33", "asks for 'press.print', which its workflow does not declare", operation=PRINT)
asked("E-STEP-32", "names a key and no operation", key="k")
asked("E-STEP-32", "shows a payload that is no plain value", payload=object)
