"""Every code of a refused definition, with its message: what, where, why and fix."""

import cases_approvals
import cases_joins
import cases_operations
import cases_steps
import cases_wiring
import pytest
from refusal_kit import CASES, Case, Page, Url

from stanchion.errors import CODES, Rejected
from stanchion.workflow import Ctx, Workflow
from stanchion.workflow.faults import DEFINITION_CODES

MODULES = (cases_approvals, cases_joins, cases_operations, cases_steps, cases_wiring)
FILES = tuple(module.__name__ + ".py:" for module in MODULES)


def whole(define: Case) -> None:
    wf = Workflow("brief", version=7)
    define(wf)
    wf.graph()


def _id(case: tuple[str, str, Case]) -> str:
    return f"{case[0]}: {case[1][:60]}"


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_a_wrong_definition_is_refused_with_its_place_and_a_way_out(case: tuple[str, str, Case]) -> None:
    """The error has the expected code and words, points into this file and names a fix."""
    code, message, define = case
    with pytest.raises(Rejected) as caught:
        whole(define)
    error = caught.value
    assert (error.code, message in str(error)) == (code, True), str(error)
    assert error.fix
    assert error.where
    if not code.startswith("E-STEP-3"):
        assert any(file in error.where for file in FILES) or "refusal_kit.py:" in error.where or code == "E-WIRE-10"
        assert len(str(error)) < 700


def test_every_code_is_tested_and_explained() -> None:
    """No code without a meaning, a fix, and a test that shows its message."""
    shown = {code for code, _, _ in CASES} | {"E-LOAD-01", "E-LOAD-02"}  # test_workflow_registry shows these two
    assert shown == set(DEFINITION_CODES)
    assert all(CODES[code].meaning and CODES[code].fix for code in DEFINITION_CODES)


def test_the_message_of_the_handbook() -> None:
    """Code, what, where, why and fix stand in their lines."""
    wf = Workflow("brief")

    @wf.step()
    async def plan(ctx: Ctx) -> list[str]:
        return []

    with pytest.raises(Rejected) as caught:

        @wf.step(after=plan, each=True)
        async def fetch(ctx: Ctx, url: Url) -> Page:
            return Page("")

    what, why, fix = str(caught.value).splitlines()
    assert what.startswith("E-WIRE-01 fetch() takes url: Url but plan() returns list[str] (")
    assert what.endswith("  @wf.step(after=plan, each=True))")
    assert why == "each=True passes one element of plan's result (list[str] → str)"
    assert fix == "fix: return list[Url] from plan, or take url: str in fetch"
