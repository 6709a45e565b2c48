"""Artifacts: what tasks made, and what people upload beside it."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from stanchion.authority.artifact_flips import stored, verify
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits
from stanchion.contracts.artifacts import DEFAULT_MEDIA_TYPE, check_media_type, check_name
from stanchion.errors import Unprocessable
from stanchion.objects.feed import Feed

from ..access import Caller, needs
from ..deps import Deps, Has
from ..downloads import headers_of, is_known, range_of
from ..params import Cursor, Limit, StrictRoute, cursor_of
from ..transfers import Download
from ..views import Paged
from ..views_artifacts import ArtifactDeleted, ArtifactPinned, ArtifactShown, ArtifactVerified, ArtifactVersion

router = APIRouter(route_class=StrictRoute, tags=["artifacts"])

BINARY = {"schema": {"type": "string", "format": "binary"}}
Name = Annotated[str, Query(max_length=4 * limits.NAME_CHARACTERS, description="the name in its task")]


def with_content(route: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a route whose body is content, of any media type."""
    extra = route.get("openapi_extra", {}) | {"requestBody": {"required": True, "content": {"*/*": BINARY}}}
    return route | {"openapi_extra": extra}


@router.get("/v1/tasks/{task_id}/artifacts", response_model=Paged[ArtifactVersion], **needs("task.read"))
def list_artifacts(
    *,
    deps: Has,
    caller: Caller,
    task_id: str,
    name: Annotated[str | None, Query(max_length=4 * limits.NAME_CHARACTERS, description="of this name only")] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """Available versions of a task's artifacts, the newest first."""
    page = deps.artifacts.page(
        caller.tenant_id,
        ids.parse(task_id, ids.TASK),
        name=None if name is None else check_name(name, "query.name"),
        limit=limit,
        before=cursor_of(cursor, ids.ARTIFACT),
    )
    return {"items": page.items, "next": page.next and ids.public(ids.ARTIFACT, page.next)}


@router.post(
    "/v1/tasks/{task_id}/artifacts",
    status_code=201,
    response_model=ArtifactShown,
    **with_content(needs("artifact.write")),
)
async def upload_artifact(
    *,
    request: Request,
    deps: Has,
    caller: Caller,
    task_id: str,
    name: Name,
    made_from: Annotated[str | None, Query(description="versions that it is made from, separated by commas")] = None,
    sha256: Annotated[str | None, Query(description="the hash that the content must have, in hex")] = None,
) -> Row:
    """Upload a new version: the body is its content, Content-Type its media type. The body is streamed to the store,
    and the version is visible once all of it is there. Each upload is another version."""
    parsed, checked = ids.parse(task_id, ids.TASK), check_name(name, "query.name")
    media_type = check_media_type(request.headers.get("content-type", DEFAULT_MEDIA_TYPE), "header Content-Type")
    parents, expected = _versions(made_from), _hash(sha256)

    def keep(feed: Feed) -> Row:
        store = deps.objects.of(caller.tenant_id)
        return deps.artifacts.upload(
            caller.tenant_id,
            parsed,
            checked,
            lambda: stored(store, feed, most_bytes=deps.upload_bytes, expected_sha256=expected),
            media_type=media_type,
            made_from=parents,
            actor=caller.actor,
        )

    return await deps.transfers.receive(request, keep)


@router.get("/v1/artifacts/{version_id}", response_model=ArtifactShown, **needs("task.read"))
def get_artifact(deps: Has, caller: Caller, version_id: str) -> Row:
    """One version: what it is, who made it, from which versions, and which were made from it."""
    return deps.artifacts.get(caller.tenant_id, ids.parse(version_id, ids.ARTIFACT))


@router.head("/v1/artifacts/{version_id}/content", include_in_schema=False, **needs("artifact.read"))
@router.get(
    "/v1/artifacts/{version_id}/content",
    response_class=Response,
    responses={
        200: {"description": "All of the content", "content": {"*/*": BINARY}},
        206: {"description": "The range that was asked for", "content": {"*/*": BINARY}},
        304: {"description": "The content is the one that If-None-Match names"},
    },
    **needs("artifact.read"),
)
def get_content(request: Request, deps: Has, caller: Caller, version_id: str) -> Response:
    """The content of a version, as a file to keep. ETag is its SHA-256; Range and If-None-Match are understood."""
    row = deps.artifacts.find(caller.tenant_id, ids.parse(version_id, ids.ARTIFACT))
    sha256, size = row["sha256"], row["size"]
    headers = headers_of(row["name"], row["media_type"], sha256)
    if is_known(request.headers, sha256):
        return Response(status_code=304, headers=headers)
    wanted = range_of(request.headers, sha256, size)
    start, end = wanted or (0, size)
    headers["content-length"] = str(end - start)
    if wanted is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    status = 200 if wanted is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    return _streamed(deps, caller.tenant_id, sha256, wanted, status, headers)


@router.post("/v1/artifacts/{version_id}/verify", response_model=ArtifactVerified, **needs("artifact.read"))
async def verify_artifact(deps: Has, caller: Caller, version_id: str) -> Row:
    """Read the stored content again, and say whether it is what the version says."""
    parsed = ids.parse(version_id, ids.ARTIFACT)

    def verified() -> Row:
        row = deps.artifacts.find(caller.tenant_id, parsed)
        fault = verify(deps.objects.of(caller.tenant_id), row["sha256"], row["size"])
        told = {"code": fault.code, "why": fault.why or fault.what} if fault else {}
        return {"version_id": parsed, "intact": fault is None, **told}

    with deps.transfers.one():
        return await deps.transfers.in_thread(verified)


@router.post("/v1/artifacts/{version_id}/pin", response_model=ArtifactPinned, **needs("artifact.manage"))
def pin_artifact(deps: Has, caller: Caller, version_id: str) -> Row:
    """Keep a version: neither retention nor a deletion takes it. Pinning again changes nothing."""
    return _pinned(deps, caller, version_id, pinned=True)


@router.post("/v1/artifacts/{version_id}/unpin", response_model=ArtifactPinned, **needs("artifact.manage"))
def unpin_artifact(deps: Has, caller: Caller, version_id: str) -> Row:
    """Let a pinned version go with its task's payloads, as any other."""
    return _pinned(deps, caller, version_id, pinned=False)


@router.delete("/v1/artifacts/{version_id}", response_model=ArtifactDeleted, **needs("artifact.manage"))
def delete_artifact(
    deps: Has,
    caller: Caller,
    version_id: str,
    reason: Annotated[str, Query(max_length=limits.REASON_CHARACTERS)] = "",
) -> Row:
    """Delete a version; 409 while it is pinned. Its content goes unless another version of the tenant has the same."""
    parsed = ids.parse(version_id, ids.ARTIFACT)
    done = deps.artifacts.delete(caller.tenant_id, parsed, reason=_text(reason), actor=caller.actor)
    return {"version_id": parsed, "deleted": done}


def _streamed(
    deps: Deps, tenant_id: UUID, sha256: bytes, wanted: tuple[int, int] | None, status: int, headers: dict[str, str]
) -> Response:
    deps.transfers.take()
    try:
        store = deps.objects.of(tenant_id)
        reader = store.open_verified(sha256) if wanted is None else store.open(sha256, start=wanted[0], end=wanted[1])
    except BaseException:
        deps.transfers.give_back()
        raise
    return Download(deps.transfers, reader, status, headers)


def _pinned(deps: Deps, caller: Any, version_id: str, *, pinned: bool) -> Row:
    parsed = ids.parse(version_id, ids.ARTIFACT)
    deps.artifacts.pin(caller.tenant_id, parsed, pinned=pinned, actor=caller.actor)
    return {"version_id": parsed, "pinned": pinned}


def _versions(text: str | None) -> list[UUID]:
    found = [ids.parse(part, ids.ARTIFACT) for part in (text or "").split(",") if part]
    if len(found) > limits.MADE_FROM:
        raise Unprocessable(
            "E-DATA-15", f"a version is made from {limits.MADE_FROM:,} others at most", where="query.made_from"
        )
    return found


def _hash(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise Unprocessable("E-DATA-15", "a SHA-256 is 64 hexadecimal digits", where="query.sha256")
    return found


def _text(reason: str) -> str:
    if any(ord(character) < 32 for character in reason):
        raise Unprocessable("E-DATA-15", "a reason has no control characters", where="query.reason")
    return reason
