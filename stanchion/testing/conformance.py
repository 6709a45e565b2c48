"""What an operation promises, tried against its real outside system: for the tests of whoever writes a connector.

    def test_publish() -> None:
        prove(publish, [{"title": "a"}, {"title": "b"}], executions=lambda key: count_in_the_system(key))

`executions` counts how often the system has really had the effect of a key, from its own books and not from answers.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from stanchion.contracts import payload
from stanchion.runtime.clock import utc_now
from stanchion.workflow.operation import AnyOperation, Call, Effect, NotSent, Refused

__all__ = ["prove"]


def prove(
    operation: AnyOperation,
    payloads: Sequence[Any],
    *,
    executions: Callable[[str], int],
    refused: Any = None,
) -> None:
    """Try what `operation` declares; raises AssertionError with everything that does not hold.

    `payloads` are two or more that can be sent in any order; `refused`, if given, is one that the system refuses.
    """
    assert len(payloads) > 1, "two payloads at least, to tell keys apart"
    proof = _Proof(operation, executions)
    proof.travels(payloads)
    proof.once(payloads[0])
    proof.apart(payloads)
    proof.undone(payloads[1])
    if refused is not None:
        proof.refuses(refused)
    assert not proof.faults, f"{operation.kind}:\n" + "\n".join(f"- {fault}" for fault in proof.faults)


class _Proof:
    """One run of the suite; what does not hold is collected, so that an author sees all of it."""

    def __init__(self, operation: AnyOperation, executions: Callable[[str], int]) -> None:
        self.operation = operation
        self.executions = executions
        self.faults: list[str] = []

    def expect(self, holds: bool, fault: str) -> None:
        if not holds:
            self.faults.append(fault)

    def travels(self, payloads: Sequence[Any]) -> None:
        """A payload is the same after a way through JSON: it is sent from another process, and long after."""
        for value in payloads:
            written = payload.check(self.operation.encode(value))
            again = payload.check(self.operation.encode(self.operation.decode(written)))
            self.expect(written == again, f"{value!r} is another payload after a way through JSON")

    def once(self, value: Any) -> None:
        """The same key has its effect once, is found by its key, and gives a receipt that can be kept."""
        call = _call(self.operation)
        if self.operation.check is not None:
            self.expect(_run(self.operation.check, call, value) is None, "check= finds a key that was never sent")
        receipt = self._receipt(_run(self.operation.do, call, value))
        self.expect(self.executions(call.key) == 1, "do= returned, and the system has not had the effect once")
        if self.operation.check is not None:
            found = _run(self.operation.check, call, value)
            self.expect(found is not None, "check= does not find what was done")
            if found is not None:
                self._receipt(found)
        if self.operation.keeps_key_ms is not None:
            again = self._receipt(_run(self.operation.do, call, value))
            self.expect(self.executions(call.key) == 1, "keeps_key= is declared, and the same key had the effect twice")
            self.expect(receipt is None or again is not None, "the same key gives no receipt the second time")

    def apart(self, payloads: Sequence[Any]) -> None:
        """Two keys are two effects, whatever else is alike."""
        calls = [_call(self.operation) for _ in range(2)]
        for call in calls:
            _run(self.operation.do, call, payloads[0])
        self.expect([self.executions(c.key) for c in calls] == [1, 1], "two keys were not two effects")

    def undone(self, value: Any) -> None:
        """What was done can be undone, once, and it can be told that it was."""
        undo = self.operation.undo
        if undo is None:
            return
        done = _call(self.operation)
        receipt = self.operation.encode_receipt(_run(self.operation.do, done, value))
        effect = undo.decode(undo.encode(_effect(undo, self.operation.encode(value), receipt)))
        call = _call(undo)
        if undo.check is not None:
            self.expect(_run(undo.check, call, effect) is None, "check= of undo= says undone before it was")
        _run(undo.do, call, effect)
        if undo.check is not None:
            self.expect(_run(undo.check, call, effect) is not None, "check= of undo= does not see that it was undone")
        if undo.keeps_key_ms is not None:
            _run(undo.do, call, effect)

    def refuses(self, value: Any) -> None:
        """A refusal is told as one, and nothing is done."""
        call = _call(self.operation)
        try:
            _run(self.operation.do, call, value)
        except Refused:
            pass
        except NotSent:
            self.faults.append("a refusal is told as NotSent: it would be tried again for ever")
        except Exception as error:  # noqa: BLE001 - it is told, with all the others
            self.faults.append(f"a refusal is told as {type(error).__name__}: it would be asked after")
        else:
            self.faults.append("what is to be refused was done")
        self.expect(self.executions(call.key) == 0, "what was refused was done all the same")

    def _receipt(self, value: Any) -> Any:
        written = payload.check(self.operation.encode_receipt(value))
        self.operation.decode_receipt(written)
        return written


def _call(operation: AnyOperation) -> Call:
    within = operation.lands_within_ms
    return Call(
        f"stn_{secrets.token_hex(13).upper()}",
        "op_00000000000000000000000000",
        "conformance",
        operation.timeout_seconds,
        None if within is None else utc_now() + timedelta(milliseconds=within),
    )


def _effect(undo: AnyOperation, value: Any, receipt: Any) -> Any:
    return undo.decode({"payload": value, "receipt": receipt}) if undo is not None else Effect(value, receipt)


def _run(fn: Callable[..., Any], call: Call, value: Any) -> Any:
    answer = fn(call, value)
    if not inspect.isawaitable(answer):
        return answer

    async def wait() -> Any:
        return await answer

    return asyncio.run(wait())
