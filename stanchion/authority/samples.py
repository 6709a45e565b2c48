"""Samples: what operators measure, kept in the database, so that no other product is needed to look back.

Every ten seconds one orchestrator (whoever comes first) writes a row for each tenant that had anything, and one for the
platform. Counts are those of the event table between the slot's exact bounds; a slot is counted `MARGIN_SECONDS` after
its end, so a transaction that takes longer than that from its stamp to its commit is not in it. What stood at a moment
(levels) is written only for the newest slot. Counts are added up into longer spans, of levels the highest stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, get_args
from uuid import UUID

from stanchion.db.engine import Database
from stanchion.errors import Unprocessable
from stanchion.telemetry.names import SampleCount, SampleLevel

PLATFORM: Final = UUID(int=0)
"""The tenant under which the samples of the platform stand."""

SLOT_SECONDS: Final = 10
FOLDED_SECONDS: Final = 300
MARGIN_SECONDS: Final = 5  # between the end of a slot and its count: what commits later is missed
BACK_SLOTS: Final = 30  # slots that are counted late, after all orchestrators were away
ATTEMPTS: Final = 300  # of a tenant in one slot, that its percentiles are taken from
SETTLED: Final = timedelta(seconds=(BACK_SLOTS + 1) * SLOT_SECONDS + MARGIN_SECONDS)
"""After so long nothing is added to a span any more: it may be folded."""

RESOLUTIONS: Final = (10, 60, 300, 900, 3_600, 21_600, 86_400)
Bodies = Mapping[str, Mapping[str, float]]
_NOTHING: Final[Bodies] = {"counts": {}, "levels": {}}

POINTS: Final = 2_000  # of one series in one answer
LATELY_SECONDS: Final = 60

COUNTS: Final[frozenset[str]] = frozenset(get_args(SampleCount))
THINGS: Final = frozenset({"ready_steps", "steps_running", "approvals_open", "operations_in_doubt"})
"""Levels that count things: where it was looked and none is written there were none; of an age there is none then."""
NAMES: Final[frozenset[str]] = COUNTS | frozenset(get_args(SampleLevel))


@dataclass(frozen=True, slots=True)
class Series:
    """Values by name, each list as long as `at`; None: nobody sampled then, or there was no such level."""

    resolution: int
    at: list[datetime]
    values: dict[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class Lately:
    """The samples of the last minute or so: counts added up over `seconds` until `until`, and the newest levels."""

    seconds: int
    until: datetime
    counts: dict[str, float]
    levels: dict[str, float]

    def rate(self, name: str) -> float:
        """How many a second."""
        return self.counts.get(name, 0.0) / self.seconds


class Samples:
    """Reading under a login that reads; `take` is the orchestrator's, `fold` and `remove` are maintenance."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def take(self) -> datetime | None:
        """Write the samples of the oldest slot that is over and missing; None when there is none, or another writes it."""
        rows = self.database.call(
            "maintain",
            "SELECT stanchion.take_sample(%s, %s, %s)",
            (timedelta(seconds=MARGIN_SECONDS), BACK_SLOTS, ATTEMPTS),
        )
        slot: datetime | None = rows[0][0]
        return slot

    def fold(self) -> int:
        """Put up to an hour of slots together into spans of five minutes; returns how many rows were written."""
        return int(self.database.call("maintain", "SELECT stanchion.fold_samples(%s)", (SETTLED,))[0][0])

    def remove(self, short: timedelta, long: timedelta, limit: int = 5_000) -> int:
        """Remove slots older than `short` that are folded, and spans older than `long`; returns how many rows."""
        rows = self.database.call("maintain", "SELECT stanchion.remove_samples(%s, %s, %s)", (short, long, limit))
        return int(rows[0][0])

    def series(
        self, tenant_id: UUID, names: tuple[str, ...], since: datetime, until: datetime, resolution: int
    ) -> Series:
        """Values of `names` from `since` to before `until` in spans of `resolution` seconds. Raises Unprocessable."""
        _check(names, since, until, resolution)
        place = _bin(since, resolution)
        rows = self.database.read(
            "SELECT * FROM stanchion.read_samples(%s, %s, %s, %s)", (tenant_id, resolution, place, until)
        )
        found = {slot: (body or _NOTHING, levelled) for slot, body, levelled in rows}
        span = timedelta(seconds=resolution)
        at = []
        while place < until:
            at.append(place)
            place += span
        return Series(resolution, at, {name: [_value(found, moment, name) for moment in at] for name in names})

    def lately(self, tenant_id: UUID) -> Lately | None:
        """What the newest samples say; None when the last minutes have none: no orchestrator runs, or the first just
        began."""
        rows = self.database.read(
            "SELECT * FROM stanchion.read_samples(%s, %s, stanchion.clock() - %s, stanchion.clock()) ORDER BY slot DESC LIMIT %s",
            (tenant_id, SLOT_SECONDS, timedelta(seconds=LATELY_SECONDS * 3), LATELY_SECONDS // SLOT_SECONDS),
        )
        if not rows:
            return None
        counts: dict[str, float] = {}
        for _, body, _ in rows:
            for name, value in (body or _NOTHING)["counts"].items():
                counts[name] = counts.get(name, 0.0) + value
        until = rows[0][0] + timedelta(seconds=SLOT_SECONDS)
        return Lately(len(rows) * SLOT_SECONDS, until, counts, dict((rows[0][1] or _NOTHING)["levels"]))


def _check(names: tuple[str, ...], since: datetime, until: datetime, resolution: int) -> None:
    for name in names:
        if name.partition(":")[0] not in NAMES:
            raise Unprocessable(
                "E-DATA-15",
                f"{name[:80]!a} is no name of a sample",
                where="query.names",
                fix=f"some of {', '.join(sorted(NAMES))}; those by queue also as name:queue",
            )
    if resolution not in RESOLUTIONS:
        raise Unprocessable(
            "E-DATA-15",
            f"samples are not kept in spans of {resolution} s",
            where="query.resolution",
            fix=f"one of {', '.join(map(str, RESOLUTIONS))}",
        )
    if since >= until:
        raise Unprocessable("E-DATA-15", "`from` is not before `to`", where="query.from")
    if (until - since).total_seconds() / resolution > POINTS:
        enough = [one for one in RESOLUTIONS if (until - since).total_seconds() / one <= POINTS]
        raise Unprocessable(
            "E-DATA-15",
            f"this would be more than {POINTS:,} points",
            where="query.resolution",
            fix=f"a resolution of {enough[0]} s or more" if enough else "a shorter time",
            limit=POINTS,
        )


def _bin(moment: datetime, resolution: int) -> datetime:
    # as the database bins: from the first second of 2000 on, which lies on a multiple of every span
    seconds = int(moment.timestamp()) // resolution * resolution
    return datetime.fromtimestamp(seconds, tz=UTC)


def _value(found: Mapping[datetime, tuple[Bodies, bool]], moment: datetime, name: str) -> float | None:
    """What a sample says of a name; nothing, where somebody looked and there was nothing, and None where nobody did."""
    if moment not in found:
        return None
    body, levelled = found[moment]
    plain = name.partition(":")[0]
    if plain in COUNTS:
        return float(body["counts"].get(name, 0.0))
    return float(body["levels"][name]) if name in body["levels"] else 0.0 if levelled and plain in THINGS else None
