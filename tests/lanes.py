"""Runs all tests in lanes side by side, and tells at the end how each went: `make test`.

Three lanes have what starts processes, kills and freezes them: they mostly wait. The fourth has what computes, and
steps back (`nice`) whenever another one wants a core, so that no service under test is short of time for its sake. Each
has its own servers. The arguments are passed on to pytest in all of them.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from types import FrameType
from typing import IO, Final

COMPUTE: Final = ("tests/unit", "tests/state", "tests/integration/db", "tests/fault/test_fault_checker.py")
STACKS: Final = ("tests/e2e", "tests/fault")
BROWSER: Final = ("tests/browser",)
"""Needs Chromium, which `make test` must not: `make test-browser` runs it."""
SERVICES: Final = ("tests/integration/cli", "tests/integration/maintenance")
LANES: Final = {
    "stacks": [*STACKS, *(f"--ignore={path}" for path in COMPUTE)],
    "services": [*SERVICES],
    "parts": ["tests", *(f"--ignore={path}" for path in (*STACKS, *SERVICES, *COMPUTE, *BROWSER))],
    "compute": [*COMPUTE],
}
NICE: Final = {"compute": 5}
NOTHING_SELECTED: Final = 5
"""What pytest exits with when it ran no test: right for a lane when `-k` names tests of another."""


@dataclass
class Lane:
    """One pytest process and what it said last."""

    name: str
    process: subprocess.Popen[str]
    last: str = ""
    reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        assert self.process.stdout is not None
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout,))
        self.reader.start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self.last = line.strip() or self.last
            say(f"{self.name:9} | {line}")

    def wait(self) -> int:
        """Its exit code, once all that it said is shown."""
        code = self.process.wait()
        self.reader.join()
        return code


def say(text: str) -> None:
    """Show it at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def start(name: str, arguments: list[str]) -> Lane:
    """Start a lane, with a cache of its own."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir=.pytest_cache/{name}", *LANES[name], *arguments]
    if name in NICE:
        command = ["nice", "-n", str(NICE[name]), *command]
    # a session of its own: what interrupts `make` reaches it once, from here
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    return Lane(name, process)


def main(arguments: list[str]) -> int:
    """Run all lanes; 0 when no test failed and some ran."""
    started = time.monotonic()
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # a shell lets what it starts in the background ignore it: lanes must not
    lanes = [start(name, arguments) for name in LANES]

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for lane in lanes:
            if lane.process.poll() is None:
                lane.process.send_signal(signal.SIGINT)  # pytest then stops its servers, and this waits for that

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    codes = [lane.wait() for lane in lanes]
    for lane, code in zip(lanes, codes, strict=True):
        say(f"{lane.name:9} : {lane.last.strip('= ')}{'' if code == 0 else f'  (exit {code})'}\n")
    say(f"{'all':9} : {time.monotonic() - started:.0f} s\n")
    bad = [code for code in codes if code not in (0, NOTHING_SELECTED)]
    return bad[0] if bad else min(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
