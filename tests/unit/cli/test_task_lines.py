"""A task as lines."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.cli.task_lines import Pace, Painter, ended_of, held_barriers, needs_a_person, one_line, state_of

PLAIN = Painter(color=False, ascii_only=True)


def node(name: str, counts: dict[str, int], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "counts": counts,
        "total": sum(counts.values()),
        "fans": {},
        "scope": [],
        "after": [],
        "join": None,
        "barrier": None,
        **more,
    }


def barrier(**more: Any) -> dict[str, Any]:
    return {
        "barrier_id": "bar_1",
        "rule": "all",
        "on_failed": "fail",
        "states": {"waiting": 1},
        "count": 1,
        "need": 10,
        "expected": 10,
        "arrived": 6,
        "failed": 0,
        "skipped": 0,
        **more,
    }


def task(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "task_id": "tsk_1",
        "workflow": "brief",
        "version": 7,
        "state": "running",
        "created_at": "2030-01-31T12:00:00Z",
        "ended_at": None,
        "nodes": list(nodes),
        **more,
    }


@pytest.mark.parametrize(
    ("counts", "fans", "state"),
    [
        ({}, {}, "pending"),
        ({"pending": 1}, {}, "pending"),
        ({"ready": 1}, {}, "ready"),
        ({"leased": 1}, {}, "running"),
        ({"running": 1, "succeeded": 3}, {}, "running"),
        ({"ready": 5, "succeeded": 3}, {}, "running"),
        ({"retry_wait": 1}, {}, "retry_wait"),
        ({"succeeded": 3, "failed": 1}, {}, "failed"),
        ({"succeeded": 3}, {}, "succeeded"),
        ({"skipped": 3}, {}, "skipped"),
        ({}, {"succeeded": 1}, "skipped"),
        ({}, {"pending": 1}, "pending"),
    ],
)
def test_one_word_stands_for_many_steps(counts: dict[str, int], fans: dict[str, int], state: str) -> None:
    """What still moves comes first, then what went wrong; an empty fan-out that closed has nothing to do."""
    assert state_of(node("x", counts, fans=fans)) == state


def test_a_fan_out_has_a_bar_of_all_that_are_expected() -> None:
    """Children are made in chunks: the join knows how many there will be."""
    work = node("work", {"succeeded": 5, "failed": 1, "ready": 2}, scope=["work"], after=["plan"])
    total = node("total", {"pending": 1}, after=["work"], join={"rule": "all"}, barrier=barrier(failed=1, arrived=5))
    lines = list(PLAIN.nodes(task(work, total)))
    assert lines[0].split() == [">", "work", "#" * 14 + "." * 10, "6/10", "1", "failed"]
    assert lines[1].split() == [".", "join", "all", "5/10", "1", "failed"]
    assert lines[2].split() == [".", "total", "pending"]


def test_a_threshold_and_a_hold_are_named() -> None:
    """How many it needs, and how many failed ones hold it."""
    held = barrier(rule="at_least", need=9, failed=4, on_failed="hold")
    lines = list(PLAIN.nodes(task(node("total", {"pending": 1}, after=["w"], join={"rule": "all"}, barrier=held))))
    assert lines[0].split() == [".", "join", "at_least", "6/10", "needs", "9", "4", "hold", "it"]


def test_what_went_wrong_and_right_shows() -> None:
    """Rounds, take-overs and refused writes stand beside the step."""
    marked = node("a", {"succeeded": 1}, rounds=3, take_overs=2, refused_writes=1)
    line = next(PLAIN.nodes(task(marked)))
    assert "round 3   2 taken over   1 writes refused" in line


def test_a_task_needs_a_person_only_when_nothing_else_moves() -> None:
    """A held join is a person's matter once all its branches have settled and nothing of the run is under way."""
    done = node("work", {"succeeded": 6, "failed": 4}, scope=["work"])
    held = node("total", {"pending": 1}, join={"rule": "all"}, barrier=barrier(on_failed="hold", failed=4))
    assert needs_a_person(task(done, held))
    assert [one["name"] for one in held_barriers(task(done, held))] == ["total"]
    assert not needs_a_person(task(node("other", {"ready": 1}), done, held))
    open_still = node("total", {"pending": 1}, join={"rule": "all"}, barrier=barrier(on_failed="hold", failed=3))
    assert not needs_a_person(task(done, open_still))
    failing = node("total", {"pending": 1}, join={"rule": "all"}, barrier=barrier(on_failed="collect", failed=4))
    assert not needs_a_person(task(done, failing))


def test_the_head_says_how_it_stands() -> None:
    """The state is always a word, paused wins over running, and an ended task has its duration."""
    ended = task(state="completed", ended_at="2030-01-31T12:02:11Z")
    assert PLAIN.head(ended) == "brief v7 tsk_1  # completed 2 m 11 s"
    assert "= paused" in PLAIN.head(task(paused_at="2030-01-31T12:00:05Z"))


def test_one_plain_line_is_for_logs() -> None:
    """Counts where there are many, the state where there is one."""
    nodes = (node("plan", {"succeeded": 1}), node("work", {"succeeded": 5, "failed": 2, "ready": 3}, scope=["work"]))
    assert one_line(task(*nodes)) == "plan succeeded, work 7/10 (2 failed)"


def test_pace_is_measured_between_looks() -> None:
    """A rate comes from two looks that are a second apart or more, smoothed."""
    pace = Pace()
    pace.look([node("work", {"succeeded": 0})], 0.0)
    pace.look([node("work", {"succeeded": 5})], 0.5)
    assert pace.rates == {}
    pace.look([node("work", {"succeeded": 20})], 2.0)
    assert pace.rates == {"work": 10.0}
    pace.look([node("work", {"succeeded": 20})], 4.0)
    assert pace.rates == {"work": 6.0}
    assert ended_of(node("work", {"succeeded": 1, "failed": 2, "ready": 4})) == 3
