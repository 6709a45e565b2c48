"""How things stand: queues, samples, the outbox, readers of Kafka; and pausing a queue."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query

from stanchion.authority.rows import Row
from stanchion.authority.samples import PLATFORM
from stanchion.contracts import ids
from stanchion.contracts.envelope import parse_time
from stanchion.contracts.topics import validate_queue
from stanchion.errors import NotFound, Unprocessable
from stanchion.runtime.hints import ORCHESTRATOR

from ..access import Caller, needs
from ..bodies import PauseQueueBody, body_schema
from ..deps import Deps, Has
from ..params import Body, StrictRoute, message, one_of, plain
from ..views_measures import (
    LagView,
    OutboxView,
    QueueChanged,
    QueueList,
    QueueView,
    Republished,
    SeriesView,
)

router = APIRouter(route_class=StrictRoute, tags=["measures"])

NAMES: Final = 20
"""Series in one answer."""


@router.get("/v1/queues", response_model=QueueList, **needs("worker.read"))
def list_queues(deps: Has, caller: Caller) -> Row:
    """The queues in which the tenant has something, that a live worker serves for it, or that it paused."""
    return {"items": deps.queues.of(caller.tenant_id)}


@router.get("/v1/queues/{queue}", response_model=QueueView, **needs("worker.read"))
def get_queue(deps: Has, caller: Caller, queue: str) -> Row:
    """One queue: what waits and runs, who serves it, how fast it goes, and what to do about it."""
    return deps.queues.get(caller.tenant_id, queue)


@router.post(
    "/v1/queues/{queue}/pause", response_model=QueueChanged, **body_schema(needs("task.operate"), PauseQueueBody)
)
def pause_queue(deps: Has, caller: Caller, queue: str, body: Body) -> Row:
    """Lease and offer nothing new of a queue for the tenant; what runs goes on. Who pauses it again changes nothing."""
    reason = message(PauseQueueBody, body).reason
    changed = deps.queues.pause(caller.tenant_id, queue, reason=reason, actor=caller.actor)
    return deps.queues.get(caller.tenant_id, queue) | {"changed": changed}


@router.post("/v1/queues/{queue}/resume", response_model=QueueChanged, **needs("task.operate"))
def resume_queue(deps: Has, caller: Caller, queue: str) -> Row:
    """Let a paused queue go on: what waited is offered at once."""
    changed = deps.queues.resume(caller.tenant_id, queue, actor=caller.actor)
    if changed:
        deps.handlers.hints.publish(ORCHESTRATOR)
    return _shown(deps, caller, queue) | {"changed": changed}


@router.get("/v1/metrics/series", response_model=SeriesView, **needs("task.read"))
def series(
    *,
    deps: Has,
    caller: Caller,
    names: Annotated[str, Query(max_length=4_000, description="names of samples, separated by commas")],
    since: Annotated[str, Query(alias="from", max_length=64, description="RFC 3339")],
    until: Annotated[str, Query(alias="to", max_length=64, description="RFC 3339")],
    resolution: Annotated[int, Query(description="seconds: 10, 60, 300, 900, 3600, 21600 or 86400")] = 10,
    of: Annotated[str | None, Query(description="tenant, or platform, which needs the right metrics.read")] = None,
) -> Row:
    """What was sampled between two times: slots of ten seconds for 7 days, spans of five minutes for 90."""
    whose = one_of(of, "of", ("tenant", "platform")) or "tenant"
    if whose == "platform":
        caller.require("metrics.read")
    wanted = tuple(dict.fromkeys((plain(names, "names", 4_000) or "").split(",")))
    if len(wanted) > NAMES:
        raise Unprocessable("E-DATA-15", f"these are more than {NAMES} names", where="query.names", limit=NAMES)
    begin, end = parse_time(since, "query.from"), parse_time(until, "query.to")
    owner = PLATFORM if whose == "platform" else caller.tenant_id
    found = deps.samples.series(owner, wanted, begin, end, resolution)
    return {"of": whose, "resolution": found.resolution, "at": found.at, "values": found.values}


@router.get("/v1/outbox", response_model=OutboxView, **needs("worker.read"))
def outbox(deps: Has, caller: Caller) -> Row:
    """What waits to be published, by age, and the relays that publish it.

    By topic, and with the relays' names, for a key that has the right metrics.read: these tell of other tenants.
    """
    return deps.pipeline.outbox(caller.tenant_id, of_all="metrics.read" in caller.scopes)


@router.get("/v1/lag", response_model=LagView, **needs("worker.read"))
def lag(
    deps: Has, caller: Caller, group: Annotated[str | None, Query(description="one group of readers")] = None
) -> Row:
    """How far readers of Kafka are, as it was found at the last look: in messages, and in time where that can be told.

    Of the topics of queues those with which the tenant has to do; of all queues, and who reads each partition, for a key
    that has the right metrics.read.
    """
    of_all = "metrics.read" in caller.scopes
    return deps.pipeline.lag(caller.tenant_id, of_all=of_all, group=plain(group, "group"))


@router.post("/v1/tasks/{task_id}/republish", status_code=202, response_model=Republished, **needs("task.operate"))
def republish(deps: Has, caller: Caller, task_id: str) -> Row:
    """Offer all ready steps of a task again: the answer to offers that the broker lost. Of two offers one leases a step."""
    parsed = ids.parse(task_id, ids.TASK)
    steps = deps.queues.republish(caller.tenant_id, parsed, actor=caller.actor)
    deps.handlers.hints.publish(ORCHESTRATOR)
    return {"task_id": parsed, "steps": steps}


def _shown(deps: Deps, caller: Caller, queue: str) -> Row:
    """A queue, also one that is no longer there now that nobody holds it."""
    try:
        return deps.queues.get(caller.tenant_id, queue)
    except NotFound:
        return deps.queues.empty(validate_queue(queue))
