"""Workflows that spend, and what is asked of their budgets."""

from __future__ import annotations

from typing import Any

from kit.engine import Engine
from stanchion.workflow import Ctx, Workflow

BUDGET = "SELECT unit, allowed, spent FROM stanchion.budget ORDER BY unit"


def budget(engine: Engine) -> list[tuple[str, float | None, float]]:
    """Unit, limit and sum of all budgets."""
    return [(u, None if a is None else float(a), float(s)) for u, a, s in engine.all(BUDGET)]


def spending(*amounts: float, unit: str = "tokens") -> Workflow:
    """One step that reports these amounts, and returns what was left after each."""
    wf = Workflow("spending")

    @wf.step(retry_delay="10ms", retry_cap="10ms")
    async def work(ctx: Ctx) -> list[Any]:
        return [await ctx.spend(unit, amount) for amount in amounts]

    return wf
