"""Workflows for the tests of the command line. What must be under way waits for a file, never for a time."""

from __future__ import annotations

import threading
from pathlib import Path

from stanchion import All, Ask, Ctx, Decision, Results, Workflow

PATIENCE_SECONDS = 60.0


def wait_for(path: str) -> None:
    """Return once the file is there."""
    look = threading.Event()
    for _ in range(round(PATIENCE_SECONDS / 0.02)):
        if Path(path).exists():
            return
        look.wait(0.02)
    raise TimeoutError(path)


squares = Workflow("squares")


@squares.step()
def plan(ctx: Ctx, n: int) -> list[int]:
    return list(range(n))


@squares.step(after=plan, each=True)
def square(ctx: Ctx, i: int) -> int:
    return i * i


@squares.step(after=square, join="all")
def total(ctx: Ctx, values: list[int]) -> int:
    return sum(values)


gated = Workflow("gated")


@gated.step()
def first(ctx: Ctx, gate: str) -> str:
    wait_for(gate)
    return gate


@gated.step(after=first)
def second(ctx: Ctx, gate: str) -> str:
    return f"report\n{gate}"


held = Workflow("held")


@held.step()
def items(ctx: Ctx, n: int, mended: str) -> list[dict[str, str]]:
    return [{"i": str(i), "mended": mended} for i in range(n)]


@held.step(after=items, each=True, retries=0)
def risky(ctx: Ctx, item: dict[str, str]) -> int:
    if item["i"] == "0" and not Path(item["mended"]).exists():
        raise ValueError("the first one fails until it is mended")
    return int(item["i"])


@held.step(after=risky, join=All(on_failed="hold"))
def gather(ctx: Ctx, found: Results[int]) -> int:
    return len(found)


failing = Workflow("failing")


@failing.step(retries=0)
def fail(ctx: Ctx, mended: str) -> str:
    if not Path(mended).exists():
        raise ValueError("no good")
    return "good"


thrifty = Workflow("thrifty")


@thrifty.step(retries=0)
def use(ctx: Ctx, tokens: int) -> float | None:
    return ctx.spend("tokens", tokens).wait()


approving = Workflow("approving")


@approving.approval(by=("person:rev", "person:rita"), within="1h", isolation="process")
def review(ctx: Ctx, title: str) -> Ask:
    return Ask(f"Publish {title}?", {"title": title}, summary="A page.")


@approving.step(after=review)
def outcome(ctx: Ctx, decision: Decision) -> list[str]:
    return [decision.outcome, *decision.by, decision.applied_to({"title": "as asked"})["title"]]
