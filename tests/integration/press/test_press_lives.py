"""The press as a process: ended by signals, killed at any moment, started again on the same file."""

from __future__ import annotations

import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from kit.press import CHECKOUT, NO_ANSWER, PATIENCE, Press, fresh


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_on_a_signal(own_press: Press, number: int, channel: str, eventually: Callable[..., Any]) -> None:
    """Though a request is delayed for an hour, another has sent half of itself, and a connection is idle."""
    own_press.start()
    own_press.fault("delay", seconds=3600, channel=channel)
    held = _Asker(own_press, channel)
    eventually(lambda: own_press.fired() == [1])
    where = urlsplit(own_press.url)
    with socket.create_connection((where.hostname, where.port)) as half:
        half.sendall(b"POST /publications HTTP/1.1\r\nHost: press\r\nContent-Length: 100\r\n\r\n{")
        assert own_press.get("/requests", channel=channel)["count"] == 1
        assert own_press.end(number) == 0
    assert isinstance(held.result(), NO_ANSWER)
    own_press.start()
    assert own_press.done(channel=channel) == 0


def test_a_kill_loses_nothing_that_was_answered(own_press: Press, channel: str, key: str) -> None:
    """Receipts, keys, versions, faults and counts are there again, and the same key has the same receipt."""
    own_press.start()
    first = own_press.publish(channel, key).json()
    own_press.fault("refuse", times=2, channel=channel)
    own_press.publish(channel)
    before = [own_press.get(path) for path in ("/publications", "/executions", "/faults", f"/channels/{channel}")]
    own_press.kill()
    own_press.start()
    after = [own_press.get(path) for path in ("/publications", "/executions", "/faults", f"/channels/{channel}")]
    assert before == after
    assert [own_press.publish(channel, key).status_code for _ in range(2)] == [503, 200]
    assert own_press.publish(channel, key).json() == first
    assert own_press.done(key=key) == 1


def test_a_kill_before_the_work_leaves_it_undone(
    own_press: Press, channel: str, key: str, eventually: Callable[..., Any]
) -> None:
    """The request stays listed as received, and sending it again does it once."""
    own_press.start()
    own_press.fault("delay", seconds=3600, channel=channel)
    held = _Asker(own_press, channel, key)
    eventually(lambda: own_press.fired() == [1])
    own_press.kill()
    assert isinstance(held.result(), NO_ANSWER)
    own_press.start()
    assert own_press.outcomes(key=key) == ["received"]
    assert own_press.done(key=key) == 0
    assert own_press.publish(channel, key).status_code == 201
    assert own_press.done(key=key) == 1


def test_a_kill_after_the_work_leaves_it_done(own_press: Press, channel: str, key: str) -> None:
    """The asker heard nothing, and sending it again is answered with what was done."""
    own_press.start()
    own_press.fault("drop_reply", channel=channel)
    with pytest.raises(NO_ANSWER):
        own_press.publish(channel, key)
    own_press.kill()
    own_press.start()
    assert own_press.publish(channel, key).status_code == 200
    assert own_press.done(key=key) == 1


def test_a_late_request_outlives_a_kill(
    own_press: Press, channel: str, key: str, eventually: Callable[..., Any]
) -> None:
    """It was on its way, not in the process: it arrives at the next one."""
    own_press.start()
    own_press.fault("late", seconds=2, channel=channel)
    with pytest.raises(NO_ANSWER):
        own_press.publish(channel, key)
    own_press.kill()
    own_press.start()
    eventually(lambda: own_press.done(key=key) == 1)
    assert own_press.outcomes(key=key) == ["published"]


