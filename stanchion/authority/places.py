"""Finding steps by name in a branch and in the branches around it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from stanchion.db.engine import Database


def find_around(
    database: Database, tenant_id: UUID, run_id: UUID, fan_id: UUID | None, idx: int, names: Sequence[str]
) -> dict[str, UUID]:
    """Step ids by name, looked for from the branch (`fan_id`, `idx`) outwards to the run; of several rounds the newest."""
    found: dict[str, UUID] = {}
    wanted = list(names)
    while wanted:
        rows = database.read(
            "SELECT node, step_id FROM stanchion.find_steps(%s, %s, %s, %s, %s)",
            (tenant_id, run_id, fan_id, idx, wanted),
        )
        found |= dict(rows)
        wanted = [name for name in wanted if name not in found]
        if fan_id is None:
            break
        fan_id, idx = database.read("SELECT * FROM stanchion.place_of(%s)", (fan_id,))[0]
    return found
