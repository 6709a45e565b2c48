"""A task as lines: one for each node of its graph, bars for fan-outs, and what each join waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stanchion.cli.amounts import between, duration, since
from stanchion.cli.ink import styled
from stanchion.sdk.models import ENDED

Node = Mapping[str, Any]

_BAR: Final = 24
_NAME: Final = 18
_DONE: Final = ("succeeded", "failed", "cancelled", "skipped")
_MARKS: Final = {
    "succeeded": ("■", "#", "green"),
    "completed": ("■", "#", "green"),
    "running": ("▶", ">", "cyan"),
    "ready": ("▷", "-", None),
    "accepted": ("▶", ">", "cyan"),
    "retry_wait": ("↻", "~", "yellow"),
    "waiting": ("‖", "=", "yellow"),
    "paused": ("‖", "=", "yellow"),
    "awaiting_approval": ("‖", "=", "yellow"),
    "cancelling": ("‖", "=", "yellow"),
    "failed": ("✗", "x", "red"),
    "cancelled": ("○", "o", "yellow"),
    "rejected": ("○", "o", "yellow"),
    "skipped": ("○", "o", None),
    "pending": ("·", ".", None),
}


@dataclass(slots=True)
class Pace:
    """How fast the branches of each node end, from two looks at it."""

    rates: dict[str, float] = field(default_factory=dict)
    _before: dict[str, tuple[float, int]] = field(default_factory=dict)

    def look(self, nodes: Sequence[Node], now: float) -> None:
        """Take the counts of this moment in (seconds of any steady clock)."""
        for node in nodes:
            name, done = str(node["name"]), ended_of(node)
            then, before = self._before.get(name, (now, done))
            if now - then < 1.0:
                self._before.setdefault(name, (now, done))
                continue
            rate = max(0.0, (done - before) / (now - then))
            known = self.rates.get(name)
            self.rates[name] = rate if known is None else known * 0.6 + rate * 0.4  # a bar that jumps is not read
            self._before[name] = (now, done)


def ended_of(node: Node) -> int:
    """How many steps of a node have ended."""
    counts = node["counts"]
    return sum(counts.get(state, 0) for state in _DONE)


def state_of(node: Node) -> str:
    """One word for a node, out of the states of its steps."""
    counts, fans = node["counts"], node.get("fans") or {}
    if not counts:
        if fans.get("failed"):
            return "failed"
        return "skipped" if fans and not any(fans.get(one) for one in ("pending", "waiting")) else "pending"
    for state in ("running", "leased", "retry_wait"):
        if counts.get(state):
            return "running" if state == "leased" else state
    if counts.get("ready") or counts.get("pending"):
        if ended_of(node):
            return "running"
        return "ready" if counts.get("ready") else "pending"
    return next((state for state in ("failed", "succeeded", "cancelled", "skipped") if counts.get(state)), "pending")


def held_barriers(task: Mapping[str, Any]) -> list[Node]:
    """The nodes whose join nothing but a person can open: only failed branches hold it."""
    found = []
    for node in task.get("nodes", ()):
        barrier = node.get("barrier")
        if barrier and barrier.get("on_failed") == "hold" and barrier.get("states", {}).get("waiting"):
            settled = barrier["arrived"] + barrier["failed"] + barrier["skipped"]
            if barrier["failed"] and settled >= barrier["expected"]:
                found.append(node)
    return found


def can_be_reopened(task: Mapping[str, Any], joining: Node) -> bool:
    """Whether a step of the branches that this node joins has failed: one that failed further inside can't be reopened."""
    scopes = [node["scope"] for node in task["nodes"] if node["name"] in joining["after"]]
    depth = len(joining["scope"]) + 1
    return any(
        node["counts"].get("failed") and node["scope"] in scopes and len(node["scope"]) == depth
        for node in task["nodes"]
    )


def needs_a_person(task: Mapping[str, Any]) -> bool:
    """Whether a task goes on only when somebody does something: nothing of it runs, and a join is held."""
    moving = ("ready", "leased", "running", "retry_wait")
    active = any(node["counts"].get(state) for node in task.get("nodes", ()) for state in moving)
    return not active and bool(held_barriers(task))


