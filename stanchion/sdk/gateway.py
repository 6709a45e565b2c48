"""The gateway to the outside: every effect goes through the ledger, committed before it leaves and once it is known.

What is not known is asked after, first at once and by the same attempt, then by probes, which are leases of the step
while it is `unknown`. "Not found" settles nothing by itself: whether it proves anything is the database's to decide, by
how long the key is kept and until when the request may still land.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Final, Generic, TypeVar

from stanchion.authority.leases import Lease
from stanchion.authority.ledger import Dispatched, Doubted, Intent, Ledger, Prepared
from stanchion.contracts import ids, limits
from stanchion.contracts.amounts import BAD_AMOUNT, Number, amount_of, plain, unit_of
from stanchion.contracts.texts import clean
from stanchion.errors import (
    Conflict,
    InDoubt,
    LeaseLost,
    NotFound,
    Rejected,
    StanchionError,
    Unavailable,
    Unprocessable,
)
from stanchion.runtime import failpoints
from stanchion.runtime.logging import get_logger
from stanchion.workflow.approval import Decision
from stanchion.workflow.operation import AnyOperation, Call, NotSent, Operation, Refused

from .reading import Ask

__all__ = ["Gateway", "Pending"]

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

log = get_logger()

SEND = failpoints.declare("op.send", "an operation is committed as dispatched, its request has not left")
SENT = failpoints.declare("op.sent", "a request was answered, or not in time; nothing of it is recorded")

MORE_BUDGET: Final = "retry the task with a larger budget: stanchion task retry --budget"

SENDS: Final = 3
"""How often one attempt sends the same request, each time after a conclusive "not done"."""
FIRST_PROBE_MS: Final = 1_000
LAST_PROBE_MS: Final = 300_000


class Pending(Generic[R]):
    """An effect that was asked for: `await` it, or in plain functions call `wait()`; either gives the receipt."""

    def __init__(self, perform: Callable[[], Awaitable[R]], what: str) -> None:
        self._perform = perform
        self._forgotten: str | None = what

    def __await__(self) -> Generator[Any, None, R]:
        self._forgotten = None
        return self._perform().__await__()

    def __del__(self) -> None:
        # nothing else tells: money that was not reported is not missed by anybody
        if self._forgotten is not None:
            log.warning("pending.forgotten", what=self._forgotten, fix="await it, or call wait()")

    def wait(self) -> R:
        """Do it and wait for the receipt; for functions that are no coroutines."""

        async def perform() -> R:
            return await self

        return asyncio.run(perform())


class Gateway:
    """Effects of one attempt. `ask` is how the database is asked, `stop` tells the attempt that it is cancelled."""

    def __init__(
        self,
        ledger: Ledger,
        lease: Lease,
        operations: Mapping[str, AnyOperation],
        ask: Ask,
        stop: Callable[[], None],
    ) -> None:
        self.ledger = ledger
        self.lease = lease
        self.operations = operations
        self.ask = ask
        self.stop = stop

    async def perform(
        self,
        operation: Operation[P, R] | str,
        value: P,
        key: str,
        approval: Decision | None = None,
        cost: Mapping[str, float] | None = None,
    ) -> R:
        """Do it, unless it was done: returns the receipt. Raises what `ctx.op` says."""
        declared = self._declared(operation)
        if approval is not None and not approval.approved:
            raise _unapproved(declared.kind, key, approval.outcome)
        covering = None if approval is None else ids.parse(approval.approval_id, ids.APPROVAL)
        intent = Intent.of(declared, key, value, approval=covering, cost=cost)
        prepared = await self._database(lambda: self.ledger.prepare(self.lease, intent))
        receipt = await self._answered(intent, prepared)
        found: R = declared.decode_receipt(receipt)
        return found

    async def spend(self, unit: str, amount: float) -> Number | None:
        """Book what the attempt used; returns what is left, None without a limit. Raises what `ctx.spend` says."""
        name, used, booking = unit_of(unit, "unit"), amount_of(amount, "amount", computed=True), ids.new_id()
        found = await self._database(lambda: self.ledger.spend(self.lease, booking, name, used))
        match found.outcome:
            case "stale":
                raise self._lost("another attempt holds the step")
            case "units":
                raise Unprocessable(
                    BAD_AMOUNT,
                    f"the task counts {limits.BUDGET_UNITS} units already, and {name} is another",
                    fix="count less kinds of things",
                )
            case "over":
                raise Rejected(
                    "E-BUD-02",
                    "the task spent more than its budget, and ends",
                    why=f"{found.allowed} {name} allowed, {found.spent} spent",
                    fix=MORE_BUDGET,
                )
        return None if found.allowed is None else plain(found.allowed - (found.spent or 0))

    async def undo(self) -> Any:
        """Undo the effect that this step is for; returns the receipt as JSON."""
        done = await self._database(lambda: self.ledger.to_undo(self.lease))
        payload = await self._database(lambda: self.ledger.payload_of(self.lease, done))
        declared = self._declared(done.undo_kind)
        effect = declared.decode({"payload": payload, "receipt": done.receipt})
        intent = Intent.of(declared, f"undo:{ids.public(ids.OPERATION, done.operation_id)}", effect, done.operation_id)
        prepared = await self._database(lambda: self.ledger.prepare(self.lease, intent))
        return await self._answered(intent, prepared)

    async def probe(self) -> None:
        """Ask what became of everything of this step that is in doubt; raises InDoubt while something is left."""
        for doubted in await self._database(lambda: self.ledger.in_doubt(self.lease)):
            await self._probe(doubted)
        await self._raise_doubts()

    # --- one effect ---

    def _declared(self, operation: AnyOperation | str) -> AnyOperation:
        kind = operation if isinstance(operation, str) else operation.kind
        found = self.operations.get(kind)
        if found is None or (not isinstance(operation, str) and found is not operation):
            raise NotFound(
                "E-OP-01",
                f"{self.lease.workflow} declares no operation {kind}",
                where=self.lease.node,
                why="whoever serves the workflow must be able to ask what became of it",
                fix=f"name it in operations= of {self.lease.workflow}",
            )
        return found

    async def _answered(self, intent: Intent, prepared: Prepared) -> Any:
        kind, key = intent.operation.kind, intent.key
        match prepared.outcome:
            case "prepared":
                assert prepared.operation_id is not None
                assert prepared.request_key is not None
                return await self._send(intent, prepared)
            case "conflict":
                raise Conflict(
                    "E-OP-05",
                    f"the key {key!r} of {kind} stands for another request",
                    why=f"SHA-256 {(prepared.hash or b'').hex()[:8]}… and {intent.hash.hex()[:8]}…",
                    fix="put what makes it unique into the key",
                )
            case "stale":
                raise self._lost("another attempt holds the step")
            case "busy":
                raise Unavailable(
                    "E-OP-06",
                    f"another step is at {kind} {key!r} at this moment: it is {prepared.state}",
                    fix="nothing: it is tried again. Or give each effect a key of its own",
                )
        if prepared.state == "confirmed":
            return prepared.receipt
        error = prepared.error or {}
        if prepared.state == "refused":
            raise Refused(str(error.get("what", f"{kind} {key!r} was refused")), why=error.get("why"))
        raise Rejected("E-OP-12", f"{kind} {key!r} is {prepared.state}", fix="give what is to be done anew another key")

    async def _send(self, intent: Intent, prepared: Prepared) -> Any:
        operation, operation_id = intent.operation, prepared.operation_id
        assert operation_id is not None
        for turn in range(SENDS):
            dispatched = await self._database(lambda: self.ledger.dispatch(self.lease, operation_id))
            match dispatched.outcome:
                case "stale" | "busy":
                    raise self._lost("another attempt holds the step")
                case "cancelled":
                    if dispatched.why is not None:
                        await self._raise_doubts()  # what was sent before may still land
                    self.stop()
                    raise self._lost("its run is being cancelled")
                case "unapproved":
                    raise _unapproved(operation.kind, intent.key, dispatched.why or "none")
                case "over_budget":
                    raise Rejected(
                        "E-BUD-01",
                        f"the budget does not cover {operation.kind} {intent.key!r}",
                        why=dispatched.why,
                        fix=MORE_BUDGET,
                    )
                case "key_over":
                    break
            call = self._call_of(operation, prepared.request_key or "", operation_id, dispatched)
            state, receipt = await self._request(intent, call, operation_id)
            if state == "confirmed":
                return receipt
            if state == "unknown" and not await self._is_known(operation_id):
                break
            found = await self._database(lambda: self.ledger.prepare(self.lease, intent))
            if found.outcome != "prepared":
                return await self._answered(intent, found)
            await asyncio.sleep(0.2 * 2**turn)
        await self._raise_doubts()
        raise Unavailable(
            "E-OP-09",
            f"{operation.kind} was not done, {SENDS} times in a row",
            fix="nothing: the step is tried again, with the same key",
        )

    async def _request(self, intent: Intent, call: Call, operation_id: Any) -> tuple[str, Any]:
        operation = intent.operation
        payload = operation.decode(intent.payload)
        failpoints.hit(SEND, kind=operation.kind, key=intent.key, step=self.lease.node)
        try:
            answer = await self._in_time(operation.do, call, payload)
        except NotSent as error:
            await self._settle(operation_id, "prepared", error=_told("E-OP-09", error))
            raise Unavailable(
                "E-OP-09",
                f"{operation.kind} was not done: {clean(str(error)) or 'it was not sent'}",
                fix="nothing: the step is tried again, with the same key",
                wait_seconds=error.wait_seconds,
            ) from error
        except Refused as error:
            if await self._settle(operation_id, "refused", error=_told(error.code, error)) == "unknown":
                return "unknown", None  # it was sent before, and that may have been done
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the request may have been executed
            failpoints.hit(SENT, kind=operation.kind, key=intent.key, step=self.lease.node)
            log.warning("operation.unknown", kind=operation.kind, operation_id=str(operation_id), error=repr(error))
            return await self._settle(operation_id, "unknown", error=_told("E-OP-10", error)), None
        failpoints.hit(SENT, kind=operation.kind, key=intent.key, step=self.lease.node)
        return await self._confirm(operation, operation_id, answer)

    async def _confirm(self, operation: AnyOperation, operation_id: Any, answer: Any) -> tuple[str, Any]:
        try:
            receipt = operation.encode_receipt(answer)
        except StanchionError as error:
            # it was done all the same: that is what must be known, before anybody complains about its receipt
            await self._settle(operation_id, "confirmed", error=_told(error.code, error))
            raise
        return await self._settle(operation_id, "confirmed", receipt=receipt), receipt

    async def _settle(self, operation_id: Any, state: Any, *, receipt: Any = None, error: Any = None) -> str:
        found = await self._database(
            lambda: self.ledger.settle(self.lease, operation_id, state, receipt=receipt, error=error)
        )
        if found == "stale":
            raise self._lost("another attempt holds the step")
        return found

    # --- asking ---

    async def _is_known(self, operation_id: Any) -> bool:
        """Ask at once; the other side knows it most often."""
        for doubted in await self._database(lambda: self.ledger.in_doubt(self.lease)):
            if doubted.operation_id == operation_id:
                return await self._probe(doubted) != "unknown"
        return True

    async def _probe(self, doubted: Doubted) -> str:
        operation = self.operations.get(doubted.kind)
        if operation is None or operation.check is None:
            return "unknown"
        verdict: Any
        receipt = detail = None
        try:
            payload = operation.decode(
                await self._database(lambda: self.ledger.payload_of(self.lease, doubted)),
            )
            call = self._call_of(operation, doubted.request_key, doubted.operation_id, doubted)
            answer = await self._in_time(operation.check, call, payload)
            verdict = "not_done" if answer is None else "done"
            receipt = None if answer is None else operation.encode_receipt(answer)
        except Exception as error:  # noqa: BLE001 - whatever keeps it from telling, it could not tell
            verdict, detail = "cant_tell", _told("E-OP-10", error)
        state = await self._database(
            lambda: self.ledger.probed(self.lease, doubted.operation_id, verdict, receipt=receipt, detail=detail)
        )
        if state == "stale":
            raise self._lost("another attempt holds the step")
        log.info("operation.probed", kind=doubted.kind, id=str(doubted.operation_id), verdict=verdict, state=state)
        return state

    async def _raise_doubts(self) -> None:
        left = await self._database(lambda: self.ledger.in_doubt(self.lease))
        if not left:
            return
        error = {
            "code": "E-OP-10",
            "what": f"nobody knows whether {left[0].kind} was done"
            + (f", nor {len(left) - 1} more" if len(left) > 1 else ""),
            "operation": ids.public(ids.OPERATION, left[0].operation_id),
        }
        delays = [self._next_probe_ms(one) for one in left]
        raise InDoubt(error, min((d for d in delays if d is not None), default=None))

    def _next_probe_ms(self, doubted: Doubted) -> int | None:
        operation = self.operations.get(doubted.kind)
        if operation is None or operation.check is None or doubted.unknown_ms > limits.UNKNOWN_SECONDS * 1000:
            return None
        ceiling = min(FIRST_PROBE_MS * 2 ** min(doubted.probes, 20), LAST_PROBE_MS)
        delay = round(random.uniform(ceiling / 2, ceiling))  # noqa: S311 - spreads load, guards nothing
        if doubted.lands_in_ms is not None and doubted.lands_in_ms > 0:
            return int(
                min(delay, doubted.lands_in_ms + 50)
            )  # "done" is found at once, "not found" proves something then
        return delay

    # --- means ---

    def _call_of(self, operation: AnyOperation, key: str, operation_id: Any, sent: Dispatched | Doubted) -> Call:
        return Call(
            key,
            ids.public(ids.OPERATION, operation_id),
            str(self.lease.tenant_id),
            operation.timeout_seconds,
            sent.deadline if isinstance(sent, Dispatched) else None,
            sent.sends,
        )

    async def _in_time(self, fn: Callable[..., Any], call: Call, payload: Any) -> Any:
        async with asyncio.timeout(call.timeout):
            if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004 - an object whose call is a coroutine
                return await fn(call, payload)
            answer = await asyncio.to_thread(fn, call, payload)
            return await answer if inspect.isawaitable(answer) else answer

    async def _database(self, call: Callable[[], T]) -> T:
        return await asyncio.to_thread(self.ask, call)

    def _lost(self, why: str) -> LeaseLost:
        return LeaseLost(self.lease.node, fence=self.lease.fence, why=why)


def _unapproved(kind: str, key: str, why: str) -> Rejected:
    said = {
        "none": "no approval was given, or there is none of this id",
        "spent": "it was spent on another operation",
        "votes": "who approved it may not any more",
    }
    return Rejected(
        "E-APR-08",
        f"{kind} {key!r} is not approved",
        why=said.get(why, f"the approval is for {why}" if why.startswith("another") else f"the approval is {why}"),
        fix="ask again: what is sent must be what was shown, in time, once",
    )


def _told(code: str, error: BaseException) -> dict[str, Any]:
    what = error.what if isinstance(error, StanchionError) else f"{type(error).__name__}: {error}"
    return {"code": code, "what": clean(what, 1_000)}