@pytest.mark.parametrize("round_", range(3))
def test_killed_in_the_middle_each_key_is_done_once(
    own_press: Press, channel: str, round_: int, eventually: Callable[..., Any]
) -> None:
    """Four askers publish without a pause while it is killed; all that they had is there, and the rest can be sent again."""
    own_press.start()
    askers = [_Hammer(own_press, channel) for _ in range(4)]
    eventually(lambda: all(len(asker.receipts) > 5 * round_ for asker in askers))
    own_press.kill()
    for asker in askers:
        asker.join(PATIENCE)
    own_press.start()
    for asker in askers:
        for key in asker.tried:
            again = own_press.publish(channel, key).json()
            assert again == asker.receipts.get(key, again)
            assert own_press.done(key=key) == 1
    assert own_press.done(channel=channel) == sum(len(asker.tried) for asker in askers)
    assert own_press.get(f"/channels/{channel}")["version"] == own_press.done(channel=channel)


def test_two_processes_on_one_file_agree(own_press: Press, channel: str, key: str, tmp_path: Path) -> None:
    """A second press that was started by mistake knows the same keys and has the same faults."""
    own_press.start()
    other = Press(tmp_path / "other")
    other.data = own_press.data
    try:
        other.start()
        own_press.fault("refuse", channel=channel)
        assert other.publish(channel, key).status_code == 503
        first = own_press.publish(channel, key)
        again = other.publish(channel, key)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
    finally:
        other.close()


def test_keys_are_remembered_for_their_retention(own_press: Press, channel: str, key: str) -> None:
    """Behind it the look-up says so, and the same key does the work again."""
    own_press.start()
    first = own_press.publish(channel, key).json()
    own_press.end()
    own_press.start("--key-retention", "0")
    found = own_press.get(f"/publications/by-key/{key}")
    assert found["inside_retention"] is False
    assert found["receipt"] == first
    second = own_press.publish(channel, key, title="Another")
    assert second.status_code == 201
    assert own_press.done(key=key) == 2
    own_press.end()
    own_press.start("--key-retention", "3600")
    assert own_press.get(f"/publications/by-key/{key}")["receipt"] == second.json()
    assert own_press.publish(channel, key, title="Another").status_code == 200


def test_what_was_committed_is_on_the_disk(own_press: Press) -> None:
    """The file is in WAL mode, and a commit waits for the disk."""
    own_press.start()
    with sqlite3.connect(own_press.data) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()
    assert "synchronous = FULL" in (CHECKOUT / "examples/press/store.py").read_text()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--data", "/nowhere/press.db"], "unable to open"),
        (["--data", str(CHECKOUT / "README.md")], "not a database"),
        (["--data", "{tmp}/p.db", "--port", "70000"], "port must be"),
        (["--data", "{tmp}/p.db", "--key-retention", "nan"], "--key-retention"),
        ([], "--data"),
    ],
)
def test_it_says_why_it_can_not_start(tmp_path: Path, options: list[str], why: str) -> None:
    """One line on standard error, exit code 2, and nothing on standard output."""
    words = [word.replace("{tmp}", str(tmp_path)) for word in options]
    ended = subprocess.run(
        [sys.executable, "-m", "examples.press", *words],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 2
    assert why in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


class _Asker:
    """A request in a thread of its own; `result` is what it raised, or its answer."""

    def __init__(self, press: Press, channel: str, key: str | None = None) -> None:
        self._result: object = None
        self._thread = threading.Thread(target=self._ask, args=(press, press.client(), channel, key), daemon=True)
        self._thread.start()

    def _ask(self, press: Press, web: httpx2.Client, channel: str, key: str | None) -> None:
        with web:
            try:
                self._result = press.publish(channel, key, web=web)
            except httpx2.HTTPError as error:
                self._result = error

    def result(self) -> object:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self._result


class _Hammer(threading.Thread):
    """Publishes under one key after the other until the press does not answer."""

    def __init__(self, press: Press, channel: str) -> None:
        super().__init__(daemon=True)
        self.press = press
        self.channel = channel
        self.web = press.client()
        self.tried: list[str] = []
        self.receipts: dict[str, Any] = {}
        self.start()

    def run(self) -> None:
        with self.web:
            while True:
                key = fresh("k")
                self.tried.append(key)
                try:
                    self.receipts[key] = self.press.publish(self.channel, key, web=self.web).json()
                except httpx2.HTTPError:
                    return
