"""Steps that write and read artifacts, as their authors would; worker processes import this module too."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from stanchion import Artifact, Ctx, Results, Workflow

MIB = 1024 * 1024

press = Workflow("press")


@dataclass(frozen=True)
class Made:
    """What a writing step returns: references are values as any other."""

    whole: Artifact
    streamed: Artifact


@press.step(retries=0)
async def write(ctx: Ctx, text: str) -> Made:
    """A version at once, and one as a stream that is made from it."""
    whole = await ctx.artifact("report.txt", text, media_type="text/plain; charset=utf-8")
    async with ctx.artifact("copy.bin", made_from=[whole]) as out:
        for character in text:
            await out.write(character.encode())
    return Made(whole, out.artifact)


@press.step(after=write, retries=0)
def check(ctx: Ctx, made: Made) -> list[str]:
    """The same in a thread: reads what came, writes both ways."""
    with ctx.open(made.whole) as stream:
        text = b"".join(stream).decode()
    found = ctx.artifact("report.txt", text.upper(), made_from=[made.whole.id]).put()
    with ctx.artifact("lines.txt") as out:
        out.write(b"one\n")
        out.write(b"two\n")
    return [text, ctx.open(found).read().decode(), ctx.open(out.artifact, start=4).read().decode(), str(found.number)]


@press.step(after=check, retries=0, isolation="process")
def alone(ctx: Ctx, seen: list[str]) -> Artifact:
    """And in a process of its own."""
    return ctx.artifact("seen.txt", "\n".join(seen)).put()


@press.step(after=alone, retries=0)
async def last(ctx: Ctx, seen: Artifact) -> str:
    """Read on the event loop, whole and as a stream."""
    async with ctx.open(seen) as stream:
        streamed = b"".join([chunk async for chunk in stream])
    assert streamed == await ctx.open(seen.id)
    return streamed.decode()


bulk = Workflow("bulk")


@bulk.step(retries=0)
def lots(ctx: Ctx, mib: int) -> list[str]:
    """A result of so many MiB."""
    return [f"{n:07d}" + "x" * (MIB - 10) for n in range(mib)]


@bulk.step(after=lots, each=True, retries=0)
def measure(ctx: Ctx, item: str) -> str:
    """The hash of an item, which came out of the list behind the fan-out."""
    return hashlib.sha256(item.encode()).hexdigest()


@bulk.step(after=(lots, measure), join="all", retries=0, isolation="process")
def compare(ctx: Ctx, all_of_it: list[str], hashes: Results[str]) -> list[str]:
    """The whole list again, in a process of its own; what comes back is as large."""
    assert [hashlib.sha256(item.encode()).hexdigest() for item in all_of_it] == list(hashes)
    return [item.upper() for item in all_of_it]


odd = Workflow("odd")


@odd.step(retries=0)
async def strange(ctx: Ctx, what: str, path: str = "") -> str:
    """Does what it is told, wrongly."""
    match what:
        case "raises":
            async with ctx.artifact("broken") as out:
                await out.write(b"x" * 3 * MIB)
                raise ValueError("in the middle")
        case "raises in a thread":
            with ctx.artifact("broken") as out:
                out.write(b"x" * 3 * MIB)
                raise ValueError("in the middle")
        case "file":
            return (await ctx.artifact("file", Path(path))).sha256
        case "chunks":
            return (await ctx.artifact("chunks", iter([b"a", b"", b"bc"]))).sha256
        case "empty":
            return (await ctx.artifact("empty", b"")).sha256
        case "name":
            await ctx.artifact(path, b"x")
        case "type":
            await ctx.artifact("x", b"x", media_type="text/html\r\nSet-Cookie: a=b")
        case "unknown":
            await ctx.open("art_00000000000000000000000000")
    return "done"
