"""The events of a task as a stream that a reader can leave and come back to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Final

import orjson
from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from stanchion.authority.events import Cursor
from stanchion.authority.rows import Row
from stanchion.authority.withholding import withheld_of
from stanchion.contracts import ids
from stanchion.runtime.clock import Deadline
from stanchion.runtime.http import Closing

from ..access import Caller, needs
from ..deps import Has
from ..event_feed import Reader
from ..params import StrictRoute
from ..views import as_doubles

router = APIRouter(route_class=StrictRoute, tags=["tasks"])

MEDIA_TYPE: Final = "text/event-stream"
RETRY_MS: Final = 2_000  # after how long a browser comes back
HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}

LastEventId = Annotated[str | None, Header(alias="last-event-id", max_length=64)]


@router.get(
    "/v1/tasks/{task_id}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "Server-sent events"}},
    **needs("task.read"),
)
async def follow_events(
    *,
    request: Request,
    deps: Has,
    caller: Caller,
    task_id: str,
    follow: Annotated[bool, Query(description="go on until the task has ended; else end at now")] = True,
    after: Annotated[str | None, Query(max_length=64, description="the same as Last-Event-ID")] = None,
    last_event_id: LastEventId = None,
) -> StreamingResponse:
    """Everything that happened to a task, in order, each event once; goes on behind Last-Event-ID."""
    parsed = ids.parse(task_id, ids.TASK)
    cursor = Cursor.parse(last_event_id or after, "header Last-Event-ID" if last_event_id else "query.after")
    until = await run_sync(deps.feed.events.horizon, caller.tenant_id, parsed)
    reader = deps.feed.open(caller.tenant_id, parsed, cursor, until=None if follow else until)
    closing: Closing = request.app.state.closing
    lifetime = Deadline(deps.stream_seconds)
    return _EventStream(reader, _frames(reader, closing, deps.stream_heartbeat, lifetime, whole=caller.sees_payloads))


class _EventStream(StreamingResponse):
    """A response that gives its reader back however it ends: also when the client left before the first byte."""

    def __init__(self, reader: Reader, frames: AsyncIterator[bytes]) -> None:
        super().__init__(frames, media_type=MEDIA_TYPE, headers=dict(HEADERS))
        self.reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end, or until nobody listens."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.reader.feed.close(self.reader)


async def _frames(
    reader: Reader, closing: Closing, heartbeat: float, lifetime: Deadline, *, whole: bool
) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MS}\n\n".encode()
    stopping = asyncio.ensure_future(closing.wait())
    try:
        while not lifetime.passed:
            page = asyncio.ensure_future(reader.next(min(heartbeat, lifetime.left)))
            await asyncio.wait({page, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not page.done():
                page.cancel()
                with suppress(asyncio.CancelledError):
                    await page
                return  # the server stops: the reader goes on with another replica
            found = page.result()
            if found is None:
                yield b":\n\n"  # also how a connection that broke silently is found out
                continue
            for event in found.events:
                yield _frame(reader, event, whole=whole)
            if reader.at_end:
                return
    finally:
        stopping.cancel()


def _frame(reader: Reader, event: Row, *, whole: bool) -> bytes:
    body: dict[str, Any] = {
        "type": event["kind"],
        "at": event["at"],
        "task_id": ids.public(ids.TASK, reader.task_id),
        "run_id": ids.public(ids.RUN, event["run_id"]),
        "step_id": event["step_id"] and ids.public(ids.STEP, event["step_id"]),
        "node": event["node"],
        "index": event["idx"],
        "version": event["version"],
        "fence": event["fence"],
        "actor": event["actor"],
        "body": as_doubles(event["body"] if whole else withheld_of(event["kind"], event["body"])),
    }
    data = orjson.dumps({name: value for name, value in body.items() if value is not None}, option=orjson.OPT_UTC_Z)
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (str(event["cursor"]).encode(), event["kind"].encode(), data)
