"""Runs of every shape: wide, nested, empty, failing, steering; each has the result that it has on paper."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from e2e_flows import ODD
from kit.world import PATIENCE, Task, World, until

from stanchion.contracts import ids
from stanchion.sdk.client import Client


def run(world: World, name: str, node: str, state: str = "completed", /, **values: Any) -> tuple[Task, Any]:
    """Run a task to its end, judge it, and return the result of a step."""
    task = world.submit(name, **values)
    assert world.ended(task, 3 * PATIENCE) == state
    world.judge(task)
    return task, world.result(task, node)


def reason_of(world: World, task: Task) -> dict[str, Any]:
    """Why the task failed."""
    return dict(world.sql("SELECT reason FROM stanchion.task WHERE task_id = %s", task.task_id)[0])


def test_ten_thousand_children_once(world: World) -> None:
    """10,000 children: the code of each runs once (or once more for a lease that was lost), the join gets all once."""
    task, result = run(world, "e2e_many", "add_up", count=10_000)
    assert result == [10_000, 49_995_000]
    times = Counter(e.step_id for e in world.executions())
    children = world.steps(task, "visit")
    assert len(children) == 10_000
    assert not [s for s in children if not 1 <= times[s["step_id"]] <= 1 + s["losses"]]


def test_nested_three_by_three_by_three(world: World) -> None:
    """Three levels of width three: 27 leaves, 9 + 3 + 1 joins, one result."""
    task, result = run(world, "e2e_nested", "join_outer", width=3)
    assert result == 27
    joins = ("leaf", "join_inner", "join_middle", "join_outer")
    assert [len(world.steps(task, node)) for node in joins] == [27, 9, 3, 1]


@pytest.mark.parametrize("name", ["e2e_many", "e2e_nested"])
def test_an_empty_fan_out(name: str, world: World) -> None:
    """Without items the join runs at once, on every level."""
    if name == "e2e_many":
        assert run(world, name, "add_up", count=0)[1] == [0, 0]
    else:
        assert run(world, name, "join_outer", width=0)[1] == 0


def test_collect_takes_failed_children_as_arrived(world: World) -> None:
    """Nine results and one error reach the join."""
    _, result = run(world, "e2e_partial", "take_stock")
    assert result == {"ok": [n for n in range(10) if n != 7], "failed": [7]}


def test_one_failed_child_fails_a_join_of_all(world: World) -> None:
    """The run ends with the reason, and the join never runs."""
    task, result = run(world, "e2e_strict", "all_or_nothing", "failed")
    assert result is None
    assert world.steps(task, "all_or_nothing")[0]["state"] in ("skipped", "cancelled")
    reason = reason_of(world, task)
    assert reason["code"] == "E-JOIN-20"
    assert "1 of 10 children failed" in reason["what"]


def test_a_held_join_opens_when_its_child_is_reopened(world: World, http: Client) -> None:
    """The failed child is reopened by hand, and the join gets all three."""
    task = world.submit("e2e_holding")
    failed = until(lambda: [s for s in world.steps(task, "once_bitten") if s["state"] == "failed"], PATIENCE)
    until(lambda: sum(s["state"] == "succeeded" for s in world.steps(task, "once_bitten")) == 2, PATIENCE)
    assert world.state(task) == "running"
    http.reopen([ids.public(ids.STEP, failed[0]["step_id"])], reason="looked into it")
    assert world.ended(task) == "completed"
    assert world.result(task, "patient") == [0, 1, 2]
    world.judge(task)


def test_retries_are_counted(world: World) -> None:
    """Two retries are three attempts: enough for one, not for the other, whose last error is the reason."""
    assert run(world, "e2e_flaky", "third_time", succeed=True)[1] == 3
    task, _ = run(world, "e2e_flaky", "third_time", "failed", succeed=False)
    assert (world.steps(task)[0]["attempts"], world.steps(task)[0]["fence"]) == (3, 3)
    assert "attempt 3" in str(reason_of(world, task))


def test_large_results_are_joined(world: World) -> None:
    """A hundred results of 200 KB and more go by reference, and the join reads them all."""
    _, result = run(world, "e2e_large", "measure", count=100, size=100_000)
    assert result == [100, 100 * 100_004]


@pytest.mark.parametrize("name", [n for n in ODD if n != "text"])
def test_values_that_can_not_be_stored_are_refused_by_name(name: str, world: World) -> None:
    """NUL, lone surrogates, NaN, infinities and integers that others would round: the step fails at once, and says so."""
    task, _ = run(world, "e2e_odd", "give", "failed", name=name)
    assert "E-DATA" in str(reason_of(world, task))
    assert world.steps(task)[0]["fence"] == 1


def test_text_in_any_script_comes_back_as_it_was(world: World) -> None:
    """Emoji with joiners, right-to-left text, letters outside the first plane."""
    assert run(world, "e2e_odd", "give", name="text")[1] == ODD["text"]


def test_go_again_and_spawn(world: World) -> None:
    """The long way round until it is large enough, then a fan-out; or the short way at once."""
    task, result = run(world, "e2e_steering", "divide", number=4)
    assert result == list(range(1, 11))
    assert world.steps(task, "short_way")[0]["state"] == "skipped"
    assert run(world, "e2e_steering", "short_way", number=12)[1] == 12


def test_an_isolated_step_runs_in_a_process_of_its_own(world: World) -> None:
    """And its result comes back."""
    _, (pid, value) = run(world, "e2e_process", "elsewhere", number=21)
    assert value == 42
    assert pid not in [w.pid for w in world.stack.workers]
