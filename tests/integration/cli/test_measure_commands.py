"""Queues, the outbox, lag, the overview and pages by command line, on a whole stack."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cli_kit import PATIENCE, Shell

from stanchion.cli.stack import Stack
from stanchion.contracts import ids
from stanchion.contracts.ids import new_id

Eventually = Callable[..., object]

WATCH = "import sys; from stanchion.cli.main import main; sys.argv = ['stanchion', 'top', '--every', '0.5']; main()"


def submitted(shell: Shell) -> str:
    """A small task in the default queue."""
    return shell("task", "submit", "squares", "n:=2", "--quiet").id


def test_a_paused_queue_starts_nothing_until_it_is_resumed(shell: Shell, eventually: Eventually) -> None:
    """The reason is shown to whoever asks why; what waited is done at once after that."""
    paused = shell("queue", "pause", "default", "--reason", "vendor outage")
    assert (paused.code, "default is paused" in paused.out) == (0, True)
    try:
        task = submitted(shell)
        again = shell("queue", "pause", "default", "--reason", "another")
        assert "was paused before" in again.out
        assert "vendor outage" in again.out
        why = shell("why", task).out
        assert "W-PAUSED" in why
        assert "stanchion queue resume default" in why
        shown = shell("queue", "show", "default", "--json").document
        assert shown["ready"] >= 1
        assert shown["paused"]["reason"] == "vendor outage"
        assert shell("task", "show", task, "--json").document["state"] == "accepted"
    finally:
        resumed = shell("queue", "resume", "default")
    assert resumed.code == 0
    assert shell("task", "wait", task, "--timeout", "30").code == 0
    assert "was not paused" in shell("queue", "resume", "default").out
    assert shell("queue", "pause", "default").code == 2
    assert shell("queue", "show", "Not_A_Queue").code == 2


def test_queues_are_listed_with_rates_once_somebody_sampled(shell: Shell, eventually: Eventually) -> None:
    """The orchestrator of the stack samples by itself."""
    submitted(shell)

    def rated() -> bool:
        found = {one["queue"]: one for one in shell("queue", "list", "--json").document["items"]}
        return found["default"]["rate_out"] is not None and found["default"]["workers"] > 0

    assert eventually(rated, PATIENCE)
    listed = shell("queue", "list")
    assert "default" in listed.out
    assert "ADVICE" in listed.out


def test_the_outbox_and_the_lag_of_readers_are_shown(shell: Shell, eventually: Eventually) -> None:
    """Relays hold all partitions; the workers' group is known, and after a while nothing is behind."""
    found = shell("outbox", "status", "--json").document
    assert found["held"] == len(found["partitions"]) > 0
    assert "partitions held" in shell("outbox", "status").out
    task = submitted(shell)
    assert shell("task", "wait", task, "--timeout", "30").code == 0

    def caught_up() -> bool:
        lag = shell("lag", "--json").document
        groups = {group["name"]: group for group in lag["groups"]}
        workers = groups.get("stanchion-workers", {"lag": None, "state": None})
        return (lag["state"], workers["lag"], workers["state"]) == ("known", 0, "steady")

    assert eventually(caught_up, PATIENCE)
    assert "stanchion-workers" in shell("lag", "stanchion-workers").out
    assert shell("lag", "nobody").code == 3
    again = shell("outbox", "republish", task)
    assert (again.code, "0 ready steps" in again.out) == (0, True)


def test_top_prints_a_table_where_nobody_watches(shell: Shell) -> None:
    """And one document for programs."""
    shown = shell("top")
    assert shown.code == 0
    assert "QUEUE" in shown.out
    assert "workers" in shown.out
    document = shell("top", "--json").document
    assert {"queues", "workers", "outbox", "approvals_open", "operations_in_doubt", "dead_letters"} <= set(document)
    assert shell("top", "--once", "--ascii").code == 0


def test_top_is_live_on_a_terminal_until_it_is_interrupted(stack: Stack, project: Path, eventually: Eventually) -> None:
    """It draws itself again in place, and Ctrl-C ends it without an error."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(project)
        os.environ |= {"STANCHION_HOME": str(project / "home"), "TERM": "xterm", "COLUMNS": "140", "LINES": "40"}
        os.execv(sys.executable, [sys.executable, "-c", WATCH])
    said = bytearray()

    def drawn() -> bool:
        with suppress(OSError):  # what a terminal says when nobody is at its other end any more
            while select.select([terminal], [], [], 0)[0]:
                said.extend(os.read(terminal, 4_096))
        return said.count(b"queue") >= 1 and b"advice" in said and b"workers" in said

    try:
        assert eventually(drawn, PATIENCE)
        os.write(terminal, b"\x03")

        def ended() -> bool:
            drawn()
            return os.waitpid(child, os.WNOHANG)[0] != 0

        assert eventually(ended, PATIENCE)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(terminal)


def test_pages_are_opened_by_any_id(
    shell: Shell, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """The address follows from the id; a run stands on the page of its task; a browser that is there is called."""
    task = submitted(shell)
    base = stack.page_url
    assert shell("open", "--print").out.strip() == f"{base}/tasks/{task}"
    for prefix, place in (
        (ids.STEP, "steps"),
        (ids.OPERATION, "operations"),
        (ids.APPROVAL, "approvals"),
        (ids.ARTIFACT, "artifacts"),
        (ids.WORKER, "workers"),
        (ids.DEAD_LETTER, "dead-letters"),
    ):
        thing = ids.public(prefix, new_id())
        assert shell("open", thing, "--print").out.strip() == f"{base}/{place}/{thing}"
    run = shell("task", "show", task, "--json").document["run_id"]
    assert shell("open", run, "--print").out.strip() == f"{base}/tasks/{task}"
    assert shell("open", ids.public(ids.RUN, new_id()), "--print").code == 3
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("STANCHION_PAGE_URL", "https://example.test/")
    monkeypatch.setattr("webbrowser._tryorder", None)
    monkeypatch.setenv("BROWSER", str(browser))
    assert shell("open", task).out.strip() == f"https://example.test/tasks/{task}"
    eventually(lambda: opened.exists() and opened.read_text().strip() == f"https://example.test/tasks/{task}", PATIENCE)
