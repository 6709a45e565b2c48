"""Small workflows that several tests run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stanchion.workflow import Ctx, Results, Workflow

if TYPE_CHECKING:
    from kit.engine import Engine


def result(engine: Engine, node: str) -> Any:
    """The result of the only step of this node that has one."""
    return engine.one(
        "SELECT r.body FROM stanchion.result r JOIN stanchion.step s ON s.step_id = r.step_id WHERE s.node = %s", node
    )[0]


def single(name: str, **options: Any) -> Workflow:
    """One step."""
    wf = Workflow(name)

    @wf.step(**options)
    def only(ctx: Ctx) -> int:
        return 1

    return wf


def fan(name: str, join: Any, items: list[str], **options: Any) -> Workflow:
    """plan -> visit (each) -> gather; an item `bad` fails for good."""
    wf = Workflow(name)

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return items

    @wf.step(after=plan, each=True, **{"retries": 0} | options)
    def visit(ctx: Ctx, item: str) -> str:
        if item == "bad":
            raise ValueError(item)
        return item.upper()

    @wf.step(after=visit, join=join)
    def gather(ctx: Ctx, pages: Results[str]) -> dict[str, list[str] | int]:
        return {"ok": list(pages), "failed": len(pages.failed), "missing": len(pages.missing), "total": pages.total}

    return wf


def nested(name: str, inner: Any, outer: Any, width: int = 3) -> Workflow:
    """plan -> part (each) -> visit (each) -> sum_up (joins visit) -> total (joins sum_up)."""
    wf = Workflow(name)

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return list(range(width))

    @wf.step(after=plan, each=True, retries=0)
    def part(ctx: Ctx, n: int) -> list[int]:
        return [n * width + i for i in range(width)]

    @wf.step(after=part, each=True, retries=0)
    def visit(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=visit, join=inner, retries=0)
    def sum_up(ctx: Ctx, numbers: Results[int]) -> int:
        return sum(numbers)

    @wf.step(after=sum_up, join=outer)
    def total(ctx: Ctx, sums: Results[int]) -> list[int]:
        return [sum(sums), len(sums.failed), len(sums.missing)]

    return wf
