"""The workflows that fill the pages with everything that they must be able to show, and with what would break them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from stanchion.sdk.context import Context as Ctx
from stanchion.testing.history import FOLDER_VARIABLE
from stanchion.workflow import All, Results, Workflow
from stanchion.workflow.approval import Ask, Decision
from stanchion.workflow.operation import Call, Operation

MARKUP = '<script>alert(1)</script>"><img src=x onerror=alert(2)>{{7*7}}'
BIDI = "\u202egnp.live\u202c \u2066abc\u2069"
EMOJI = "👩‍👩‍👧‍👦 עברית 𝒳 ﷽ Z̷̰͌"
HOSTILE = f"{MARKUP} {BIDI} {EMOJI}"
LONG = "long" * 16_000
"""Close to the 64 KiB that stand in a row, without a place to break it."""


def opened(name: str) -> bool:
    """Whether the test has let this go on."""
    return (Path(os.environ[FOLDER_VARIABLE]) / f"{name}.go").exists()


# -- a fan-out with everything in it --

crawl = Workflow("crawl", version=7)


@crawl.step()
async def plan(ctx: Ctx, count: int) -> list[int]:
    """The numbers of the pages."""
    return list(range(count))


@crawl.step(after=plan, each=True, no_retry=(LookupError,), retry_delay="1h", retry_cap="1h")
async def fetch(ctx: Ctx, number: int) -> str:
    """Some fail for good; one is tried again in an hour; one takes its time."""
    if number % 17 == 3:
        raise LookupError(f"page {number} has no price")
    if number == 9:
        raise ConnectionResetError("the other side hung up")
    while number == 11 and not opened("crawl"):
        await asyncio.sleep(0.05)
    return f"page {number}"


@crawl.step(after=fetch, join=All(on_failed="hold"))
async def rank(ctx: Ctx, pages: Results[str]) -> list[str]:
    """Waits for all of them."""
    return list(pages)


@crawl.step(after=rank)
async def draft(ctx: Ctx, pages: list[str]) -> str:
    """Comes last."""
    return " ".join(pages)


# -- ends --

brief = Workflow("brief", version=3)


@brief.step()
async def outline(ctx: Ctx, topic: str) -> dict[str, Any]:
    """A heading for each part."""
    return {"topic": topic, "parts": ["one", "two", "three"]}


@brief.step(after=outline)
async def write(ctx: Ctx, outline: dict[str, Any]) -> str:
    """Writes it down."""
    artifact = await ctx.artifact("brief.md", f"# {outline['topic']}\n", media_type="text/markdown")
    return artifact.id


broken = Workflow("broken")


@broken.step(retries=0)
async def parse(ctx: Ctx, text: str) -> int:
    """Fails with what it was given."""
    raise ValueError(text)


@broken.step(after=parse)
async def never(ctx: Ctx, number: int) -> int:
    """Comes behind."""
    return number


dozing = Workflow("dozing")


@dozing.step(timeout="1h")
async def doze(ctx: Ctx, name: str) -> str:
    """Goes on until the test opens it."""
    while not opened(name):
        await asyncio.sleep(0.05)
    return name


@dozing.step(after=doze)
async def wake(ctx: Ctx, name: str) -> str:
    """Comes behind, and goes on until it is opened too."""
    while not opened(f"{name}-wake"):
        await asyncio.sleep(0.05)
    return name


# -- leases --

frozen = Workflow("frozen")


@frozen.step(retries=3)
async def hold_on(ctx: Ctx) -> int:
    """Its first worker is stopped with the result in its hands, past the lease."""
    return ctx.fence


# -- people and effects --


async def lose_answer(call: Call, payload: dict[str, Any]) -> dict[str, Any]:
    """The request has gone out, and nobody knows more."""
    raise ConnectionResetError(f"the answer is lost {HOSTILE}")


async def cannot_tell(call: Call, payload: dict[str, Any]) -> dict[str, Any] | None:
    """The look-up is away."""
    raise ConnectionRefusedError("look-up is away")


async def confirm(call: Call, payload: dict[str, Any]) -> dict[str, Any]:
    """It is done."""
    return {"id": call.key[:40]}


mail = Operation("mail.send", do=lose_answer, check=cannot_tell, keeps_key="1d")
sms = Operation("sms.send", do=lose_answer, unsafe_no_check="the provider has no look-up")
post = Operation("page.post", do=confirm, check=cannot_tell, keeps_key="1d", needs_approval=True)

mailing = Workflow("mailing", operations=[mail, sms])


@mailing.step()
async def send_mail(ctx: Ctx, to: str) -> Any:
    """Its answer is lost; a check may find out."""
    return await ctx.op(mail, {"to": to}, key=f"mail {to}"[:200])


@mailing.step()
async def send_sms(ctx: Ctx, to: str) -> Any:
    """Its answer is lost, and only a person can find out."""
    return await ctx.op(sms, {"to": to}, key=f"sms {to}"[:200])


asking = Workflow("asking", operations=[post])


@asking.approval()
def review(ctx: Ctx, text: str) -> Ask:
    """Asks people about what they see."""
    return Ask("Publish this page?", {"title": text[:2_000]}, post, key="page", summary=f"A page about {text[:500]}.")


@asking.step(after=review)
async def publish(ctx: Ctx, decision: Decision) -> Any:
    """Sends what was approved."""
    return await ctx.op(post, decision.payload, key="page", approval=decision)


# -- what is hostile, in every place that takes a text --

hostile = Workflow("hostile")


@hostile.step(retries=1, retry_delay="10ms", retry_cap="10ms")
async def echo(ctx: Ctx, text: str) -> str:
    """Fails with it once, then gives it back."""
    ctx.progress(1, of=2, note=text[:200])
    if ctx.attempt == 1:
        raise RuntimeError(text)
    return text


@hostile.step(after=echo, retries=0)
async def choke(ctx: Ctx, text: str) -> str:
    """Fails with it for good, and with what PostgreSQL can't store."""
    raise ValueError(f"{text} nul\x00nul")
