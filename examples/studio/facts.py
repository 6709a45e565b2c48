"""What the demo tells: read from PostgreSQL, from nothing else."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import orjson
import psycopg
from psycopg.rows import dict_row

from stanchion.authority.blobs import unpack_trusted
from stanchion.contracts import ids
from stanchion.runtime.clock import Deadline, pause

ENDS: Final = ("completed", "failed", "cancelled", "rejected")


class Facts:
    """Queries as the administrator of the demo's own database."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)

    def _one(self, sql: str, *parameters: Any) -> dict[str, Any]:
        row = self.connection.execute(sql.encode(), parameters).fetchone()
        assert row is not None
        return row

    def state(self, task_id: str) -> str:
        """The task's state."""
        return str(self._one("SELECT state FROM stanchion.task WHERE task_id = %s", _id(task_id))["state"])

    def progress(self, task_id: str) -> tuple[int, int]:
        """(children that have settled, children)."""
        row = self._one(
            "SELECT count(*) FILTER (WHERE s.state IN ('succeeded', 'failed', 'skipped', 'cancelled')) AS done, count(*) AS n FROM stanchion.step s JOIN stanchion.task t ON t.run_id = s.run_id WHERE t.task_id = %s AND s.fan_id IS NOT NULL",
            _id(task_id),
        )
        return row["done"], row["n"]

    def was_taken_over(self, task_id: str, idx: int, attempt: int) -> bool:
        """Whether a child of the fan-out has a newer attempt than this one, or has ended without one."""
        row = self._one(
            "SELECT coalesce(bool_or(s.state IN ('succeeded', 'failed', 'skipped', 'cancelled') OR EXISTS (SELECT FROM stanchion.attempt a WHERE a.step_id = s.step_id AND a.number > %s)), false) AS moved FROM stanchion.step s JOIN stanchion.task t ON t.run_id = s.run_id WHERE t.task_id = %s AND s.fan_id IS NOT NULL AND s.idx = %s",
            attempt,
            _id(task_id),
            idx,
        )
        return bool(row["moved"])

    def await_refusals(self, task_id: str, deadline: Deadline) -> None:
        """Wait until the write of the thawed worker has come and was refused."""
        while not self._refused(task_id) and not deadline.passed:
            pause(0.1)

    def _refused(self, task_id: str) -> int:
        row = self._one(
            "SELECT count(*) AS n FROM stanchion.refused_write r JOIN stanchion.run u ON u.run_id = r.run_id WHERE u.task_id = %s",
            _id(task_id),
        )
        return int(row["n"])

    def story(self, task_id: str, idx: int) -> list[str]:
        """What became of a child: its attempts by fence, and the writes that were refused."""
        rows = self.connection.execute(
            "SELECT a.fence, a.state, w.name, a.error->>'what' AS why FROM stanchion.attempt a JOIN stanchion.step s ON s.step_id = a.step_id JOIN stanchion.task t ON t.run_id = s.run_id LEFT JOIN stanchion.worker w ON w.worker_id = a.worker_id"
            " WHERE t.task_id = %s AND s.fan_id IS NOT NULL AND s.idx = %s ORDER BY a.fence",
            (_id(task_id), idx),
        ).fetchall()
        lines = [
            f"child {idx}, fence {r['fence']}: {r['state']} on {r['name']}" + (f" ({r['why']})" if r["why"] else "")
            for r in rows
        ]
        refused = self.connection.execute(
            "SELECT r.fence, r.current_fence, r.attempted FROM stanchion.refused_write r JOIN stanchion.step s ON s.step_id = r.step_id JOIN stanchion.task t ON t.run_id = s.run_id WHERE t.task_id = %s AND s.fan_id IS NOT NULL AND s.idx = %s",
            (_id(task_id), idx),
        ).fetchall()
        return lines + [
            f"child {idx}: refused to {r['attempted']} with fence {r['fence']}, the current one is {r['current_fence']}"
            for r in refused
        ]

    def summary(self, task_id: str) -> dict[str, Any]:
        """The numbers of the demo."""
        task = self._one(
            "SELECT t.*, r.reason AS run_reason FROM stanchion.task t JOIN stanchion.run r ON r.run_id = t.run_id WHERE t.task_id = %s",
            _id(task_id),
        )
        children = self._one(
            "SELECT count(*) AS n FROM stanchion.step WHERE run_id = %s AND fan_id IS NOT NULL", task["run_id"]
        )["n"]
        attempts = self._one(
            "SELECT count(*) AS n, count(*) FILTER (WHERE a.state = 'lost' AND EXISTS (SELECT FROM stanchion.attempt b WHERE b.step_id = a.step_id AND b.fence > a.fence)) AS taken FROM stanchion.attempt a WHERE a.run_id = %s",
            task["run_id"],
        )
        barrier = self.connection.execute(
            "SELECT b.rule, b.need, b.expected, b.succeeded + b.failed AS arrived, (SELECT count(*) FROM stanchion.barrier_release x WHERE x.barrier_id = b.barrier_id) AS released, b.state FROM stanchion.barrier b WHERE b.run_id = %s AND b.kind = 'gather' ORDER BY b.created_at LIMIT 1",
            (task["run_id"],),
        ).fetchone()
        return {
            "task_id": task_id,
            "submitted_via": task["submitted_via"],
            "state": task["state"],
            "reason": task["reason"],
            "children": children,
            "barrier": barrier,
            "attempts": attempts["n"],
            "take_overs": attempts["taken"],
            "refused_writes": self._refused(task_id),
        }

    # -- the publication --

    def approval(self, task_id: str) -> dict[str, Any] | None:
        """What people were asked, what it covers, and what they said; None while nobody was asked."""
        row = self.connection.execute(
            "SELECT a.approval_id, a.state, a.question, encode(a.payload_hash, 'hex') AS bound_hash, a.decided_by, CASE WHEN a.state IN ('granted', 'spent') THEN 'approved' ELSE a.state END AS decision, f.name, v.number, encode(a.resource_sha256, 'hex') AS sha256"
            " FROM stanchion.approval a JOIN stanchion.artifact_version v ON v.version_id = a.resource_id JOIN stanchion.artifact f ON f.artifact_id = v.artifact_id WHERE a.task_id = %s ORDER BY a.approval_id DESC LIMIT 1",
            (_id(task_id),),
        ).fetchone()
        return None if row is None else row | {"approval_id": ids.public(ids.APPROVAL, row["approval_id"])}

    def publication_events(self, task_id: str) -> list[dict[str, Any]]:
        """What the ledger has noted of the task's operations, in order, with the worker that was at it."""
        return self.connection.execute(
            "SELECT e.kind, e.body->>'verdict' AS verdict, e.body->'error'->>'what' AS error, w.name AS worker FROM stanchion.event e JOIN stanchion.task t ON t.run_id = e.run_id"
            " LEFT JOIN stanchion.attempt a ON a.step_id = e.step_id AND a.fence = e.fence LEFT JOIN stanchion.worker w ON w.worker_id = a.worker_id WHERE t.task_id = %s AND e.kind LIKE 'Operation%%' AND NOT e.body ? 'taken_over' ORDER BY e.event_id",
            (_id(task_id),),
        ).fetchall()

    def publication(self, task_id: str) -> dict[str, Any]:
        """The fields of the summary that tell of the publication.

        `prepared` and `confirmed` count operations; `became_unknown` counts how often nobody knew what had become of
        one, `reconciled` how often that was found out.
        """
        asked = self.approval(task_id)
        operations = self._one(
            "SELECT count(*) AS prepared, count(*) FILTER (WHERE o.state = 'confirmed') AS confirmed, count(*) FILTER (WHERE o.state = 'unknown') AS in_doubt FROM stanchion.operation o WHERE o.task_id = %s",
            _id(task_id),
        )
        doubts = sum(event["kind"] == "OperationUnknown" for event in self.publication_events(task_id))
        return {
            "artifact": asked and {"version": asked["number"], "sha256": asked["sha256"]},
            "approval": asked
            and {
                "bound_hash": asked["bound_hash"],
                "approved_by": asked["decided_by"] if asked["decision"] == "approved" else None,
            },
            "operations": {
                "prepared": operations["prepared"],
                "confirmed": operations["confirmed"],
                "became_unknown": doubts,
                "reconciled": doubts - operations["in_doubt"],
            },
        }

    def result(self, task_id: str, step: str = "publish") -> dict[str, Any] | None:
        """The report as a step left it, with the counts of documents and citations in it."""
        row = self.connection.execute(
            "SELECT r.body, b.body AS blob FROM stanchion.result r JOIN stanchion.step s ON s.step_id = r.step_id JOIN stanchion.task t ON t.run_id = s.run_id LEFT JOIN stanchion.blob b ON b.sha256 = r.blob AND b.tenant_id = r.tenant_id"
            " WHERE t.task_id = %s AND s.node = %s",
            (_id(task_id), step),
        ).fetchone()
        if row is None:
            return None
        report = row["body"] if row["blob"] is None else unpack_trusted(row["blob"])
        return dict(report) if isinstance(report, dict) else dict(orjson.loads(report))


def _id(task_id: str) -> UUID:
    return ids.parse(task_id, ids.TASK)
