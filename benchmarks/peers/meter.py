"""CPU of whole families, those members included that have ended meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import psutil

from benchmarks.usage import Meter


class FamilyMeter(Meter):
    """Peers open and close connections as they go, and each ended backend takes its CPU time with it.

    Counting the living alone, a run in which some of them ended could cost less than nothing. What a process's ended
    children have used stands in its own record, so both readings together are right.
    """

    def _read(self) -> tuple[dict[str, float], int, int]:
        _, commits, wal = super()._read()
        return _cpu_of(self.pids), commits, wal


def _cpu_of(pids: Mapping[str, list[int]]) -> dict[str, float]:
    return {kind: sum(_cpu_of_family(root) for root in roots) for kind, roots in pids.items()}


def _cpu_of_family(root: int) -> float:
    total = 0.0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(root)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = member.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total
