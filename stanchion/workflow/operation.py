"""An operation: an effect outside that happens at most once for each key, declared with what the other side can do.

    publish = Operation("press.publish", do=send, check=find, undo=retract, keeps_key="1d", lands_within="2m")
    report = Workflow("report", operations=[publish])

    receipt = await ctx.op(publish, page, key=f"{report_id}:{channel}")

`do` sends the request, with `call.key` for the other side to recognise it by. When nobody knows whether it was done,
`check` asks, and returns the receipt, or None for "not found"; it gets the same key and payload, in whatever process,
long after the step. `undo` is the operation that takes it back: its payload is an `Effect`, what was sent and received.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar, get_type_hints

from stanchion.contracts import limits
from stanchion.errors import Rejected
from stanchion.workflow.carrier import Carrier, Unfit, carrier
from stanchion.workflow.durations import Duration, seconds
from stanchion.workflow.faults import Site, amounts, calling_site, refusal
from stanchion.workflow.payload_types import Unsendable, prove_sendable

__all__ = ["AnyOperation", "Call", "Effect", "NotSent", "Operation", "Reach", "Refused"]

P = TypeVar("P")
R = TypeVar("R")

Reach = Literal["reversible", "compensatable", "irreversible"]
_KIND: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){0,3}")


class NotSent(Exception):  # noqa: N818 - what `do` found out, not a fault of its own
    """Raised by `do`: it is certain that nothing was done, and sending it again later may help.

    Only for what can't have been executed: the connection was refused, the other side said so before it began.
    `wait_seconds` is how long it asked to be left alone: the step is not tried again before that.
    """

    def __init__(self, *what: object, wait_seconds: float = 0.0) -> None:
        super().__init__(*what)
        self.wait_seconds = wait_seconds


class Refused(Rejected):
    """Raised by `do`: the other side has decided against it for good, and did nothing."""

    def __init__(self, what: str, *, why: str | None = None) -> None:
        super().__init__("E-OP-08", what, why=why, fix="change what is sent, and give it another key")


@dataclass(frozen=True, slots=True)
class Call:
    """What a request is to carry. `key` is the same for all that is ever sent for one operation, by whichever attempt.

    `timeout` is the seconds that this side waits. `deadline` is the moment (by the database's clock) after which the
    request must not be executed any more: hand it on where the operation declares `lands_within`. It was fixed before
    the request left, so that a worker that was frozen meanwhile sends one that is refused.
    """

    key: str
    operation_id: str
    tenant_id: str
    timeout: float
    deadline: datetime | None = None
    sends: int = 1


@dataclass(frozen=True, slots=True)
class Effect:
    """What an undoing operation gets as its payload: the payload and the receipt of what it undoes, as JSON."""

    payload: Any
    receipt: Any


class Operation(Generic[P, R]):
    """A kind of effect.

    `keeps_key` is how long the other side recognises a key and does nothing new; None when it knows no keys.
    `lands_within` is how long after it was sent a request may still be executed; None when that is not bounded.
    Without either, "not found" proves nothing, and a person has to decide. `unsafe_no_check` says why there is no
    `check`: then a person decides each time. `reach` tells how far it can be taken back; with `undo` it is
    compensatable unless it says otherwise. With `needs_approval` it goes out only under an approval that covers it:
    `ctx.op(..., approval=decision)`. `cost` is what each of it takes of its task's budget, by unit. Raises Rejected E-OP-02,
    E-OP-03 or E-BUD-03 where it stands.
    """

    def __init__(
        self,
        kind: str,
        *,
        do: Callable[[Call, P], Awaitable[R] | R],
        check: Callable[[Call, P], Awaitable[R | None] | R | None] | None = None,
        undo: Operation[Any, Any] | None = None,
        keeps_key: Duration | None = None,
        lands_within: Duration | None = None,
        timeout: Duration = "30s",
        reach: Reach | None = None,
        scope: Literal["task", "tenant"] = "task",
        unsafe_no_check: str | None = None,
        needs_approval: bool = False,
        cost: Mapping[str, float] | None = None,
    ) -> None:
        where = calling_site()
        if not isinstance(kind, str) or not _KIND.fullmatch(kind) or len(kind) > limits.NAME_CHARACTERS:
            raise _bad(f"{kind!r} is no kind of operation", where, fix="like press.publish: words, dots between them")
        self.kind = kind
        self.where = where
        self.do, self.check, self.undo = do, check, undo
        for name, fn in (("do", do), ("check", check)):
            _prove_callable(kind, name, fn, where)
        if undo is not None and not isinstance(undo, Operation):
            raise _bad(
                f"undo= of {kind} is no operation",
                where,
                why="undoing may fail half-way too",
                fix="undo=Operation(...)",
            )
        if check is None and not unsafe_no_check:
            raise refusal(
                "E-OP-03",
                f"{kind} has no check=",
                where,
                why="when a worker dies in the middle, nobody can ask whether it was done: a person must decide each time",
                fix='check=a function that looks it up, or unsafe_no_check="why there is none"',
            )
        if not isinstance(needs_approval, bool):
            raise _bad(
                f"needs_approval={needs_approval!r} of {kind} is not True or False", where, fix="needs_approval=True"
            )
        self.needs_approval: bool = needs_approval
        if undo is not None and undo.needs_approval:
            raise _bad(f"undo= of {kind} needs an approval", where, fix="what undoes goes out by itself: ask before")
        self.cost = None if cost is None else amounts(cost, "cost", where)
        self.scope = scope
        if scope not in ("task", "tenant"):
            raise _bad(f"scope={scope!r} of {kind} is no scope of keys", where, fix='"task" or "tenant"')
        self.reach: Reach = reach or ("compensatable" if undo is not None else "irreversible")
        if self.reach not in ("reversible", "compensatable", "irreversible"):
            raise _bad(f"reach={reach!r} of {kind} is unknown", where, fix="reversible, compensatable or irreversible")
        if self.reach == "compensatable" and undo is None:
            raise _bad(f"{kind} is compensatable and has no undo=", where, fix="say how: undo=")
        self.keeps_key_ms = _ms(keeps_key, "keeps_key", where)
        self.lands_within_ms = _ms(lands_within, "lands_within", where)
        self.timeout_seconds = seconds(timeout, "timeout", where)
        self.payload, self.receipt = _types(kind, do, where)

    def encode(self, payload: Any) -> Any:
        """The payload as JSON; raises Rejected E-OP-04 with the JSON path of what does not fit."""
        return self._write(self.payload, payload, f"the payload of {self.kind}")

    def encode_receipt(self, receipt: Any) -> Any:
        """The receipt as JSON; raises Rejected E-OP-04."""
        return self._write(self.receipt, receipt, f"the receipt of {self.kind}")

    def decode(self, payload: Any) -> Any:
        """A stored payload as the type that `do` takes; raises Rejected E-OP-04."""
        return self._read(self.payload, payload, f"the stored payload of {self.kind}")

    def decode_receipt(self, receipt: Any) -> Any:
        """A stored receipt as the type that `do` returns; raises Rejected E-OP-04."""
        return self._read(self.receipt, receipt, f"the stored receipt of {self.kind}")

    def _write(self, kind: Carrier, value: Any, what: str) -> Any:
        try:
            return kind.write_out(value, "$")
        except Unfit as unfit:
            raise refusal("E-OP-04", f"{what} does not fit", unfit.path, why=unfit.text(), fix="see its type") from None

    def _read(self, kind: Carrier, value: Any, what: str) -> Any:
        try:
            return kind.take_in(value, "$")
        except Unfit as unfit:
            raise refusal(
                "E-OP-04", f"{what} does not fit", unfit.path, why=unfit.text(), fix="keep its type while it is pending"
            ) from None

    def __repr__(self) -> str:
        return f"<operation {self.kind}>"


AnyOperation = Operation[Any, Any]


def _ms(value: Duration | None, option: str, where: Site) -> int | None:
    return None if value is None else round(seconds(value, option, where) * 1000)


def _bad(what: str, where: Site, *, fix: str, why: str | None = None) -> Rejected:
    return refusal("E-OP-02", what, where, why=why, fix=fix)


def _prove_callable(kind: str, name: str, fn: Any, where: Site) -> None:
    if fn is None and name != "do":
        return
    if not callable(fn):
        raise _bad(f"{name}= of {kind} is no function", where, fix=f"{name}=a function")
    try:
        inspect.signature(fn).bind(1, 2)
    except TypeError:
        raise _bad(
            f"{name}= of {kind} does not take (call, payload)", where, fix=f"def {name}(call, payload)"
        ) from None
    except ValueError:
        return  # a builtin that does not tell its arguments


def _types(kind: str, do: Any, where: Site) -> tuple[Carrier, Carrier]:
    """The carriers of payload and receipt, by the annotations of `do`; what has none travels as plain JSON."""
    try:
        hints = get_type_hints(inspect.unwrap(do) if inspect.isroutine(do) else do.__call__)
    except (NameError, TypeError):
        hints = {}
    names = list(inspect.signature(do).parameters)
    payload, receipt = hints.get(names[1] if len(names) > 1 else "", Any), hints.get("return", Any)
    for what, found in (("payload", payload), ("receipt", receipt)):
        try:
            prove_sendable(found)
        except Unsendable as unfit:
            raise _bad(f"the {what} of {kind} can't be kept", where, why=unfit.why, fix=unfit.fix) from None
    return carrier(payload), carrier(receipt)
