"""The HTTP application: routes, the edge in front of them, errors as problems."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from stanchion.errors import StanchionError
from stanchion.runtime.http import Check, health_routes, is_loopback
from stanchion.telemetry import metrics

from . import openapi, problems
from .access import Caller
from .deps import Deps
from .edge import Edge
from .params import BodyBudget
from .routers import (
    approvals,
    artifacts,
    audit,
    errors,
    events,
    inventory,
    jobs,
    keys,
    measures,
    operate,
    operations,
    people,
    reference,
    saved_views,
    sessions,
    steps,
    tasks,
    webhooks,
    why,
)
from .settings import TaskServiceSettings

ROUTERS = (
    *(
        module.router
        for module in (tasks, artifacts, operate, steps, operations, approvals, events, why, inventory, measures, keys)
    ),
    *(module.router for module in (jobs, errors, saved_views, sessions, people, audit, webhooks, reference)),
    sessions.provider_router,
)


def create_app(settings: TaskServiceSettings, deps: Deps, checks: Mapping[str, Check]) -> FastAPI:
    """The application; it opens nothing by itself."""
    app = FastAPI(
        title="Stanchion task service",
        openapi_url=None,  # served with a key, like everything else
        docs_url=None,
        redoc_url=None,
        lifespan=_with_threads(settings.http_threads),
        exception_handlers={
            StanchionError: problems.on_stanchion_error,
            HTTPException: problems.on_http_exception,
            RequestValidationError: problems.on_invalid,
        },
    )
    app.state.deps = deps
    app.state.body_budget = BodyBudget(settings.http_body_bytes)
    app.openapi = lambda: openapi.document(app)  # type: ignore[method-assign]  # the framework's own way to change it
    app.router.routes.extend(health_routes(checks, with_metrics=False))
    metrics_open = is_loopback(settings.http_host)
    app.add_api_route("/metrics", _metrics_with_right(metrics_open), include_in_schema=False)
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(
        Edge, ring=deps.ring, most=settings.http_requests, metrics_open=metrics_open, doors=_doors(settings)
    )
    return app


def _doors(settings: TaskServiceSettings) -> frozenset[str]:
    """The paths by which people get in: open only where there is such a way."""
    dev = {sessions.DEV_PATH} if settings.dev_login else set()
    oidc = {sessions.START_PATH, sessions.CALLBACK_PATH} if settings.oidc_issuer else set()
    return frozenset(dev | oidc | ({sessions.WAYS_PATH} if dev or oidc else set()))


def _with_threads(count: int) -> Callable[[Any], Any]:
    @asynccontextmanager
    async def lifespan(_app: Any) -> AsyncIterator[None]:
        # Handlers are plain functions in threads: as many at once as the database can serve, the others wait here.
        current_default_thread_limiter().total_tokens = count
        yield

    return lifespan


def _metrics_with_right(is_open: bool) -> Callable[..., Any]:
    def shown() -> Response:
        return PlainTextResponse(metrics.render(), media_type=metrics.CONTENT_TYPE)

    def guarded(caller: Caller) -> Response:
        caller.require("metrics.read")
        return shown()

    return shown if is_open else guarded
