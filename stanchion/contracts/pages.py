"""Where the page of a thing is on the dashboard, by the prefix of its id."""

from __future__ import annotations

from typing import Final

from . import ids

PLACES: Final = {
    ids.TASK: "/tasks/",
    ids.STEP: "/steps/",
    ids.OPERATION: "/operations/",
    ids.APPROVAL: "/approvals/",
    ids.ARTIFACT: "/artifacts/",
    ids.WORKER: "/workers/",
    ids.DEAD_LETTER: "/dead-letters/",
}
"""What has a page of its own; a run and a join stand on the page of their task."""
