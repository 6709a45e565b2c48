"""`make demo`: the studio on real sources, on a whole stack of processes, with workers killed and frozen.

Two workers start. Each is held by a failpoint at a child of the fan-out; when it is held, the first is killed with
SIGKILL, the second frozen with SIGSTOP for longer than its lease and then thawed. What each held is taken over with a
higher fence, and what the thawed one hands in is refused. Only then a third worker joins, so that both faults always
hit, however few documents there are. It is the one that publishes the report, once a second user has approved it, and
is killed in the middle of that (see `publication`). All numbers of the summary are read from PostgreSQL, but for what
the press counts itself.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stanchion.cli.service_process import ServiceProcess
from stanchion.cli.stack import Stack
from stanchion.embedded import EmbeddedServers
from stanchion.errors import StanchionError
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.sdk.kafka_client import KafkaClient

from .facts import ENDS, Facts
from .holds import Holds
from .press_process import PressProcess
from .publication import SENT, CommandFailedError, PublicationOfTheDemo
from .publishing import PRESS_VARIABLE
from .screen import Screen

ROOT = Path(".stanchion/demo")
TARGET = "examples.studio.workflow:studio"
TOPIC = "how PostgreSQL connection pools recover from lost connections"
LEASE_SECONDS = 3.0
KILLED, FROZEN = "step.run", "step.ran"
PATIENCE_SECONDS = 150.0


class Demo:
    """One run of the demo. With `ask` it waits for whoever reads its lines to approve."""

    def __init__(self, topic: str, sources: Sequence[str], root: Path, *, ask: bool) -> None:
        self.topic = topic
        self.sources = [s if s.startswith("@") else str(Path(s).resolve()) for s in sources]
        self.root = root.absolute()
        self.ask = ask
        self.holds = Holds(self.root / "failpoints")
        self.screen = Screen()
        self.report = self.root / "report.md"

    def run(self, stay: bool) -> int:
        """Run it to its end; the exit code."""
        EmbeddedServers.clean(self.root / "stack")  # of a demo that was killed; refused while another one runs here
        self.root.mkdir(parents=True, exist_ok=True)
        self.holds.clear()
        for folder in ("press", "home"):
            shutil.rmtree(self.root / folder, ignore_errors=True)
            (self.root / folder).mkdir(mode=0o700)
        with self._stack() as stack:
            facts = Facts(stack.endpoints.database_url)
            press = stack.beside[PRESS_VARIABLE]
            assert isinstance(press, PressProcess)
            publication = PublicationOfTheDemo(stack, press, facts, self.screen, self.holds, self.root / "home")
            publication.plan_faults()
            task_id = self._submit(stack)
            held = self._break_things(stack, facts, task_id)
            publisher = self._read_all(stack, facts, task_id, held)
            publication.decide(task_id, self.report, ask=self.ask)
            publication.break_it(task_id, publisher, self._deadline())
            state = self._watch(facts, task_id, publication)
            self._tell(stack, facts, task_id, held, publication)
            if stay:
                self.screen.say(f"the page: {stack.page_url}/tasks/{task_id}   (Ctrl-C ends it)")
                signal.sigwait({signal.SIGINT, signal.SIGTERM})
        return 0 if state == "completed" else 10

    def _stack(self) -> Stack:
        nth = 1 if self.sources else 4  # with the installed packages there are enough documents to hit in the middle
        env = {"STANCHION_FAILPOINT_DIR": str(self.holds.folder), "STANCHION_CANCEL_GRACE_SECONDS": "5"}
        return Stack(
            self.root / "stack",
            workers=2,
            targets=[TARGET],
            lease_seconds=LEASE_SECONDS,
            env=env,
            service_env={
                "worker-1": {"STANCHION_FAILPOINTS": f"{KILLED}[node=read]={nth}*hold"},
                "worker-2": {"STANCHION_FAILPOINTS": f"{FROZEN}[node=read]={nth}*hold"},
            },
            beside={PRESS_VARIABLE: lambda workspace: PressProcess(workspace, self.root / "press" / "press.db")},
            ephemeral=True,
            say=self.screen.say,
        )

    def _submit(self, stack: Stack) -> str:
        self.screen.say(f"submitting over Kafka: {self.topic!r}")
        values: dict[str, Any] = {"topic": self.topic} | ({"sources": self.sources} if self.sources else {})
        with KafkaClient(KafkaSettings.dev(stack.endpoints.kafka_bootstrap), tenant=stack.tenant) as client:
            receipt = client.submit("report", values, tags=["demo"], timeout=60)
        self.screen.say(f"accepted: {receipt.task_id}")
        return receipt.task_id

    def _break_things(self, stack: Stack, facts: Facts, task_id: str) -> dict[str, dict[str, Any]]:
        """Kill one worker and freeze the other where they are held; returns what each held."""
        killed, frozen = stack.service("worker-1"), stack.service("worker-2")
        for worker in (killed, frozen):
            worker.supervise = False
        held: dict[str, dict[str, Any]] = {}
        deadline = self._deadline()
        while len(held) < 2 and not deadline.passed and facts.state(task_id) not in ENDS:
            self.screen.bar(*facts.progress(task_id))
            if "killed" not in held and (context := self.holds.held(KILLED, killed)):
                held["killed"] = context
                killed.kill(signal.SIGKILL)
                self.screen.say(f"killed worker-1 (SIGKILL) at child {context['idx']}")
            if "frozen" not in held and (context := self.holds.held(FROZEN, frozen)):
                held["frozen"] = context
                frozen.kill(signal.SIGSTOP)
                self.screen.say(f"froze worker-2 (SIGSTOP) at child {context['idx']}, its lease is {LEASE_SECONDS:g} s")
            pause(0.05)
        third = stack.add("worker", env={"STANCHION_FAILPOINTS": f"{SENT}[kind=press.publish]=1*hold"})
        self.screen.say(f"{third.name} joins")
        if "frozen" in held:
            self._await_take_over(facts, task_id, held["frozen"])
            frozen.kill(signal.SIGCONT)
            self.holds.release(FROZEN, frozen)
            self.screen.say("thawed worker-2 (SIGCONT): it goes on where it was, and hands in what it has")
        return held

    def _await_take_over(self, facts: Facts, task_id: str, held: dict[str, Any]) -> None:
        deadline = self._deadline()
        idx, attempt = int(held["idx"]), int(held["attempt"])
        while not facts.was_taken_over(task_id, idx, attempt) and not deadline.passed:
            self.screen.bar(*facts.progress(task_id))
            pause(0.05)

    def _read_all(self, stack: Stack, facts: Facts, task_id: str, held: dict[str, dict[str, Any]]) -> ServiceProcess:
        """Wait until everything is read and the report is written; the one worker that is left will publish it."""
        deadline = self._deadline()
        while facts.approval(task_id) is None and facts.state(task_id) not in ENDS:
            self.screen.bar(*facts.progress(task_id))
            self._end_in_time(deadline)
            pause(0.1)
        self.screen.end_bar()
        if "frozen" in held:
            facts.await_refusals(task_id, self._deadline())
        stack.service("worker-2").stop()  # it drains; no name comes twice, so it stays in the stack's list
        self._keep_report(facts.result(task_id, "review"))
        return stack.service("worker-3")

    def _watch(self, facts: Facts, task_id: str, publication: PublicationOfTheDemo) -> str:
        deadline = self._deadline()
        while (state := facts.state(task_id)) not in ENDS:
            publication.tell_news(task_id)
            self._end_in_time(deadline)
            pause(0.1)
        publication.tell_news(task_id)
        return state

    def _end_in_time(self, deadline: Deadline) -> None:
        if deadline.passed:
            self.screen.end_bar()
            logs = self.root / "stack" / "logs"
            raise TimeoutError(f"the task did not go on within {PATIENCE_SECONDS:g} s; see {logs}")

    # -- what is told --

    def _keep_report(self, result: dict[str, Any] | None) -> None:
        if result:
            self.report.write_text(result["markdown"], encoding="utf-8")

    def _tell(
        self,
        stack: Stack,
        facts: Facts,
        task_id: str,
        held: dict[str, dict[str, Any]],
        publication: PublicationOfTheDemo,
    ) -> None:
        summary = facts.summary(task_id) | facts.publication(task_id)
        summary |= {"press_executions": publication.press.executions(), "seconds": round(self.screen.seconds, 1)}
        result = facts.result(task_id)
        if result:
            self._keep_report(result)
            summary |= {"documents": result["documents"], "citations": result["citations"], "report": str(self.report)}
        (self.root / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        for what, context in held.items():
            for line in facts.story(task_id, int(context["idx"])):
                self.screen.say(f"{what}: {line}")
        barrier = summary["barrier"] or {}
        arrived = f"{barrier.get('arrived')} of {barrier.get('expected')} arrived"
        self.screen.say(
            f"barrier: {barrier.get('rule')} ({barrier.get('need')}), {arrived}, released {barrier.get('released')}×"
        )
        publication.tell(result)
        counted = ("children", "attempts", "take_overs", "refused_writes", "press_executions", "seconds")
        self.screen.say(", ".join(f"{name.replace('_', ' ')} {summary[name]}" for name in counted))
        self._tell_where(stack, task_id, summary)

    def _tell_where(self, stack: Stack, task_id: str, summary: dict[str, Any]) -> None:
        if "report" in summary:
            counts = f"{summary['documents']} documents, {summary['citations']} citations"
            self.screen.say(f"{counts}, each checked against its source")
            self.screen.say(f"report:  {_shown(self.report)}")
        self.screen.say(f"summary: {_shown(self.root / 'summary.json')}")
        self.screen.say(
            f"the page of the task: {stack.page_url}/tasks/{task_id} while the demo runs; make demo ARGS=--stay keeps it open"
        )
        if summary["reason"]:
            self.screen.say(f"reason: {json.dumps(summary['reason'])[:1000]}")

    @staticmethod
    def _deadline() -> Deadline:
        return Deadline(PATIENCE_SECONDS)


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def main(argv: Sequence[str] | None = None) -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        prog="make demo",
        description="The Research Report Studio, with kills and a freeze in the middle, up to its publication.",
    )
    parser.add_argument("--topic", default=TOPIC, help="what the report is about")
    parser.add_argument(
        "--sources",
        nargs="*",
        default=[],
        help="folders and files (text, Markdown, HTML, PDF); default: the documentation of all installed packages",
    )
    parser.add_argument(
        "--approve",
        choices=("itself", "ask"),
        default="itself",
        help="who approves the publication: the demo itself, as a second user, or (ask) you, in another terminal",
    )
    parser.add_argument("--stay", action="store_true", help="keep the services running, to look at the page")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return Demo(args.topic, args.sources, ROOT, ask=args.approve == "ask").run(args.stay)
    except KeyboardInterrupt:
        return 130
    except (StanchionError, TimeoutError, CommandFailedError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
