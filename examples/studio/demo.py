"""`make demo`: the studio on real sources, on a whole stack of processes, with one worker killed and another frozen.

Two workers start. Each is held by a failpoint at a child of the fan-out; when it is held, the first is killed with
SIGKILL, the second frozen with SIGSTOP for longer than its lease and then thawed. What each held is taken over with a
higher fence, and what the thawed one hands in is refused. Only then a third worker joins, so that both faults always
hit, however few documents there are. All numbers of the summary are read from PostgreSQL.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stanchion.cli.service_process import ServiceProcess
from stanchion.cli.stack import Stack
from stanchion.errors import StanchionError
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.sdk.kafka_client import KafkaClient

from .facts import Facts

ROOT = Path(".stanchion/demo")
TARGET = "examples.studio.workflow:studio"
TOPIC = "how PostgreSQL connection pools recover from lost connections"
LEASE_SECONDS = 3.0
KILLED, FROZEN = "step.run", "step.ran"
PATIENCE_SECONDS = 150.0


class Demo:
    """One run of the demo."""

    def __init__(self, topic: str, sources: Sequence[str], root: Path) -> None:
        self.topic = topic
        self.sources = [s if s.startswith("@") else str(Path(s).resolve()) for s in sources]
        self.root = root.absolute()
        self.holds = self.root / "failpoints"
        self.started = time.monotonic()
        self.faults: dict[str, str] = {}
        self._shown = ""

    def run(self, stay: bool) -> int:
        """Run it to its end; the exit code."""
        self.root.mkdir(parents=True, exist_ok=True)
        for old in self.holds.glob("*"):
            old.unlink()
        with self._stack() as stack:
            facts = Facts(stack.endpoints.database_url)
            task_id = self._submit(stack)
            held = self._break_things(stack, facts, task_id)
            state = self._watch(facts, task_id)
            facts.await_refusals(task_id, self._deadline())
            self._tell(stack, facts, task_id, held)
            if stay:
                self._say(f"the page: {stack.page_url}/tasks/{task_id}   (Ctrl-C ends it)")
                signal.sigwait({signal.SIGINT, signal.SIGTERM})
        return 0 if state == "completed" else 10

    def _stack(self) -> Stack:
        nth = 1 if self.sources else 4  # with the installed packages there are enough documents to hit in the middle
        env = {"STANCHION_FAILPOINT_DIR": str(self.holds), "STANCHION_CANCEL_GRACE_SECONDS": "5"}
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
            ephemeral=True,
            say=self._say,
        )

    def _submit(self, stack: Stack) -> str:
        self._say(f"submitting over Kafka: {self.topic!r}")
        values: dict[str, Any] = {"topic": self.topic} | ({"sources": self.sources} if self.sources else {})
        with KafkaClient(KafkaSettings.dev(stack.endpoints.kafka_bootstrap), tenant=stack.tenant) as client:
            receipt = client.submit("report", values, tags=["demo"], timeout=60)
        self._say(f"accepted: {receipt.task_id}")
        return receipt.task_id

    def _break_things(self, stack: Stack, facts: Facts, task_id: str) -> dict[str, dict[str, Any]]:
        """Kill one worker and freeze the other where they are held; returns what each held."""
        killed, frozen = stack.service("worker-1"), stack.service("worker-2")
        for worker in (killed, frozen):
            worker.supervise = False
        held: dict[str, dict[str, Any]] = {}
        deadline = self._deadline()
        third: ServiceProcess | None = None
        while len(held) < 2 and not deadline.passed:
            self._bar(facts, task_id)
            if "killed" not in held and (context := self._held(KILLED, killed)):
                held["killed"] = context
                killed.kill(signal.SIGKILL)
                self._say(f"killed worker-1 (SIGKILL) at child {context['idx']}")
            if "frozen" not in held and (context := self._held(FROZEN, frozen)):
                held["frozen"] = context
                frozen.kill(signal.SIGSTOP)
                self._say(f"froze worker-2 (SIGSTOP) at child {context['idx']}, its lease is {LEASE_SECONDS:g} s")
            pause(0.05)
        third = stack.add("worker", env={"STANCHION_FAILPOINTS": ""})
        self._say(f"{third.name} joins")
        if "frozen" in held:
            self._await_take_over(facts, task_id, held["frozen"])
            frozen.kill(signal.SIGCONT)
            self._release(FROZEN, frozen)
            self._say("thawed worker-2 (SIGCONT): it goes on where it was, and hands in what it has")
        stack.remove(killed)
        return held

    def _await_take_over(self, facts: Facts, task_id: str, held: dict[str, Any]) -> None:
        deadline = self._deadline()
        while not facts.was_taken_over(task_id, int(held["idx"])) and not deadline.passed:
            self._bar(facts, task_id)
            pause(0.05)

    def _watch(self, facts: Facts, task_id: str) -> str:
        deadline = self._deadline()
        while not deadline.passed:
            state = facts.state(task_id)
            self._bar(facts, task_id)
            if state in ("completed", "failed", "cancelled"):
                self._end_bar()
                return state
            pause(0.1)
        self._end_bar()
        raise TimeoutError(f"the task did not end within {PATIENCE_SECONDS:g} s; see {self.root / 'stack' / 'logs'}")

    # -- what is told --

    def _tell(self, stack: Stack, facts: Facts, task_id: str, held: dict[str, dict[str, Any]]) -> None:
        summary = facts.summary(task_id) | {"seconds": round(time.monotonic() - self.started, 1)}
        result = facts.result(task_id)
        report = self.root / "report.md"
        if result:
            report.write_text(result["markdown"], encoding="utf-8")
            summary |= {"documents": result["documents"], "citations": result["citations"], "report": str(report)}
        (self.root / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        for what, context in held.items():
            for line in facts.story(task_id, int(context["idx"])):
                self._say(f"{what}: {line}")
        barrier = summary["barrier"] or {}
        arrived = f"{barrier.get('arrived')} of {barrier.get('expected')} arrived"
        self._say(
            f"barrier: {barrier.get('rule')} ({barrier.get('need')}), {arrived}, released {barrier.get('released')}×"
        )
        counted = ("children", "attempts", "take_overs", "refused_writes", "seconds")
        self._say(", ".join(f"{name.replace('_', ' ')} {summary[name]}" for name in counted))
        if result:
            self._say(
                f"{summary['documents']} documents, {summary['citations']} citations, each checked against its source"
            )
            self._say(f"report:  {_shown(report)}")
        self._say(f"summary: {_shown(self.root / 'summary.json')}")
        self._say(
            f"the page of the task: {stack.page_url}/tasks/{task_id} while the demo runs; make demo ARGS=--stay keeps it open"
        )
        if summary["reason"]:
            self._say(f"reason: {json.dumps(summary['reason'])[:1000]}")

    def _bar(self, facts: Facts, task_id: str) -> None:
        done, of = facts.progress(task_id)
        if of:
            filled = round(28 * done / of)
            self._draw(f"  read {'█' * filled}{'░' * (28 - filled)} {done}/{of}")

    def _draw(self, line: str) -> None:
        if line == self._shown:
            return
        self._shown = line
        sys.stderr.write(f"\r\x1b[2K{line}" if sys.stderr.isatty() else "")
        sys.stderr.flush()

    def _end_bar(self) -> None:
        if self._shown:
            sys.stderr.write("\n" if sys.stderr.isatty() else f"{self._shown}\n")
            self._shown = ""

    def _say(self, line: str) -> None:
        clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{clear}{time.monotonic() - self.started:6.1f} s  {line}\n")
        sys.stderr.flush()

    # -- failpoints --

    def _held(self, name: str, worker: ServiceProcess) -> dict[str, Any] | None:
        """What a worker was doing when its failpoint held it; None while it is not held."""
        if worker.pid is None or not (self.holds / f"{name}.{worker.pid}.held").exists():
            return None
        for line in reversed((self.holds / "fired.log").read_text().splitlines()):
            fired = json.loads(line)
            if fired["name"] == name and fired["pid"] == worker.pid:
                return dict(fired["context"])
        return None

    def _release(self, name: str, worker: ServiceProcess) -> None:
        (self.holds / f"{name}.{worker.pid}.release").touch()

    @staticmethod
    def _deadline() -> Deadline:
        return Deadline(PATIENCE_SECONDS)


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def main(argv: Sequence[str] | None = None) -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        prog="make demo", description="The Research Report Studio, with a kill and a freeze in the middle."
    )
    parser.add_argument("--topic", default=TOPIC, help="what the report is about")
    parser.add_argument(
        "--sources",
        nargs="*",
        default=[],
        help="folders and files (text, Markdown, HTML, PDF); default: the documentation of all installed packages",
    )
    parser.add_argument("--stay", action="store_true", help="keep the services running, to look at the page")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return Demo(args.topic, args.sources, ROOT).run(args.stay)
    except KeyboardInterrupt:
        return 130
    except (StanchionError, TimeoutError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
