"""Deciding by command line on a whole stack: asked by a worker, waited for by nobody, and the task goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cli_kit import PATIENCE, Shell

Eventually = Callable[..., object]


@pytest.fixture
def signed_out(shell: Shell) -> Iterator[None]:
    """Whoever signed in is signed out after the test."""
    yield
    shell("logout")


@pytest.mark.usefixtures("signed_out")
@pytest.mark.parametrize(("verb", "result"), [("approve", "granted"), ("reject", "rejected")])
def test_a_person_decides(shell: Shell, eventually: Eventually, verb: str, result: str) -> None:
    """The key submits, `why` says whom it waits for, a person finds it in the inbox and decides."""
    task = shell("task", "submit", "approving", "title=Spring", "-q").id
    eventually(lambda: "W-APPROVAL" in shell("why", task).out, seconds=PATIENCE)
    (found,) = shell("approval", "list", "--task", task, "--json").document["items"]
    approval = found["approval_id"]
    assert shell("approval", verb, approval, "--yes").code == 4  # a key decides nothing
    assert shell("login", "--as", "rev", "--role", "approver").code == 0
    mine = shell("approval", "list", "--mine", "--json").document["items"]
    assert approval in [one["approval_id"] for one in mine]
    shown = shell("approval", "show", approval)
    assert "Publish Spring?" in shown.out
    assert shell("approval", verb, approval).code == 2  # without consent
    assert shell("approval", verb, approval, "--hash", "ffff", "--yes").code == 5  # something else was shown
    told = shell("approval", verb, approval, "--comment", "read it", "--yes")
    assert (told.code, result in told.out) == (0, True), told.err
    assert shell("approval", verb, approval, "--yes").code == 0  # the same again
    assert shell("task", "wait", task).code == 0
    assert "read it" in shell("approval", "show", approval).out
    assert shell("logout").code == 0
    out = shell("task", "result", task).out
    assert result in out
    assert "person:rev" in out
