"""`why`: every state that the engine can reach has its true reason, from the rows by which it is scheduled."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from kit.deciding import Deciding
from kit.engine import Engine
from kit.outside import Outside
from why_scenes import SCENES, Scene, Stage

from stanchion.authority.why_codes import WHY, Reason
from stanchion.db.engine import Database
from stanchion.state import BarrierState, RunState, StepState, TaskState


@pytest.fixture
def stage(engine: Engine, outside: Outside, people: Deciding, db: Callable[[str], Database]) -> Stage:
    """Where scenes are played."""
    return Stage(engine, outside, people, db)


def check_rules(reason: Reason) -> None:
    """What holds for every line."""
    assert reason.text
    assert reason.next
    assert reason.evidence
    assert len(reason.ways) <= 3
    assert not re.search(r"\b(may|might|maybe|perhaps|probably)\b", f"{reason.text} {reason.next}")
    assert "None" not in reason.text
    for way in reason.ways:
        assert way.command.startswith("stanchion ") or way.command.startswith("look for ")


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_every_state_has_its_true_reason(stage: Stage, scene: Scene) -> None:
    """The scene's code is among the reasons, and each of them keeps the rules."""
    why = stage.why(*scene.play(stage))
    assert (why.kind, why.state) == (scene.kind, scene.state)
    codes = [reason.code for reason in why.reasons]
    assert scene.code in codes
    for reason in why.reasons:
        check_rules(reason)
    assert "W-DAMAGED" not in codes or scene.code == "W-DAMAGED"
    assert codes == sorted(codes, key=list(WHY).index)


def test_every_code_is_reached() -> None:
    """No code stands in the list that nothing leads to."""
    assert {scene.code for scene in SCENES} == set(WHY)


@pytest.mark.parametrize("kind", ["task", "run", "step", "barrier"])
def test_every_state_is_reached(kind: str) -> None:
    """And each has a reason of its own."""
    states = {"task": TaskState, "run": RunState, "step": StepState, "barrier": BarrierState}[kind]
    assert {scene.state for scene in SCENES if scene.kind == kind} == {state.value for state in states}
