"""One database and one server for each module of the dashboard's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx2
import psycopg
import pytest
from kit.engine import Admin, Engine

from services.orchestrator.app import site_of
from services.orchestrator.dashboard.site import Site
from services.orchestrator.settings import OrchestratorSettings
from services.task_service.app import Connections, deps_of, event_feed
from services.task_service.http import create_app
from services.task_service.settings import TaskServiceSettings
from stanchion.authority.keys import Keys
from stanchion.bus.producer import Producer
from stanchion.db import grants
from stanchion.db.engine import Database, login_url
from stanchion.runtime.hints import Hints
from stanchion.runtime.http import HttpServer

if TYPE_CHECKING:
    from kit.databases import Databases

    from services.task_service.deps import Deps
    from stanchion.embedded import Endpoints


@pytest.fixture(scope="module")
def database_url(databases: Databases) -> Iterator[str]:
    """A migrated database of this module's own."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture(scope="module")
def admin(database_url: str) -> Iterator[Admin]:
    """A superuser's connection, for looking and for damaging."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Database]:
    """Connections under the task service's login."""
    made = Database(login_url(database_url, grants.TASK_SERVICE), name="test", pool_size=2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tenants(service: Database) -> dict[str, UUID]:
    """Two tenants: dev, whose tasks the pages show, and another one."""
    return {name: Keys(service).create_tenant(name) for name in ("dev", "other")}


@pytest.fixture(scope="module")
def make_engine(database_url: str, admin: Admin, tenants: dict[str, UUID]) -> Iterator[Callable[[str], Engine]]:
    """`make_engine(tenant)`: runs driven by hand."""
    opened: list[Database] = []

    def under(login: str) -> Database:
        opened.append(Database(login_url(database_url, login), name=f"test {login}", pool_size=2))
        return opened[-1]

    yield lambda tenant: Engine(under, admin, tenants[tenant])
    for database in opened:
        database.close()


@pytest.fixture(scope="module")
def engine(make_engine: Callable[[str], Engine]) -> Engine:
    """Runs of the tenant whose tasks the pages show."""
    return make_engine("dev")


@pytest.fixture(scope="module")
def running() -> dict[str, tuple[HttpServer, Site]]:
    """The servers of this module and what they serve, by address."""
    return {}


@pytest.fixture(scope="module")
def serve(database_url: str, running: dict[str, tuple[HttpServer, Site]]) -> Iterator[Callable[..., str]]:
    """`serve(**settings)`: a server of the pages; returns its address."""

    def start(port: int = 0, **changes: Any) -> str:
        given: dict[str, Any] = {
            "database_url": login_url(database_url, grants.ORCHESTRATOR),
            "dashboard_database_url": login_url(database_url, grants.DASHBOARD),
            "kafka_bootstrap": "127.0.0.1:9",
            "profile": "dev",
            "http_port": 0,
        }
        settings = OrchestratorSettings(**(given | changes))
        checks = {"database": lambda: None, "broker": lambda: "away"}
        pages = site_of(settings)
        assert pages is not None
        server = HttpServer(pages.app(checks, with_metrics=True), port=port, service="orchestrator")
        server.start()
        running[server.url] = (server, pages)
        return server.url

    yield start
    for server, pages in running.values():
        assert server.stop(10)
        pages.stop()


@pytest.fixture(scope="module")
def url(serve: Callable[..., str], tenants: dict[str, UUID]) -> str:
    """A server in the dev profile."""
    return serve()


@pytest.fixture(scope="module")
def web(url: str) -> Iterator[httpx2.Client]:
    """A visitor without a key."""
    with httpx2.Client(base_url=url, timeout=30.0) as client:
        yield client


@pytest.fixture(scope="module")
def task_service_parts(
    database_url: str, service: Database, endpoints: Endpoints, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Deps]]:
    """A task service over the same database: its address, and what it is made of."""
    settings = TaskServiceSettings(
        database_url=login_url(database_url, grants.TASK_SERVICE),
        kafka_bootstrap=endpoints.kafka_bootstrap,
        redis_url=endpoints.redis_url,
        profile="dev",
        http_port=0,
        key_cache_seconds=0,
        objects_url=(tmp_path_factory.mktemp("store") / "objects").as_uri(),
    )
    hints, connections = Hints(endpoints.redis_url), Connections(settings)
    producer = Producer(settings.kafka)
    feed = event_feed(settings, hints, connections)
    deps = deps_of(settings, connections.make("http", settings.db_pool), hints, producer, feed)
    server = HttpServer(create_app(settings, deps, {}), port=0, service="task-service")
    server.start()
    yield server.url, deps
    assert server.stop(10)
    connections.stop()
    producer.stop()
    hints.stop()


@pytest.fixture(scope="module")
def task_service(task_service_parts: tuple[str, Deps]) -> str:
    """The dashboard's one door for changes: its address."""
    return task_service_parts[0]


@pytest.fixture(scope="module")
def site(serve: Callable[..., str], tenants: dict[str, UUID], task_service: str) -> str:
    """A server in the dev profile through which things can be done."""
    return serve(task_service_url=task_service)


@pytest.fixture(scope="module")
def sign_in(site: str) -> Iterator[Callable[..., httpx2.Client]]:
    """`sign_in("ann", "approver")`: a browser of somebody who has signed in on the page for it."""
    opened: dict[str, httpx2.Client] = {}

    def begin(name: str, role: str = "approver") -> httpx2.Client:
        if name not in opened:
            opened[name] = httpx2.Client(base_url=site, timeout=30.0)
            answer = opened[name].post("/sign-in", data={"name": name, "role": role})
            assert answer.status_code == 303, answer.text[:500]
        return opened[name]

    yield begin
    for client in opened.values():
        client.close()
