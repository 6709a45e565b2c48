"""Workflows with one effect, and what is asked of its operation."""

from __future__ import annotations

from typing import Any

from kit.engine import Engine
from kit.outside import Outside
from stanchion.workflow import Ctx, Workflow

PAGE = {"title": "A page"}


def publishing(outside: Outside, name: str = "publishing", *, page: Any = PAGE, **options: Any) -> Workflow:
    publish = outside.operation(**options)
    wf = Workflow(name, operations=[publish])

    @wf.step(retry_delay="10ms", retry_cap="10ms")
    async def send(ctx: Ctx) -> dict[str, Any]:
        return await ctx.op(publish, page, key="spring")

    return wf


def ledger(engine: Engine) -> tuple[str, int, int]:
    """State, sends and probes of the only operation."""
    return engine.one("SELECT state, sends::int, probes::int FROM stanchion.operation")  # type: ignore[return-value]  # three columns


def step_state(engine: Engine) -> str:
    return str(engine.one("SELECT state FROM stanchion.step ORDER BY step_id LIMIT 1")[0])


def finished(engine: Engine) -> bool:
    return bool(engine.one("SELECT ended_at IS NOT NULL FROM stanchion.run")[0])


def tick(engine: Engine, seconds: float = 3_600) -> None:
    """So much later what is due is done: timers, and what has become of runs."""
    engine.forward(seconds)
    engine.fire()
