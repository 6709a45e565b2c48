"""`make demo` as a person runs it: approved from another terminal, and ended at bad moments."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.world import PATIENCE

from stanchion.embedded.processes import birth_of

Eventually = Callable[..., Any]
CHECKOUT = Path(__file__).parents[3]
# Tests that run in the background of a shell ignore Ctrl-C, and would hand that down.
MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from examples.studio.demo import main
sys.exit(main())
"""
SAID = re.compile(r"^ *\d+\.\d s +(.*)$")


class Running:
    """The demo in a folder of its own, read line by line."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.root = folder / ".stanchion" / "demo"
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, word: str) -> str:
        """The next line that has this word in it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            if word in line:
                found = SAID.match(line)
                return found[1] if found else line
        raise AssertionError("\n".join(self.lines))

    def pids(self) -> dict[str, int]:
        """All processes that it has started, by name."""
        found: dict[str, int] = {}
        for file in ("servers.json", "run/servers.json"):
            document = json.loads((self.root / "stack" / file).read_text())
            found |= {one["name"]: one["pid"] for one in document["processes"]}
        return found

    def end(self) -> int:
        """Read to its end; the exit code."""
        _, rest = self.process.communicate(timeout=2 * PATIENCE)
        self.lines += rest.splitlines()
        return self.process.returncode


@pytest.fixture
def demo(tmp_path: Path, sources: str) -> Iterator[Running]:
    """Started, on two documents; it asks before it publishes."""
    running = Running(tmp_path, "--sources", sources, "--topic", "how leases and fences work", "--approve", "ask")
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.communicate(timeout=PATIENCE)


def test_approved_from_another_terminal(demo: Running, tmp_path: Path) -> None:
    """With the command that it prints; both faults hit, and the press has published once."""
    demo.until("with one of these")
    command = demo.until("approval approve").strip()
    done = subprocess.run(
        f"{command} --yes", shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert demo.end() == 0, demo.lines
    summary = json.loads((demo.root / "summary.json").read_text())
    assert summary["state"] == "completed"
    assert summary["press_executions"] == 1
    assert summary["operations"] == {"prepared": 1, "confirmed": 1, "became_unknown": 2, "reconciled": 2}
    assert summary["approval"]["approved_by"] == "person:editor"
    assert len(summary["approval"]["bound_hash"]) == 64
    assert summary["artifact"]["version"] == 1
    assert summary["take_overs"] >= 2
    assert summary["refused_writes"] >= 1
    assert summary["barrier"]["released"] == 1
    assert any("killed worker-3 (SIGKILL)" in line for line in demo.lines)
    assert any("2 requests (refused; published, the reply lost), 1× published" in line for line in demo.lines)


@pytest.mark.parametrize(
    ("moment", "number", "code"), [("accepted:", signal.SIGINT, 130), ("with one of these", signal.SIGKILL, -9)]
)
def test_nothing_is_left_when_it_is_ended(
    demo: Running, moment: str, number: signal.Signals, code: int, eventually: Eventually
) -> None:
    """By Ctrl-C or without a word: the press goes too."""
    demo.until(moment)
    left = demo.pids()
    assert "press" in left
    demo.process.send_signal(number)
    assert demo.end() == code, demo.lines
    eventually(lambda: not [name for name, pid in left.items() if birth_of(pid) is not None], seconds=PATIENCE)
