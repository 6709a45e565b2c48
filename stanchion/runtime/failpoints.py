"""Failpoints: named places where a test may kill, freeze, hold or fail a process.

They exist in every build and cost one look at an empty table until armed. They are armed by the environment, in the
`dev` profile only:

    STANCHION_FAILPOINTS="lease.before_commit=kill;step.run[node=read,idx=7]=hold;relay.sent=2*stop;x=sleep(250)"
    STANCHION_FAILPOINT_DIR=/some/folder

`name[condition,...]=action`; conditions compare the text of a `hit` argument. `N*action` fires at the Nth matching hit,
once; without it every matching hit fires. Actions:

    kill        SIGKILL to this process: no finally, no flush
    stop        SIGSTOP to this process: frozen, this thread at once, until somebody sends SIGCONT
    raise       raises FailpointError
    sleep(MS)   this thread waits
    hold        writes <dir>/<name>.<pid>.held and waits until <name>.<pid>.release exists

Before it acts, a failpoint appends one line to <dir>/fired.log with a single write, so the line survives the kill.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from stanchion.errors import Unprocessable
from stanchion.runtime.clock import Deadline

FAILPOINTS: Final[dict[str, str]] = {}
"""Every declared failpoint, with what it stands for."""

HOLD_SECONDS_MAX: Final = 600.0  # a held process whose test died must not wait for ever

_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")
_RULE = re.compile(
    r"(?P<name>[a-z0-9_.]+)(?:\[(?P<when>[^\]]*)\])?=(?:(?P<nth>[0-9]{1,6})\*)?(?P<action>[a-z]+)(?:\((?P<ms>[0-9]{1,6})\))?"
)
_ACTIONS = ("kill", "stop", "raise", "sleep", "hold")


class FailpointError(RuntimeError):
    """What the action `raise` raises."""


@dataclass(slots=True)
class _Rule:
    name: str
    when: dict[str, str]
    nth: int | None
    action: str
    milliseconds: int
    hits: int = 0

    def fires(self, context: Mapping[str, object]) -> bool:
        if any(key not in context or str(context[key]) != value for key, value in self.when.items()):
            return False
        self.hits += 1
        return self.nth is None or self.hits == self.nth


_armed: dict[str, list[_Rule]] = {}
_folder: Path | None = None
_lock = threading.Lock()


def declare(name: str, meaning: str) -> str:
    """Register a failpoint and return its name; ValueError for a malformed name or two meanings of one name."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a failpoint is named like part.moment, not {name!r}")
    if FAILPOINTS.setdefault(name, meaning) != meaning:
        raise ValueError(f"the failpoint {name} is declared twice, with two meanings")
    return name


def hit(name: str, **context: object) -> None:
    """Pass the failpoint `name`; does nothing unless it is armed and its conditions match `context`."""
    if not _armed:
        return
    for rule in _armed.get(name, ()):
        with _lock:
            fires = rule.fires(context)
        if fires:
            _note(rule, context)
            _act(rule)


def armed(*names: str) -> bool:
    """True when any of `names` is armed: a caller may then take a slower path that has the place between two steps."""
    return bool(_armed) and any(name in _armed for name in names)


def configure(profile: Literal["dev", "production"], environ: Mapping[str, str] | None = None) -> None:
    """Arm what the environment names; raises Unprocessable E-CONF-03 for what does not exist.

    Call it once everything is imported that declares failpoints. Outside the dev profile nothing is armed, whatever
    the environment says.
    """
    global _folder  # noqa: PLW0603 - one process, one set of failpoints
    environ = os.environ if environ is None else environ
    _armed.clear()
    if profile != "dev":
        return
    _folder = Path(folder) if (folder := environ.get("STANCHION_FAILPOINT_DIR")) else None
    for text in filter(None, (part.strip() for part in environ.get("STANCHION_FAILPOINTS", "").split(";"))):
        rule = _parsed(text)
        if rule.action == "hold" and _folder is None:
            raise _refused(text, "hold needs STANCHION_FAILPOINT_DIR, where it leaves its mark")
        _armed.setdefault(rule.name, []).append(rule)
    if _armed and _folder is not None:
        _folder.mkdir(parents=True, exist_ok=True)


def _parsed(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if not match:
        raise _refused(text, "expected name[key=value,...]=N*action(ms)")
    name, action = match["name"], match["action"]
    if name not in FAILPOINTS:
        near = ", ".join(sorted(known for known in FAILPOINTS if known.split(".")[0] == name.split(".")[0]))
        raise _refused(text, f"there is no failpoint {name}" + (f"; there are {near}" if near else ""))
    if action not in _ACTIONS:
        raise _refused(text, f"there is no action {action}; there are {', '.join(_ACTIONS)}")
    if (action == "sleep") != (match["ms"] is not None):
        raise _refused(text, "sleep takes its milliseconds, sleep(250); no other action does")
    when: dict[str, str] = {}
    for part in filter(None, (match["when"] or "").split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise _refused(text, f"a condition is key=value, not {part}")
        when[key.strip()] = value.strip()
    nth = int(match["nth"]) if match["nth"] else None
    if nth == 0:
        raise _refused(text, "hits are counted from 1")
    return _Rule(name, when, nth, action, int(match["ms"] or 0))


def _refused(text: str, why: str) -> Unprocessable:
    return Unprocessable("E-CONF-03", f"STANCHION_FAILPOINTS has {text[:200]!a}", why=why)


def _note(rule: _Rule, context: Mapping[str, object]) -> None:
    if _folder is None:
        return
    line: dict[str, object] = {"name": rule.name, "action": rule.action, "pid": os.getpid(), "time": time.time()}
    line["context"] = {key: str(value)[:200] for key, value in context.items()}
    handle = os.open(_folder / "fired.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, (json.dumps(line) + "\n").encode())
    finally:
        os.close(handle)


def _act(rule: _Rule) -> None:
    match rule.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            # to this thread: sent to the process, another thread may take it, and this one runs on for a moment
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        case "raise":
            raise FailpointError(f"failpoint {rule.name}")
        case "sleep":
            time.sleep(rule.milliseconds / 1000)  # that is what it was asked for
        case _:
            _hold(rule.name)


def _hold(name: str) -> None:
    assert _folder is not None, "configure refuses hold without a folder"
    held = _folder / f"{name}.{os.getpid()}.held"
    release = _folder / f"{name}.{os.getpid()}.release"
    held.touch()
    deadline = Deadline(HOLD_SECONDS_MAX)
    while not release.exists():
        if deadline.passed:
            raise FailpointError(f"failpoint {name} was held for {HOLD_SECONDS_MAX:.0f} s and never released")
        time.sleep(0.01)  # a file is the only signal that reaches a process from a shell as well as from a test
