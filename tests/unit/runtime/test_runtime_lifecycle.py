"""The life of a service: order, drain, exit codes, and signals to a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stanchion.errors import InvariantViolated, StanchionError, Unavailable, Unprocessable
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.lifecycle import Service, main


class Part:
    def __init__(self, name: str, journal: list[str], *, work: int = 0, start_error: Exception | None = None) -> None:
        self.name = name
        self.journal = journal
        self.work = work  # how often it says that it is busy
        self.start_error = start_error
        self.stop_error: Exception | None = None
        self.after_start: Callable[[], None] = lambda: None

    def start(self) -> None:
        if self.start_error is not None:
            raise self.start_error
        self.journal.append(f"start {self.name}")
        self.after_start()

    def quiesce(self) -> None:
        self.journal.append(f"quiesce {self.name}")

    def busy(self) -> bool:
        self.work -= 1
        return self.work >= 0

    def stop(self, timeout: float) -> bool:
        assert timeout > 0
        self.journal.append(f"stop {self.name}")
        if self.stop_error is not None:
            raise self.stop_error
        return True


def service(*parts: Part, drain_seconds: float = 30.0) -> Service:
    made = Service("test", drain_seconds=drain_seconds, stop_seconds=1.0)
    for part in parts:
        made.add(part)
    return made


class TestOrder:
    def test_parts_start_in_order_and_stop_in_reverse(self) -> None:
        """What others build on starts first and ends last; all are quiesced before any is stopped."""
        journal: list[str] = []
        one, two = Part("one", journal, work=2), Part("two", journal)
        made = service(one, two)
        two.after_start = made.request_stop
        assert made.run() == 0
        assert journal == ["start one", "start two", "quiesce two", "quiesce one", "stop two", "stop one"]

    def test_a_part_that_can_not_start_ends_the_others(self) -> None:
        """Nothing is left running by a start that failed half-way."""
        journal: list[str] = []
        made = service(Part("one", journal), Part("two", journal, start_error=Unavailable("E-DB-01", "away")))
        assert made.run() == 6
        assert journal == ["start one", "stop one"]

    def test_a_stop_before_the_start_is_over_is_heard(self) -> None:
        """A signal in the first second counts."""
        journal: list[str] = []
        one = Part("one", journal)
        made = service(one, Part("two", journal))
        one.after_start = made.request_stop
        assert made.run() == 0
        assert journal == ["start one", "quiesce one", "stop one"]

    def test_an_error_while_stopping_does_not_keep_the_others_running(self) -> None:
        """It shows in the exit code."""
        journal: list[str] = []
        one, two = Part("one", journal), Part("two", journal)
        two.stop_error = RuntimeError("stuck")
        made = service(one, two)
        two.after_start = made.request_stop
        assert made.run() == 1
        assert journal[-2:] == ["stop two", "stop one"]


class TestDraining:
    def test_waits_for_what_is_under_way(self) -> None:
        """Until nothing is busy any more."""
        one = Part("one", [], work=3)
        made = service(one)
        one.after_start = made.request_stop
        assert made.run() == 0
        assert one.work < 0

    @pytest.mark.parametrize("how", ["second signal", "time is over"])
    def test_has_an_end(self, how: str) -> None:
        """A second signal skips the wait, and so does the time for it."""
        one = Part("one", [], work=10**9)
        made = service(one, drain_seconds=60.0 if how == "second signal" else 0.02)

        def stop() -> None:
            made.request_stop()
            if how == "second signal":
                made.request_stop()

        one.after_start = stop
        assert made.run() == 0

    def test_a_part_that_fails_ends_the_process_without_draining(self) -> None:
        """A broken invariant leaves no time for more work."""
        journal: list[str] = []
        one = Part("one", journal, work=10**9)
        made = service(one)
        broken = InvariantViolated("E-STATE-01", "x")
        one.after_start = lambda: threading.Thread(target=made.fail, args=(broken,)).start()
        assert made.run() == 1
        assert journal == ["start one", "stop one"]

    def test_a_loop_that_crashes_takes_the_service_with_it(self) -> None:
        """Whoever adds a loop need not wire that."""
        made = Service("test")

        def broken() -> bool:
            raise InvariantViolated("E-STATE-01", "x")

        made.add_loop("broken", broken)
        assert made.run() == 1


class TestMain:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (Unprocessable("E-CONF-01", "wrong"), 2),
            (Unavailable("E-DB-01", "away"), 6),
            (InvariantViolated("E-DB-02", "schema"), 1),
        ],
        ids=["settings", "unreachable", "failed"],
    )
    def test_an_error_of_the_build_becomes_the_exit_code(
        self, capsys: pytest.CaptureFixture[str], error: StanchionError, code: int
    ) -> None:
        """And its text stands on stderr."""

        def build(_argv: object) -> Service:
            raise error

        assert main(build, []) == code
        assert error.code in capsys.readouterr().err


CHILD = """
import sys
from stanchion.runtime.lifecycle import Service
class Busy:
    name = "busy"
    stopped = False
    def start(self): print("ready", flush=True)
    def busy(self): return BUSY
    def quiesce(self): print("draining", flush=True)
    def stop(self, timeout):
        print("stopped", flush=True)
        while HANG: pass
