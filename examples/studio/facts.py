"""What the demo tells: read from PostgreSQL, from nothing else."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
import psycopg
from psycopg.rows import dict_row

from stanchion.authority.blobs import unpack_trusted
from stanchion.contracts import ids
from stanchion.runtime.clock import Deadline, pause


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

    def was_taken_over(self, task_id: str, idx: int) -> bool:
        """Whether a child of the fan-out has a newer fence than its first, or has ended without one."""
        row = self._one(
            "SELECT coalesce(bool_or(s.fence > 1 OR s.state IN ('succeeded', 'failed', 'skipped', 'cancelled')), false) AS moved FROM stanchion.step s JOIN stanchion.task t ON t.run_id = s.run_id WHERE t.task_id = %s AND s.fan_id IS NOT NULL AND s.idx = %s",
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

    def result(self, task_id: str) -> dict[str, Any] | None:
        """The report as the last step left it, with the counts of documents and citations in it."""
        row = self.connection.execute(
            "SELECT r.body, b.body AS blob FROM stanchion.result r JOIN stanchion.step s ON s.step_id = r.step_id JOIN stanchion.task t ON t.run_id = s.run_id LEFT JOIN stanchion.blob b ON b.sha256 = r.blob AND b.tenant_id = r.tenant_id"
            " WHERE t.task_id = %s AND s.node = 'review'",
            (_id(task_id),),
        ).fetchone()
        if row is None:
            return None
        report = row["body"] if row["blob"] is None else unpack_trusted(row["blob"])
        return dict(report) if isinstance(report, dict) else dict(orjson.loads(report))


def _id(task_id: str) -> UUID:
    return ids.parse(task_id, ids.TASK)
