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
    assert shell("task", "wait", task).code == (0 if verb == "approve" else 14)
    assert "read it" in shell("approval", "show", approval).out
    assert shell("logout").code == 0
    if verb == "reject":
        assert shell("task", "result", task).code == 14
        assert "E-APR-09" in shell("task", "show", task).out
        return
    out = shell("task", "result", task).out
    assert result in out
    assert "person:rev" in out


@pytest.mark.usefixtures("signed_out")
def test_what_is_asked_is_talked_about_and_changed(shell: Shell, eventually: Eventually) -> None:
    """One asks back, another answers; one changes the payload, the other approves it, and that is what goes on."""
    task = shell("task", "submit", "approving", "title=Spring", "-q").id
    eventually(lambda: shell("task", "show", task, "--json").document["state"] == "awaiting_approval", seconds=PATIENCE)
    (found,) = shell("approval", "list", "--task", task, "--json").document["items"]
    approval = found["approval_id"]
    for name in ("rita", "rev"):
        assert shell("login", "--as", name, "--role", "approver").code == 0
    assert shell("approval", "ask-back", approval, "--comment", "Which year?").code == 0
    assert shell("login", "--as", "olga", "--role", "operator").code == 0
    assert shell("approval", "answer", approval, "--comment", "This one.").code == 0
    assert shell("approval", "edit", approval, "title=Spring 2027", "--yes").code == 4
    assert shell("login", "--as", "rev").code == 0
    assert shell("approval", "edit", approval, "name=x", "--yes").code == 5
    assert shell("approval", "edit", approval, "title=Spring 2027").code == 2  # without consent
    told = shell("approval", "edit", approval, "title=Spring 2027", "--comment", "which", "--yes", "--json")
    assert told.code == 0, told.err
    edited = told.document
    shown = shell("approval", "show", edited["replaced_by"]).out
    assert "Spring 2027" in shown
    assert "edited by person:rev" in shown
    assert shell("approval", "approve", edited["replaced_by"], "--yes").code == 4
    assert shell("login", "--as", "rita").code == 0
    assert shell("approval", "approve", edited["replaced_by"], "--yes").code == 0
    assert shell("task", "wait", task).code == 0
    assert shell("logout").code == 0
    assert "Spring 2027" in shell("task", "result", task).out
