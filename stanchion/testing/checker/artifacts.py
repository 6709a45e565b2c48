"""Checks of artifacts: each version lived as it may, was promoted by the holder of its step, and has its number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from . import legal
from .facts import Facts, Row
from .verdicts import Said

_PROMOTED: Final = ("ArtifactBegun", "ArtifactAvailable")


def versions_lived_legally(facts: Facts) -> Iterator[Said]:
    """Born pending, then available, then deleted, by its events and by its row; its row says what they say."""
    events: defaultdict[UUID, list[Row]] = defaultdict(list)
    for event in facts.artifact_events:
        events[UUID(event["body"]["artifact"])].append(event)
    for row in facts.artifacts:
        where, state = f"artifact {row['version_id']}", "unborn"
        for event in events.pop(row["version_id"], []):
            sources, target = legal.ARTIFACT_MOVES.get(event["kind"], (frozenset(), ""))
            if state not in sources:
                yield where, f"{event['kind']} when it was {state}"
            state = target or state
            if event["kind"] == "ArtifactAvailable" and event["body"]["sha256"] != row["sha256"]:
                yield where, "its content is not what it was promoted with"
        if state != row["state"]:
            yield where, f"its events end in {state}, the row says {row['state']}"
    for version in events:
        yield f"artifact {version}", "it has events and no row"


def promoted_by_the_holder(facts: Facts) -> Iterator[Said]:
    """What a step promoted, it promoted between its lease and the end of that lease."""
    holder: dict[UUID, int | None] = {}
    for event in facts.events:
        step, kind = event["step_id"], event["kind"]
        if step is None:
            continue
        if kind == "StepLeased":
            holder[step] = event["fence"]
        elif kind in legal.ATTEMPT_ENDS:
            holder[step] = None
        elif kind in _PROMOTED and event["fence"] is not None and holder.get(step) != event["fence"]:
            yield f"step {step}", f"{kind} by fence {event['fence']}, held by {holder.get(step)}"


def numbers_without_holes(facts: Facts) -> Iterator[Said]:
    """The versions of one name that became available are numbered 1, 2, 3 and so on, each number once."""
    numbers: defaultdict[UUID, list[int]] = defaultdict(list)
    for row in facts.artifacts:
        if row["number"] is not None:
            numbers[row["artifact_id"]].append(row["number"])
    for artifact, found in numbers.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            yield f"artifact {artifact}", f"its versions have the numbers {sorted(found)}"