class Painter:
    """Turns a task into lines; `color` and `ascii` as the session has it."""

    def __init__(self, *, color: bool, ascii_only: bool) -> None:
        self.color = color
        self.ascii = ascii_only

    def head(self, task: Mapping[str, Any]) -> str:
        """The first line: which task, and how it stands."""
        state = "paused" if task.get("paused_at") and task["state"] not in ENDED else str(task["state"])
        ended = task.get("ended_at")
        took = between(task.get("created_at"), ended) if ended else since(task.get("created_at"))
        name = f"{task.get('workflow')} v{task.get('version')} {task.get('task_id')}"
        return f"{self._bold(name)}  {self.mark(state)} {self._colored(state)} {duration(took or 0.0)}"

    def nodes(self, task: Mapping[str, Any], pace: Pace | None = None) -> Iterator[str]:
        """A line for each node, and one for each join before it."""
        nodes = list(task.get("nodes", ()))
        expected = {
            str(after): int(node["barrier"]["expected"])
            for node in nodes
            if node.get("join") and node.get("barrier") and node["barrier"]["count"] == 1
            for after in node["after"]
        }
        width = max([_NAME, *(len(str(node["name"])) + 2 * len(node["scope"]) for node in nodes)])
        for node in nodes:
            indent = "  " * len(node["scope"])
            if node.get("join") and node.get("barrier"):
                yield f"  {indent}{self._join(node, width - len(indent))}"
            state = state_of(node)
            name = f"{indent}{node['name']}".ljust(width)
            many = bool(node["scope"]) or node["total"] > 1
            facts = self._many(node, expected, pace) if many else self._one(node, state)
            yield f"  {self.mark(state)} {name} {facts}".rstrip()

    def mark(self, state: str) -> str:
        """The sign of a state."""
        sign, plain, color = _MARKS.get(state, ("·", ".", None))
        text = plain if self.ascii else sign
        return styled(text, fg=color) if self.color and color else text

    def _one(self, node: Node, state: str) -> str:
        facts = [state]
        seconds = between(node.get("first_at"), node.get("last_at"))
        if state in _DONE and seconds is not None:
            facts = [duration(seconds)] if state == "succeeded" else [state, duration(seconds)]
        elif state == "running":
            facts.append(duration(since(node.get("first_at")) or 0.0))
        return "   ".join([*facts, *_marks_of(node)])

    def _many(self, node: Node, expected: Mapping[str, int], pace: Pace | None) -> str:
        done, total = ended_of(node), max(int(node["total"]), expected.get(str(node["name"]), 0))
        if not total:
            return "pending"
        filled = round(_BAR * done / total)
        full, empty = ("#", ".") if self.ascii else ("█", "░")
        facts = [full * filled + empty * (_BAR - filled), f"{done:,}/{total:,}"]
        rate = pace.rates.get(str(node["name"]), 0.0) if pace else 0.0
        if rate and done < total:
            facts += [f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s", f"{duration((total - done) / rate)} left"]
        if failed := node["counts"].get("failed"):
            facts.append(styled(f"{failed:,} failed", fg="red") if self.color else f"{failed:,} failed")
        return "   ".join([*facts, *_marks_of(node)])

    def _join(self, node: Node, width: int) -> str:
        barrier = node["barrier"]
        states = barrier["states"]
        state = "succeeded" if states.get("released") else "failed" if states.get("failed") else "waiting"
        if states.get("waiting"):
            state = "pending"
        facts = [f"{barrier['arrived']:,}/{barrier['expected']:,}"]
        if barrier["rule"] != "all" and barrier["need"] != barrier["expected"]:
            facts.append(f"needs {barrier['need']:,}")
        if barrier["failed"]:
            verb = "hold it" if barrier["on_failed"] == "hold" else "failed"
            facts.append(f"{barrier['failed']:,} {verb}")
        if barrier["count"] > 1:
            facts.append(f"{barrier['count']:,} joins")
        name = f"join {barrier['rule']}".ljust(width)
        return f"{self.mark(state)} {name} {'   '.join(facts)}"

    def _bold(self, text: str) -> str:
        return styled(text, bold=True) if self.color else text

    def _colored(self, state: str) -> str:
        color = _MARKS.get(state, ("", "", None))[2]
        return styled(state, fg=color) if self.color and color else state


def one_line(task: Mapping[str, Any]) -> str:
    """A task in one plain line, for logs: `fetch 7,412/10,000 (3 failed), draft pending`."""
    parts = []
    for node in task.get("nodes", ()):
        if node["scope"] or node["total"] > 1:
            failed = node["counts"].get("failed", 0)
            parts.append(
                f"{node['name']} {ended_of(node):,}/{node['total']:,}" + (f" ({failed:,} failed)" if failed else "")
            )
        else:
            parts.append(f"{node['name']} {state_of(node)}")
    return ", ".join(parts)


def _marks_of(node: Node) -> list[str]:
    facts = []
    if node.get("rounds", 0) > 1:
        facts.append(f"round {node['rounds']}")
    if node.get("take_overs"):
        facts.append(f"{node['take_overs']:,} taken over")
    if node.get("refused_writes"):
        facts.append(f"{node['refused_writes']:,} writes refused")
    return facts
