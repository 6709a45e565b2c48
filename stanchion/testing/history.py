"""The independent witness of a test: user code writes down each execution itself, beside the engine's database.

A step calls `note(ctx)` as its first act. One line a call, appended with a single write, so that lines of many
processes don't mix and the last one before a SIGKILL is there.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from stanchion.contracts import ids
from stanchion.sdk.context import Context

FOLDER_VARIABLE: Final = "STANCHION_TEST_HISTORY"
"""Names the folder of the log; without it nothing is noted."""

_FILE = "executions.log"


@dataclass(frozen=True, slots=True)
class Execution:
    """One start of a step's code: which step, under which fence, in which process, at which second of the host."""

    step_id: UUID
    fence: int
    node: str
    idx: int
    attempt: int
    pid: int
    at: float


def note(ctx: Context) -> None:
    """Write down that the code of a step has begun."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    line = {
        "step_id": str(ids.parse(ctx.step_id, ids.STEP)),
        "fence": ctx.fence,
        "node": ctx.step,
        "idx": ctx.index,
        "attempt": ctx.attempt,
        "pid": os.getpid(),
        "at": time.time(),
    }
    handle = os.open(Path(folder) / _FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, (json.dumps(line) + "\n").encode())
    finally:
        os.close(handle)


def executions(folder: Path) -> list[Execution]:
    """All executions that were noted, in the order in which they were written."""
    path = folder / _FILE
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Execution(**(line | {"step_id": UUID(line["step_id"])})) for line in lines]
