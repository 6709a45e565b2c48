"""Every reason why something does not move, in one place and in the order in which people should read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class WhyInfo:
    """What a code means, and whether it passes without anybody doing anything."""

    meaning: str
    by_itself: bool


WHY: Final[dict[str, WhyInfo]] = {
    "W-ENDED": WhyInfo("It has ended without a result; what has ended stays ended until somebody retries it.", False),
    "W-PAUSED": WhyInfo("Somebody paused the run, or the queue of its ready steps: nothing new is leased.", False),
    "W-WORKER": WhyInfo("Steps are ready, and no worker that was seen lately serves their queue and version.", False),
    "W-UNTAKEN": WhyInfo("Steps are offered again and again, and workers with free slots don't take them.", False),
    "W-STALLED": WhyInfo("The children of a fan-out should long be there: the orchestrator fails on them.", False),
    "W-TELL": WhyInfo("Nobody but a person can find out whether an operation was done.", False),
    "W-HELD": WhyInfo("Failed children hold a join: it waits until they are reopened, or opened without.", False),
    "W-APPROVAL": WhyInfo(
        "People are asked: the step goes on once they decide, or with a no once their time is over.", False
    ),
    "W-UNKNOWN": WhyInfo("An operation was sent and nobody knows whether it was done: it is asked after.", True),
    "W-WINDING": WhyInfo("The run is ending: what has not started is cancelled, what runs gets its grace.", True),
    "W-LOST": WhyInfo("A lease has run out and was not taken back yet; the orchestrator does that.", True),
    "W-PLANNING": WhyInfo("A fan-out waits for the orchestrator to make its children.", True),
    "W-OUTBOX": WhyInfo("Messages wait to be published; the relay does that.", True),
    "W-REBALANCE": WhyInfo("The group of workers shares its partitions out anew: meanwhile none reads offers.", True),
    "W-LAG": WhyInfo("Offers are published, and the workers' group has not read them yet.", True),
    "W-QUEUE": WhyInfo("Steps are ready and wait for a free slot of a worker.", True),
    "W-RETRY": WhyInfo("An attempt failed; the next one comes after a delay.", True),
    "W-RUNNING": WhyInfo("Workers hold leases and are at work.", True),
    "W-BARRIER": WhyInfo("A step waits for others to arrive.", True),
    "W-STEP": WhyInfo("A step waits for what it comes after.", True),
    "W-DEADLINE": WhyInfo("At its deadline the task ends, finished or not.", True),
}
"""The codes, the ones that need somebody first."""

_RANK: Final = {code: rank for rank, code in enumerate(WHY)}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: what holds now, since when, and what to type to change it."""

    code: str
    text: str
    since: datetime | None = None
    until: datetime | None = None
    fix: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.code in WHY, f"{self.code} is not registered"

    @property
    def by_itself(self) -> bool:
        """Whether it passes without anybody doing anything."""
        return WHY[self.code].by_itself

    @property
    def rank(self) -> int:
        """Its place in the order of reading."""
        return _RANK[self.code]
