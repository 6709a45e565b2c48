"""What stands out in a fan-out: children that took far longer than the others, and workers that fail more than others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from stanchion.db.engine import Database

SLOWEST: Final = 20
WORKERS_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Slow:
    """A child that took long: its seconds, and how many times the median that is."""

    step_id: UUID
    index: int
    worker: str | None
    seconds: float
    times_median: float | None


@dataclass(frozen=True, slots=True)
class ByWorker:
    """What one worker did of it: attempts that ended, the mean of their seconds, and the share that failed or was lost."""

    worker_id: UUID
    worker: str | None
    attempts: int
    mean_seconds: float
    failed_share: float


@dataclass(frozen=True, slots=True)
class Outliers:
    """What stands out: the slowest children that succeeded, and the workers, the most failures first."""

    median_seconds: float | None
    slowest: list[Slow]
    workers: list[ByWorker]


# The attempts of all children, once: everything that stands out is told from the same rows.
_OUTLIERS = text("""
WITH a AS MATERIALIZED (
  SELECT s.step_id, s.idx, t.worker_id, t.state, extract(epoch FROM t.ended_at - t.started_at)::float8 AS seconds
  FROM stanchion.step s JOIN stanchion.attempt t ON t.step_id = s.step_id AND t.tenant_id = s.tenant_id
  WHERE s.fan_id = :fan AND s.node = :node AND t.ended_at IS NOT NULL AND t.started_at IS NOT NULL
), m AS (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a.seconds) AS median FROM a WHERE a.state = 'succeeded')
SELECT 'slow' AS what, x.step_id AS id, w.name, x.idx AS n, x.seconds, x.seconds / nullif(m.median, 0) AS part, m.median
FROM m, (SELECT * FROM a WHERE a.state = 'succeeded' ORDER BY a.seconds DESC, a.idx LIMIT :slowest) x
  LEFT JOIN stanchion.worker w ON w.worker_id = x.worker_id
UNION ALL
SELECT 'worker', x.worker_id, w.name, x.n, x.seconds, x.part, m.median
FROM m, (SELECT a.worker_id, count(*) AS n, avg(a.seconds) AS seconds,
           (count(*) FILTER (WHERE a.state IN ('failed', 'lost')))::float8 / count(*) AS part
         FROM a GROUP BY a.worker_id ORDER BY 4 DESC, 3 DESC LIMIT :workers) x
  LEFT JOIN stanchion.worker w ON w.worker_id = x.worker_id
""")


class FanOutliers:
    """Under any login that reads steps; every call sees one tenant. What is not there has nothing that stands out."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def of(self, tenant_id: UUID, fan_id: UUID, node: str) -> Outliers:
        """The slowest children of a node, and how the workers compare: one bad machine shows."""
        given: dict[str, Any] = {"fan": fan_id, "node": node, "slowest": SLOWEST, "workers": WORKERS_SHOWN}
        with self.database.tenant(tenant_id) as connection:
            rows = connection.execute(_OUTLIERS, given).all()
        slow = [Slow(r.id, r.n, r.name, r.seconds, r.part) for r in rows if r.what == "slow"]
        workers = [ByWorker(r.id, r.name, r.n, r.seconds, r.part) for r in rows if r.what == "worker"]
        slow.sort(key=lambda one: (-one.seconds, one.index))
        workers.sort(key=lambda one: (-one.failed_share, -one.mean_seconds))
        return Outliers(rows[0].median if rows else None, slow, workers)
