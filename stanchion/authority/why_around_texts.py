"""What reasons say of what all work stands on, and of its pace: rows of the database in words, with what people can do."""

from __future__ import annotations

from typing import Any, Final

from stanchion.contracts import ids
from stanchion.contracts.actions import Way, act

from .rows import Row
from .why_codes import Evidence, Reason
from .why_look import Look, evidence
from .why_words import DOCTOR, a_second, many, span, verb

_UPKEEP: Final = {
    "lease": "a lease that ran out",
    "timer": "what was due",
    "expansion": "the children of a fan-out",
    "run": "the end of this run",
    "barrier": "what a join leaves over",
}


def database(standby: bool) -> Reason:
    """A database that takes no writes."""
    how = "it is a standby, in recovery" if standby else "it is set to be read-only"
    text = f"the database takes no writes: {how}; nothing is lost"
    seen = (Evidence("setting", "pg_is_in_recovery" if standby else "default_transaction_read_only"),)
    then = "All goes on once it takes writes again."
    return Reason("W-DB", text, None, None, then, (Way("stanchion db status"), DOCTOR), seen)


def relay_down(look: Look, row: Row) -> Reason:
    """Parts of the outbox that nobody publishes."""
    last = (
        f"the last relay was seen {span(look.passed(row['seen_at']))} ago" if row["seen_at"] else "no relay has a row"
    )
    text = (
        f"no relay holds {row['unheld']} of {row['parts']} partitions of the outbox, and {last};"
        f" {many(look.waiting_messages, 'message waits', 'messages wait')}, the oldest for {span(look.lag_seconds)}"
    )
    details = {
        "unheld": row["unheld"],
        "partitions": row["parts"],
        "waiting": look.waiting_messages,
        "seconds": round(look.lag_seconds, 1),
    }
    then = "A relay that starts takes them over; until then idle workers and orchestrators find their work by looking."
    seen = (Evidence("outbox_partition", str(row["part"])),)
    return Reason(
        "W-RELAY-DOWN", text, row["until"], None, then, (Way("stanchion serve outbox-relay"), DOCTOR), seen, details
    )


def outbox(look: Look, row: Row) -> Reason:
    """Relays that are behind."""
    text = (
        f"{many(look.waiting_messages, 'message waits', 'messages wait')} to be published, the oldest for {span(look.lag_seconds)};"
        f" {many(row['relays'], 'relay')} {verb(row['relays'], 'is', 'are')} at work"
    )
    details = {"waiting": look.waiting_messages, "seconds": round(look.lag_seconds, 1), "relays": row["relays"]}
    then = "The relays publish them in order, and try again as long as the broker refuses them."
    return Reason("W-OUTBOX", text, None, None, then, (DOCTOR,), (Evidence("outbox", "oldest"),), details)


def damage(look: Look, run: Row, row: Row) -> Reason:
    """Upkeep that the database refuses."""
    others = f"; {many(row['count'] - 1, 'other thing')} too" if row["count"] > 1 else ""
    text = (
        f"the database refused to see to {_UPKEEP[row['kind']]} {many(row['tries'], 'time')} ({row['code']}: {row['why']});"
        f" it is set aside, and tried again in {span(-look.passed(row['retry_at']))}{others}"
    )
    ways = (DOCTOR, Way("stanchion db check"), Way(f"stanchion db rebuild --run {ids.public(ids.RUN, run['run_id'])}"))
    seen = (Evidence("set_aside", f"{row['kind']}:{row['target_id']}"), *evidence("run", run["run_id"]))
    details = {"kind": row["kind"], "code": row["code"], "why": row["why"], "tries": row["tries"]}
    then = f"It is tried again in {span(-look.passed(row['retry_at']))}, and each time later."
    return Reason("W-SET-ASIDE", text, row["since"], row["retry_at"], then, ways, seen, details)


def poison(row: Row) -> Reason:
    """A message about the run that was parked."""
    letter = ids.public(ids.DEAD_LETTER, row["dead_letter_id"])
    others = f"; {many(row['count'] - 1, 'other')} too" if row["count"] > 1 else ""
    place = f"{row['topic']}, partition {row['partition']}, offset {row['offset']:,}"
    text = f"a message at {place} was parked ({row['code']}: {row['reason']}){others}"
    details = {"dead_letter": letter, "code": row["code"], "reason": row["reason"], "count": row["count"]}
    ways = (Way(f"stanchion dead show {letter}"), act("dead.redrive", letter))
    return Reason("W-POISON", text, row["at"], None, "", ways, evidence("dead_letter", row["dead_letter_id"]), details)


def moving(look: Look, run: Row, row: Row, left: tuple[str, int] | None) -> Reason:
    """How fast it goes."""
    rate = row["settled"] / max(look.passed(row["first"]), 1.0)
    text = f"moving: last change {span(look.passed(row['last']))} ago, {a_second(rate)}"
    then = "It goes on."
    details: dict[str, Any] = {"rate": round(rate, 2)}
    if left is not None and left[1]:
        text += f", about {span(left[1] / rate)} left until the join before {left[0]}"
        then = f"At this pace the join before {left[0]} opens in about {span(left[1] / rate)}."
        details |= {"left": left[1], "seconds_left": round(left[1] / rate, 1)}
    return Reason("W-OK", text, row["last"], None, then, (), evidence("run", run["run_id"]), details)
