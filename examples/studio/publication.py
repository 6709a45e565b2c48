"""The second half of the demo: a person approves the report, and it is published once, whatever goes wrong.

The press turns the first request away, and the worker that had sent it is killed before it has noted the answer: now
nobody knows whether the report was published. Another worker asks the press, which has nothing under that key, and
sends the same once more. The press publishes it, and its reply is lost: nobody knows again. The look-up finds it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from stanchion.cli.service_process import ServiceProcess
from stanchion.cli.stack import Stack
from stanchion.runtime.clock import Deadline, pause

from .facts import ENDS, Facts
from .holds import Holds
from .press_process import PressProcess
from .publishing import CHANNEL
from .screen import Screen

SENT: Final = "op.sent"
PERSON: Final = "editor"
COMMAND_SECONDS: Final = 60.0


class CommandFailedError(Exception):
    """The command line of the second user did not do what the demo needs."""


class PublicationOfTheDemo:
    """From the finished draft to the receipt. `home` keeps the login of the second user, apart from the user's own."""

    def __init__(
        self, stack: Stack, press: PressProcess, facts: Facts, screen: Screen, holds: Holds, home: Path
    ) -> None:
        self.stack = stack
        self.press = press
        self.facts = facts
        self.screen = screen
        self.holds = holds
        self.home = home
        self._told = 0

    def plan_faults(self) -> None:
        """The press turns one request away, and loses its reply to the next one."""
        self.press.fault("refuse", CHANNEL)
        self.press.fault("drop_reply", CHANNEL)

    # -- the person --

    def decide(self, task_id: str, report: Path, *, ask: bool) -> None:
        """Have the second user approve it on the command line; with `ask` wait for whoever reads this."""
        asked = self.facts.approval(task_id)
        if asked is None:
            return  # the task has ended before anybody was asked
        self.screen.say(f"{asked['approval_id']} asks: {asked['question']}")
        self.screen.say(f"  it covers version {asked['number']} of {asked['name']}, sha256 {asked['sha256'][:12]}…")
        self._command("login", "--as", PERSON, "--role", "approver")
        if ask:
            self._await_person(task_id, asked, report)
        else:
            self._command("approval", "approve", asked["approval_id"], "--comment", "read it", "--yes")
        found = self.facts.approval(task_id) or asked
        by = f" by {found['decided_by']}" if found["decided_by"] else ""
        self.screen.say(f"{found['decision']}{by}, who did not submit the task")

    def _await_person(self, task_id: str, asked: Mapping[str, Any], report: Path) -> None:
        self.screen.say(f"read it: {report}")
        self.screen.say("then decide in another terminal, with one of these:")
        for words in (("approve",), ("reject", "--comment", "why not"), ("show",)):
            self.screen.say(f"  {self._shown('approval', words[0], asked['approval_id'], *words[1:])}")
        while (self.facts.approval(task_id) or asked)["state"] == "requested":
            self.screen.draw(f"  waiting for your decision on {asked['approval_id']} (Ctrl-C ends the demo)")
            pause(0.2)
        self.screen.end_bar()

    def _command(self, *words: str) -> None:
        """The command line as the second user."""
        self.screen.say(f"$ stanchion {shlex.join(words)}")
        known = {name: value for name, value in os.environ.items() if name != "STANCHION_API_KEY"}
        done = subprocess.run(
            [str(_stanchion()), *words, "--api-url", self.stack.api_url],
            env={**known, "STANCHION_HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise CommandFailedError(
                f"stanchion {shlex.join(words)} ended with {done.returncode}: {done.stderr.strip()}"
            )

    def _shown(self, *words: str) -> str:
        command = [str(_stanchion()), *words, "--api-url", self.stack.api_url]
        return f"STANCHION_HOME={shlex.quote(str(self.home))} {shlex.join(command)}"

    # -- the faults --

    def break_it(self, task_id: str, publisher: ServiceProcess, deadline: Deadline) -> None:
        """Kill the only worker between its request and the receipt, and have another one go on."""
        while self.holds.held(SENT, publisher) is None:
            self.tell_news(task_id)
            if deadline.passed or self.facts.state(task_id) in ENDS:
                return
            pause(0.05)
        self.tell_news(task_id)
        publisher.supervise = False
        publisher.kill(signal.SIGKILL)
        self.screen.say(f"killed {publisher.name} (SIGKILL): its request has left, no receipt is kept")
        other = self.stack.add("worker", env={"STANCHION_FAILPOINTS": ""})
        self.screen.say(f"{other.name} joins")

    # -- what is told --

    def tell_news(self, task_id: str) -> None:
        """What the ledger has noted since the last time."""
        for event in self.facts.publication_events(task_id)[self._told :]:
            self._told += 1
            self.screen.say(f"ledger: {_said(event)}")

    def tell(self, result: Mapping[str, Any] | None) -> None:
        """What the press says of it, and what the report does."""
        came = [one["outcome"] + (", the reply lost" if one["status"] is None else "") for one in self.press.requests()]
        self.screen.say(f"the press: {len(came)} requests ({'; '.join(came)}), {self.press.executions()}× published")
        if result and result["publication"]:
            self.screen.say(f"published: {result['publication']['url']} while the demo runs")
        elif result:
            self.screen.say(result["note"])


def _said(event: Mapping[str, Any]) -> str:
    worker = event["worker"]
    match event["kind"], event["verdict"]:
        case "OperationPrepared", "not_done":
            return f"prepared: {worker} asked the press, which has nothing under the key: it may be sent again"
        case "OperationPrepared", _:
            return f"prepared: {worker} has written down what is to be sent, and under which key"
        case "OperationDispatched", _:
            return f"dispatched: the approval covers it, {worker} sends it"
        case "OperationUnknown", _:
            return f"unknown: nobody can tell whether it was published ({event['error'] or 'its worker is gone'})"
        case "OperationConfirmed", "done":
            return f"confirmed: {worker} asked the press, which has it; its receipt is kept"
        case kind, _:
            return str(kind).removeprefix("Operation").lower()


def _stanchion() -> Path:
    return Path(sys.executable).parent / "stanchion"
