"""The ledger of effects, as the holder of a step writes it: every call names the fence of its lease."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from stanchion.contracts import ids, payload
from stanchion.contracts.amounts import Number, costs_of
from stanchion.db.engine import Database
from stanchion.errors import InvariantViolated
from stanchion.workflow.operation import AnyOperation

from . import blobs
from .leases import Lease

Settled = Literal["confirmed", "refused", "prepared", "unknown"]
Verdict = Literal["done", "not_done", "cant_tell"]


class Prepared(NamedTuple):
    """What stands in the ledger for a key. `outcome`: prepared, settled, busy, conflict (another payload) or stale."""

    outcome: str
    operation_id: UUID | None
    request_key: str | None
    state: str | None
    receipt: Any
    error: dict[str, Any] | None
    hash: bytes | None


class Dispatched(NamedTuple):
    """Whether the request may leave. `outcome`: dispatched, unapproved or over_budget (and `why`), cancelled, key_over, busy or stale."""

    outcome: str
    sends: int
    deadline: datetime | None
    why: str | None = None


class Spent(NamedTuple):
    """How a unit of the task's budget stands. `outcome`: spent, over (the task ends), units (too many) or stale."""

    outcome: str
    allowed: Decimal | None
    spent: Decimal | None


class Doubted(NamedTuple):
    """An operation of unknown fate; `lands_in_ms` is how long a request may still be executed, None without a bound."""

    operation_id: UUID
    kind: str
    request_key: str
    payload: Any
    payload_blob: bytes | None
    sends: int
    probes: int
    unknown_ms: int
    lands_in_ms: int | None
    compensated_receipt: Any


class ToUndo(NamedTuple):
    """A confirmed operation that is to be undone."""

    operation_id: UUID
    kind: str
    undo_kind: str
    payload: Any
    payload_blob: bytes | None
    receipt: Any


@dataclass(frozen=True, slots=True)
class Intent:
    """One effect that a step asks for: `payload` is checked JSON, `hash` the SHA-256 of its canonical form."""

    operation: AnyOperation
    key: str
    payload: Any
    hash: bytes
    compensates: UUID | None = None
    approval: UUID | None = None
    cost: Mapping[str, Number] | None = None

    @classmethod
    def of(
        cls,
        operation: AnyOperation,
        key: str,
        value: Any,
        compensates: UUID | None = None,
        approval: UUID | None = None,
        cost: Mapping[str, float] | None = None,
    ) -> Intent:
        """From a Python value; raises Rejected E-OP-04, and Unprocessable for a key or a cost that can't be one."""
        body = payload.check(operation.encode(value))
        costs = operation.cost if cost is None else costs_of(cost)
        return cls(operation, payload.check_key(key, "key"), body, payload.digest(body), compensates, approval, costs)


