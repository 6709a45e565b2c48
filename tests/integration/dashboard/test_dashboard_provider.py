"""Sign-in at a provider of OpenID Connect, a real process, through the dashboard's own address: browsers know one site."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import Read
from kit.provider import CLIENT, SECRET
from people_pages_kit import taken_apart

from services.task_service.app import Connections, deps_of, event_feed
from services.task_service.http import create_app
from services.task_service.settings import TaskServiceSettings
from stanchion.bus.producer import Producer
from stanchion.db import grants
from stanchion.db.engine import login_url
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.hints import Hints
from stanchion.runtime.http import HttpServer

if TYPE_CHECKING:
    from stanchion.embedded import Endpoints

ROOT = Path(__file__).parents[3]
START, CALLBACK = "/v1/session/oidc", "/v1/session/oidc/callback"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """The provider, as a process of its own; everybody who comes is Ana."""
    port = free_port()
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    process = subprocess.Popen([sys.executable, "-m", "kit.provider", str(port)], env=environ, cwd=ROOT)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None
        try:
            return httpx2.get(f"{url}/jwks").status_code == 200
        except httpx2.TransportError:
            return False

    deadline = Deadline(30)
    try:
        while not answers():
            assert not deadline.passed, "the provider does not answer"
            pause(0.05)
        yield url
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture(scope="module")
def site(
    serve: Callable[..., str],
    tenants: dict[str, UUID],
    database_url: str,
    endpoints: Endpoints,
    issuer: str,
) -> Iterator[str]:
    """A dashboard, and the task service behind it, which sends people back to the dashboard."""
    assert tenants
    here, behind = free_port(), free_port()
    settings = TaskServiceSettings(
        database_url=login_url(database_url, grants.TASK_SERVICE),
        kafka_bootstrap=endpoints.kafka_bootstrap,
        profile="dev",
        http_port=behind,
        key_cache_seconds=0,
        oidc_issuer=issuer,
        oidc_client_id=CLIENT,
        oidc_client_secret=SECRET,
        oidc_redirect_url=f"http://127.0.0.1:{here}{CALLBACK}",
        oidc_tenant="dev",
        oidc_roles=("eng=operator",),
    )
    hints, connections = Hints(None), Connections(settings)
    producer = Producer(settings.kafka)
    deps = deps_of(settings, connections.make("http", 4), hints, producer, event_feed(settings, hints, connections))
    server = HttpServer(create_app(settings, deps, {}), port=behind, service="task-service")
    server.start()
    yield serve(task_service_url=server.url, port=here)
    assert server.stop(10)
    connections.stop()
    producer.stop()


def test_people_come_back_signed_in(site: str) -> None:
    """To the page that they came from; the session is the dashboard's cookie, and opens its pages."""
    with httpx2.Client(base_url=site, timeout=30.0) as browser:
        page = browser.get("/sign-in", params={"return_to": "/tasks?q=state%3Afailed"})
        provider = next(a["href"] for a in Read.of(page).named("a") if (a["href"] or "").startswith(START))
        begun = browser.get(str(provider))
        assert begun.status_code == 302
        assert begun.headers["location"].startswith("http://127.0.0.1:")
        assert "httponly" in begun.headers["set-cookie"].lower()
        back = str(httpx2.get(begun.headers["location"]).headers["location"])
        assert back.startswith(f"{site}{CALLBACK}")
        answer = browser.get(back)
        assert answer.status_code == 200
        assert 'href="/tasks?q=state%3Afailed"' in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "as person:ana.z" in Read.of(browser.get("/tasks")).text
        assert taken_apart(browser.get("/sign-out")).hidden["csrf"]


def test_another_browser_is_not_signed_in(site: str) -> None:
    """Whoever gets hold of the way back, and did not begin it, gets no session."""
    with httpx2.Client(base_url=site, timeout=30.0) as one, httpx2.Client(base_url=site, timeout=30.0) as other:
        begun = one.get(START, params={"return_to": "/"})
        back = str(httpx2.get(begun.headers["location"]).headers["location"])
        assert other.get(back).status_code == 401
        assert not other.cookies.get("stanchion_session")


@pytest.mark.parametrize("return_to", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_it_comes_back_to_this_site_alone(site: str, return_to: str) -> None:
    """A link that says otherwise begins nothing."""
    answer = httpx2.get(f"{site}{START}", params={"return_to": return_to})
    assert (answer.status_code, "location" in answer.headers, "set-cookie" in answer.headers) == (422, False, False)


def test_what_one_visitor_is_given_no_other_sends(site: str) -> None:
    """The connections to the task service are shared, cookies are not: who comes without one is nobody."""
    with httpx2.Client(base_url=site, timeout=30.0) as browser:
        assert browser.post("/sign-in", data={"name": "ann", "role": "admin"}).status_code == 303
        assert "as person:ann" in Read.of(browser.get("/tasks")).text
    with httpx2.Client(base_url=site, timeout=30.0) as nobody:
        form = {"csrf": ""}
        assert nobody.post("/sign-out", data=form).status_code == 401
        assert nobody.get(CALLBACK).status_code == 401
        assert "as this machine" in Read.of(nobody.get("/tasks")).text


def test_nothing_else_is_passed_on(site: str) -> None:
    """The dashboard is no way into the rest of the API."""
    for path in ("/v1/tasks", "/v1/session", "/v1/session/dev", f"{START}/../tasks", f"{CALLBACK}/x"):
        assert httpx2.get(f"{site}{path}").status_code == 404
        assert httpx2.post(f"{site}{path}", json={"name": "x"}).status_code in (404, 405)
