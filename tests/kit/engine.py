"""Drives runs by hand: each act is one call of the authority, so that a test decides who does what, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg

from services.workers.attempt import Asked, Attempt, Steer
from services.workers.executor import Executor
from stanchion.authority.leases import Done, Failure, Lease, Leases, Reach
from stanchion.authority.planning import Planning
from stanchion.authority.submission import Answer, Request, Submission, prepare
from stanchion.authority.upkeep import Upkeep
from stanchion.authority.workflows import Workflows
from stanchion.contracts.commands import SubmitTask
from stanchion.db.engine import Database
from stanchion.db.grants import ORCHESTRATOR, TASK_SERVICE, WORKER
from stanchion.runtime.clock import monotonic
from stanchion.workflow import Workflow

Admin = psycopg.Connection[tuple[Any, ...]]


class Engine:
    """One tenant's view of a test database: submits, plans, leases, sweeps, and looks into the tables."""

    def __init__(self, db: Callable[[str], Database], admin: Admin, tenant: UUID) -> None:
        self.admin = admin
        self.tenant = tenant
        self.service = db(TASK_SERVICE)
        self.orchestrator = db(ORCHESTRATOR)
        self.worker_database = db(WORKER)
        self.planning = Planning(self.orchestrator, Workflows(self.orchestrator))
        self.upkeep = Upkeep(self.orchestrator)
        self.workflows: dict[str, Workflow] = {}
        self.definitions: list[str] = []  # what its workers serve: all that was registered, later ones too
        self.queues = ["default"]

    # --- people ---

    def submit(self, workflow: Workflow, message_id: str | None = None, **command: Any) -> Answer:
        """Register the workflow and submit one task of it."""
        return self.submit_all(workflow, [(command, message_id)])[0]

    def submit_all(self, workflow: Workflow, commands: Sequence[tuple[dict[str, Any], str | None]]) -> list[Answer]:
        """Submit several in one transaction."""
        self.register(workflow)
        known = Workflows(self.service)
        requests = [
            Request(self.tenant, SubmitTask(workflow=workflow.name, **command), "http", "test", message)
            for command, message in commands
        ]
        return Submission(self.service, known).submit([prepare(known, r) for r in requests])

    def register(self, workflow: Workflow) -> None:
        """Make the workflow known, here and in the database."""
        if workflow.name not in self.workflows:
            self.workflows[workflow.name] = workflow
            self.definitions.append(f"{workflow.name}@{workflow.version}")
            self.queues += {n.queue for n in workflow.graph().nodes} - set(self.queues)
            Workflows(self.service).register(workflow.graph())

    def cancel(self, task: Answer) -> str:
        """Ask for the task's end."""
        return str(
            self.service.call(
                "cancel", "SELECT stanchion.cancel_task(%s, %s, %s, %s)", (self.tenant, task.task_id, "test", "ann")
            )[0][0]
        )

    def pause(self, task: Answer, paused: bool = True) -> bool:
        """Pause or resume the task's run."""
        return bool(
            self.service.call(
                "pause", "SELECT stanchion.pause_task(%s, %s, %s, %s)", (self.tenant, task.task_id, paused, "ann")
            )[0][0]
        )

    def reopen(self, steps: Sequence[UUID], value: Any = None) -> set[UUID]:
        """Reopen failed steps; returns those that were."""
        from psycopg.types.json import Jsonb

        rows = self.service.call(
            "reopen",
            "SELECT stanchion.reopen_steps(%s, %s, %s, %s, %s)",
            (self.tenant, list(steps), None if value is None else Jsonb(value), "test", "ann"),
        )
        return {r[0] for r in rows}

    def open(self, barrier_id: UUID) -> bool:
        """Open a join without its failed branches."""
        return bool(
            self.service.call(
                "open", "SELECT stanchion.open_barrier(%s, %s, %s, %s)", (self.tenant, barrier_id, "test", "ann")
            )[0][0]
        )

    # --- the orchestrator ---

    def expand(self) -> int:
        """Expand all that is due, chunk by chunk; returns how many chunks."""
        chunks = 0
        while due := self.planning.due(20):
            for fan in due:
                self.planning.expand(fan)
                chunks += 1
        return chunks

    def fire(self) -> int:
        """Fire timers until none is due; returns how many fired."""
        total, more = 0, True
        while more:
            fired, _ = self.upkeep.fire_timers()
            total, more = total + fired, fired > 0
        return total

    def fire_once(self) -> int:
        """One pass over the timers that are due; returns how many were looked at."""
        return self.upkeep.fire_timers()[0]

    def sweep(self, grace_ms: int = 600_000) -> None:
        """Sweep what winds down and what decided joins left over, until nothing moves."""
        for _ in range(1_000):
            self.admin.execute("UPDATE stanchion.barrier SET sweep_at = '-infinity' WHERE sweep_at IS NOT NULL")
            waiting = self.upkeep.waiting()
            said = [self.upkeep.sweep_run(r, grace_ms) for r in waiting.runs]
            said += [self.upkeep.sweep_barrier(b) for b in waiting.barriers]
            if not any(s in ("sweeping", "ended") or (isinstance(s, int) and s > 0) for s in said):
                return
        raise AssertionError("sweeping does not come to an end")

    # --- time ---

    def forward(self, seconds: float) -> None:
        """Move the one clock that decides."""
        (offset,) = self.one("SELECT coalesce(extract(epoch FROM stanchion.clock() - clock_timestamp()), 0)")
        self.admin.execute(
            "CREATE OR REPLACE FUNCTION stanchion.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS "
            f"$$ SELECT clock_timestamp() + {float(offset) + seconds} * interval '1 s' $$"
        )

    # --- looking ---

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...]:
        """The only row."""
        rows = self.admin.execute(sql, parameters).fetchall()
        assert len(rows) == 1, rows
        return rows[0]

    def all(self, sql: str, *parameters: Any) -> list[Any]:
        """All rows; of one column the values."""
        rows = self.admin.execute(sql, parameters).fetchall()
        return [r[0] if len(r) == 1 else r for r in rows]

    def task(self, task: Answer) -> tuple[str, str]:
        """States of the task and of its run."""
        return self.one(
            "SELECT t.state, r.state FROM stanchion.task t JOIN stanchion.run r ON r.run_id = t.run_id WHERE t.task_id = %s",
            task.task_id,
        )  # type: ignore[return-value]  # two texts

    def run_of(self, task: Answer) -> UUID:
        """The task's newest run."""
        return self.one("SELECT run_id FROM stanchion.task WHERE task_id = %s", task.task_id)[0]

    def states(self, task: Answer, node: str | None = None) -> dict[str, int]:
        """How many plain steps of the run are in each state."""
        return dict(
            self.admin.execute(
                "SELECT state, count(*) FROM stanchion.step WHERE run_id = %s AND kind = 'step' AND (%s::text IS NULL OR node = %s) GROUP BY 1",
                (self.run_of(task), node, node),
            ).fetchall()
        )

    def barrier(self, node: str) -> dict[str, Any]:
        """The only join that is named for this step."""
        cursor = self.admin.execute("SELECT * FROM stanchion.barrier WHERE node = %s AND kind = 'gather'", (node,))
        rows = cursor.fetchall()
        assert len(rows) == 1, f"{len(rows)} joins for {node}"
        return dict(zip([c.name for c in cursor.description or ()], rows[0], strict=True))

    def worker(self, ttl_ms: int = 30_000) -> Worker:
        """A worker that serves all registered workflows."""
        return Worker(self, ttl_ms)

    def check_counts(self) -> None:
        """What a run counts as open is what is open; every decided join was decided once."""
        wrong = self.all(
            "SELECT r.run_id, r.open, (SELECT count(*) FROM stanchion.step s WHERE s.run_id = r.run_id AND s.counts AND s.state NOT IN ('succeeded', 'skipped', 'cancelled')) AS counted "
            "FROM stanchion.run r WHERE r.state IN ('created', 'running', 'succeeded') AND r.open <> "
            "(SELECT count(*) FROM stanchion.step s WHERE s.run_id = r.run_id AND s.counts AND s.state NOT IN ('succeeded', 'skipped', 'cancelled'))"
        )
        assert wrong == []
        live = self.all(
            "SELECT r.run_id, s.node, s.state FROM stanchion.run r JOIN stanchion.step s ON s.run_id = r.run_id WHERE r.ended_at IS NOT NULL AND s.state NOT IN ('succeeded', 'failed', 'skipped', 'cancelled')"
        )
        assert live == [], "a run ended before all of it had settled"
        lost = self.all(
            "SELECT b.node FROM stanchion.barrier b WHERE (b.state = 'released') <> EXISTS (SELECT FROM stanchion.barrier_release r WHERE r.barrier_id = b.barrier_id)"
        )
        assert lost == []


