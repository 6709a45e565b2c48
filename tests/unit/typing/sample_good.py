"""User code that must pass a strict type checker without a single complaint. It is also imported and run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, assert_type

from stanchion.workflow import (
    Again,
    All,
    AtLeast,
    Ctx,
    First,
    Go,
    Results,
    Retry,
    Spawn,
    Step,
    Workflow,
)


@dataclass(frozen=True)
class Url:
    host: str


@dataclass(frozen=True)
class Page:
    title: str


@dataclass(frozen=True)
class Draft:
    text: str


wf = Workflow("brief", version=7)


@wf.step(retries=3, retry_on=(OSError, ValueError), no_retry=KeyError)
async def plan(ctx: Ctx, topic: str, lang: str = "en") -> list[Url]:
    return [Url(topic + lang)]


@wf.step(after=plan, each=True, queue="crawl", timeout="2m", lease=180, isolation="process")
def fetch(ctx: Ctx, url: Url) -> Page | Retry:
    return Page(url.host) if url.host else Retry(after="30s", reason="empty")


@wf.step(after=[fetch, plan])
def rank(ctx: Ctx, page: Page, urls: list[Url]) -> int:
    return len(urls)


@wf.step(after=rank, join=AtLeast(0.9, within="30m", on_failed="collect", rest="finish"))
async def total(ctx: Ctx, ranks: Results[int]) -> int:
    assert_type(ranks.ok, Sequence[int])
    assert_type(ranks[0], int)
    assert_type(ranks[:2], list[int])
    assert_type(ranks.missing, list[int])
    lost = [(child.idx, child.error) for child in ranks.failed]
    return sum(ranks) + len(lost)


@wf.step(after=fetch, join="all")
def everything(ctx: Ctx, pages: list[Page]) -> Draft:
    return Draft(" ".join(page.title for page in pages))


@wf.step(after=fetch, join=First(within=60))
def fastest(ctx: Ctx, pages: Results[Page]) -> Page:
    return next(iter(pages))


@wf.step(after=everything, again=("review",), next="publish", max_rounds=3)
async def review(ctx: Ctx, draft: Draft, tone: str = "dry") -> Draft | Again | Go:
    if not draft.text:
        return Again(review, draft=draft, tone="kind")
    if len(draft.text) > 10:
        return Go(publish, draft=draft)
    return draft


@wf.step()
def publish(ctx: Ctx, draft: Draft, channel: str = "mail") -> str:
    return channel + draft.text


@wf.step(on_demand=True)
def read(ctx: Ctx, url: Url) -> Page:
    return Page(url.host)


@wf.step(after=read, join=All(on_failed="hold"), on_demand=True)
def merge(ctx: Ctx, pages: Results[Page]) -> Draft:
    return Draft(str(len(pages)))


@wf.step(after=plan, spawns=(read, merge))
def digest(ctx: Ctx, urls: list[Url]) -> Draft | Spawn:
    return Spawn(read, urls, then=merge)


class FakeContext:
    @property
    def __stanchion_context__(self) -> Any:
        return True


async def use(ctx: Ctx) -> None:
    """A step keeps the type of its function, context first, and has a name."""
    assert_type(await plan(ctx, "cats", lang="de"), list[Url])
    assert_type(fetch(ctx, Url("x")), Page | Retry)
    assert_type(plan.name, str)
    plain: Callable[[Ctx, str], Coroutine[Any, Any, list[Url]]] = plan
    later: Callable[[Ctx, str], Awaitable[Sequence[Url]]] = plan
    step: Step[..., object] = fetch
    steps: list[Step[..., object]] = [plan, fetch, rank]
    assert_type(Results.of([1, 2]), Results[int])
    wider: Results[object] = Results.of([1, 2])
    del plain, later, step, steps, wider