class Ledger:
    """The worker's side of the ledger, under the worker's login."""

    def __init__(self, database: Database, worker_id: UUID) -> None:
        self.database = database
        self.worker_id = worker_id

    def prepare(self, lease: Lease, intent: Intent) -> Prepared:
        """Decide on an effect, or learn what became of the same one; raises TooLarge E-SIZE-01."""
        operation = intent.operation
        inline, sha256, packed, size = blobs.pack(intent.payload, f"the payload of {operation.kind}")
        if sha256 is not None and packed is not None:
            blobs.put(self.database, [(lease.tenant_id, sha256, size, packed)])
        new = ids.new_id()
        rows = self.database.call(
            "op_prepare",
            "SELECT * FROM stanchion.op_prepare(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                self.worker_id,
                lease.step_id,
                lease.fence,
                new,
                operation.scope,
                operation.kind,
                intent.key,
                None if sha256 is not None else _json(inline),
                sha256,
                intent.hash,
                f"stn_{ids.public(ids.OPERATION, new).partition('_')[2]}",
                operation.reach,
                operation.check is not None,
                operation.keeps_key_ms,
                operation.lands_within_ms,
                None if operation.undo is None else operation.undo.kind,
                intent.compensates,
                operation.needs_approval,
                intent.approval,
                None if not intent.cost else _json(intent.cost),
            ),
        )
        return Prepared._make(rows[0])

    def dispatch(self, lease: Lease, operation_id: UUID) -> Dispatched:
        """Commit that the request is about to leave; only `dispatched` allows it to."""
        rows = self.database.call(
            "op_dispatch",
            "SELECT outcome, sends, deadline, why FROM stanchion.op_dispatch(%s, %s, %s, %s)",
            (self.worker_id, lease.step_id, lease.fence, operation_id),
        )
        return Dispatched._make(rows[0])

    def spend(self, lease: Lease, booking: UUID, unit: str, amount: Number) -> Spent:
        """Book what the attempt says it used; the same `booking` is one, however often it is asked for."""
        rows = self.database.call(
            "spend",
            "SELECT outcome, allowed, spent FROM stanchion.spend(%s, %s, %s, %s, %s, %s::text::numeric)",
            (self.worker_id, lease.step_id, lease.fence, booking, unit, str(amount)),
        )
        return Spent._make(rows[0])

    def settle(
        self,
        lease: Lease,
        operation_id: UUID,
        state: Settled,
        *,
        receipt: Any = None,
        provider_id: str | None = None,
        error: dict[str, Any] | None = None,
    ) -> str:
        """Record what the request came to; returns the state that the ledger has now, or `stale`."""
        rows = self.database.call(
            "op_settle",
            "SELECT stanchion.op_settle(%s, %s, %s, %s, %s, %s, %s, %s)",
            (
                self.worker_id,
                lease.step_id,
                lease.fence,
                operation_id,
                state,
                None if state != "confirmed" else _json(receipt),
                provider_id,
                None if error is None else _json(error),
            ),
        )
        return str(rows[0][0])

    def in_doubt(self, lease: Lease) -> list[Doubted]:
        """The operations of a step whose fate nobody knows."""
        rows = self.database.read(
            "SELECT * FROM stanchion.ops_in_doubt(%s, %s)",
            (lease.step_id, lease.fence),
        )
        return [Doubted._make(row) for row in rows]

    def to_undo(self, lease: Lease) -> ToUndo:
        """What a step of kind undo is to undo; raises InvariantViolated E-OP-14 when there is none."""
        rows = self.database.read("SELECT * FROM stanchion.op_to_undo(%s, %s)", (lease.step_id, lease.fence))
        if not rows:
            raise InvariantViolated("E-OP-14", f"step {lease.step_id} names no operation to undo")
        return ToUndo._make(rows[0])

    def probed(
        self, lease: Lease, operation_id: UUID, verdict: Verdict, *, receipt: Any = None, detail: Any = None
    ) -> str:
        """Record what the outside system said; returns the state that this leaves the operation in."""
        rows = self.database.call(
            "op_probe",
            "SELECT stanchion.op_probed(%s, %s, %s, %s, %s, %s, NULL, %s)",
            (
                self.worker_id,
                lease.step_id,
                lease.fence,
                operation_id,
                verdict,
                None if verdict != "done" else _json(receipt),
                None if detail is None else _json(detail),
            ),
        )
        return str(rows[0][0])

    def end_in_doubt(self, lease: Lease, error: dict[str, Any], delay_ms: int | None) -> bool:
        """End an attempt or a probe without knowing; the next probe is due in `delay_ms`, None leaves it to a person."""
        rows = self.database.call(
            "op_doubt",
            "SELECT stanchion.end_in_doubt(%s, %s, %s, %s, %s)",
            (self.worker_id, lease.step_id, lease.fence, _json(error), delay_ms),
        )
        return bool(rows[0][0])

    def end_probe(self, lease: Lease) -> bool:
        """Everything of the step is settled: let it go on."""
        rows = self.database.call(
            "op_doubt",
            "SELECT stanchion.end_probe(%s, %s, %s)",
            (self.worker_id, lease.step_id, lease.fence),
        )
        return bool(rows[0][0])

    def payload_of(self, lease: Lease, found: Doubted | ToUndo) -> Any:
        """The payload as JSON, out of its row or the blob table."""
        if found.payload_blob is None:
            return found.payload
        rows = self.database.read(
            "SELECT stanchion.get_blob(%s, %s, %s)", (lease.step_id, lease.fence, found.payload_blob)
        )
        if rows[0][0] is None:
            raise InvariantViolated("E-DATA-21", f"the payload of operation {found.operation_id} is not there")
        return blobs.unpack(rows[0][0], found.payload_blob)


def _json(value: Any) -> Jsonb:
    return Jsonb(value, dumps=payload.dumps)
