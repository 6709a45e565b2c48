"""Every reason why something does not move, in one place and in the order in which people should read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from stanchion.contracts.actions import Way


@dataclass(frozen=True, slots=True)
class WhyInfo:
    """What a code means, whether it passes without anybody doing anything, and its line of the runbook."""

    meaning: str
    by_itself: bool
    look: str
    do: str


_RETRY: Final = "`stanchion task retry ID`: a new run takes over what succeeded."

WHY: Final[dict[str, WhyInfo]] = {
    "W-DEAD": WhyInfo(
        "It has failed for good; what has failed stays so until somebody retries it, or reopens it while a join holds.",
        False,
        "The error in the line; `stanchion step show ID` has all attempts.",
        f"Mend the cause, then {_RETRY}",
    ),
    "W-BUDGET": WhyInfo(
        "Its run has ended since it spent, or was about to spend, more than its budget allows.",
        False,
        "`stanchion task show ID` has what was allowed and spent, by unit.",
        "Retry it with more: `stanchion task retry ID --budget UNIT=NUMBER`.",
    ),
    "W-REJECTED": WhyInfo(
        "Somebody said no, or nobody answered in time, and the task ended with that.",
        False,
        "`stanchion approval list` and the reason in the line.",
        "Change what was asked about, then `stanchion task retry ID`.",
    ),
    "W-CANCELLED": WhyInfo(
        "It was cancelled; what is cancelled stays so until somebody retries its task.",
        False,
        "Who did it and why stands in the line, and in the history.",
        f"If that was a mistake: {_RETRY}",
    ),
    "W-STALLED": WhyInfo(
        "Something is long due and was not done: no orchestrator is at work, or it fails on this.",
        False,
        "`stanchion doctor`; the orchestrators' logs, for the id of the run.",
        "Start an orchestrator: `stanchion serve orchestrator`. If it fails on one run only, cancel its task.",
    ),
    "W-SET-ASIDE": WhyInfo(
        "The database refuses upkeep of this run, for a damaged row; it is set aside and tried again, ever more seldom.",
        False,
        "`stanchion doctor` names all that is set aside; `stanchion db check` compares rows with the history.",
        "`stanchion db rebuild --run ID` puts right what is derived.",
    ),
    "W-DAMAGED": WhyInfo(
        "Nothing would move it: a row that says how it goes on (ready, timer, barrier) is not there.",
        False,
        "`stanchion db check` compares rows with the history.",
        "`stanchion db rebuild --run ID` puts right what is derived.",
    ),
    "W-PAUSED": WhyInfo(
        "Somebody paused the run, or the queue of its ready steps: nothing new is leased; what runs goes on.",
        False,
        "Who paused it, and when, stands in the line.",
        "`stanchion task resume ID`, or `stanchion queue resume QUEUE`.",
    ),
    "W-NO-WORKER": WhyInfo(
        "Steps are ready, and no live worker serves their queue and workflow.",
        False,
        "`stanchion worker list`: which workers live, and which queues they serve.",
        "Start a worker with the workflow, its queue and this tenant.",
    ),
    "W-VERSION": WhyInfo(
        "Workers serve the queue and the workflow, and none of them has registered this version.",
        False,
        "`stanchion worker list`: the versions that each of them has.",
        "Start a worker that has this version; a run keeps the version it began with.",
    ),
    "W-UNTAKEN": WhyInfo(
        "Steps are offered again and again, and workers with free slots don't take them.",
        False,
        "The workers' logs; `stanchion dead list`; `stanchion doctor`.",
        "Drain a worker that serves them, and start it anew.",
    ),
    "W-UNKNOWN-NOCHECK": WhyInfo(
        "An operation was sent, nobody knows whether it was done, and nobody but a person can find out.",
        False,
        "`stanchion op show ID`, then the outside system itself.",
        "`stanchion op mark-done ID` or `stanchion op mark-not-done ID`, with a proof.",
    ),
    "W-HELD": WhyInfo(
        "Failed children hold a join: it waits until they are reopened, or opened without.",
        False,
        "`stanchion task steps ID --state failed`: their errors.",
        "`stanchion task reopen ID` gives them another attempt, `stanchion task open-barrier ID` goes on without them.",
    ),
    "W-APPROVAL": WhyInfo(
        "People are asked: the step goes on once they decide, or with a no once their time is over.",
        False,
        "`stanchion approval show ID`: what is asked, of whom, and what was said.",
        "`stanchion approval approve ID` or `stanchion approval reject ID`, by those who are asked.",
    ),
    "W-RELAY-DOWN": WhyInfo(
        "No relay holds a part of the outbox: its messages are not published.",
        False,
        "`stanchion doctor`; whether the relays' processes are there and reach the database.",
        "Start one: `stanchion serve outbox-relay`.",
    ),
    "W-POISON": WhyInfo(
        "A message about this task could not be handled, and was parked as a dead letter.",
        False,
        "`stanchion dead show ID` has its bytes, its place and the reason.",
        "Mend what refused it, then `stanchion dead redrive ID`.",
    ),
    "W-DB": WhyInfo(
        "The database takes no writes: it is read-only, or a standby. Nothing is lost, and nothing moves.",
        True,
        "`stanchion db status`; the settings and the log of PostgreSQL.",
        "Make it writable, or let the services reach the primary; all goes on by itself then.",
    ),
    "W-UNKNOWN": WhyInfo(
        "An operation was sent and nobody knows whether it was done: it is asked after.",
        True,
        "`stanchion op show ID`: each probe and what it found.",
        "Wait, or `stanchion op reconcile ID` to have it asked now.",
    ),
    "W-CANCELLING": WhyInfo(
        "The run was cancelled, or rejected, and ends: what has not started is cancelled, what runs gets its grace.",
        True,
        "What still runs stands in the line.",
        "Wait: after its grace the lease of what runs is taken.",
    ),
    "W-FAILING": WhyInfo(
        "The run has failed and ends: what has not started is cancelled, what runs gets its grace.",
        True,
        "The error in the line.",
        "Wait for the end; then mend the cause and `stanchion task retry ID`.",
    ),
    "W-LEASE-LOST": WhyInfo(
        "A lease has run out, or is about to under a silent worker: the steps go to others, with a higher fence.",
        True,
        "The worker: its process, its host, its log.",
        "Nothing; if it comes again, the worker stalls or dies: look at memory, and at code that blocks.",
    ),
    "W-REBALANCE": WhyInfo(
        "The workers' group of readers shares its partitions out anew: meanwhile none of them reads offers.",
        True,
        "`stanchion lag`: since when, and how often lately.",
        "Nothing, unless it goes on: then look for workers that come and go.",
    ),
    "W-LAG": WhyInfo(
        "Offers are published, and the workers' group has not read them yet.",
        True,
        "`stanchion lag`: which partition is behind, and who reads it.",
        "More workers, if all partitions are behind; restart the one that reads it, if only one does not move.",
    ),
    "W-OUTBOX": WhyInfo(
        "Messages wait to be published longer than they should; relays are at work on them.",
        True,
        "`stanchion doctor`; the broker, and the relays' logs.",
        "More relays share the partitions of the outbox, up to their number; a broker that is down has to come back.",
    ),
    "W-OK": WhyInfo(
        "Nothing holds it: it moves.",
        True,
        "Its pace stands in the line.",
        "Nothing.",
    ),
    "W-CAPACITY": WhyInfo(
        "Steps are ready, and all slots of the workers that serve them are busy.",
        True,
        "`stanchion worker list`: slots and what runs.",
        "Start more workers, or give them more slots.",
    ),
    "W-PRIORITY": WhyInfo(
        "Steps of a higher priority are before these in the queue.",
        True,
        "`stanchion task list`: what has the higher priority.",
        "Start more workers, or submit what is urgent with a higher priority.",
    ),
    "W-PLANNING": WhyInfo(
        "A fan-out waits for the orchestrator to make its children.",
        True,
        "Nothing; it takes parts of a second.",
        "Nothing.",
    ),
    "W-RETRY": WhyInfo(
        "An attempt failed; the next one comes after a delay.",
        True,
        "`stanchion step show ID`: the error of each attempt.",
        "Wait; or mend the code: with the same graph it has the same version, and the next attempt runs it.",
    ),
    "W-LEASE": WhyInfo(
        "Workers hold leases and are at work.",
        True,
        "How long it runs, when its worker was heard of, and its limit stand in the line.",
        "Wait; if it should not run so long, give the step a timeout.",
    ),
    "W-BARRIER": WhyInfo(
        "A join waits for others to arrive.",
        True,
        "The other lines: what its children do.",
        "Nothing at the join itself.",
    ),
    "W-BARRIER-LATE": WhyInfo(
        "A join opened without this; what comes of it is kept as late, and no part of what the join read.",
        True,
        "`stanchion task show ID`: the joins, and how many arrived.",
        "Nothing.",
    ),
    "W-UPSTREAM": WhyInfo(
        "A step waits for what it comes after.",
        True,
        "The other lines: what holds the steps before it.",
        "Nothing at the step itself.",
    ),
    "W-DEADLINE": WhyInfo(
        "At its deadline it ends, finished or not.",
        True,
        "The time in the line.",
        "A deadline can't be moved; a run that `stanchion task retry ID` begins after it has none.",
    ),
    "W-SKIPPED": WhyInfo(
        "The step never ran and never will: another way was chosen, or what it needs can't come any more.",
        True,
        "`stanchion step show ID`",
        "Nothing.",
    ),
    "W-DONE": WhyInfo(
        "It is done.",
        True,
        "`stanchion task result ID`",
        "Nothing.",
    ),
}
"""The codes, the ones that need somebody first."""

_RANK: Final = {code: rank for rank, code in enumerate(WHY)}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row that a reason was read from: its kind, and its public id (or its name where it has none)."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: what holds now, since when, what happens by itself, what it was read from, and what people can do."""

    code: str
    text: str
    since: datetime | None = None
    until: datetime | None = None
    then: str = ""
    ways: tuple[Way, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.code in WHY, f"{self.code} is not registered"
        assert len(self.ways) <= 3, "three ways out are enough to choose from"

    @property
    def by_itself(self) -> bool:
        """Whether it passes without anybody doing anything."""
        return WHY[self.code].by_itself

    @property
    def next(self) -> str:
        """What happens by itself, and when."""
        return self.then or ("It passes by itself." if self.by_itself else "Nothing, until somebody acts.")

    @property
    def fix(self) -> tuple[str, ...]:
        """What to type, one line a way."""
        return tuple(way.command for way in self.ways)

    @property
    def rank(self) -> int:
        """Its place in the order of reading."""
        return _RANK[self.code]


def ordered(reasons: list[Reason]) -> list[Reason]:
    """Those that need somebody first, of one kind the oldest first."""
    return sorted(reasons, key=lambda reason: (reason.rank, reason.since.timestamp() if reason.since else 0.0))
