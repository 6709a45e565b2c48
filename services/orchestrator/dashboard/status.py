"""How the whole platform stands, in numbers only: no tenant, no task, no name of anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from stanchion.authority.pipeline import looked
from stanchion.authority.samples import PLATFORM, Lately
from stanchion.errors import Unavailable

from . import look
from .door import Door
from .painting import Painter
from .reads import Reads
from .remembered import Remembered
from .shell import Taste

PATH: Final = "/status"
LOOKED_SECONDS: Final = 2.0
"""A look is shared for so long: nobody who asks often makes it dear."""
OUTBOX_LATE_SECONDS: Final = 30.0
READY_LATE_SECONDS: Final = 60.0

LEVELS: Final = {
    "steps_running": "steps running",
    "ready_steps": "steps ready, waiting for a worker",
    "approvals_open": "questions that wait for people",
    "operations_in_doubt": "operations of unknown fate",
}
RATES: Final = {
    "tasks_submitted": "tasks submitted a second",
    "tasks_completed": "tasks completed a second",
    "steps_succeeded": "steps succeeded a second",
    "steps_refused": "writes refused a second, for an old fence",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """`state` is healthy, late (it works, and something waits too long), unknown (nobody measures) or down."""

    state: str
    findings: tuple[str, ...]
    at: datetime | None = None
    numbers: tuple[tuple[str, str, float | None], ...] = ()
    """Each number: its name, what it counts, and how many; None where it is not known."""


class Status:
    """The page and its twin in JSON. Unless `is_open`, it is for whoever may come in."""

    def __init__(self, reads: Reads, painter: Painter, door: Door, *, is_open: bool) -> None:
        self.reads = reads
        self.painter = painter
        self.door = door
        self.is_open = is_open
        self._looks: Remembered[Standing] = Remembered(LOOKED_SECONDS, 1)

    def answer(self, request: Request) -> Response:
        """How it stands; 503 when the database does not answer, so that a probe needs no reading."""
        if not self.is_open:
            self.door.visitor(request).require("task.read")
        standing = self._looks.get(PATH, self.standing)
        code = 503 if standing.state == "down" else 200
        if "application/json" in request.headers.get("accept", ""):
            numbers = {name: value for name, _, value in standing.numbers}
            told = asdict(standing) | {"numbers": numbers, "at": standing.at and standing.at.isoformat()}
            return JSONResponse(told, code)
        page = self.painter.plain("status.html", standing=standing, taste=Taste.of(request), around=None)
        return HTMLResponse(page, code)

    def standing(self) -> Standing:
        """How it stands now; never an error: that the database is away is an answer too."""
        try:
            lately = self.reads.queues.samples.lately(PLATFORM)
            outbox = self.reads.pipeline.outbox(PLATFORM, of_all=False)
            with self.reads.database.tenant(PLATFORM) as connection:
                broker = looked(connection)
        except Unavailable as error:
            return Standing("down", (f"the database does not answer ({error.code}): nothing is lost, nothing goes on",))
        findings = tuple(_findings(lately, outbox, broker))
        state = "late" if findings else "healthy"
        if lately is None:
            state, findings = "unknown", ("no orchestrator has taken samples in the last minutes", *findings)
        return Standing(state, findings, broker["now"], tuple(_numbers(lately, outbox)))


def _findings(lately: Lately | None, outbox: dict[str, Any], broker: dict[str, Any]) -> list[str]:
    found = []
    if broker["fault"] is not None:
        found.append("the broker does not answer: tasks are accepted and kept, and go on by themselves once it is back")
    if (outbox["oldest_seconds"] or 0) > OUTBOX_LATE_SECONDS:
        found.append(f"a message has waited {look.duration(outbox['oldest_seconds'])} to be published")
    if not outbox["held"]:
        found.append("no relay publishes messages")
    waits = lately.levels.get("ready_age_seconds") if lately else None
    if (waits or 0) > READY_LATE_SECONDS:
        found.append(f"a ready step has waited {look.duration(waits)} for a worker")
    return found


def _numbers(lately: Lately | None, outbox: dict[str, Any]) -> list[tuple[str, str, float | None]]:
    rates = [(f"{name}_rate", what, lately and round(lately.rate(name), 3)) for name, what in RATES.items()]
    levels = [(name, what, lately and lately.levels.get(name, 0.0)) for name, what in LEVELS.items()]
    return [
        *rates,
        *levels,
        ("outbox_waiting", "messages that wait to be published", outbox["waiting"]),
        ("outbox_partitions_held", "partitions of the outbox that a relay holds", outbox["held"]),
    ]
