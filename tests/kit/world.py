"""A whole stack for tests: submits tasks, waits for them, breaks processes, and judges the history."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import psycopg

from stanchion.authority.jobs import Jobs, Wanted, named
from stanchion.authority.submission import Request, Submission, prepare
from stanchion.authority.workflows import Workflows
from stanchion.cli.stack import Stack
from stanchion.contracts.commands import SubmitTask
from stanchion.contracts.ids import new_id
from stanchion.db.engine import Database, login_url
from stanchion.db.grants import TASK_SERVICE
from stanchion.errors import Unavailable
from stanchion.testing.checker import Finding, check, report
from stanchion.testing.history import FOLDER_VARIABLE, Execution, executions

if TYPE_CHECKING:
    from stanchion.cli.service_process import ServiceProcess
    from stanchion.workflow import Workflow

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds that anything may take before it counts as never: a bound of liveness on a busy machine, not a measure."""
ENDS = ("completed", "failed", "cancelled", "rejected")


def until(probe: Callable[[], T], seconds: float = PATIENCE, what: str = "") -> T:
    """Call `probe` until it returns something true, and return that; AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    pause = 0.005
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what or 'it'} did not happen within {seconds:g} s, only {found!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def let_pass(seconds: float) -> None:
    """Let time pass, where time itself is what is tested: a lease that has to run out."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))


@dataclass(frozen=True, slots=True)
class Task:
    """A submitted task."""

    task_id: UUID
    run_id: UUID


