"""What a stretch of work costs: CPU by kind of process, commits and WAL of the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psutil
import psycopg


def cpu_of(pids: Mapping[str, list[int]]) -> dict[str, float]:
    """CPU seconds so far, by kind, children included."""
    spent: dict[str, float] = {}
    for kind, roots in pids.items():
        total = 0.0
        for root in roots:
            try:
                process = psutil.Process(root)
                family = [process, *process.children(recursive=True)]
            except psutil.Error:
                continue
            for member in family:
                try:
                    times = member.cpu_times()
                except psutil.Error:
                    continue
                total += times.user + times.system
        spent[kind] = total
    return spent


@dataclass(frozen=True, slots=True)
class Usage:
    """The difference between two readings."""

    cpu: dict[str, float]
    commits: int
    wal_bytes: int

    def per(self, count: int) -> dict[str, object]:
        """Per unit of work: milliseconds of CPU, commits, bytes."""
        return {
            "cpu_ms": {k: round(v / count * 1e3, 4) for k, v in self.cpu.items()},
            "cpu_ms_total": round(sum(self.cpu.values()) / count * 1e3, 4),
            "commits": round(self.commits / count, 4),
            "wal_bytes": round(self.wal_bytes / count),
        }


class Meter:
    """Reads usage before and after."""

    def __init__(self, database_url: str, pids: Mapping[str, list[int]]) -> None:
        self.connection = psycopg.connect(database_url, autocommit=True)
        self.pids = pids
        self._before = self._read()

    def _read(self) -> tuple[dict[str, float], int, int]:
        self.connection.execute("SELECT pg_stat_force_next_flush()")
        row = self.connection.execute(
            "SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
        ).fetchone()
        assert row is not None
        return cpu_of(self.pids), int(row[0]), int(row[1])

    def start(self) -> None:
        """Begin a stretch."""
        self._before = self._read()

    def stop(self) -> Usage:
        """End it."""
        before, after = self._before, self._read()
        cpu = {k: after[0][k] - before[0].get(k, 0.0) for k in after[0]}
        return Usage(cpu, after[1] - before[1], after[2] - before[2])

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