class Worker:
    """A worker whose every step is a call of the test."""

    def __init__(self, engine: Engine, ttl_ms: int) -> None:
        self.engine = engine
        self.leases = Leases(engine.worker_database, uuid4(), Reach(None, engine.definitions, engine.queues), ttl_ms)
        self.executor = Executor(self.leases, lambda name, _version: engine.workflows[name].graph())

    def seen(self) -> None:
        """Report presence: it serves whatever was submitted so far."""
        self.leases.seen(name="w", host="h", pid=1, slots=1, running=0, state="active", clock=datetime.now(UTC))

    def ready(self, *nodes: str) -> list[UUID]:
        """Ready steps, oldest first."""
        found: list[UUID] = self.engine.all(
            "SELECT step_id FROM stanchion.ready WHERE %s::text[] = '{}' OR node = ANY (%s) ORDER BY step_id",
            list(nodes),
            list(nodes),
        )
        return found

    def take(self, *nodes: str, limit: int | None = None) -> list[Lease]:
        """Lease ready steps of these nodes (none: of all), in order of their index."""
        steps = self.ready(*nodes)[:limit]
        return sorted(self.leases.lease(steps, len(steps)), key=lambda x: (x.node, x.idx)) if steps else []

    def attempt(self, lease: Lease) -> Attempt:
        """The attempt that a real worker would make."""
        workflow = self.engine.workflows[lease.workflow]
        return Attempt(lease, workflow.steps[lease.node], workflow.graph().node(lease.node), monotonic())

    def finish(self, lease: Lease, value: Any = None) -> bool:
        """Hand in what user code returned; True when it was accepted."""
        outcome = self.executor.returned(self.attempt(lease), value)
        return self.settle([outcome]) == {lease.step_id}

    def finish_all(self, leases: Iterable[Lease], value: Any = None) -> set[UUID]:
        """Hand in the same plain value for all, in one transaction."""
        return self.settle([Done(x, value) for x in leases])

    def fail(self, *leases: Lease, final: bool = True, delay_ms: int = 0) -> dict[UUID, str]:
        """Record failed attempts."""
        error = {"code": "E-STEP-27", "what": "ValueError: test"}
        return self.leases.fail([Failure(x, error, final, delay_ms) for x in leases])

    def settle(self, outcomes: Sequence[Any]) -> set[UUID]:
        """Hand in outcomes as the foreman does."""
        done = [o for o in outcomes if isinstance(o, Done)]
        accepted = self.leases.complete(done, 0).accepted if done else set()
        for steer in (o for o in outcomes if isinstance(o, Steer)):
            if self.leases.steer(steer.done, steer.plan):
                accepted.add(steer.done.lease.step_id)
        for asked in (o for o in outcomes if isinstance(o, Asked)):
            if self.leases.ask(asked.lease, asked.question):
                accepted.add(asked.lease.step_id)
        failures = [o for o in outcomes if isinstance(o, Failure)]
        accepted |= set(self.leases.fail(failures)) if failures else set()
        return accepted

    def run(self, lease: Lease) -> Any:
        """Run the step's own function; returns the outcome, not yet handed in."""
        attempt = self.attempt(lease)
        attempt.context.equip(self.executor.door(attempt))
        try:
            return self.executor.returned(attempt, attempt.step.fn(attempt.context, **self.executor.arguments(attempt)))
        except Exception as error:
            return self.executor.raised(attempt, error)

    def work(self, *, rounds: int = 1_000, until: Callable[[], bool] | None = None) -> None:
        """Expand, lease and run everything, with retries at once, until nothing is ready."""
        for _ in range(rounds):
            self.engine.expand()
            self.engine.sweep()
            self.engine.admin.execute("UPDATE stanchion.timer SET due_at = '-infinity' WHERE kind = 'retry'")
            self.engine.fire()
            if until is not None and until():
                return
            leases = self.take()
            if not leases and not self.engine.expand():
                return
            self.settle([self.run(x) for x in leases])
        raise AssertionError("the run does not come to an end")
