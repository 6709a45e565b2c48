"""While the database is away an attempt waits, or goes back: what it needs from the database never costs it anything."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event as ThreadEvent
from typing import Any

import pytest
from kit.crew import crew
from kit.engine import Engine
from kit.flows import result, single
from kit.proxy import TcpProxy
from sqlalchemy.engine import make_url

from services.workers.patience import Patience
from stanchion.authority.leases import Leases
from stanchion.db.engine import Database
from stanchion.errors import Unavailable
from stanchion.runtime.clock import monotonic
from stanchion.workflow import Ctx, Results, Workflow


@pytest.fixture
def line(engine: Engine) -> Iterator[TcpProxy]:
    """What the worker reaches the database through."""
    url = make_url(engine.worker_database.url)
    assert url.host is not None
    assert url.port is not None
    with TcpProxy((url.host, url.port)) as proxy:
        yield proxy


@pytest.fixture
def reached(engine: Engine, line: TcpProxy) -> Iterator[Database]:
    """The database as the worker reaches it."""
    url = make_url(engine.worker_database.url).set(host="127.0.0.1", port=line.port)
    database = Database(url.render_as_string(hide_password=False), name="cut off")
    yield database
    database.close()


class Gate:
    """Cuts the line from inside a step, at the place that is tested."""

    def __init__(self) -> None:
        self.line: TcpProxy | None = None
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == 1 and self.line is not None:
            self.line.cut()


def joined(gate: Gate, large: bool, on_the_loop: bool) -> Workflow:
    wf = Workflow("joined")

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return ["a", "b"]

    @wf.step(after=plan, each=True)
    def visit(ctx: Ctx, item: str) -> str:
        return item

    def gather(ctx: Ctx, pages: Results[str]) -> str:
        if not large:
            gate()
        found = "".join(pages)
        if large:
            gate()
        return found * (100_000 if large else 1)

    async def gather_async(ctx: Ctx, pages: Results[str]) -> str:
        return gather(ctx, pages)

    gather_async.__name__ = "gather"
    wf.step(after=visit, join="all")(gather_async if on_the_loop else gather)
    return wf


def up_to_the_join(engine: Engine, workflow: Workflow) -> Any:
    task = engine.submit(workflow)
    hand = engine.worker()
    hand.finish(hand.take("plan")[0], ["a", "b"])
    engine.expand()
    for lease in hand.take("visit"):
        hand.finish(lease, lease.input)
    return task


def back(worker: Any, line: TcpProxy, eventually: Any) -> None:
    """The foreman finds out that nobody answers; then somebody does."""
    eventually(lambda: _away(worker))
    line.heal()


def _away(worker: Any) -> bool:
    try:
        worker.leases.find_ready(0, 1)
    except Unavailable:
        return True
    return False


def unanswered(monkeypatch: pytest.MonkeyPatch, leases: Leases, name: str) -> ThreadEvent:
    """The first answer of a call gets lost, after it did what it does."""
    lost, real = ThreadEvent(), getattr(leases, name)

    def call(*given: Any) -> Any:
        answer = real(*given)
        if lost.is_set():
            return answer
        lost.set()
        raise Unavailable("E-DB-01", "the connection was lost")

    monkeypatch.setattr(leases, name, call)
    return lost


@pytest.mark.parametrize("by", ["lease", "complete"])
def test_a_lease_whose_answer_was_lost_costs_no_attempt(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The worker gives back at once what it never learned of, and it counts as never begun."""
    wf = Workflow("unanswered")

    @wf.step(retries=0)
    def first(ctx: Ctx) -> int:
        return 1

    @wf.step(after=first, retries=0)
    def second(ctx: Ctx, x: int) -> int:
        return x

    task = engine.submit(wf)
    with crew(engine) as worker:
        lost = unanswered(monkeypatch, worker.leases, by)
        worker.work(lost.is_set)
        worker.work(lambda: engine.task(task)[0] == "completed")
        assert worker.foreman._doubted_until is not None, "the call may still be at work there"
        late = worker.foreman._doubted_until
        monkeypatch.setattr("services.workers.foreman.monotonic", lambda: late)
        worker.foreman.run_once()
        assert worker.foreman._doubted_until is None
    assert sorted(engine.all("SELECT state FROM stanchion.attempt")) == ["released", "succeeded", "succeeded"]
    assert engine.all("SELECT started_at FROM stanchion.attempt WHERE state = 'released'") == [None]
    assert engine.all("SELECT attempts FROM stanchion.step") == [1, 1]
    assert engine.all("SELECT attempted FROM stanchion.refused_write") == []


def test_only_what_is_not_held_is_given_back(engine: Engine) -> None:
    """What the worker names stays leased, under its fence; another worker's is not touched."""
    flow = single("held")
    for _ in range(3):
        engine.submit(flow)
    worker, other = engine.worker(), engine.worker()
    held, unheld = worker.take(limit=2)
    (foreign,) = other.take()
    assert worker.leases.give_back_unheld([held]) == {unheld.step_id}
    assert worker.leases.give_back_unheld([held]) == set()
    assert worker.finish(held, 1)
    assert other.finish(foreign, 1)
    assert worker.leases.give_back_unheld([unheld]) == set()


