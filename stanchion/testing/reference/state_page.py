"""states.md: every state machine as its diagram and its table of transitions."""

from __future__ import annotations

import re
import sys
from importlib.resources import files

from stanchion.state import MACHINES
from stanchion.state.render import markdown

from .markdown import code, flow, page, section, table

_INTRO = """
Each machine is defined once, in `stanchion/state/`. From that definition come the `CHECK` constraints and the triggers
in PostgreSQL, the test matrix, and this page. *Fenced* means that the writer proves the lease: with the step's current
fence, or as the reaper with an attempt that has expired, or as the canceller of a run that is being cancelled. A
transition that is not in a table is refused by the database, whoever asks for it.
"""
_EVENTS = """
Each transition writes the event of its row, in the same transaction, with actor, version and time; under a lease also
with the fence. The event log in PostgreSQL is complete. What is published to Kafka is a part of it:
[messages](messages.md#events). Beside the transitions, these are recorded:
"""
_KIND = re.compile(r"'((?:Task|Run|Step|Fan|Barrier|Artifact)[A-Z][a-z]+(?:[A-Z][a-z]+)?)'")


def states() -> str:
    """The page of all machines."""
    rows = [
        (
            f"[{machine.table}](#{machine.table})",
            ", ".join(code(one.value) for one in machine.states),
            _about(machine.states),
        )
        for machine in MACHINES
    ]
    words = section("Words", table(("machine", "states", "what it is"), rows))
    others = table(
        ("event", "written by"), ((code(k), ", ".join(code(f) for f in w)) for k, w in other_events().items())
    )
    events = section("Events", flow(_EVENTS), others)
    return page("States", _INTRO, words, *(markdown(machine) for machine in MACHINES), events)


def other_events() -> dict[str, list[str]]:
    """Kinds of events that record no transition, with the database functions that write them."""
    declared = {transition.event for machine in MACHINES for transition in machine.transitions}
    found: dict[str, list[str]] = {}
    for path in sorted((files("stanchion.db") / "functions").iterdir(), key=lambda one: one.name):
        text = path.read_text(encoding="utf-8") if path.name.endswith(".sql") else ""
        if "INSERT INTO event" in text:
            for kind in sorted(set(_KIND.findall(text)) - declared):
                found.setdefault(kind, []).append(path.name.removesuffix(".sql"))
    return dict(sorted(found.items()))


def _about(states: type) -> str:
    """What the module of a machine says about it."""
    text = (sys.modules[states.__module__].__doc__ or "").strip().rstrip(".")
    return text.partition(": ")[2] or text
