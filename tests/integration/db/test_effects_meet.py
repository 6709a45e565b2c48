"""Effects outside where they meet the rest of the engine: joins over branches in doubt, and leases that nobody heard of."""

from __future__ import annotations

from typing import Any

import pytest
from kit.crew import crew
from kit.engine import Engine
from kit.flows import result
from kit.outside import Outside

from stanchion.errors import Conflict
from stanchion.workflow import All, Ctx, Results, Workflow

pytestmark = pytest.mark.usefixtures("agrees")


def test_a_join_is_not_opened_over_a_branch_in_doubt(engine: Engine) -> None:
    """A step whose effect is of unknown fate has not come to rest: its branch can't be left out until that is known."""
    outside = Outside()
    publish = outside.operation()
    wf = Workflow("doubted", operations=[publish])

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return ["a"]

    @wf.step(after=plan, each=True)
    def begin(ctx: Ctx, item: str) -> str:
        return item

    @wf.step(after=begin, retries=0)
    def proof(ctx: Ctx, item: str) -> str:
        raise ValueError(item)

    @wf.step(after=begin)
    async def send(ctx: Ctx, item: str) -> dict[str, Any]:
        return await ctx.op(publish, {"title": "A page"}, key=item)

    @wf.step(after=[proof, send])
    def both(ctx: Ctx, proven: str, sent: dict[str, Any]) -> str:
        return proven

    @wf.step(after=both, join=All(on_failed="hold"))
    def gather(ctx: Ctx, pages: Results[str]) -> int:
        return len(pages.failed)

    def is_at(**states: str) -> bool:
        engine.expand()
        found = dict(engine.all("SELECT node, state FROM stanchion.step WHERE kind = 'step'"))
        return states.items() <= found.items()

    outside.script.append("lost")
    outside.blind = True
    engine.submit(wf)
    with crew(engine) as worker:
        worker.work(lambda: is_at(proof="failed", send="unknown"))
        barrier = engine.barrier("gather")["barrier_id"]
        with pytest.raises(Conflict, match="E-JOIN-22"):
            engine.open(barrier)
        outside.blind = False
        engine.forward(3_600)
        engine.fire()
        worker.work(lambda: is_at(send="succeeded"))
        assert engine.open(barrier)
        engine.sweep()
        worker.work(lambda: engine.all("SELECT ended_at IS NOT NULL FROM stanchion.run") == [True])
    assert result(engine, "gather") == 1


def test_a_probe_whose_lease_was_never_answered_goes_back(engine: Engine) -> None:
    """The step stays in doubt and is offered at once; nobody's attempt is spent on a worker that never learned of it."""
    outside = Outside()
    publish = outside.operation()
    wf = Workflow("unheld", operations=[publish])

    @wf.step()
    async def send(ctx: Ctx) -> dict[str, Any]:
        return await ctx.op(publish, {"title": "A page"}, key="a")

    def state() -> Any:
        return engine.one("SELECT state, doubts::int, attempts::int FROM stanchion.step")

    outside.script.append("lost")
    outside.blind = True
    engine.submit(wf)
    with crew(engine) as worker:
        worker.work(lambda: state() == ("unknown", 1, 0))
    engine.forward(3_600)
    engine.fire()
    other = engine.worker()
    (lease,) = other.take()
    assert (lease.outcome, state()) == ("probe", ("reconciling", 1, 0))
    assert other.leases.give_back_unheld([]) == {lease.step_id}
    assert state() == ("unknown", 1, 0)
    assert other.ready() == [lease.step_id]
    outside.blind = False
    with crew(engine) as worker:
        worker.work(lambda: state()[0] == "succeeded")
    assert outside.times(outside.executed[0][0]) == 1
