"""How a command ends: its exit code, and what it says on stderr."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stanchion.cli import exit_codes
from stanchion.cli.errors_text import tell
from stanchion.cli.main import run
from stanchion.cli.session import Session
from stanchion.errors import (
    Conflict,
    InvariantViolated,
    NotAllowed,
    NotFound,
    StanchionError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unprocessable,
)
from stanchion.sdk.faults import TaskFailed, WaitTimeout


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("E-FIND-01", "x"), 3),
        (Unauthenticated("E-AUTH-02", "x"), 4),
        (NotAllowed("E-AUTH-03", "x"), 4),
        (Conflict("E-TASK-05", "x"), 5),
        (Unprocessable("E-IDEM-01", "x"), 5),
        (Unprocessable("E-TASK-02", "x"), 2),
        (TooLarge("E-SIZE-01", "x"), 2),
        (Unavailable("E-API-01", "x"), 6),
        (WaitTimeout("E-WAIT-01", "x"), 7),
        (InvariantViolated("E-BUG-01", "x"), 1),
        (RuntimeError("x"), 1),
    ],
)
def test_errors_have_exit_codes(error: BaseException, code: int) -> None:
    """A script learns by the code alone what kind of failure it was."""
    assert exit_codes.of_error(error) == code


@pytest.mark.parametrize(("state", "code"), [("completed", 0), ("failed", 10), ("cancelled", 11), ("unknown", 13)])
def test_states_of_tasks_have_exit_codes(state: str, code: int) -> None:
    """A failed task is not a failed command."""
    assert exit_codes.of_task(state) == code


def told(capsys: pytest.CaptureFixture[str], error: StanchionError, **options: Any) -> str:
    tell(error, Session(**options))
    captured = capsys.readouterr()
    assert not captured.out, "stdout is data"
    return captured.err


def test_an_error_says_code_cause_fix_and_request(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that helps, and nothing that is missing."""
    error = NotFound("E-FIND-01", "no such task", where="$.id", why="one\ntwo", fix="look", request_id="r-1")
    assert told(capsys, error) == (
        "error[E-FIND-01] no such task ($.id)\n  cause: one\n         two\n  fix: look\n  request: r-1\n"
    )
    assert told(capsys, Unavailable("E-NONE-99", "away")) == "error[E-NONE-99] away\n"


def test_the_usual_fix_of_a_code_is_told_where_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    """Every code has a way out."""
    assert "fix: Use task retry" in told(capsys, Conflict("E-TASK-05", "ended"))


def test_programs_get_an_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr, so that stdout stays empty or what it was."""
    document = json.loads(told(capsys, NotFound("E-FIND-01", "no", fix="look"), json=True))
    assert document == {"v": 1, "error": {"code": "E-FIND-01", "what": "no", "fix": "look"}}


def test_an_unexpected_error_is_a_bug_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """People get one line and the way to see more; --debug shows the traceback."""
    import importlib.metadata

    def broken(_name: str) -> str:
        raise RuntimeError("boom")

    monkeypatch.setattr(importlib.metadata, "version", broken)
    assert run(["version"]) == 1
    err = capsys.readouterr().err
    assert "error[E-BUG-01] RuntimeError: boom" in err
    assert "Traceback" not in err
    assert run(["version", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_has_its_own_code(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """130, as shells count it."""
    import importlib.metadata

    def interrupted(_name: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.metadata, "version", interrupted)
    assert run(["version"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_nothing_named_is_unreachable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Without any address the command says which places it looked at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STANCHION_HOME", str(tmp_path))
    monkeypatch.delenv("STANCHION_API_URL", raising=False)
    assert run(["task", "list"]) == 6
    assert "stanchion dev" in capsys.readouterr().err


def test_a_failed_task_is_told_with_its_id() -> None:
    """Programs that catch it know which task it was."""
    assert TaskFailed("E-TASK-20", "x", task_id="tsk_1").task_id == "tsk_1"


class TestStreams:
    """What whoever started the command has closed, or filled, is no bug of the command."""

    def run(self, arguments: str) -> tuple[int, str]:
        """The exit code and standard error of a shell that runs `stanchion` with redirections."""
        command = f"{shlex.quote(sys.executable)} -m stanchion.cli.main {arguments}"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    @pytest.mark.parametrize("arguments", ["version >&-", "version <&-", "version >&- 2>&-"])
    def test_a_closed_stream(self, arguments: str) -> None:
        code, said = self.run(arguments)
        assert code == 0
        assert "E-BUG" not in said

    def test_a_reader_that_has_had_enough(self) -> None:
        code, said = self.run("task submit --help | head -c 1")
        assert code == 0
        assert "Traceback" not in said

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
    def test_a_full_disk(self) -> None:
        code, said = self.run("version >/dev/full")
        assert code == 1
        assert "can't be written" in said
        assert "E-BUG" not in said
