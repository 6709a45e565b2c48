"""HTTP for a service: any ASGI app in a thread of its own, and the health pages that every service has.

Stopping is graceful for open streams too. uvicorn waits for its clients, and a client of an event stream never leaves
by itself: so `closing` is set first, generators end on it, and what is left is cut after `grace_seconds`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stanchion.errors import Unavailable
from stanchion.runtime.clock import Deadline
from stanchion.runtime.logging import get_logger

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

Check = Callable[[], str | None]
"""A health check: None when well, else what is wrong in one sentence. It may block for a second; it may raise."""

START_SECONDS: Final = 15.0
HEALTH_THREADS: Final = 4

log = get_logger()


class Closing:
    """Set when the server is about to stop. Generators of event streams `await wait()` beside their next event."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def is_set(self) -> bool:
        """Whether the server is stopping."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return once the server is stopping."""
        await self._event.wait()

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the loop that the waiters run in."""
        self._loop = loop

    def set(self) -> None:
        """Tell the waiters; from any thread."""
        if self._loop is None:
            self._event.set()
        else:
            with suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._event.set)


class HttpServer:
    """Serves `app` on host and port (0: a free one, then `port` says which). A part of a `Service`.

    `app.state.closing` is set to a `Closing` when the app has a state. With STANCHION_RUN_DIR a file
    `<service>-<pid>.json` there says where this process listens.
    """

    def __init__(
        self, app: Any, *, host: str = "127.0.0.1", port: int = 0, service: str = "http", grace_seconds: float = 1.0
    ) -> None:
        self.app = app
        self.host = host
        self.port = port
        self.name = f"http-{service}"
        self.service = service
        self.grace_seconds = grace_seconds
        self.closing = Closing()
        self._server: Any = None
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._crash: BaseException | None = None
        self._note: Path | None = None
        if hasattr(app, "state"):
            app.state.closing = self.closing

    def start(self) -> None:
        """Bind, serve, and return once requests are answered; raises Unavailable E-NET-05 when the port is taken."""
        import uvicorn

        self._socket = self._bound()
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            self.app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, round(self.grace_seconds)),
            timeout_keep_alive=30,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name=self.name, daemon=True)
        self._thread.start()
        deadline = Deadline(START_SECONDS)
        while not self._server.started:
            if not self._thread.is_alive() or deadline.passed:
                raise Unavailable("E-NET-05", f"the HTTP server did not start: {self._crash or 'no answer'}")
            self._thread.join(0.005)
        self._note = _noted(self.service, self.port)
        log.info("http.listening", host=self.host, port=self.port)

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def quiesce(self) -> None:
        """End event streams now, so that their readers go to another replica while this one drains."""
        self.closing.set()

    def stop(self, timeout: float = 5.0) -> bool:
        """Stop accepting, end streams, answer what is under way, within `timeout` seconds; True if it ended."""
        self.closing.set()
        if self._note is not None:
            self._note.unlink(missing_ok=True)
        if self._server is None or self._thread is None:
            return True
        self._server.should_exit = True
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(1.0)
        if self._socket is not None:
            self._socket.close()
        return not self._thread.is_alive()

    def _bound(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
        except OSError as error:
            listener.close()
            raise Unavailable(
                "E-NET-05",
                f"can't listen on {self.host} port {self.port}: {error.strerror or error}",
                fix="choose another STANCHION_HTTP_PORT, or 0 for a free one",
            ) from None
        return listener

    def _serve(self) -> None:
        async def serve() -> None:
            self.closing.bind(asyncio.get_running_loop())
            await self._server.serve(sockets=[self._socket])

        try:
            asyncio.run(serve())
        except BaseException as error:
            self._crash = error
            log.error("service.failed", part=self.name, exc_info=True)


def _noted(service: str, port: int) -> Path | None:
    folder = os.environ.get("STANCHION_RUN_DIR")
    if not folder:
        return None
    path = Path(folder) / f"{service}-{os.getpid()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps({"service": service, "pid": os.getpid(), "port": port}))
    draft.replace(path)  # a reader never sees half a file
    return path


def is_loopback(host: str) -> bool:
    """Whether a server bound to `host` can be reached from this machine only."""
    return host in ("localhost", "::1") or host.startswith("127.")


def health_routes(
    checks: Mapping[str, Check], *, alive: Mapping[str, Check] | None = None, with_metrics: bool = True
) -> list[BaseRoute]:
    """Routes for any Starlette or FastAPI app: `/healthz` (`alive`), `/readyz` (`checks`) and `/metrics`.

    Both pages are open to everybody, so they name what fails and not why; the reason goes to the log. Serve `/metrics`
    without sign-in on loopback only.
    """
    from anyio import CapacityLimiter
    from anyio.to_thread import run_sync
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    from stanchion.telemetry import metrics

    # threads of their own: requests that hang must not make their process look dead
    hands = CapacityLimiter(HEALTH_THREADS)

    async def healthz(_request: Request) -> Response:
        return await run_sync(lambda: _answer(_Checks.run(alive or {})), limiter=hands)

    async def readyz(_request: Request) -> Response:
        return await run_sync(lambda: _answer(_Checks.run(checks)), limiter=hands)

    async def prometheus(_request: Request) -> Response:
        text = await run_sync(metrics.render, limiter=hands)
        return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)

    routes: list[BaseRoute] = [Route("/healthz", healthz), Route("/readyz", readyz)]
    if with_metrics:
        routes.append(Route("/metrics", prometheus))
    return routes


def health_app(
    checks: Mapping[str, Check], *, alive: Mapping[str, Check] | None = None, with_metrics: bool = True
) -> Starlette:
    """An app of nothing but the health pages, for services without an API."""
    from starlette.applications import Starlette

    return Starlette(routes=health_routes(checks, alive=alive, with_metrics=with_metrics))


class _Checks:
    """Runs checks and logs each change once, so that a probe every second does not fill the log."""

    _failing: dict[str, str] = {}  # noqa: RUF012 - what this process last saw of each check

    @classmethod
    def run(cls, checks: Mapping[str, Check]) -> dict[str, bool]:
        return {name: cls._one(name, check) for name, check in checks.items()}

    @classmethod
    def _one(cls, name: str, check: Check) -> bool:
        try:
            fault = check()
        except Exception as error:  # noqa: BLE001 - a check that raises has failed
            fault = f"{type(error).__name__}: {error}"
        before = cls._failing.get(name)
        if fault is not None and before is None:
            log.warning("health.failing", check=name, reason=fault)
        if fault is None and before is not None:
            log.info("health.recovered", check=name)
        if fault is None:
            cls._failing.pop(name, None)
        else:
            cls._failing[name] = fault
        return fault is None


def _answer(results: Mapping[str, bool]) -> Response:
    from starlette.responses import JSONResponse

    well = all(results.values())
    shown = {name: "ok" if good else "failing" for name, good in results.items()}
    return JSONResponse({"status": "ok" if well else "failing", "checks": shown}, status_code=200 if well else 503)
