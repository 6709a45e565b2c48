"""The application, put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI

from .desk import Desk
from .edge import guard
from .routes import router


def app_of(desk: Desk) -> FastAPI:
    """The press at this desk. The desk's store is closed with it."""

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        late = asyncio.create_task(desk.keep_late_requests(), name="late requests")
        try:
            yield
        finally:
            late.cancel()
            with suppress(asyncio.CancelledError):
                await late
            desk.store.close()

    app = FastAPI(title="The press", lifespan=life, openapi_url=None)
    app.state.desk = desk
    app.include_router(router)
    guard(app)
    return app
