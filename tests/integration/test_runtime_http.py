"""HTTP: a real server in a thread, health pages, and an end that does not wait for open streams."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from stanchion.errors import Unavailable
from stanchion.runtime.clock import monotonic
from stanchion.runtime.http import Check, HttpServer, health_app, health_routes, is_loopback


@pytest.fixture
def serve() -> Iterator[Callable[..., HttpServer]]:
    servers: list[HttpServer] = []

    def start(app: Any, **options: Any) -> HttpServer:
        server = HttpServer(app, **options)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        assert server.stop(10)


def get(server: HttpServer, path: str) -> httpx2.Response:
    return httpx2.get(server.url + path, timeout=10)


class TestHealth:
    def test_ready_while_all_checks_pass(self, serve: Callable[..., HttpServer]) -> None:
        """And says which there are."""
        answer = get(serve(health_app({"database": lambda: None, "broker": lambda: None})), "/readyz")
        assert (answer.status_code, answer.json()) == (
            200,
            {"status": "ok", "checks": {"database": "ok", "broker": "ok"}},
        )

    def test_not_ready_when_one_fails_or_raises(self, serve: Callable[..., HttpServer]) -> None:
        """The page is open to everybody: it names the check and not the reason."""

        def raises() -> str | None:
            raise RuntimeError("postgresql://u:hunter2@db/x")

        checks: dict[str, Check] = {
            "database": raises,
            "broker": lambda: "E-NET-01 broker-7:9092",
            "other": lambda: None,
        }
        answer = get(serve(health_app(checks)), "/readyz")
        assert answer.status_code == 503
        assert answer.json()["checks"] == {"database": "failing", "broker": "failing", "other": "ok"}
        assert "hunter2" not in answer.text
        assert "broker-7" not in answer.text

    def test_alive_is_another_question_than_ready(self, serve: Callable[..., HttpServer]) -> None:
        """A service that waits for its database is alive; one whose loop died is not."""
        server = serve(health_app({"database": lambda: "away"}, alive={"loop": lambda: None}))
        assert (get(server, "/healthz").status_code, get(server, "/readyz").status_code) == (200, 503)
        dead = serve(health_app({}, alive={"loop": lambda: "does not run"}))
        assert get(dead, "/healthz").status_code == 503

    def test_a_slow_check_does_not_hold_up_the_other_pages(self, serve: Callable[..., HttpServer]) -> None:
        """Checks run beside the event loop."""
        entered, release = threading.Event(), threading.Event()

        def slow() -> str | None:
            entered.set()
            release.wait(10)
            return None

        server = serve(health_app({"slow": slow}))
        asking = threading.Thread(target=get, args=(server, "/readyz"))
        asking.start()
        assert entered.wait(10)
        assert get(server, "/healthz").status_code == 200
        release.set()
        asking.join(10)

    def test_requests_that_hang_do_not_make_the_process_look_dead(self, serve: Callable[..., HttpServer]) -> None:
        """Health pages are answered when as many requests hang as there are threads for requests, and more."""
        app, go, begun = FastAPI(), threading.Event(), threading.Semaphore(0)

        @app.get("/hangs")
        def hangs() -> str:
            begun.release()
            assert go.wait(60)
            return "done"

        app.router.routes.extend(health_routes({"database": lambda: None}))
        server = serve(app)
        with ThreadPoolExecutor(60) as asking:
            waiting = [asking.submit(httpx2.get, f"{server.url}/hangs", timeout=60) for _ in range(60)]
            try:
                for _ in range(40):
                    assert begun.acquire(timeout=20)
                for path in ("/healthz", "/readyz", "/metrics"):
                    assert httpx2.get(server.url + path, timeout=5).status_code == 200
                assert not any(one.done() for one in waiting)
            finally:
                go.set()
            assert {one.result().status_code for one in waiting} == {200}

    def test_metrics_are_served_where_they_are_wanted(self, serve: Callable[..., HttpServer]) -> None:
        """In Prometheus' text format."""
        answer = get(serve(health_app({})), "/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        assert "stanchion_steps_leased_total" in answer.text or "stanchion_leases_reaped_total" in answer.text
        assert get(serve(health_app({}, with_metrics=False)), "/metrics").status_code == 404

    def test_the_pages_fit_into_an_app_of_ones_own(self, serve: Callable[..., HttpServer]) -> None:
        """FastAPI's routes and ours side by side."""
        app = FastAPI()
        app.router.routes.extend(health_routes({}))

        @app.get("/v1/x")
        def x() -> dict[str, int]:
            return {"x": 1}

        server = serve(app)
        assert get(server, "/v1/x").json() == {"x": 1}
        assert get(server, "/healthz").status_code == 200

    @pytest.mark.parametrize(
        ("host", "expected"),
        [
            ("127.0.0.1", True),
            ("127.8.0.1", True),
            ("::1", True),
            ("localhost", True),
            ("0.0.0.0", False),
            ("::", False),
            ("10.0.0.1", False),
        ],
    )
    def test_loopback_is_known(self, host: str, expected: bool) -> None:
        """Metrics are open there only."""
        assert is_loopback(host) is expected


class TestServer:
    def test_a_free_port_is_chosen_and_reported(
        self, serve: Callable[..., HttpServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In the object, and in a file for whoever started the process."""
        monkeypatch.setenv("STANCHION_RUN_DIR", str(tmp_path / "run"))
        server = serve(health_app({}), port=0, service="worker")
        note = tmp_path / "run" / f"worker-{os.getpid()}.json"
        assert json.loads(note.read_text()) == {"service": "worker", "pid": os.getpid(), "port": server.port}
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert server.stop(10)
        assert not note.exists()

    def test_a_port_that_is_taken_is_an_error_with_a_fix(self) -> None:
        """At the start, not later in a thread."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(Unavailable, match=str(taken.getsockname()[1])) as caught:
                HttpServer(health_app({}), port=taken.getsockname()[1]).start()
        assert caught.value.code == "E-NET-05"

    def test_an_app_that_can_not_start_is_an_error_at_the_start(self) -> None:
        """The reason of its lifespan ends the start of the service."""

        async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
            raise RuntimeError("no database")
            yield

        import contextlib

        app = FastAPI(lifespan=contextlib.asynccontextmanager(lifespan))
        server = HttpServer(app)
        with pytest.raises(Unavailable, match="did not start"):
            server.start()
        assert server.stop(10)

    def test_stops_with_a_request_under_way(self, serve: Callable[..., HttpServer]) -> None:
        """It is answered; the port is free afterwards."""
        entered, answers = threading.Event(), []
        app = FastAPI()

        @app.get("/slow")
        async def slow() -> dict[str, bool]:
            entered.set()
            await asyncio.sleep(0.2)
            return {"done": True}

        server = serve(app, grace_seconds=5)
        asking = threading.Thread(target=lambda: answers.append(get(server, "/slow").json()))
        asking.start()
        assert entered.wait(10)
        assert server.stop(10)
        asking.join(10)
        assert answers == [{"done": True}]
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", server.port))


class TestStreams:
    def stream_app(self, *, polite: bool, ended: threading.Event) -> FastAPI:
        app = FastAPI()

        @app.get("/events")
        async def events(request: Request) -> StreamingResponse:
            async def numbers() -> AsyncIterator[str]:
                closing = request.app.state.closing
                try:
                    yield "data: 1\n\n"
                    if polite:
                        await closing.wait()
                        yield "data: bye\n\n"
                    else:
                        await asyncio.sleep(3_600)
                finally:
                    ended.set()

            return StreamingResponse(numbers(), media_type="text/event-stream")

        return app

    @pytest.mark.parametrize("polite", [True, False], ids=["waits for closing", "ignores it"])
    def test_an_open_stream_does_not_hold_the_process(self, serve: Callable[..., HttpServer], polite: bool) -> None:
        """A browser never leaves by itself: generators end on `closing`, others are cut after the grace."""
        ended, first = threading.Event(), threading.Event()
        server = serve(self.stream_app(polite=polite, ended=ended), grace_seconds=1)
        lines: list[str] = []

        def listen() -> None:
            try:
                with httpx2.stream("GET", server.url + "/events", timeout=30) as answer:
                    for line in answer.iter_lines():
                        lines.append(line)
                        first.set()
            except httpx2.HTTPError:
                pass  # cut

        listening = threading.Thread(target=listen)
        listening.start()
        assert first.wait(10)
        started = monotonic()
        assert server.stop(10)
        assert monotonic() - started < 8
        assert ended.wait(5)
        listening.join(10)
        assert ("data: bye" in lines) is polite

    def test_streams_end_as_soon_as_the_service_drains(self, serve: Callable[..., HttpServer]) -> None:
        """So that their readers go to another replica; other requests are still answered."""
        ended, first = threading.Event(), threading.Event()
        app = self.stream_app(polite=True, ended=ended)
        app.router.routes.extend(health_routes({}))
        server = serve(app)

        def listen() -> None:
            with httpx2.stream("GET", server.url + "/events", timeout=30) as answer:
                for _ in answer.iter_lines():
                    first.set()

        listening = threading.Thread(target=listen)
        listening.start()
        assert first.wait(10)
        server.quiesce()
        listening.join(10)
        assert not listening.is_alive()
        assert get(server, "/healthz").status_code == 200