class SlowAnswers:
    """A call of the database whose answer comes later than what it did, by the worker's own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, leases: Leases, name: str, seconds: float) -> None:
        self.late = 0.0
        for module in ("attempt", "foreman", "lease_keeper", "settler"):
            monkeypatch.setattr(f"services.workers.{module}.monotonic", lambda: monotonic() + self.late)
        real = getattr(leases, name)

        def call(*given: Any) -> Any:
            answer = real(*given)
            self.late += seconds
            return answer

        monkeypatch.setattr(leases, name, call)


@pytest.mark.parametrize("by", ["lease", "complete"])
def test_a_lease_is_trusted_from_when_it_was_asked_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """However late the answer came: the lease's time ran while the commit, or the network, was slow."""
    wf, begun, ended = Workflow("asked"), ThreadEvent(), ThreadEvent()

    @wf.step()
    def first(ctx: Ctx) -> int:
        return 1

    @wf.step(after=first)
    def second(ctx: Ctx, x: int) -> int:
        begun.set()
        ended.wait(20)
        return x

    task = engine.submit(wf)
    if by == "lease":
        hand = engine.worker()
        hand.finish(hand.take("first")[0], 1)
    with crew(engine, ttl_ms=20_000) as worker:
        SlowAnswers(monkeypatch, worker.leases, by, 18.5)
        worker.work(begun.is_set)
        (attempt,) = worker.foreman.held.values()
        worker.keeper.guard_once()
        assert attempt.stop_reason == "out_of_reach", "another worker may be given it"
        ended.set()
        worker.work(lambda: engine.task(task)[0] == "completed")


@pytest.mark.parametrize("large", [False, True], ids=["reading", "storing"])
def test_it_waits(engine: Engine, line: TcpProxy, reached: Database, eventually: Any, large: bool) -> None:
    """Results that are read, and a large result that is stored, wait for the database; one attempt is all it takes."""
    gate = Gate()
    task = up_to_the_join(engine, joined(gate, large, False))
    with crew(engine, database=reached) as worker:
        gate.line = line
        worker.work(lambda: gate.calls == 1)
        back(worker, line, eventually)
        worker.work(lambda: engine.task(task)[0] == "completed")
    assert gate.calls == 1
    assert engine.all(
        "SELECT a.state FROM stanchion.attempt a JOIN stanchion.step s USING (step_id) WHERE s.node = 'gather'"
    ) == ["succeeded"]


@pytest.mark.parametrize("on_the_loop", [False, True], ids=["untrusted", "on the loop"])
def test_it_goes_back(engine: Engine, line: TcpProxy, reached: Database, eventually: Any, on_the_loop: bool) -> None:
    """When its lease can't be trusted any longer, or when it would hold up the event loop, it is given back: the next
    attempt is still the first one."""
    gate = Gate()
    task = up_to_the_join(engine, joined(gate, False, on_the_loop))
    with crew(engine, database=reached, ttl_ms=30_000 if on_the_loop else 1_000) as worker:
        gate.line = line
        worker.work(lambda: gate.calls == 1)

        def stopped() -> bool:
            worker.keeper.guard_once()
            return bool(worker.slots.finished)

        eventually(stopped, 20)
        back(worker, line, eventually)
        worker.work(lambda: engine.task(task)[0] == "completed")
    assert result(engine, "gather") == "ab"
    assert engine.one("SELECT attempts FROM stanchion.step WHERE node = 'gather'") == (1,)
    states = "SELECT a.state FROM stanchion.attempt a JOIN stanchion.step s USING (step_id) WHERE s.node = 'gather' ORDER BY a.fence"
    assert engine.all(states) == ["released", "succeeded"]


def test_what_user_code_finds_unavailable_counts(engine: Engine) -> None:
    """An Unavailable that a step raises by itself is an error of that step."""
    wf = Workflow("own")

    @wf.step(retries=0)
    def only(ctx: Ctx) -> int:
        raise Unavailable("E-NET-01", "some service is away")

    task = engine.submit(wf)
    with crew(engine) as worker:
        worker.work(lambda: engine.states(task) == {"failed": 1})


def test_a_statement_that_is_always_too_slow(engine: Engine) -> None:
    """The database is there, and will not be faster: after four tries that is an error as any other."""
    engine.submit(single("slow"))
    worker = engine.worker()
    (lease,) = worker.take()
    calls = []

    def slow() -> None:
        calls.append(1)
        raise Unavailable("E-DB-05", "canceling statement due to statement timeout")

    with pytest.raises(Unavailable, match="E-DB-05"):
        Patience(worker.attempt(lease))(slow)
    assert len(calls) == 4
