"""Operations that can't be declared so."""

from __future__ import annotations

from typing import Any

from refusal_kit import CASES

from stanchion.workflow import Workflow
from stanchion.workflow.operation import Call, Operation


async def send(call: Call, payload: dict[str, Any]) -> str:
    return call.key


async def find(call: Call, payload: dict[str, Any]) -> str | None:
    return None


def unsendable(call: Call, payload: set[int]) -> str:
    return call.key


def of_nothing() -> None: ...


PRINT = Operation("press.print", do=send, check=find)


def refused(code: str, message: str, kind: Any = "press.publish", **options: Any) -> None:
    given = {"do": send, "check": find} | options
    CASES.append((code, message, lambda _wf: Operation(kind, **given)))


refused("E-OP-03", "press.publish has no check=", check=None)
refused("E-OP-02", "'Press!' is no kind of operation", kind="Press!")
refused("E-OP-02", "do= of press.publish is no function", do=None)
refused("E-OP-02", "do= of press.publish does not take (call, payload)", do=of_nothing)
refused("E-OP-02", "check= of press.publish does not take (call, payload)", check=of_nothing)
refused("E-OP-02", "undo= of press.publish is no operation", undo=send)
refused("E-OP-02", "scope='world' of press.publish", scope="world")
refused("E-OP-02", "reach='far' of press.publish", reach="far")
refused("E-OP-02", "is compensatable and has no undo=", reach="compensatable")
refused("E-OP-02", "the payload of press.publish can't be kept", do=unsendable, check=find)
refused("E-BUD-03", "cost=: an amount is a finite number", cost={"usd": -1})
refused("E-BUD-03", "cost=: 'USD' is no unit", cost={"USD": 1})
CASES.append(("E-BUD-03", "budget=: an amount by unit is above zero", lambda _wf: Workflow("poor", budget={"usd": 0})))
refused("E-STEP-41", "keeps_key='soon' is no duration", keeps_key="soon")
CASES.append(
    (
        "E-OP-02",
        "press.print is declared twice",
        lambda _wf: Workflow("w", operations=[PRINT, Operation("press.print", do=send, check=find)]),
    )
)
CASES.append(("E-OP-02", "is no operation, in operations= of w", lambda _wf: Workflow("w", operations=[send])))  # type: ignore[list-item]  # what is refused
CASES.append(("E-OP-02", "compensate='maybe' of w is unknown", lambda _wf: Workflow("w", compensate="maybe")))  # type: ignore[arg-type]  # what is refused
