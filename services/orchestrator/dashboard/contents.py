"""The content of artifacts, as the task service hands it out to whoever asks in their own name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

import httpx2

from stanchion.authority.rows import Row
from stanchion.contracts import ids
from stanchion.errors import Unauthenticated

from .door import Visitor
from .previews import PREVIEW_BYTES
from .task_api import SECONDS, TaskApi

PIECE: Final = 64 * 1024
PREVIEW_SECONDS: Final = 3.0
"""How long a page waits for content; it is shown without it rather than late."""


def content_path(visitor: Visitor, version: str) -> str:
    """Where the task service has the content of a version; raises NotAllowed, and Unauthenticated for a neighbour.

    Whoever has not said who they are gets no content, also where pages are open: reading it is an act in a name.
    """
    visitor.require("artifact.read")
    if not visitor.acts:
        raise Unauthenticated("E-AUTH-01", "sign in first: content is read in somebody's name")
    return f"/v1/artifacts/{ids.public(ids.ARTIFACT, ids.parse(version, ids.ARTIFACT))}/content"


def opened(
    api: TaskApi,
    stack: ExitStack,
    visitor: Visitor,
    path: str,
    headers: Mapping[str, str],
    seconds: float = SECONDS,
) -> httpx2.Response:
    """An answer of the task service that has begun, and is closed with `stack`; raises what it says."""
    sent = visitor.forwarded | {"accept-encoding": "identity"} | dict(headers)
    answer = stack.enter_context(api.stream(path, sent, seconds))
    if answer.is_error:
        answer.read()
        raise api.refusal(answer)
    return answer


def beginning(api: TaskApi, visitor: Visitor, row: Row) -> bytes:
    """The first bytes of a version: `PREVIEW_BYTES` at most, and all of what is shorter, which is verified then."""
    path = content_path(visitor, str(row["version_id"]))
    headers = {} if row["size"] <= PREVIEW_BYTES else {"range": f"bytes=0-{PREVIEW_BYTES - 1}"}
    found = bytearray()
    with ExitStack() as stack:
        for piece in opened(api, stack, visitor, path, headers, PREVIEW_SECONDS).iter_raw(PIECE):
            found += piece
            if len(found) >= PREVIEW_BYTES:
                break
    return bytes(found[:PREVIEW_BYTES])
