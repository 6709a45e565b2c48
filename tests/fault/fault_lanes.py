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
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from fault_effects import effects_result
from fault_flows import busy_result
from fault_topics import EVENTS, header, read_all
from kit.world import ENDS, PATIENCE, Task, World, let_pass, until

from stanchion.bus.messages import Message
from stanchion.bus.producer import Producer
from stanchion.cli.service_process import ServiceProcess
from stanchion.contracts import ids
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.workflow import Ctx, Workflow

LEASE_SECONDS: Final = 2.0
FROZEN_SECONDS: Final = LEASE_SECONDS + 0.7
UNLEASED_SECONDS: Final = 1.5
"""How long those stand still who hold no lease: longer than the database waits for an open transaction."""
THAWED_SECONDS: Final = 0.3
"""What a thawed victim gets to hand in what it has, before it is broken anew."""
FORCE_SECONDS: Final = 1.0
"""So long after the victim is ready its peers stand still until it has fired: what there is to do is then its alone."""


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

    frozen_seconds: ClassVar[float] = FROZEN_SECONDS

    world: World
    victim: ServiceProcess
    peers: Sequence[ServiceProcess]
    shots: Sequence[Shot]
    fired: list[Shot] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)
    after_each: Callable[[Lane, Shot], None] | None = None
    one_by_one: bool = False
    pids: set[int] = field(default_factory=set)
    """The processes that were armed."""
    seen: int = 0
    """Lines of the log of failpoints that belong to shots before."""
    armed: list[Shot] = field(default_factory=list)
    """What the victim was started with last."""

    def run(self) -> None:
        """Fire all shots; the victim is whole again afterwards."""
        if not self.shots:
            return
        self.world.owned.add(self.victim.name)
        self.world.thaws_after[self.victim.name] = self.frozen_seconds
        groups = self.groups()
        try:
            for group, following in zip(groups, [*groups[1:], []], strict=True):
                self.shoot(group, following)
        finally:
            self.world.owned.discard(self.victim.name)
            del self.world.thaws_after[self.victim.name]

    def groups(self) -> list[list[Shot]]:
        """What is armed together. A process survives being frozen: it can meet one such place after the other."""
        if self.one_by_one:
            return [[shot] for shot in self.shots]
        stops = [shot for shot in self.shots if shot.action == "stop"]
        return [*([stops] if stops else []), *([shot] for shot in self.shots if shot.action == "kill")]

    def verify(self) -> None:
        """All tasks of this lane end as without faults, and nothing speaks against their history."""
        for one in self.expected:
            one.verify(self.world)
        if self.expected:
            self.world.judge(*(one.task for one in self.expected))

    # -- what subclasses say --

    def work(self, shot: Shot) -> None:
        """Called again and again until the shot has fired: see to it that the victim has something to do."""

    def done(self, shot: Shot) -> None:
        """After the shot has fired; a frozen victim still stands."""

    # -- shots --

    def shoot(self, shots: Sequence[Shot], following: Sequence[Shot] = ()) -> None:
        """Arm, work until each has fired, recover; a victim that was killed starts at once with what follows."""
        left = list(shots)
        if self.armed != left:
            self.arm(left)
        while left:
            self.fire(left)
            left.remove(shot := next(shot for shot in left if self._has_fired(shot)))
            self.fired.append(shot)
            if shot.action == "kill":
                self.arm(following)
            self.done(shot)
            if self.after_each is not None:
                self.after_each(self, shot)
        if shots[0].action == "stop":
            until(lambda: not self.world.stands_still(self.victim), PATIENCE, "the thaw")
            let_pass(THAWED_SECONDS)

    def arm(self, shots: Sequence[Shot]) -> None:
        """Start the victim anew with these armed; its environment is clean again for the start after."""
        with self.victim.hold():
            if self.victim.is_running():
                self.victim.kill()
            self.seen = len(self.world.fired())
            self._launch(shots)
        self.armed = list(shots)

    def _launch(self, shots: Sequence[Shot]) -> None:
        self.victim.env["STANCHION_FAILPOINTS"] = ";".join(map(str, shots))
        self.victim.launch()
        del self.victim.env["STANCHION_FAILPOINTS"]
        self.pids.add(self.victim.pid)

    def fire(self, left: Sequence[Shot]) -> None:
        """See to it that there is work until one of them has fired; one at a time, in order, when it does not by itself."""
        end = time.monotonic() + 2 * PATIENCE
        ready_at: float | None = None
        forced = False
        try:
            while not any(self._has_fired(shot) for shot in left):
                if self.victim.pid not in self.pids or not self.victim.is_running():
                    self._again(left)  # it ended by itself, or another lane's fault has hit it
                assert time.monotonic() < end, f"{left[0]} has not fired within {2 * PATIENCE:g} s"
                if ready_at is None and self.victim.answers():
                    ready_at = time.monotonic()
                if ready_at is not None and not forced and time.monotonic() > ready_at + FORCE_SECONDS:
                    forced = True
                    for peer in self.peers:
                        peer.freeze()
                self.work(left[0])
                time.sleep(0.05)
        finally:
            if forced:
                for peer in self.peers:
                    peer.thaw()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Within the block the victim stands still at its only shot, for as long as the block takes."""
        self.world.owned.add(self.victim.name)
        self.world.thaws_after[self.victim.name] = 10 * PATIENCE
        try:
            self.arm(self.shots)
            self.fire(self.shots)
            yield
        finally:
            self.victim.thaw()
            self.world.owned.discard(self.victim.name)
            del self.world.thaws_after[self.victim.name]

    def _again(self, left: Sequence[Shot]) -> None:
        """Start the victim with what has not fired; a shot that fired at the last moment still counts."""
        with self.victim.hold():
            if self.victim.is_running():
                self.victim.kill()
            if not any(self._has_fired(shot) for shot in left):
                self._launch(left)

    def _has_fired(self, shot: Shot) -> bool:
        return any(
            line["pid"] in self.pids and (line["name"], line["action"]) == (shot.name, shot.action)
            for line in self.world.fired()[self.seen :]
        )

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


EFFECTS: Final = ("op", "op_prepare", "op_dispatch", "op_settle", "op_probe", "op_doubt", "spend")
"""What a worker writes and does for an effect outside."""


class OutcomeLane(Lane):
    """Breaks a worker where it hands in what came of its steps."""

    def work(self, shot: Shot) -> None:
        """A busy task at a time, or two; for the ledger one with effects."""
        if self.open_tasks() < 2:
            if shot.transaction in EFFECTS:
                self.expect(shot, self.world.submit("fault_effects"), "completed", "added", effects_result())
            elif shot.transaction == "ask":
                self.expect(shot, self.world.submit("fault_silent"), "completed", "go_on", "expired")
            else:
                self.expect(shot, self.world.submit("fault_busy"), "completed", "last", busy_result())


class WorkerLane(OutcomeLane):
    """Breaks a worker where it takes and keeps leases, runs steps, and ends."""

    nap: Task | None = None

    def work(self, shot: Shot) -> None:
        """The same; for the end of a worker's life something that outlasts it; rubbish to be parked."""
        if shot.transaction == "give_back":
            self._end_it(shot)
        elif shot.transaction == "bury":
            send_rubbish(self.world, "stanchion.workers.default.commands.v1")
            time.sleep(0.2)
        else:
            super().work(shot)

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
            until(lambda: self._has_fired(shot) or not self.victim.is_running(), PATIENCE)
        elif holder:
            self.done(shot)  # a peer has it