service = Service("child", drain_seconds=DRAIN)
service.add(Busy())
sys.exit(service.run())
"""


SENDER = """
import os, signal, sys
while wait := os.read(0, 1):
    for _ in range(wait[0] * 40): pass
    os.kill(int(sys.argv[1]), signal.SIGTERM)
"""


class Process:
    def __init__(self, *, busy: bool, drain: float, hang: bool = False) -> None:
        code = f"BUSY = {busy}\nDRAIN = {drain}\nHANG = {hang}\n{CHILD}"
        self.child = subprocess.Popen(
            [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )

    def read_until(self, word: str) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.decode().strip() == word:
                return
        raise AssertionError(f"ended without saying {word}")

    def end(self) -> int:
        try:
            self.child.communicate(timeout=30)
        finally:
            self.child.kill()
            self.child.wait()
        return self.child.returncode


class TestSignals:
    def test_one_is_heard_whenever_it_comes(self) -> None:
        """Also between the last look at what has come and the wait for more: 3,000 tries around that moment."""
        sender = subprocess.Popen([sys.executable, "-c", SENDER, str(os.getpid())], stdin=subprocess.PIPE, bufsize=0)
        assert sender.stdin is not None
        unheard = 0
        with sender:
            for number in range(3_000):
                part = Part("one", [])
                made = service(part)
                part.after_start = lambda number=number: sender.stdin.write(bytes([number % 100]))  # type: ignore[misc,union-attr]
                rescue = threading.Timer(5.0, made.request_stop)
                rescue.start()
                assert made.run() == 0
                unheard += not rescue.is_alive()
                rescue.cancel()
                rescue.join()
        assert unheard == 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_one_ends_an_idle_process_with_0(self, number: signal.Signals) -> None:
        """Stopping on request is no failure."""
        process = Process(busy=False, drain=60)
        process.read_until("ready")
        process.child.send_signal(number)
        process.read_until("stopped")
        assert process.end() == 0

    def test_a_second_one_skips_the_drain(self) -> None:
        """Whoever presses Ctrl-C twice means it."""
        process = Process(busy=True, drain=3_600)
        process.read_until("ready")
        process.child.send_signal(signal.SIGTERM)
        process.read_until("draining")
        process.child.send_signal(signal.SIGTERM)
        process.read_until("stopped")
        assert process.end() == 0

    def test_a_third_one_ends_it_where_it_stands(self) -> None:
        """A part that hangs while it stops can't hold the process."""
        process = Process(busy=True, drain=3_600, hang=True)
        process.read_until("ready")
        process.child.send_signal(signal.SIGTERM)
        process.read_until("draining")
        process.child.send_signal(signal.SIGTERM)
        process.read_until("stopped")
        process.child.send_signal(signal.SIGTERM)
        assert process.end() == 1


def test_a_process_leaves_no_open_pipes(tmp_path: Path) -> None:
    """A supervisor may run many services in turn."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("needs /proc")
    before = len(list(folder.iterdir()))
    for _ in range(5):
        one = Part("one", [])
        made = service(one)
        one.after_start = made.request_stop
        assert made.run() == 0
    deadline = Deadline(5)
    while len(list(folder.iterdir())) > before and not deadline.passed:
        pause(0.01)
    assert len(list(folder.iterdir())) <= before