class World:
    """A stack with the tools of a test. `options` are those of Stack; `history` and `failpoints` are its folders.

    With `revive` the world itself starts services again when they die, at once and every time: a campaign that kills
    often must not wait for a supervisor's backoff. It also thaws what a failpoint has frozen, `thaw_seconds` after.
    """

    def __init__(self, root: Path, *, revive: bool = False, thaw_seconds: float = 3.0, **options: Any) -> None:
        self.root = root
        self.history = root / "history"
        self.failpoints = root / "failpoints"
        for folder in (self.history, self.failpoints):
            folder.mkdir(parents=True, exist_ok=True)
        env = {
            FOLDER_VARIABLE: str(self.history),
            "STANCHION_FAILPOINT_DIR": str(self.failpoints),
            **options.pop("env", {}),
        }
        options = {"fsync": False, "ephemeral": True, "lease_seconds": 2.0, "drain_seconds": 10.0, **options}
        self.said: list[str] = []
        self.stack = Stack(root / "stack", env=env, say=self._heard, **options)
        self.tasks: list[Task] = []
        self.owned: set[str] = set()  # services that somebody else starts again
        self.thaw_seconds = thaw_seconds
        self.thaws_after: dict[str, float] = {}  # the same for single services, by name
        self._thawed = 0  # lines of fired.log that were looked at
        self._thaws: list[tuple[float, int]] = []
        self._revive = revive
        self._ending = threading.Event()
        self._reviver = threading.Thread(target=self._keep_alive, name="reviver", daemon=True)
        self._using = threading.RLock()
        self._admin: psycopg.Connection[tuple[Any, ...]] | None = None
        self._database: Database | None = None

    # -- its life --

    def __enter__(self) -> World:
        self.stack.start()
        if self._revive:
            for service in self.stack.services:
                service.supervise = False
            self._reviver.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, keep: Path | None = None) -> None:
        """End everything; harmless when it has ended. The logs are copied to `keep` before they are removed."""
        if keep is not None and self.stack.logs.exists():
            shutil.copytree(self.stack.logs, keep / "logs", dirs_exist_ok=True)
            shutil.copytree(self.failpoints, keep / "failpoints", dirs_exist_ok=True)
        self._ending.set()
        if self._reviver.ident is not None:
            self._reviver.join()
        for service in self.stack.services:
            service.thaw()
            if self._revive:
                service.kill()  # a campaign has left it in any state: what it holds need not be handed back in order
        if self._database is not None:
            self._database.close()
        if self._admin is not None:
            self._admin.close()
        self.stack.stop()

    def _heard(self, line: str) -> None:
        self.said.append(line)

    def _keep_alive(self) -> None:
        while not self._ending.wait(0.05):
            for service in [one for one in self.stack.services if one.name not in self.owned]:
                with service.hold():
                    if service.wanted and service.record is not None and not service.is_running():
                        service.launch()
                        service.restarts += 1
            self._thaw()

    def _thaw(self) -> None:
        fired = self.fired()
        services = {service.pid: service for service in self.stack.services if service.record is not None}
        for line in fired[self._thawed :]:
            if line["action"] == "stop":
                name = services[line["pid"]].name if line["pid"] in services else ""
                self._thaws.append((time.monotonic() + self.thaws_after.get(name, self.thaw_seconds), line["pid"]))
        self._thawed = len(fired)
        for due, pid in [entry for entry in self._thaws if entry[0] <= time.monotonic()]:
            self._thaws.remove((due, pid))
            if pid in services:
                services[pid].thaw()

    def stands_still(self, service: ServiceProcess) -> bool:
        """Whether a failpoint has frozen it and it is not thawed yet."""
        return service.pid in [pid for _, pid in self._thaws] or len(self.fired()) > self._thawed

    # -- the database --

    @property
    def database_url(self) -> str:
        """The administrator's."""
        return self.stack.endpoints.database_url

    def sql(self, sql: str, *parameters: Any) -> list[Any]:
        """Rows (of one column the values), by an administrator; goes on trying while the server is away."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with self.admin() as connection:
                    cursor = connection.execute(sql, parameters)
                    rows = cursor.fetchall() if cursor.description else []
                return [r[0] if len(r) == 1 else r for r in rows]
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    @contextmanager
    def admin(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """The one connection as an administrator, in autocommit; others wait for it."""
        with self._using:
            if self._admin is None or self._admin.closed or self._admin.broken:
                self._admin = psycopg.connect(self.database_url, autocommit=True, connect_timeout=5)
            try:
                yield self._admin
            except psycopg.OperationalError:
                self._admin.close()
                raise

    # -- tasks --

    def submit(self, workflow: str, /, *, key: str | None = None, version: int | None = None, **values: Any) -> Task:
        """Submit a task past the task service, through the same function."""
        return self.submit_all([(workflow, values)], key=key, version=version)[0]

    def submit_all(
        self, wanted: Iterable[tuple[str, Mapping[str, Any]]], key: str | None = None, version: int | None = None
    ) -> list[Task]:
        """Submit several in one transaction."""
        database = self._tasks()
        tenant = self.sql("SELECT tenant_id FROM stanchion.tenant WHERE name = %s", self.stack.tenant)[0]
        commands = [SubmitTask(workflow=w, input=dict(v), idempotency_key=key, version=version) for w, v in wanted]
        end = time.monotonic() + PATIENCE
        while True:
            try:
                workflows = Workflows(database)
                prepared = [prepare(workflows, Request(tenant, c, "http", "test")) for c in commands]
                answers = Submission(database, workflows).submit(prepared)
                break
            except Unavailable:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        tasks = [Task(a.task_id, a.run_id) for a in answers]
        self.tasks += tasks
        return tasks

    def register(self, workflow: Workflow) -> None:
        """Make a workflow known that no worker has."""
        Workflows(self._tasks()).register(workflow.graph())

    def cancel(self, task: Task) -> None:
        """Ask for the task's end, past the task service."""
        tenant = self.sql("SELECT tenant_id FROM stanchion.task WHERE task_id = %s", task.task_id)[0]
        self.sql("SELECT stanchion.cancel_task(%s, %s, 'test', 'ann')", tenant, task.task_id)

    def cancel_as_job(self, task: Task) -> None:
        """Ask for a job in bulk that cancels one task, past the task service."""
        tenant = self.sql("SELECT tenant_id FROM stanchion.task WHERE task_id = %s", task.task_id)[0]
        wanted = Wanted("task.cancel", named(task.task_id), "test")
        Jobs(self._tasks()).create(tenant, new_id(), wanted, actor="ann")

    def _tasks(self) -> Database:
        if self._database is None:
            self._database = Database(login_url(self.database_url, TASK_SERVICE), name="test")
        return self._database

    def state(self, task: Task) -> str:
        """The task's state."""
        return str(self.sql("SELECT state FROM stanchion.task WHERE task_id = %s", task.task_id)[0])

    def ended(self, task: Task, seconds: float = PATIENCE) -> str:
        """Wait for the task's end; its state then."""
        return until(
            lambda: state if (state := self.state(task)) in ENDS else "", seconds, f"the end of task {task.task_id}"
        )

    def result(self, task: Task, node: str) -> Any:
        """The result of the newest step of that name."""
        rows = self.sql(
            """SELECT r.body FROM stanchion.result r JOIN stanchion.step s ON s.step_id = r.step_id
            JOIN stanchion.task t ON t.run_id = s.run_id
            WHERE t.task_id = %s AND (s.answers = %s OR s.node = %s) ORDER BY s.answers IS NULL, s.round DESC""",
            task.task_id,
            node,
            node,
        )
        return rows[0] if rows else None

    def steps(self, task: Task, node: str | None = None) -> list[dict[str, Any]]:
        """The steps of the task's newest run, by index."""
        names = ("step_id", "node", "idx", "state", "fence", "attempts", "losses")
        rows = self.sql(
            """SELECT s.step_id, s.node, s.idx, s.state, s.fence, s.attempts, s.losses FROM stanchion.step s
            JOIN stanchion.task t ON t.run_id = s.run_id
            WHERE t.task_id = %s AND (%s::text IS NULL OR s.node = %s) AND s.kind = 'step' ORDER BY s.node, s.idx""",
            task.task_id,
            node,
            node,
        )
        return [dict(zip(names, row, strict=True)) for row in rows]

    # -- judging --

    def executions(self) -> list[Execution]:
        """What user code noted."""
        return executions(self.history)

    def judge(self, *tasks: Task, seconds: float = PATIENCE) -> None:
        """Wait until these tasks (none: all) have ended and left nothing over; then nothing may speak against them."""
        wanted = [t.task_id for t in (tasks or self.tasks)]
        self._await_rest(wanted, seconds)
        found = self.findings(wanted)
        assert not found, report(found)

    def findings(self, tasks: list[UUID]) -> list[Finding]:
        """What speaks against the history of these tasks."""
        with self.admin() as connection:
            return check(connection, tasks=tasks, executions=self.executions())

    def _await_rest(self, tasks: list[UUID], seconds: float) -> None:
        """The outbox drains behind the last end, and sessions of the dead are closed by their timeout."""
        runs = self.sql("SELECT run_id::text FROM stanchion.run WHERE task_id = ANY (%s)", tasks)

        def quiet() -> bool:
            alive = self.sql("SELECT count(*) FROM stanchion.task WHERE task_id = ANY (%s) AND ended_at IS NULL", tasks)
            unsent = self.sql("SELECT count(*) FROM stanchion.outbox WHERE correlation_id = ANY (%s)", runs)
            hanging = self.sql("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%%'")
            return alive == unsent == hanging == [0]

        try:
            until(quiet, seconds, "rest")
        except AssertionError:
            raise AssertionError("\n".join([report(self.findings(tasks)), *self.said[-20:]])) from None

    # -- faults --

    def fired(self) -> list[dict[str, Any]]:
        """The failpoints that have fired, in order."""
        path = self.failpoints / "fired.log"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def held(self, name: str, service: ServiceProcess) -> bool:
        """Whether the failpoint `name` holds this process now."""
        return (self.failpoints / f"{name}.{service.pid}.held").exists()

    def release(self, name: str, service: ServiceProcess) -> None:
        """Let a held process go on."""
        (self.failpoints / f"{name}.{service.pid}.release").touch()

    @contextmanager
    def frozen(self, *services: ServiceProcess) -> Iterator[None]:
        """Within the block these processes stand still."""
        for service in services:
            service.freeze()
        try:
            yield
        finally:
            for service in services:
                service.thaw()
