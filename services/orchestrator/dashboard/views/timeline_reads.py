"""How many attempts of a run were under way at each moment, worked out by the database: a few hundred numbers of 100,000."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from stanchion.authority.rows import Row

BINS: Final = 200
LANES: Final = 60

By = Literal["step", "worker"]


@dataclass(frozen=True, slots=True)
class Window:
    """The time that is shown."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """How long it is; never nothing."""
        return max(0.001, (self.end - self.start).total_seconds())


@dataclass(frozen=True, slots=True)
class Lane:
    """One row: how many were under way in each bin, of how many in all."""

    name: str
    counts: tuple[int, ...]
    attempts: int
    lost: int
    failed: int
    first_at: datetime
    last_at: datetime
    busy_seconds: float
    waited_seconds: float

    @property
    def most(self) -> int:
        """The most that were under way at once."""
        return max(self.counts, default=0)


# Each attempt adds one where it begins and takes one behind where it ends; what stands in a bin is the sum up to it.
_LANES = """
WITH a AS (
  SELECT {lane} AS lane, t.granted_at, coalesce(t.ended_at, CAST(:now AS timestamptz)) AS ended_at, t.state,
    greatest(extract(epoch FROM t.granted_at - {free}), 0) AS waited, t.number
  FROM stanchion.step s JOIN stanchion.attempt t ON t.step_id = s.step_id
  LEFT JOIN stanchion.worker w ON w.worker_id = t.worker_id
  WHERE s.run_id = :run AND t.granted_at < CAST(:until AS timestamptz)
    AND coalesce(t.ended_at, CAST(:now AS timestamptz)) >= CAST(:since AS timestamptz)
), b AS (
  SELECT lane, greatest(0, floor(extract(epoch FROM granted_at - CAST(:since AS timestamptz)) / :width)::int) AS first,
    least(:bins - 1, floor(extract(epoch FROM ended_at - CAST(:since AS timestamptz)) / :width)::int) AS last
  FROM a
), d AS (
  SELECT lane, bin, sum(n) AS n FROM (
    SELECT lane, first AS bin, 1 AS n FROM b UNION ALL SELECT lane, last + 1, -1 FROM b) x GROUP BY lane, bin
)
SELECT a.lane, count(*) AS attempts, count(*) FILTER (WHERE a.state = 'lost') AS lost,
  count(*) FILTER (WHERE a.state = 'failed') AS failed, min(a.granted_at) AS first_at, max(a.ended_at) AS last_at,
  sum(extract(epoch FROM a.ended_at - a.granted_at)) AS busy, avg(a.waited) FILTER (WHERE a.number = 1) AS waited,
  (SELECT array_agg(d.bin ORDER BY d.bin) FROM d WHERE d.lane IS NOT DISTINCT FROM a.lane) AS bins,
  (SELECT array_agg(d.n ORDER BY d.bin) FROM d WHERE d.lane IS NOT DISTINCT FROM a.lane) AS changes
FROM a GROUP BY a.lane ORDER BY min(a.granted_at) LIMIT :lanes
"""
# Since when nothing but a worker was missing: a child from its making on, any other step from the opening of its barriers.
_FREE: Final = """CASE WHEN s.fan_id IS NOT NULL THEN s.created_at ELSE greatest(s.created_at,
  (SELECT max(b.released_at) FROM stanchion.barrier b WHERE b.step_id = s.step_id)) END"""
_BY: Final[dict[str, str]] = {"step": "s.node", "worker": "coalesce(w.name, t.worker_id::text)"}

_LONGEST = """
SELECT s.step_id, s.node, s.idx, s.fan_id, t.fence, t.number, t.state, {free} AS free_at, t.granted_at, t.started_at, t.ended_at,
  coalesce(w.name, '') AS worker
FROM stanchion.step s JOIN stanchion.attempt t ON t.step_id = s.step_id
LEFT JOIN stanchion.worker w ON w.worker_id = t.worker_id
WHERE s.run_id = :run
ORDER BY coalesce(t.ended_at, CAST(:now AS timestamptz)) - t.granted_at DESC, s.step_id, t.fence LIMIT :lanes
"""


def lanes(connection: Connection, run_id: UUID, by: By, window: Window, now: datetime) -> list[Lane]:
    """The lanes of a run within a window, in the order in which they began; LANES at most."""
    given = {
        "run": run_id,
        "since": window.start,
        "until": window.end,
        "now": now,
        "bins": BINS,
        "width": window.seconds / BINS,
        "lanes": LANES,
    }
    rows = connection.execute(text(_LANES.format(lane=_BY[by], free=_FREE)), given).mappings()
    return [
        Lane(
            row["lane"],
            _summed(row["bins"] or (), row["changes"] or ()),
            row["attempts"],
            row["lost"],
            row["failed"],
            row["first_at"],
            row["last_at"],
            float(row["busy"] or 0),
            float(row["waited"] or 0),
        )
        for row in rows
    ]


def longest(connection: Connection, run_id: UUID, now: datetime) -> list[Row]:
    """The attempts that took longest."""
    found = connection.execute(text(_LONGEST.format(free=_FREE)), {"run": run_id, "now": now, "lanes": LANES})
    return [dict(row) for row in found.mappings()]


def _summed(bins: Sequence[int], changes: Sequence[int]) -> tuple[int, ...]:
    at = dict(zip(bins, changes, strict=True))
    standing, found = 0, []
    for number in range(BINS):
        standing += int(at.get(number, 0))
        found.append(standing)
    return tuple(found)