class OrchestratorLane(Lane):
    """Breaks an orchestrator."""

    frozen_seconds: ClassVar[float] = UNLEASED_SECONDS
    unserved: Task | None = None
    damaged: Task | None = None

    def work(self, shot: Shot) -> None:
        """Something to expand, to reap, to retry, to sweep, to offer, and to set aside."""
        if shot.transaction == "offer":
            self._offer(shot)
        elif shot.transaction == "set_aside":
            self._damage(shot)
        elif self.open_tasks() < 2:
            crash = shot.transaction == "reap"
            self.expect(shot, self.world.submit("fault_upkeep", crash=crash), "completed", "winner", 1)
            self.expect(shot, self.world.submit("fault_doomed"), "failed")

    def done(self, shot: Shot) -> None:
        """End what nobody serves, and mend what was damaged."""
        if self.damaged is not None:
            self.world.sql("DROP TRIGGER damaged ON stanchion.step")
            self.world.sql("DELETE FROM stanchion.set_aside")
            self.damaged = None
        if self.unserved is not None:
            self.world.cancel(self.unserved)
            self.unserved = None

    def _damage(self, shot: Shot) -> None:
        """A run whose retries the database refuses: its timers are set aside, again and again."""
        if self.damaged is None:
            self.world.sql(
                "CREATE OR REPLACE FUNCTION stanchion.test_damaged() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION USING ERRCODE = 'ST002', MESSAGE = 'damaged by the test'; END $$"
            )
            # before the run is there: its first retry may be due at any moment
            self.world.sql(
                "DO $$ BEGIN EXECUTE format('CREATE TRIGGER damaged BEFORE UPDATE ON stanchion.step FOR EACH ROW WHEN"
                " (OLD.state = ''retry_wait'' AND OLD.workflow = ''fault_upkeep'' AND OLD.created_at >= %%L)"
                " EXECUTE FUNCTION stanchion.test_damaged()', stanchion.clock()); END $$"
            )
            self.damaged = self.world.submit("fault_upkeep")
            self.expect(shot, self.damaged, "completed", "winner", 1)
        self.world.sql("DELETE FROM stanchion.set_aside")

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

    def verify(self) -> None:
        """Also: each event of each run is in its topic, whatever came twice on the way."""
        super().verify()
        runs = [str(one.task.run_id) for one in self.expected]
        sent: defaultdict[str, set[int]] = defaultdict(set)
        for record in read_all(self.world, EVENTS):
            sent[record.key.decode()].add(int(header(record, "ce_sequence") or 0))
        for run, last in self.world.sql(
            "SELECT run_id::text, seq FROM stanchion.run WHERE run_id::text = ANY (%s)", runs
        ):
            assert sent[run] == set(range(1, last + 1)), f"events {sorted(sent[run])} of run {run} were sent, of {last}"


