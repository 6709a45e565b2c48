"""A database, a server and keys for each module of the task service's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from task_service_kit import WORKFLOWS, Api, Hand

from services.task_service.app import Connections, deps_of, event_feed
from services.task_service.health import SchemaCheck
from services.task_service.http import create_app
from services.task_service.settings import TaskServiceSettings
from stanchion.authority.keys import ROLES, Keys
from stanchion.authority.workflows import Workflows
from stanchion.bus.producer import Producer
from stanchion.db import grants
from stanchion.db.engine import Database, login_url
from stanchion.runtime.hints import Hints
from stanchion.runtime.http import HttpServer
from stanchion.runtime.logging import configure_logging
from stanchion.runtime.loop import Loop

if TYPE_CHECKING:
    from kit.databases import Databases

    from stanchion.embedded import Endpoints


@pytest.fixture(scope="module", autouse=True)
def _json_logs() -> None:
    """Lines of JSON: a traceback drawn for a terminal buries what a test says."""
    configure_logging(format="json", level="warning")


@pytest.fixture(scope="module")
def admin_url(databases: Databases) -> Iterator[str]:
    """A migrated database of this module's own, under the administrator's login."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture(scope="module")
def look(admin_url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A superuser's connection, for looking."""
    with psycopg.connect(admin_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def database(admin_url: str) -> Iterator[Database]:
    """A few connections under the task service's login; all workflows of the tests are registered."""
    made = Database(login_url(admin_url, grants.TASK_SERVICE), name="test", pool_size=4)
    for workflow in WORKFLOWS:
        Workflows(made).register(workflow.graph())
    yield made
    made.close()


@pytest.fixture(scope="module")
def hand(admin_url: str, database: Database) -> Iterator[Hand]:
    """A worker and an orchestrator, worked by hand."""
    made = Hand(admin_url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def settings(admin_url: str, endpoints: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> TaskServiceSettings:
    """Settings of the dev profile over the module's database."""
    return TaskServiceSettings(
        database_url=login_url(admin_url, grants.TASK_SERVICE),
        kafka_bootstrap=endpoints.kafka_bootstrap,
        redis_url=endpoints.redis_url,
        profile="dev",
        http_port=0,
        key_cache_seconds=0,
        kafka_tenants=("acme", "beta"),
        objects_url=(tmp_path_factory.mktemp("store") / "objects").as_uri(),
        upload_bytes=10 * 1024 * 1024,
        transfers=4,
    )


@pytest.fixture(scope="module")
def url(settings: TaskServiceSettings, database: Database) -> Iterator[str]:
    """Where the HTTP server of this module listens."""
    hints, connections = Hints(settings.redis_url.get_secret_value()), Connections(settings)
    producer = Producer(settings.kafka)
    feed = event_feed(settings, hints, connections)
    loop = Loop("event-feed", feed.run_once, idle_wait=1.0, wake=feed.wake)
    deps = deps_of(settings, connections.make("http", settings.db_pool), hints, producer, feed)
    app = create_app(settings, deps, {"database": SchemaCheck(deps.database).check})
    server = HttpServer(app, port=0, service="task-service")
    loop.start()
    server.start()
    yield server.url
    assert server.stop(10)
    loop.stop(5)
    connections.stop()
    producer.stop()
    hints.stop()


@pytest.fixture(scope="module")
def make_api(url: str, database: Database) -> Iterator[Callable[..., Api]]:
    """`make_api(tenant, role)`: a client with a new key of that role."""
    made: list[Api] = []
    keys = Keys(database)

    def make(tenant: str, role: str = "platform") -> Api:
        tenant_id = keys.create_tenant(tenant)
        _, secret = keys.create(tenant_id, f"{role}-{len(made)}", ROLES[role], actor="test")
        made.append(Api(url, secret))
        return made[-1]

    yield make
    for api in made:
        api.close()


@pytest.fixture(scope="module")
def api(make_api: Callable[..., Api]) -> Api:
    """A client of tenant acme with every right."""
    return make_api("acme")


@pytest.fixture(scope="module")
def other(make_api: Callable[..., Api]) -> Api:
    """A client of another tenant, with every right in it."""
    return make_api("beta")


@pytest.fixture(scope="module")
def nobody(url: str) -> Iterator[Api]:
    """A client without a key."""
    made = Api(url, None)
    yield made
    made.close()


@pytest.fixture
def sign_in(url: str, nobody: Api) -> Iterator[Callable[..., Api]]:
    """`sign_in("ana", "viewer")`: a client with a session of the command line, in tenant dev."""
    made: list[Api] = []

    def begin(name: str, role: str = "admin") -> Api:
        token = nobody.post("/v1/session/dev", {"name": name, "role": role}, 201)["token"]
        made.append(Api(url, token))
        return made[-1]

    yield begin
    for api in made:
        api.close()
