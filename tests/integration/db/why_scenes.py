"""Scenes for `why`: each drives the engine into one state, and names what it is about and what has to be said of it.

Every code has at least one, and so has every state of a task, a run, a step and a barrier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from kit.budgets import spending
from kit.crew import crew
from kit.deciding import Deciding, asked, asking
from kit.effects import publishing, step_state
from kit.engine import Engine
from kit.flows import fan, single
from kit.outside import Outside
from psycopg.types.json import Jsonb

from stanchion.authority.leases import Leases, Reach
from stanchion.authority.pipeline import Pipeline
from stanchion.authority.queues import Queues
from stanchion.authority.submission import Answer
from stanchion.authority.why import Asking, Why
from stanchion.contracts import ids
from stanchion.contracts.topics import WORKERS_GROUP, worker_commands
from stanchion.db.engine import Database
from stanchion.db.grants import RELAY
from stanchion.workflow import All, AtLeast, Ctx, First, Go, Results, Workflow
from stanchion.workflow.approval import Ask, Decision


@dataclass
class Stage:
    """An engine, an outside system, people; and workers that say how busy they are."""

    engine: Engine
    outside: Outside
    people: Deciding
    db: Callable[[str], Database]
    about: str = ""  # the kind of thing that the scene is asked about
    presences: dict[str, Leases] = field(default_factory=dict)

    def why(self, prefix: str, value: UUID) -> Why:
        return Asking(self.engine.service).about(self.engine.tenant, ids.public(prefix, value))

    def present(
        self, *definitions: str, name: str = "w-17", slots: int = 4, running: int = 0, state: str = "active"
    ) -> None:
        """A worker reports what it serves (none named: all that is registered)."""
        reach = Reach(None, list(definitions) or self.engine.definitions, self.engine.queues)
        leases = self.presences.setdefault(name, Leases(self.engine.worker_database, uuid4(), reach, 30_000))
        leases.reach = reach
        leases.seen(name=name, host="h", pid=1, slots=slots, running=running, state=state, clock=datetime.now(UTC))

    def step(self, node: str, state: str | None = None) -> UUID:
        """Some step of a node."""
        found: list[UUID] = self.engine.all(
            "SELECT step_id FROM stanchion.step WHERE node = %s AND (%s::text IS NULL OR state = %s) ORDER BY kind DESC, step_id",
            node,
            state,
            state,
        )
        return found[0]

    def barrier(self, node: str) -> UUID:
        found: UUID = self.engine.barrier(node)["barrier_id"]
        return found

    def submit(self, workflow: Workflow, **command: Any) -> Answer:
        return self.engine.submit(workflow, **command)

    def submit_many(self, workflow: Workflow, count: int) -> list[Answer]:
        return self.engine.submit_all(workflow, [({}, None)] * count)


About = tuple[str, UUID]


@dataclass(frozen=True)
class Scene:
    """What is said first, or at all, of something in this state."""

    code: str
    kind: str
    state: str
    play: Callable[[Stage], About]

    def __str__(self) -> str:
        return f"{self.code}-{self.kind}-{self.state}-{self.play.__name__}"


SCENES: list[Scene] = []
PREFIXES = {"task": "tsk", "run": "run", "step": "stp", "barrier": "bar"}


def scene(code: str, kind: str, state: str) -> Callable[[Callable[[Stage], UUID]], Callable[[Stage], UUID]]:
    """Register what a function stages; it returns the id of what is asked about."""

    def register(play: Callable[[Stage], UUID]) -> Callable[[Stage], UUID]:
        def about(stage: Stage) -> About:
            stage.about = kind
            return PREFIXES[kind], play(stage)

        about.__name__ = play.__name__
        SCENES.append(Scene(code, kind, state, about))
        return play

    return register


def pair(name: str = "pair", **options: Any) -> Workflow:
    """first, then second."""
    wf = Workflow(name)

    @wf.step(**options)
    def first(ctx: Ctx) -> int:
        return 1

    @wf.step(after=first)
    def second(ctx: Ctx, n: int) -> int:
        return n

    return wf


# --- nobody takes it ---


@scene("W-NO-WORKER", "task", "accepted")
@scene("W-RELAY-DOWN", "task", "accepted")
def nobody_is_there(stage: Stage) -> UUID:
    task = stage.submit(single("alone"))
    stage.engine.forward(10)
    return task.task_id


@scene("W-NO-WORKER", "step", "ready")
def the_only_worker_left(stage: Stage) -> UUID:
    stage.submit(single("left"))
    stage.present(state="gone")
    return stage.step("only")


@scene("W-NO-WORKER", "run", "created")
def workers_have_other_workflows(stage: Stage) -> UUID:
    stage.present("another@1")
    return stage.submit(single("lonely")).run_id


@scene("W-VERSION", "task", "accepted")
def workers_have_another_version(stage: Stage) -> UUID:
    task = stage.submit(single("moved"))
    stage.present("moved@3", "moved@12", name="new")
    return task.task_id


@scene("W-UNTAKEN", "task", "accepted")
def offered_and_never_taken(stage: Stage) -> UUID:
    task = stage.submit(single("shunned"))
    for _ in range(5):
        stage.engine.forward(301)
        stage.present()
        stage.engine.upkeep.offer()
    return task.task_id


@scene("W-CAPACITY", "task", "accepted")
def all_slots_are_busy(stage: Stage) -> UUID:
    stage.submit(single("crowded"))
    task = stage.submit(single("crowded"))
    stage.present(slots=4, running=4)
    return task.task_id


@scene("W-PRIORITY", "task", "accepted")
def others_are_more_urgent(stage: Stage) -> UUID:
    task = stage.submit(single("patient"))
    stage.submit(single("urgent"), priority=50)
    stage.present(slots=1, running=1)
    return task.task_id


@scene("W-OK", "task", "accepted")
def just_placed(stage: Stage) -> UUID:
    task = stage.submit(single("fresh"))
    stage.present()
    return task.task_id


@scene("W-OUTBOX", "task", "accepted")
def the_relay_is_behind(stage: Stage) -> UUID:
    task = stage.submit(single("queued"))
    relay = stage.db(RELAY)
    relay.read("SELECT * FROM stanchion.relay_tick(%s, 'r', 600000)", (uuid4(),))
    stage.engine.forward(10)
    return task.task_id


@scene("W-PAUSED", "step", "ready")
def its_queue_is_paused(stage: Stage) -> UUID:
    stage.submit(single("held"))
    stage.present()
    Queues(stage.engine.service).pause(stage.engine.tenant, "default", reason="vendor outage", actor="test")
    return stage.step("only")


@scene("W-LAG", "task", "accepted")
def its_offer_is_not_read(stage: Stage) -> UUID:
    task = stage.submit(single("unread"))
    stage.present()
    note_lag(stage, "steady", end=4_000, committed=10)
    return task.task_id


@scene("W-REBALANCE", "task", "accepted")
def readers_share_anew(stage: Stage) -> UUID:
    task = stage.submit(single("shared"))
    stage.present()
    note_lag(stage, "rebalancing", end=5, committed=5)
    return task.task_id


def note_lag(stage: Stage, state: str, *, end: int, committed: int) -> None:
    """What an orchestrator's look at the broker found of the workers' group."""
    watcher = Pipeline(stage.engine.orchestrator)
    watcher.turn("test")
    place = {"topic": worker_commands("default"), "partition": 0, "end": end, "committed": committed, "owner": "w-1"}
    groups = [{"name": WORKERS_GROUP, "state": state, "members": ["a"]}]
    watcher.note(groups, [place | {"group": WORKERS_GROUP}])


@scene("W-POISON", "task", "accepted")
def its_message_was_parked(stage: Stage) -> UUID:
    task = stage.submit(single("garbled"))
    letter = {
        "tenant_id": str(stage.engine.tenant),
        "topic": "stanchion.orchestrator.commands.v1",
        "partition": 7,
        "offset": 88_121,
        "key": None,
        "value": None,
        "headers": [["ce_type", "PlanRun"], ["ce_correlationid", str(task.run_id)]],
        "code": "E-MSG-01",
        "reason": "the body is no JSON: secret",
    }
    stage.engine.service.call("bury", "SELECT stanchion.bury(%s)", (Jsonb([letter]),))
    return task.task_id


@scene("W-DB", "task", "accepted")
def the_database_is_read_only(stage: Stage) -> UUID:
    task = stage.submit(single("frozen"))
    admin = stage.engine.admin
    name = psycopg.sql.Identifier(admin.info.dbname)
    admin.execute(psycopg.sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    stage.engine.service = stage.db("stanchion_task_service")  # what was connected before does not learn of it
    return task.task_id


# --- it runs, or ran ---


@scene("W-LEASE", "step", "leased")
@scene("W-LEASE", "task", "running")
def a_worker_has_it(stage: Stage) -> UUID:
    task = stage.submit(single("busy", timeout="15m"))
    stage.engine.worker().take()
    return stage.step("only") if stage.about == "step" else task.task_id


@scene("W-LEASE", "step", "running")
def a_worker_was_seen_running_it(stage: Stage) -> UUID:
    stage.submit(single("seen"))
    worker = stage.engine.worker()
    (lease,) = worker.take()
    worker.leases.renew([lease], [True], [None])
    return lease.step_id


@scene("W-LEASE-LOST", "run", "running")
def a_lease_ran_out(stage: Stage) -> UUID:
    task = stage.submit(single("lost"))
    stage.engine.worker().take()
    stage.engine.forward(31)
    return task.run_id


@scene("W-LEASE-LOST", "task", "running")
def a_worker_fell_silent(stage: Stage) -> UUID:
    task = stage.submit(single("silent"))
    worker = stage.engine.worker()
    worker.seen()
    worker.take()
    stage.engine.forward(20)
    return task.task_id


@scene("W-OK", "run", "running")
def many_have_ended(stage: Stage) -> UUID:
    task = stage.submit(fan("moving", "all", ["a", "b", "c", "d"]))
    worker = stage.engine.worker()
    worker.finish(worker.take()[0], ["a", "b", "c", "d"])
    stage.engine.expand()
    worker.finish_all(worker.take("visit")[:2], "x")
    return task.run_id


@scene("W-RETRY", "step", "retry_wait")
def an_attempt_failed(stage: Stage) -> UUID:
    stage.submit(single("flaky"))
    worker = stage.engine.worker()
    (lease,) = worker.take()
    worker.fail(lease, final=False, delay_ms=60_000)
    return lease.step_id


@scene("W-PLANNING", "step", "waiting")
def children_are_to_be_made(stage: Stage) -> UUID:
    stage.submit(fan("planned", "all", ["a", "b"]))
    worker = stage.engine.worker()
    worker.finish(worker.take()[0], ["a", "b"])
    return stage.step("visit")


@scene("W-STALLED", "task", "running")
def children_are_overdue(stage: Stage) -> UUID:
    task = stage.submit(fan("stalled", "all", ["a", "b"]))
    worker = stage.engine.worker()
    worker.finish(worker.take()[0], ["a", "b"])
    stage.engine.forward(120)
    return task.task_id


@scene("W-STALLED", "step", "retry_wait")
def a_retry_is_overdue(stage: Stage) -> UUID:
    about = an_attempt_failed(stage)
    stage.engine.forward(180)
    return about


@scene("W-STALLED", "step", "leased")
def a_lost_lease_is_not_taken_back(stage: Stage) -> UUID:
    a_lease_ran_out(stage)
    stage.engine.forward(70)
    return stage.step("only")


@scene("W-STALLED", "task", "accepted")
def a_deadline_is_overdue(stage: Stage) -> UUID:
    task = with_a_deadline(stage)
    stage.engine.forward(4_000)
    return task


@scene("W-STALLED", "step", "waiting")
def nobody_ended_an_approval(stage: Stage) -> UUID:
    stage.submit(asking(stage.outside, by="editors", within="1h"))
    with crew(stage.engine) as worker:
        asked(stage.engine, worker)
    stage.engine.forward(3_700)
    return stage.step("review")


@scene("W-STALLED", "barrier", "waiting")
def nobody_ended_a_join(stage: Stage) -> UUID:
    stage.submit(fan("slow", AtLeast(2, within="1m"), ["a", "b"]))
    worker = stage.engine.worker()
    worker.finish(worker.take()[0], ["a", "b"])
    stage.engine.expand()
    stage.engine.forward(130)
    return stage.barrier("gather")


@scene("W-DEADLINE", "task", "accepted")
def with_a_deadline(stage: Stage) -> UUID:
    (now,) = stage.engine.one("SELECT stanchion.clock() + interval '1 h'")
    return stage.submit(single("bounded"), deadline=now).task_id


@scene("W-DEADLINE", "step", "ready")
def a_step_with_a_deadline(stage: Stage) -> UUID:
    stage.submit(single("hurried", start_within="5m"))
    return stage.step("only")


# --- damage ---


@scene("W-SET-ASIDE", "task", "accepted")
def its_upkeep_is_refused(stage: Stage) -> UUID:
    task = stage.submit(single("damaged"))
    stage.engine.orchestrator.call(
        "set_aside", "SELECT stanchion.put_aside('run', %s, 'E-DB-10', 'a row with secret is damaged')", (task.run_id,)
    )
    return task.task_id


@scene("W-DAMAGED", "run", "created")
@scene("W-DAMAGED", "step", "ready")
def its_row_in_ready_is_gone(stage: Stage) -> UUID:
    task = stage.submit(single("adrift"))
    stage.engine.admin.execute("DELETE FROM stanchion.ready")
    return stage.step("only") if stage.about == "step" else task.run_id


# --- waiting ---


@scene("W-PAUSED", "task", "accepted")
def somebody_paused_it(stage: Stage) -> UUID:
    task = stage.submit(single("halted"))
    stage.engine.pause(task)
    return task.task_id


@scene("W-UPSTREAM", "step", "pending")
def a_step_after_another(stage: Stage) -> UUID:
    stage.submit(pair())
    stage.engine.worker().take()
    return stage.step("second")


@scene("W-UPSTREAM", "barrier", "waiting")
def a_barrier_before_a_step(stage: Stage) -> UUID:
    stage.submit(pair("before"))
    found: list[UUID] = stage.engine.all("SELECT barrier_id FROM stanchion.barrier")
    return found[0]


@scene("W-BARRIER", "barrier", "waiting")
def a_join_under_way(stage: Stage) -> UUID:
    many_have_ended(stage)
    return stage.barrier("gather")


@scene("W-HELD", "task", "running")
def failed_children_hold_it(stage: Stage) -> UUID:
    task = stage.submit(fan("holding", All(on_failed="hold"), ["bad", "b", "bad"]))
    stage.engine.worker().work()
    return task.task_id


@scene("W-DEAD", "step", "failed")
def a_child_that_holds(stage: Stage) -> UUID:
    failed_children_hold_it(stage)
    return stage.step("visit", "failed")


@scene("W-BARRIER-LATE", "barrier", "released")
def a_join_that_did_not_wait(stage: Stage) -> UUID:
    stage.submit(fan("early", First(rest="finish"), ["a", "b"]))
    worker = stage.engine.worker()
    worker.finish(worker.take()[0], ["a", "b"])
    stage.engine.expand()
    first, _ = worker.take("visit")
    worker.finish(first, "A")
    return stage.barrier("gather")


@scene("W-BARRIER-LATE", "step", "succeeded")
def a_child_that_came_late(stage: Stage) -> UUID:
    stage.submit(fan("tardy", First(rest="finish"), ["a", "b"]))
    worker = stage.engine.worker()
    worker.finish(worker.take()[0], ["a", "b"])
    stage.engine.expand()
    first, second = worker.take("visit")
    worker.finish(first, "A")
    worker.finish(second, "B")
    return second.step_id


@scene("W-APPROVAL", "task", "awaiting_approval")
@scene("W-APPROVAL", "step", "waiting")
def people_are_asked(stage: Stage) -> UUID:
    task = stage.submit(asking(stage.outside, by="editors", needs=2, within="4h"))
    with crew(stage.engine) as worker:
        asked(stage.engine, worker)
    stage.people.say("ann")
    return stage.step("review") if stage.about == "step" else task.task_id


@scene("W-UNKNOWN", "step", "unknown")
def it_is_asked_after(stage: Stage) -> UUID:
    stage.outside.script.append("lost")
    stage.outside.blind = True
    stage.submit(publishing(stage.outside))
    with crew(stage.engine) as worker:
        worker.work(lambda: step_state(stage.engine) == "unknown")
    return stage.step("send")


@scene("W-UNKNOWN", "step", "reconciling")
def a_worker_asks(stage: Stage) -> UUID:
    about = it_is_asked_after(stage)
    stage.engine.forward(3_600)
    stage.engine.fire()
    assert stage.engine.worker().take()
    return about


@scene("W-UNKNOWN-NOCHECK", "task", "running")
def only_a_person_can_tell(stage: Stage) -> UUID:
    stage.outside.script.append("lost")
    task = stage.submit(publishing(stage.outside, check=None, unsafe_no_check="the printer has no memory"))
    with crew(stage.engine) as worker:
        worker.work(lambda: step_state(stage.engine) == "unknown")
    return task.task_id


# --- ends ---


@scene("W-CANCELLING", "task", "cancelling")
@scene("W-CANCELLING", "run", "cancelling")
def cancel_was_asked(stage: Stage) -> UUID:
    task = stage.submit(single("stopping"))
    stage.engine.worker().take()
    stage.engine.cancel(task)
    return task.run_id if stage.about == "run" else task.task_id


@scene("W-FAILING", "task", "running")
def it_has_failed_and_something_still_runs(stage: Stage) -> UUID:
    wf = Workflow("failing")

    @wf.step(retries=0)
    def left(ctx: Ctx) -> int:
        return 1

    @wf.step(retries=0)
    def right(ctx: Ctx) -> int:
        return 1

    task = stage.submit(wf)
    worker = stage.engine.worker()
    worker.fail(worker.take()[0])
    return task.task_id


@scene("W-DEAD", "task", "failed")
@scene("W-DEAD", "run", "failed")
def it_failed(stage: Stage) -> UUID:
    task = stage.submit(single("broken", retries=0))
    worker = stage.engine.worker()
    worker.fail(*worker.take())
    stage.engine.sweep()
    return task.run_id if stage.about == "run" else task.task_id


@scene("W-DEAD", "barrier", "failed")
def a_join_failed(stage: Stage) -> UUID:
    stage.submit(fan("fragile", "all", ["bad", "b"]))
    stage.engine.worker().work()
    return stage.barrier("gather")


@scene("W-BUDGET", "task", "failed")
def it_spent_too_much(stage: Stage) -> UUID:
    task = stage.submit(spending(5), budget={"tokens": 1})
    with crew(stage.engine) as worker:
        worker.work(lambda: stage.engine.sweep() or stage.engine.task(task)[0] == "failed")
    return task.task_id


@scene("W-REJECTED", "task", "rejected")
def somebody_said_no(stage: Stage) -> UUID:
    task = stage.submit(asking(stage.outside, by="editors", rejected="end"))
    with crew(stage.engine) as worker:
        asked(stage.engine, worker)
    stage.people.say("ann", "reject")
    stage.engine.sweep()
    return task.task_id


@scene("W-CANCELLED", "task", "cancelled")
@scene("W-CANCELLED", "run", "cancelled")
@scene("W-CANCELLED", "step", "cancelled")
def it_was_cancelled(stage: Stage) -> UUID:
    task = stage.submit(single("cancelled"))
    stage.engine.cancel(task)
    stage.engine.sweep()
    return stage.step("only") if stage.about == "step" else task.run_id if stage.about == "run" else task.task_id


@scene("W-CANCELLED", "barrier", "cancelled")
def a_barrier_of_a_cancelled_run(stage: Stage) -> UUID:
    task = stage.submit(pair("gone"))
    stage.engine.cancel(task)
    stage.engine.sweep()
    found: list[UUID] = stage.engine.all("SELECT barrier_id FROM stanchion.barrier")
    return found[0]


@scene("W-SKIPPED", "step", "skipped")
def another_step_was_chosen(stage: Stage) -> UUID:
    wf = Workflow("choosing")

    @wf.step(next=("left", "right"))
    def choose(ctx: Ctx) -> Go:
        return Go(left, word="hello")

    @wf.step(on_demand=True)
    def left(ctx: Ctx, word: str) -> str:
        return word

    @wf.step(on_demand=True)
    def right(ctx: Ctx, word: str) -> str:
        return word

    stage.submit(wf)
    stage.engine.worker().work()
    return stage.step("right")


@scene("W-DONE", "task", "completed")
@scene("W-DONE", "run", "succeeded")
@scene("W-DONE", "step", "succeeded")
@scene("W-DONE", "barrier", "released")
def it_is_done(stage: Stage) -> UUID:
    task = stage.submit(fan("well", "all", ["a", "b"]))
    stage.engine.worker().work()
    found = {"run": task.run_id, "task": task.task_id, "step": stage.step("gather"), "barrier": stage.barrier("gather")}
    return found[stage.about]


def branches(name: str) -> Workflow:
    """plan -> part (each) -> check (people are asked in each branch) -> total."""
    wf = Workflow(name)

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [1, 2, 3]

    @wf.step(after=plan, each=True)
    def part(ctx: Ctx, n: int) -> int:
        return n

    @wf.approval(after=part, by="editors")
    def check(ctx: Ctx, n: int) -> Ask:
        return Ask(f"Take {n}?", n)

    @wf.step(after=check, join="all")
    def total(ctx: Ctx, decisions: Results[Decision]) -> int:
        return len(decisions)

    return wf
