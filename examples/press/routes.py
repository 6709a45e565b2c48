"""The addresses of the press."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from . import faults, ledger, looks, work
from .answers import Answer
from .desk import Desk, Work
from .orders import Order, read_look, read_work
from .page import HEADERS, render
from .shapes import Channel, FaultWish, Key, Publication
from .wire import Cut

SHOWN_ON_THE_PAGE = 200

router = APIRouter()


def desk_of(request: Request) -> Desk:
    """The desk of this process."""
    return cast(Desk, request.app.state.desk)


AtDesk = Annotated[Desk, Depends(desk_of)]
ByChannel = Annotated[Channel | None, Query()]
ByKey = Annotated[Key | None, Query()]
Limit = Annotated[int, Query(ge=1, le=1_000)]
LongLimit = Annotated[int, Query(ge=1, le=100_000)]


def response(answer: Answer, request_id: str | None = None) -> Response:
    """An answer on the wire."""
    named = {} if request_id is None else {"Request-Id": request_id}
    return JSONResponse(dict(answer.body), answer.status, {**answer.headers, **named}, answer.media_type)


async def _handled(desk: Desk, order: Order, do: Work) -> Response:
    answer = await desk.handle(order, do)
    return Cut() if answer is None else response(answer, order.request_id)


# -- what a client uses --


@router.post("/publications")
async def publish(publication: Publication, request: Request, desk: AtDesk) -> Response:
    """Publish, at most once for each Idempotency-Key."""
    order = read_work(request, publication.model_dump(exclude_none=True), channel=publication.channel)
    return await _handled(desk, order, work.publish)


@router.delete("/publications/{name}")
async def retract(name: str, request: Request, desk: AtDesk) -> Response:
    """Retract: the compensation of a publication."""
    return await _handled(desk, read_work(request, {"retract": name}, publication_id=name), work.retract)


@router.get("/publications")
async def publications(
    request: Request, desk: AtDesk, channel: ByChannel = None, after: str | None = None, limit: Limit = 100
) -> Response:
    """The publications, oldest first."""
    return await _handled(desk, read_look(request, channel=channel), looks.Page(after, limit))


@router.get("/publications/by-key/{key:path}")
async def publication_by_key(key: str, request: Request, desk: AtDesk) -> Response:
    """What was done under a key."""
    return await _handled(desk, read_look(request, key=key), looks.by_key)


@router.get("/publications/{name}")
async def publication(name: str, request: Request, desk: AtDesk) -> Response:
    """One publication."""
    return await _handled(desk, read_look(request, publication_id=name), looks.by_id)


@router.get("/channels/{channel}")
async def channel(channel: Channel, request: Request, desk: AtDesk) -> Response:
    """The version of a channel, for If-Match."""
    return await _handled(desk, read_look(request, channel=channel), looks.channel)


# -- what a test trusts: no fault touches these --


@router.get("/executions")
async def executions(
    desk: AtDesk, channel: ByChannel = None, key: ByKey = None, limit: LongLimit = 1_000
) -> dict[str, Any]:
    """How often work was really done."""
    return await desk.store.run(ledger.executions, channel, key, limit)


@router.get("/requests")
async def requests(
    desk: AtDesk, channel: ByChannel = None, key: ByKey = None, limit: LongLimit = 1_000
) -> dict[str, Any]:
    """What was received, and what came of it."""
    return await desk.store.run(ledger.requests, channel, key, limit)


@router.post("/faults", status_code=201)
async def tell_fault(wish: FaultWish, desk: AtDesk) -> dict[str, Any]:
    """Tell what goes wrong next."""
    return await desk.store.run(faults.add, wish)


@router.get("/faults")
async def list_faults(desk: AtDesk) -> dict[str, Any]:
    """The faults, and how often each has fired."""
    return {"items": await desk.store.run(faults.listed)}


@router.delete("/faults")
async def clear_faults(desk: AtDesk) -> dict[str, Any]:
    """Remove all faults."""
    return {"cleared": await desk.store.run(faults.clear)}


@router.get("/")
async def page(desk: AtDesk) -> Response:
    """What was published, for people."""
    return HTMLResponse(render(await desk.store.run(looks.newest, SHOWN_ON_THE_PAGE)), headers=HEADERS)
