"""Failpoints: free until armed, armed in the dev profile only, and exact about when they fire."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stanchion.errors import Unprocessable
from stanchion.runtime import failpoints
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.failpoints import FailpointError, configure, declare, hit

declare("testing.before_commit", "a test's own")
declare("testing.run", "a test's own")


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    configure("dev", {})


def arm(text: str, folder: Path | None = None, profile: str = "dev") -> None:
    environ = {"STANCHION_FAILPOINTS": text}
    if folder is not None:
        environ["STANCHION_FAILPOINT_DIR"] = str(folder)
    configure(profile, environ)  # type: ignore[arg-type]


class TestArming:
    def test_nothing_happens_unless_armed(self) -> None:
        """Passing an unarmed failpoint is a look at an empty table."""
        configure("dev", {})
        hit("testing.run", node="read")

    def test_production_ignores_the_environment(self) -> None:
        """A variable left behind must not kill a real service."""
        arm("testing.run=raise", profile="production")
        hit("testing.run")

    @pytest.mark.parametrize(
        "text",
        [
            "step.rum=kill",
            "nothing=kill",
            "testing.run",
            "testing.run=explode",
            "testing.run=sleep",
            "testing.run=kill(5)",
            "testing.run[node]=kill",
            "testing.run=0*kill",
            "testing.run[node=a=kill",
            "=kill",
            "testing.run=hold",
            "testing.run==kill",
        ],
    )
    def test_what_does_not_exist_is_an_error_at_the_start(self, text: str) -> None:
        """A misspelt failpoint would be a test that tests nothing."""
        with pytest.raises(Unprocessable) as caught:
            arm(text)
        assert caught.value.code == "E-CONF-03"

    def test_the_error_names_the_neighbours(self) -> None:
        """The right name is probably among them."""
        with pytest.raises(Unprocessable, match=r"there are .*testing\.run"):
            arm("testing.rum=kill")

    @pytest.mark.parametrize("name", ["", "Step", "step.", ".run", "step run", "step-run"])
    def test_a_malformed_name_can_not_be_declared(self, name: str) -> None:
        """Names are file names too."""
        with pytest.raises(ValueError, match="named like"):
            declare(name, "x")

    def test_one_name_has_one_meaning(self) -> None:
        """Declaring it again with the same one is harmless."""
        declare("testing.run", "a test's own")
        with pytest.raises(ValueError, match="two meanings"):
            declare("testing.run", "another")


class TestFiring:
    def test_conditions_compare_the_text_of_the_context(self) -> None:
        """All must match; a missing one does not."""
        arm("testing.run[node=read,idx=7]=raise")
        hit("testing.run", node="read", idx=8)
        hit("testing.run", node="read")
        hit("testing.before_commit", node="read", idx=7)
        with pytest.raises(FailpointError):
            hit("testing.run", node="read", idx=7, more=1)

    def test_counts_only_matching_hits_and_fires_once(self) -> None:
        """`2*` is the second, not every second."""
        arm("testing.run[node=read]=2*raise")
        hit("testing.run", node="read")
        hit("testing.run", node="other")
        with pytest.raises(FailpointError):
            hit("testing.run", node="read")
        hit("testing.run", node="read")

    def test_without_a_count_each_hit_fires(self) -> None:
        """Several rules stand side by side."""
        arm("testing.run=raise; testing.before_commit=raise;")
        for _ in range(2):
            with pytest.raises(FailpointError):
                hit("testing.run")
        with pytest.raises(FailpointError):
            hit("testing.before_commit")

    def test_only_one_of_many_threads_is_the_nth(self) -> None:
        """Counting holds under concurrency."""
        arm("testing.run=50*raise")
        fired = []

        def many() -> None:
            for _ in range(20):
                try:
                    hit("testing.run")
                except FailpointError:
                    fired.append(1)

        threads = [threading.Thread(target=many) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert fired == [1]

    def test_each_firing_leaves_one_line(self, tmp_path: Path) -> None:
        """The test that armed it can count."""
        arm("testing.run=sleep(1)", tmp_path / "deep" / "folder")
        hit("testing.run", node="read", idx=7)
        hit("testing.run", node="a\nb")
        lines = [json.loads(line) for line in (tmp_path / "deep" / "folder" / "fired.log").read_text().splitlines()]
        assert [line["context"] for line in lines] == [{"node": "read", "idx": "7"}, {"node": "a\nb"}]
        assert {(line["name"], line["action"], line["pid"]) for line in lines} == {
            ("testing.run", "sleep", os.getpid())
        }

    def test_hold_waits_for_its_release(self, tmp_path: Path) -> None:
        """It says that it is held, and by which process."""
        arm("testing.run=hold", tmp_path)
        held = threading.Thread(target=hit, args=("testing.run",), daemon=True)
        held.start()
        mark = tmp_path / f"testing.run.{os.getpid()}.held"
        deadline = Deadline(10)
        while not mark.exists():
            assert not deadline.passed
            pause(0.005)
        assert held.is_alive()
        mark.with_suffix(".release").touch()
        held.join(10)
        assert not held.is_alive()

    def test_a_hold_that_nobody_releases_ends_in_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A test that died must not leave a process behind for ever."""
        monkeypatch.setattr(failpoints, "HOLD_SECONDS_MAX", 0.05)
        arm("testing.run=hold", tmp_path)
        with pytest.raises(FailpointError, match="never released"):
            hit("testing.run")


CHILD = """
from stanchion.runtime import failpoints
failpoints.declare("a.b", "x")
failpoints.configure("dev")
try:
    failpoints.hit("a.b")
finally:
    print("went on", flush=True)
"""

THREADED_CHILD = f"""
import threading
def run():
{textwrap.indent(CHILD, "    ")}
threading.Thread(target=run).start()
"""


def child(action: str, folder: Path, code: str = CHILD) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "STANCHION_FAILPOINTS": f"a.b={action}", "STANCHION_FAILPOINT_DIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


class TestWholeProcess:
    def test_kill_leaves_no_time_for_anything(self, tmp_path: Path) -> None:
        """No finally runs; the line in the log is there all the same."""
        killed = child("kill", tmp_path)
        out, _ = killed.communicate(timeout=30)
        assert (killed.returncode, out) == (-signal.SIGKILL, b"")
        assert '"action": "kill"' in (tmp_path / "fired.log").read_text()

    @pytest.mark.parametrize("code", [CHILD, THREADED_CHILD], ids=["main thread", "another thread"])
    def test_stop_freezes_until_somebody_continues_it(self, tmp_path: Path, code: str) -> None:
        """As a machine does that was suspended; the thread that met the failpoint does nothing more before."""
        frozen = child("stop", tmp_path, code)
        _, status = os.waitpid(frozen.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert frozen.stdout is not None
        os.set_blocking(frozen.stdout.fileno(), False)
        assert frozen.stdout.read() is None, "it went on before it was frozen"
        os.set_blocking(frozen.stdout.fileno(), True)
        frozen.send_signal(signal.SIGCONT)
        out, _ = frozen.communicate(timeout=30)
        assert (frozen.returncode, out) == (0, b"went on\n")
