"""`why`: every state that the engine can reach has its true reason, from the rows by which it is scheduled."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from kit.deciding import Deciding
from kit.engine import Engine
from kit.outside import Outside
from why_scenes import SCENES, Scene, Stage

from stanchion.authority.why_codes import WHY, Reason
from stanchion.authority.withholding import reason_details, reason_text
from stanchion.cli.command import Branch, Leaf
from stanchion.cli.tree import TREE
from stanchion.contracts.actions import ACTIONS
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
        if way.action is not None:
            assert set(way.given) <= {one.name for one in ACTIONS[way.action].fields}
        if not way.command.startswith("look for "):
            check_command(way.command)
    shown = f"{reason_text(reason, whole=False)} {reason_details(reason, whole=False)}"
    assert not re.search(r"secret|ValueError|\(test\)|read it", shown), "a payload, or somebody's words, for everybody"


def check_command(line: str) -> None:
    """The command is one."""
    program, *words = line.split()
    assert program == "stanchion"
    place: Any = TREE
    while isinstance(place, Branch):
        place = place.commands.get(words.pop(0))
    assert isinstance(place, Leaf), line


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
