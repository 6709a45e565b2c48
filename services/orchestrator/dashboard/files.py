"""What leaves as bytes and is no page: content to keep, images to look at, the audit log to take away.

Content comes from the task service in the visitor's own name, and goes through in pieces: nothing of it is kept here.
None of it is ever run: it is a file to keep, or an image whose own first bytes say that it is one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Final

import orjson
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from stanchion.authority.audit import Audit, AuditFilter
from stanchion.authority.rows import Row
from stanchion.contracts import ids
from stanchion.errors import TooLarge, Unprocessable

from .contents import content_path, opened
from .door import Visitor
from .previews import IMAGE_BYTES, image_type
from .reads import Reads
from .task_api import TaskApi
from .views.audit import EXPORTED, filter_of

PASSED_ON: Final = ("content-length", "content-range", "content-type", "etag", "accept-ranges")
ASKED_WITH: Final = ("range", "if-range", "if-none-match")
INERT: Final = {
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-store",
}
FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of something to compute."""
EXPORT_PAGE: Final = 1_000


class Passed(StreamingResponse):
    """An answer whose source is closed however it ends: read to its end, or left in the middle."""

    def __init__(
        self, chunks: Iterator[bytes], close: Callable[[], None], status: int, headers: dict[str, str]
    ) -> None:
        super().__init__(self._read(chunks), status, headers)
        self.close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await run_sync(self.close)

    @staticmethod
    async def _read(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        while (chunk := await run_sync(next, chunks, None)) is not None:
            yield chunk


class Files:
    """The doors for bytes."""

    def __init__(self, reads: Reads, api: TaskApi) -> None:
        self.reads = reads
        self.api = api

    def content(self, request: Request, visitor: Visitor) -> Response:
        """All of a version, or a range of it, as a file to keep."""
        path = content_path(visitor, request.path_params["version_id"])
        asked = {name: request.headers[name] for name in ASKED_WITH if name in request.headers}
        stack = ExitStack()
        try:
            answer = opened(self.api, stack, visitor, path, asked)
            headers = {name: answer.headers[name] for name in PASSED_ON if name in answer.headers}
            kept = answer.headers.get("content-disposition", "")
            headers["content-disposition"] = kept if kept.startswith("attachment") else "attachment"
            if request.method == "HEAD":  # what nobody is sent is not read either
                stack.close()
                return Response(status_code=answer.status_code, headers=headers | INERT)
            return Passed(answer.iter_raw(), stack.close, answer.status_code, headers | INERT)
        except BaseException:
            stack.close()
            raise

    def image(self, request: Request, visitor: Visitor) -> Response:
        """A version to look at, if it begins as an image does; raises Unprocessable E-DATA-15 and TooLarge E-SIZE-01."""
        path = content_path(visitor, request.path_params["version_id"])
        version_id = ids.parse(request.path_params["version_id"], ids.ARTIFACT)
        size = self.reads.artifacts.find(visitor.tenant_id, version_id)["size"]
        if size > IMAGE_BYTES:
            raise TooLarge("E-SIZE-01", f"images are shown up to {IMAGE_BYTES:,} bytes", fix="download it")
        with ExitStack() as stack:
            content = opened(self.api, stack, visitor, path, {}).read()
        kind = image_type(content)
        if kind is None:
            raise Unprocessable("E-DATA-15", "this is no image that is shown here", fix="download it")
        return Response(content, media_type=kind, headers=INERT | {"content-disposition": "inline"})

    def audit(self, request: Request, visitor: Visitor) -> Response:
        """The audit entries that fit, the newest first, as JSON lines or CSV; `EXPORTED` of them at most."""
        visitor.require("audit.read")
        given = dict(request.query_params)
        kind = given.pop("format", "jsonl")
        if kind not in _WRITERS:
            raise Unprocessable("E-DATA-15", f"{kind[:40]!a} is no format", where="query.format", fix="jsonl or csv")
        wanted, write = filter_of(given), _WRITERS[kind]
        rows = _entries(self.reads.audit, visitor, wanted)
        headers = INERT | {"content-disposition": f'attachment; filename="audit.{kind}"'}
        type_ = "application/x-ndjson" if kind == "jsonl" else "text/csv; charset=utf-8"
        return Passed(write(rows), lambda: None, 200, headers | {"content-type": type_})


def _entries(audit: Audit, visitor: Visitor, wanted: AuditFilter) -> Iterator[Row]:
    before, left = None, EXPORTED
    while left > 0:
        page = audit.page(visitor.tenant_id, wanted, limit=min(left, EXPORT_PAGE), before=before)
        yield from page.items
        before, left = page.next, left - len(page.items)
        if before is None:
            return


def _shown(row: Row) -> Row:
    names = ("audit_id", "lane", "at", "actor", "action", "target", "detail")
    return {name: row[name] for name in names} | {"hash": bytes(row["hash"]).hex()}


def _as_lines(rows: Iterator[Row]) -> Iterator[bytes]:
    for row in rows:
        yield orjson.dumps(_shown(row)) + b"\n"


def _as_table(rows: Iterator[Row]) -> Iterator[bytes]:
    names = ("audit_id", "lane", "at", "actor", "action", "target", "detail", "hash")
    yield _line(names)
    for row in rows:
        told = _shown(row) | {"at": row["at"].isoformat(), "detail": orjson.dumps(row["detail"]).decode()}
        yield _line([_harmless(str(told[name])) for name in names])


def _line(cells: Iterable[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULAS) else text


_WRITERS: Final = {"jsonl": _as_lines, "csv": _as_table}
