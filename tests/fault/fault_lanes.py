"""Lanes of a sweep: each breaks one process again and again, at one failpoint after the other, while it works.

A shot is one failpoint with one action. The victim is started with it armed, the lane sees to it that there is work
until it fires, a frozen victim is thawed after its lease is over, a killed one is started again at once. Its peers go
on meanwhile: they take over what it held. Lanes don't know of each other and may run side by side.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fault_flows import busy_result
from kit.world import ENDS, PATIENCE, Task, World, let_pass, until

from stanchion.bus.messages import Message
from stanchion.bus.producer import Producer
from stanchion.cli.service_process import ServiceProcess
from stanchion.contracts import ids
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.workflow import Ctx, Workflow

LEASE_SECONDS: Final = 2.0
FROZEN_SECONDS: Final = LEASE_SECONDS + 1.0
FORCE_SECONDS: Final = 4.0
"""After so long the victim's peers stand still until it has fired: what there is to do is then its alone."""


@dataclass(frozen=True, slots=True)
class Shot:
    """A failpoint, what happens there, and at which hit."""

    name: str
    action: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.name}={self.nth}*{self.action}"

    @property
    def transaction(self) -> str:
        """The part of the name before the moment."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Expected:
    """A task, and how it has to end."""

    task: Task
    state: str
    node: str = ""
    value: Any = None
    during: str = ""

    def verify(self, world: World) -> None:
        """Wait for the end and compare."""
        where = f"task {self.task.task_id}, submitted at {self.during}"
        assert world.ended(self.task, 2 * PATIENCE) == self.state, where
        if self.node:
            assert world.result(self.task, self.node) == self.value, where


@dataclass
class Lane:
    """One victim and its shots. Subclasses say what there is to do."""

    world: World
    victim: ServiceProcess
    peers: Sequence[ServiceProcess]
    shots: Sequence[Shot]
    fired: list[Shot] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)
    after_each: Callable[[Lane, Shot], None] | None = None

    def run(self) -> None:
        """Fire all shots, one after the other; the victim is whole again afterwards."""
        self.world.owned.add(self.victim.name)
        try:
            for shot in self.shots:
                self.shoot(shot)
                if self.after_each is not None:
                    self.after_each(self, shot)
        finally:
            self.world.owned.discard(self.victim.name)

    def verify(self) -> None:
        """All tasks of this lane end as without faults, and nothing speaks against their history."""
        for one in self.expected:
            one.verify(self.world)
        if self.expected:
            self.world.judge(*(one.task for one in self.expected))

    # -- what subclasses say --

    def prepare(self, shot: Shot) -> None:
        """Before the victim is armed."""

    def work(self, shot: Shot) -> None:
        """Called again and again until the shot has fired: see to it that the victim has something to do."""

    def done(self, shot: Shot) -> None:
        """After the shot has fired, and after a frozen victim was thawed."""

    # -- one shot --

    def shoot(self, shot: Shot) -> None:
        """Arm, work, fire, recover."""
        self.prepare(shot)
        pid = self._arm(shot)
        self._fire(shot, pid)
        self.fired.append(shot)
        if shot.action == "stop":
            let_pass(FROZEN_SECONDS)
            self.victim.thaw()
        self.done(shot)

    def _arm(self, shot: Shot) -> int:
        """Start the victim anew with the shot armed; its environment is clean again for the start after."""
        with self.victim.hold():
            if self.victim.is_running():
                self.victim.kill()
            self.victim.env["STANCHION_FAILPOINTS"] = str(shot)
            self.victim.launch()
            del self.victim.env["STANCHION_FAILPOINTS"]
            return self.victim.pid

    def _fire(self, shot: Shot, pid: int) -> None:
        end = time.monotonic() + PATIENCE
        force_at = time.monotonic() + FORCE_SECONDS
        forced = False
        try:
            while not self._has_fired(shot, pid):
                if self.victim.pid != pid or not self.victim.is_running():
                    pid = self._arm(shot)  # another lane's fault has hit it
                assert time.monotonic() < end, f"{shot} has not fired within {PATIENCE:g} s"
                if time.monotonic() > force_at and not forced and self.victim.answers():
                    forced = True
                    for peer in self.peers:
                        peer.freeze()
                self.work(shot)
                time.sleep(0.02)
        finally:
            if forced:
                for peer in self.peers:
                    peer.thaw()

    def _has_fired(self, shot: Shot, pid: int) -> bool:
        return any(line["pid"] == pid and line["name"] == shot.name for line in self.world.fired())

    # -- tools of subclasses --

    def expect(self, shot: Shot, task: Task, state: str, node: str = "", value: Any = None) -> None:
        """Remember how a task has to end."""
        self.expected.append(Expected(task, state, node, value, str(shot)))

    def open_tasks(self, most: int = 50) -> int:
        """How many of the lane's last tasks have not ended."""
        tasks = [one.task.task_id for one in self.expected[-most:]]
        sql = "SELECT count(*) FROM stanchion.task WHERE task_id = ANY (%s) AND state <> ALL (%s)"
        return int(self.world.sql(sql, tasks, list(ENDS))[0])

    def let_go(self, task: Task) -> None:
        """End the naps of a task."""
        for step in self.world.steps(task):
            (self.world.history / f"{ids.public(ids.STEP, step['step_id'])}.go").touch()