class MaintenanceLane(Lane):
    """Breaks a maintenance worker. Its jobs come by themselves, but for those in bulk."""

    def work(self, shot: Shot) -> None:
        """A job in bulk at a time: it cancels one task that has just begun, if it is not done before."""
        in_bulk = shot.transaction == "act_for_job" or shot.name == "maintenance.acted"
        if in_bulk and self._open_jobs() == 0:
            self.world.cancel_as_job(self.world.submit("fault_busy"))

    def verify(self) -> None:
        """A job is still claimed and done after the last fault; each in bulk has acted on its task once."""
        now = self.world.sql("SELECT now()")[0]
        sql = "SELECT count(*) FROM stanchion.maintenance_job WHERE finished_at > %s AND state = 'done'"
        until(lambda: self.world.sql(sql, now)[0], PATIENCE, "a maintenance job")
        until(lambda: self._open_jobs() == 0, PATIENCE, "the end of the jobs in bulk")
        wrong = """SELECT j.key FROM stanchion.maintenance_job j WHERE j.kind = 'bulk' AND (j.state <> 'done' OR
          coalesce((j.result->>'done')::int, 0) + coalesce((j.result->>'skipped')::int, 0) <>
          (SELECT count(*) FROM stanchion.job_target t WHERE t.job_id = j.key::uuid))"""
        assert self.world.sql(wrong) == []

    def _open_jobs(self) -> int:
        sql = "SELECT count(*) FROM stanchion.maintenance_job WHERE kind = 'bulk' AND finished_at IS NULL"
        return int(self.world.sql(sql)[0])


def send_rubbish(world: World, topic: str, count: int = 4) -> None:
    """A message that can't be decoded, on each partition of a topic."""
    messages = [Message(topic, os.urandom(8), [("ce_type", b"\xff\xfe")], b"\x8d{") for _ in range(count * 4)]
    producer = Producer(KafkaSettings.dev(world.stack.endpoints.kafka_bootstrap, "rubbish"))
    try:
        # a broker that makes a missing topic when it is named refuses the first messages
        until(lambda: not any(producer.send_all(messages)), PATIENCE, "a topic that takes rubbish")
    finally:
        producer.stop()


def run_side_by_side(lanes: Sequence[Lane]) -> list[BaseException]:
    """Run all lanes at once, each to its end or its failure; the failures."""
    failures: list[BaseException] = []

    def guarded(lane: Lane) -> None:
        try:
            lane.run()
        except BaseException as error:  # the test that looks at it raises it
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(lane,), name=type(lane).__name__) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures
