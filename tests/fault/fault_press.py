"""Publications in the press, which is a process of its own: with keys, with deadlines, and with neither.

Each publication has a channel of its own, so that what was really done can be told from the press's books alone.
"""

from __future__ import annotations

import os
from typing import Any, Final

from stanchion.connectors.host_guard import HostGuard
from stanchion.connectors.http import Http, HttpReceipt
from stanchion.sdk.context import Context as Ctx
from stanchion.testing.history import note
from stanchion.workflow import Results, Workflow
from stanchion.workflow.operation import AnyOperation

PRESS_VARIABLE: Final = "STANCHION_TEST_PRESS"
RETRIES: Final = 100
ARTIFACT: Final = {"sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "version": 1}
KINDS: Final = ("press.keyed", "press.timed", "press.open")


def _out(receipt: HttpReceipt) -> bool:
    """Whether the channel has a publication."""
    return bool(receipt["body"]["items"])


def _operations() -> dict[str, AnyOperation]:
    url = os.environ.get(PRESS_VARIABLE, "http://127.0.0.1:9")
    guard = HostGuard(url, failures=1_000_000)  # one that shuts would keep the faults away
    keyed = Http(url, guard=guard)
    # a header that the press does not know: to it these requests have no key
    timed = Http(url, guard=guard, key_header="X-Unknown", deadline_header="Request-Deadline")
    bare = Http(url, guard=guard, key_header="X-Unknown")
    path, by_channel = "/publications", "/publications?channel={channel}"
    made = (
        keyed.operation("press.keyed", "POST", path, lookup=path + "/by-key/{key}", keeps_key="1d", timeout="1s"),
        timed.operation("press.timed", "POST", path, lookup=by_channel, found=_out, lands_within="1s", timeout="1s"),
        bare.operation("press.open", "POST", path, lookup=by_channel, found=_out, timeout="1s"),
    )
    return {operation.kind: operation for operation in made}


OPERATIONS: Final = _operations()
publications = Workflow("fault_publications", operations=list(OPERATIONS.values()))


@publications.step(retries=RETRIES)
async def plan(ctx: Ctx, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A branch for each."""
    note(ctx)
    return wanted


@publications.step(after=plan, each=True, retries=RETRIES, retry_delay="20ms", retry_cap="200ms")
async def publish(ctx: Ctx, one: dict[str, Any]) -> str:
    """One publication; also without a key of the press's it is the same one when the step is tried again."""
    note(ctx)
    channel = str(one["channel"])
    page = {"channel": channel, "title": f"On {channel}", "artifact": ARTIFACT}
    await ctx.op(OPERATIONS[str(one["kind"])], page, key=channel)
    return channel


@publications.step(after=publish, join="all", retries=RETRIES)
async def published(ctx: Ctx, channels: Results[str]) -> int:
    """How many."""
    note(ctx)
    return sum(1 for _ in channels)
