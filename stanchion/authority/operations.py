"""Operations as people see and settle them: the ledger, its probes, and what somebody says became of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import select

from stanchion.contracts import payload
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Conflict

from .queries import rows_of
from .rows import Row, missing

_OPERATION, _PROBE = tables.operation.c, tables.operation_probe.c
PAYLOADS: Final = ("payload", "receipt")
_HIDDEN: Final = ("tenant_id", "proof", "scope_id", "payload_blob", *PAYLOADS)
_SHOWN: Final = tuple(column for column in _OPERATION if column.name not in _HIDDEN)


class Operations:
    """Under the task service's login."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def page(
        self,
        tenant_id: UUID,
        *,
        limit: int,
        before: UUID | None = None,
        states: Sequence[str] = (),
        kind: str | None = None,
        task_id: UUID | None = None,
    ) -> list[Row]:
        """Operations, the newest first."""
        found = select(*_SHOWN)
        if before is not None:
            found = found.where(_OPERATION.operation_id < before)
        if states:
            found = found.where(_OPERATION.state.in_(states))
        if kind is not None:
            found = found.where(_OPERATION.kind == kind)
        if task_id is not None:
            found = found.where(_OPERATION.task_id == task_id)
        with self.database.tenant(tenant_id) as connection:
            return rows_of(connection, found.order_by(_OPERATION.operation_id.desc()).limit(limit))

    def get(self, tenant_id: UUID, operation_id: UUID, *, with_payload: bool) -> Row:
        """One operation with its probes, payload and receipt only for whoever may see them; raises NotFound."""
        columns = _SHOWN + (tuple(_OPERATION[name] for name in PAYLOADS) if with_payload else ())
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, select(*columns).where(_OPERATION.operation_id == operation_id))
            if not rows:
                raise missing("operation")
            shown = [c for c in _PROBE if c.name not in ("tenant_id", "operation_id")]
            probes = rows_of(
                connection, select(*shown).where(_PROBE.operation_id == operation_id).order_by(_PROBE.number)
            )
        return {**rows[0], "probed": probes}

    def tell(
        self,
        tenant_id: UUID,
        operation_id: UUID,
        *,
        done: bool,
        reason: str,
        proof: str,
        receipt: Any = None,
        actor: str,
    ) -> str:
        """Settle one of unknown fate; returns its new state. Raises NotFound, Conflict E-OP-13 when it is not unknown."""
        before = self.get(tenant_id, operation_id, with_payload=False)["state"]
        rows = self.database.call(
            "op_tell",
            "SELECT stanchion.tell_operation(%s, %s, %s, %s, %s, %s, %s)",
            (
                tenant_id,
                operation_id,
                done,
                reason,
                proof,
                None if receipt is None else Jsonb(receipt, dumps=payload.dumps),
                actor,
            ),
        )
        if before != "unknown":
            raise Conflict("E-OP-13", f"the operation is {before}", why="what became of it is known")
        return str(rows[0][0])

    def probe(self, tenant_id: UUID, operation_id: UUID, *, actor: str) -> str:
        """Have the outside system asked now; returns the operation's state. Raises NotFound."""
        return str(
            self.database.call(
                "op_tell", "SELECT stanchion.probe_operation(%s, %s, %s)", (tenant_id, operation_id, actor)
            )[0][0]
        )

    def compensate(self, tenant_id: UUID, operation_id: UUID, *, reason: str, actor: str) -> UUID:
        """Have a confirmed effect undone; returns the step that does it. Raises NotFound, Conflict E-OP-15."""
        rows = self.database.call(
            "op_tell",
            "SELECT stanchion.compensate_operation(%s, %s, %s, %s)",
            (tenant_id, operation_id, reason, actor),
        )
        found: UUID | None = rows[0][0]
        if found is None:
            state = self.get(tenant_id, operation_id, with_payload=False)["state"]
            what = f"the operation is {state}" if state != "confirmed" else "its workflow declares no undo= for it"
            raise Conflict("E-OP-15", what, fix="undo it outside, if that is possible")
        return found