class WorkerLane(Lane):
    """Breaks a worker."""

    nap: Task | None = None

    def work(self, shot: Shot) -> None:
        """A busy task at a time; for the end of a worker's life something that outlasts it; rubbish to be parked."""
        if shot.transaction == "give_back":
            self._end_it(shot)
        elif shot.transaction == "bury":
            send_rubbish(self.world, "stanchion.workers.default.commands.v1")
            time.sleep(0.2)
        elif self.open_tasks() < 2:
            self.expect(shot, self.world.submit("fault_busy"), "completed", "last", busy_result())

    def done(self, shot: Shot) -> None:
        """Wake what still sleeps."""
        if self.nap is not None:
            self.let_go(self.nap)
            self.nap = None

    def _end_it(self, shot: Shot) -> None:
        """Ask the victim to end while it runs something: it hands the lease back."""
        if self.nap is None:
            self.nap = self.world.submit("fault_slow", seconds=PATIENCE)
            self.expect(shot, self.nap, "completed")
        holder = self.world.sql(
            """SELECT w.pid FROM stanchion.attempt a JOIN stanchion.worker w ON w.worker_id = a.worker_id
            WHERE a.run_id = %s AND a.ended_at IS NULL AND a.state = 'running'""",
            self.nap.run_id,
        )
        if holder == [self.victim.pid]:
            self.victim.kill(signal.SIGTERM)
            until(lambda: self._has_fired(shot, self.victim.pid) or not self.victim.is_running(), PATIENCE)
        elif holder:
            self.done(shot)  # a peer has it


class OrchestratorLane(Lane):
    """Breaks an orchestrator."""

    unserved: Task | None = None

    def work(self, shot: Shot) -> None:
        """Something to expand, to reap, to retry, to sweep, and to offer."""
        if shot.transaction == "offer":
            self._offer(shot)
        elif self.open_tasks() < 2:
            self.expect(shot, self.world.submit("fault_upkeep"), "completed", "winner", 1)
            self.expect(shot, self.world.submit("fault_doomed"), "failed")

    def done(self, shot: Shot) -> None:
        """End what nobody serves."""
        if self.unserved is not None:
            self.world.cancel(self.unserved)
            self.unserved = None

    def _offer(self, shot: Shot) -> None:
        """A ready step of a workflow that no worker has: it is offered again and again."""
        if self.unserved is None:
            self.world.register(nobodys())
            self.unserved = self.world.submit("fault_nobodys")
            self.expect(shot, self.unserved, "cancelled")
        steps = [step["step_id"] for step in self.world.steps(self.unserved)]
        self.world.sql("UPDATE stanchion.ready SET offered_at = NULL WHERE step_id = ANY (%s)", steps)  # its turn now


def nobodys() -> Workflow:
    """A workflow that is known and that no worker serves."""
    wf = Workflow("fault_nobodys")

    @wf.step()
    def wait(ctx: Ctx) -> int:
        return 0

    return wf


class RelayLane(Lane):
    """Breaks a relay."""

    def work(self, shot: Shot) -> None:
        """Messages to send."""
        if self.open_tasks() < 2:
            self.expect(shot, self.world.submit("fault_wide", count=5), "completed", "sum_up", [5, 10])


class MaintenanceLane(Lane):
    """Breaks a maintenance worker. Its jobs come by themselves."""

    def verify(self) -> None:
        """A job is still claimed and done after the last fault."""
        now = self.world.sql("SELECT now()")[0]
        sql = "SELECT count(*) FROM stanchion.maintenance WHERE updated_at > %s AND state = 'done'"
        until(lambda: self.world.sql(sql, now)[0], PATIENCE, "a maintenance job")


def send_rubbish(world: World, topic: str, count: int = 4) -> None:
    """A message that can't be decoded, on each partition of a topic."""
    messages = [Message(topic, os.urandom(8), [("ce_type", b"\xff\xfe")], b"\x8d{") for _ in range(count * 4)]
    producer = Producer(KafkaSettings.dev(world.stack.endpoints.kafka_bootstrap, "rubbish"))
    try:
        # a broker that makes a missing topic when it is named refuses the first messages
        until(lambda: not any(producer.send_all(messages)), PATIENCE, "a topic that takes rubbish")
    finally:
        producer.stop()


def run_side_by_side(lanes: Sequence[Lane]) -> None:
    """Run all lanes at once; raises the first failure after all have ended."""
    failures: list[BaseException] = []

    def guarded(lane: Lane) -> None:
        try:
            lane.run()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(lane,), name=type(lane).__name__) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
