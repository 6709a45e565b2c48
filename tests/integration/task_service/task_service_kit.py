"""What the tests of the task service share: workflows, a worker and an orchestrator worked by hand, a client."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx2

from stanchion.authority.leases import Done, Failure, Lease, Leases, Reach
from stanchion.authority.planning import Planning
from stanchion.authority.upkeep import Upkeep
from stanchion.authority.workflows import Workflows
from stanchion.contracts.ids import new_id
from stanchion.db import grants
from stanchion.db.engine import Database, login_url
from stanchion.workflow import All, Ctx, Go, Results, Workflow

pair = Workflow("pair", version=1)


@pair.step()
def first(ctx: Ctx, topic: str) -> str: ...


@pair.step(after=first)
def second(ctx: Ctx, text: str) -> str: ...


single = Workflow("single", version=1)


@single.step(queue="quick")
def only(ctx: Ctx, x: int = 0) -> int: ...


fan = Workflow("fan", version=1)


@fan.step()
def split(ctx: Ctx, count: int) -> list[int]: ...


@fan.step(after=split, each=True, retries=0)
def work(ctx: Ctx, item: int) -> int: ...


@fan.step(after=work, join=All(on_failed="hold"))
def total(ctx: Ctx, results: Results[int]) -> int: ...


strict = Workflow("strict", version=1)


@strict.step()
def begin(ctx: Ctx, count: int) -> list[int]: ...


@strict.step(after=begin, each=True, retries=0)
def part(ctx: Ctx, item: int) -> int: ...


@strict.step(after=part, join="all", retries=0)
def whole(ctx: Ctx, results: Results[int]) -> int: ...


@strict.step(after=whole, retries=0)
def publish(ctx: Ctx, sum_: int) -> str: ...


forked = Workflow("forked", version=1)


@forked.step(next=["left", "right"], retries=0)
def choose(ctx: Ctx, way: str) -> Go: ...


@forked.step(on_demand=True, retries=0)
def left(ctx: Ctx, value: int) -> str: ...


@forked.step(on_demand=True, retries=0)
def right(ctx: Ctx, value: int) -> str: ...


two_ends = Workflow("two_ends", version=1)


@two_ends.step()
def start(ctx: Ctx) -> int: ...


@two_ends.step(after=start)
def up(ctx: Ctx, x: int) -> int: ...


@two_ends.step(after=start)
def down(ctx: Ctx, x: int) -> int: ...


WORKFLOWS = (pair, single, fan, strict, two_ends)
QUEUES = ["default", "quick"]


class Hand:
    """A worker and an orchestrator whose every call a test makes itself; steps of all tenants."""

    def __init__(self, admin_url: str, *, ttl_ms: int = 30_000) -> None:
        self.worker_db = Database(login_url(admin_url, grants.WORKER), name="hand worker", pool_size=2)
        self.engine_db = Database(login_url(admin_url, grants.ORCHESTRATOR), name="hand orchestrator", pool_size=2)
        definitions = [f"{w.name}@{w.version}" for w in WORKFLOWS]
        self.worker_id = new_id()
        self.leases = Leases(self.worker_db, self.worker_id, Reach(None, definitions, QUEUES), ttl_ms)
        self.planning = Planning(self.engine_db, Workflows(self.engine_db))
        self.upkeep = Upkeep(self.engine_db)

    def close(self) -> None:
        self.worker_db.close()
        self.engine_db.close()

    def lease(self, limit: int = 1_000) -> list[Lease]:
        """All that is ready, of paused runs nothing."""
        self.expand()
        self.upkeep.offer()
        return self.leases.lease(self.leases.find_ready(-1, limit), limit)

    def lease_of(self, made: Any) -> list[Lease]:
        """All that is ready of one task; what else was ready stays so."""
        leases = self.lease()
        rest = [lease for lease in leases if lease.task_id != uuid_of(made["task_id"])]
        if rest:
            self.leases.give_back(rest, "not of this test")
        return [lease for lease in leases if lease.task_id == uuid_of(made["task_id"])]

    def expand(self) -> None:
        """All fan-outs that are due, to their last child."""
        while due := self.planning.due(100):
            for one in due:
                self.planning.expand(one)

    def complete(self, leases: Sequence[Lease], result: Callable[[Lease], Any]) -> None:
        """Hand in results."""
        if not leases:
            return
        done, more, _ = self.leases.complete([Done(lease, result(lease)) for lease in leases], 0)
        assert len(done) == len(leases)
        assert not more

    def fail(self, leases: Sequence[Lease], code: str = "E-STEP-01") -> None:
        """Hand in final failures."""
        error = {"code": code, "what": "it broke"}
        self.leases.fail([Failure(lease, error, True, 0) for lease in leases])

    def finish(self, outcomes: Sequence[tuple[Lease, Any]]) -> None:
        """Hand in results and, for exceptions, final failures."""
        good = {lease.step_id: value for lease, value in outcomes if not isinstance(value, Exception)}
        self.complete([lease for lease, _ in outcomes if lease.step_id in good], lambda lease: good[lease.step_id])
        if bad := [lease for lease, _ in outcomes if lease.step_id not in good]:
            self.fail(bad)

    def run(self, results: Callable[[Lease], Any], of: Any = None, rounds: int = 50) -> None:
        """Work (on the task `of`) until nothing is ready; a result that is an exception is a final failure."""
        for _ in range(rounds):
            leases = self.lease() if of is None else self.lease_of(of)
            if not leases:
                self.sweep()
                return
            outcomes = [(lease, results(lease)) for lease in leases]
            self.finish(outcomes)
            self.sweep()
        raise AssertionError("it did not come to an end")

    def sweep(self) -> None:
        """Wind down what is ending."""
        waiting = self.upkeep.waiting()
        for run_id in waiting.runs:
            for _ in range(20):
                if self.upkeep.sweep_run(run_id, 0) == "ended":
                    break


class Api:
    """A client with one key; every answer is checked to be strict JSON, and every error to be a problem."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.key = key
        self.http = httpx2.Client(base_url=url, headers=headers, timeout=20.0)

    def close(self) -> None:
        self.http.close()

    def get(self, path: str, status: int = 200, **options: Any) -> Any:
        return self._checked(self.http.get(path, **options), status)

    def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        return self._checked(self.http.post(path, json=body, **options), status)

    def submit(self, workflow: str, given: Any, status: int = 201, **fields: Any) -> Any:
        return self.post("/v1/tasks", {"workflow": workflow, "input": given, **fields}, status)

    def _checked(self, response: httpx2.Response, status: int) -> Any:
        assert response.status_code == status, f"{response.status_code}: {response.text[:2000]}"
        if status >= 400:
            assert response.headers["content-type"] == "application/problem+json"
            problem = response.json()
            assert problem["status"] == status
            assert problem["code"].startswith("E-")
            assert problem["request_id"] == response.headers["x-request-id"]
            return problem
        return response.json() if response.content else None


def uuid_of(public: str) -> UUID:
    """The UUID behind a public id."""
    from stanchion.contracts import ids

    return ids.parse(public, public.partition("_")[0])


class Gate:
    """A TCP proxy in front of a server, which a test can shut: connections break, and no new one is made."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.shut = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End it for good."""
        self._listener.close()
        self.break_all()

    def break_all(self) -> None:
        """Break what is open."""
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.shut:
                client.close()
                continue
            try:
                server = socket.create_connection(self.target, 5)
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def seen(hand: Hand) -> bool:
    """The hand reports presence; True when it is asked to drain."""
    return seen_as(hand.leases, "hand")


def seen_as(leases: Leases, name: str, running: int = 0, state: str = "active") -> bool:
    """Any worker does."""
    return leases.seen(name=name, host="here", pid=1, slots=8, running=running, state=state, clock=datetime.now(UTC))
