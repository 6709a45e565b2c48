"""What the cases of refused definitions share: some types, some first steps, and the list that they register in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stanchion.workflow import Ctx, Workflow


@dataclass
class Url:
    host: str


@dataclass
class Page:
    title: str


@dataclass
class Draft:
    text: str


def urls(wf: Workflow) -> Any:
    @wf.step()
    async def plan(ctx: Ctx, topic: str) -> list[Url]:
        return [Url(topic)]

    return plan


def pages(wf: Workflow) -> Any:
    plan = urls(wf)

    @wf.step(after=plan, each=True)
    async def fetch(ctx: Ctx, url: Url) -> Page:
        return Page(url.host)

    return fetch


Case = Callable[[Workflow], Any]
CASES: list[tuple[str, str, Case]] = []


def refused(code: str, message: str) -> Callable[[Case], Case]:
    """Register a definition that must be refused with this code, and with this in its message."""

    def add(case: Case) -> Case:
        CASES.append((code, message, case))
        return case

    return add
