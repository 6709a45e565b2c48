"""What all tests share: real servers for the session, a fresh database for each test, markers by folder.

`--servers` says where PostgreSQL, the broker and Valkey come from: `embedded` (child processes, the default),
`containers` (a Docker engine) or `url` (what STANCHION_DATABASE_URL, STANCHION_KAFKA_BOOTSTRAP and STANCHION_REDIS_URL
name). Nothing is started before a test asks for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import hypothesis
import psycopg
import pytest
import pytest_socket

if TYPE_CHECKING:
    from kit.databases import Databases

    from stanchion.db.engine import Database
    from stanchion.embedded import Endpoints

# No test depends on how long something takes: a busy machine must not turn an example into a failure.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# `fixed` draws the same examples each time, so that a landing is no lottery; `searching` is for an hour without hurry.
hypothesis.settings.register_profile("fixed", hypothesis.settings.get_profile("patient"), derandomize=True)
hypothesis.settings.register_profile("searching", hypothesis.settings.get_profile("patient"), max_examples=3000)
hypothesis.settings.load_profile("patient")
pytest.register_assert_rewrite("kit.stores")

ROOT = Path(__file__).parent
MARKED_FOLDERS = ("unit", "state", "integration", "fault", "e2e", "browser")
VARIABLES = ("STANCHION_DATABASE_URL", "STANCHION_KAFKA_BOOTSTRAP", "STANCHION_REDIS_URL")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stanchion")
    group.addoption(
        "--servers",
        choices=("embedded", "containers", "url"),
        default="embedded",
        help="where the servers of integration tests come from",
    )
    group.addoption(
        "--kafka",
        choices=("tansu", "apache", "apache-3"),
        default="tansu",
        help="the embedded broker: Tansu, or Apache Kafka, one node or three",
    )
    group.addoption(
        "--campaign",
        choices=("once", "full"),
        default="once",
        help="faults: each failpoint once, or the product of failpoints, actions and hits",
    )
    group.addoption("--subset", choices=("ci",), default=None, help="a fixed part of the campaign and of the scenarios")
    group.addoption("--seed", type=int, default=None, help="replay random faults; the seed of each run is printed")


def pytest_report_header(config: pytest.Config) -> str:
    return f"servers: {config.getoption('--servers')}, broker: {config.getoption('--kafka')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The folder is the marker."""
    for item in items:
        parts = item.path.relative_to(ROOT).parts if item.path.is_relative_to(ROOT) else ()
        if parts and parts[0] in MARKED_FOLDERS:
            item.add_marker(parts[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure of a test that used a running stack shows the last that each of its processes said."""
    report = yield
    if report.failed:
        for used in getattr(item, "funcargs", {}).values():
            logs = getattr(getattr(used, "stack", used), "logs", None)
            for file in sorted(logs.glob("*.log")) if isinstance(logs, Path) and logs.is_dir() else []:
                report.sections.append((f"end of {file.name}", _end_of(file)))
    return report


def _end_of(file: Path, most: int = 4_000) -> str:
    with file.open("rb") as opened:
        opened.seek(max(file.stat().st_size - most, 0))
        return opened.read().decode(errors="replace")


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """A unit test that opens a network socket is refused: it would need a server that may not be there."""
    if request.node.get_closest_marker("unit") is None:
        yield
        return
    pytest_socket.disable_socket(allow_unix_socket=True)
    try:
        yield
    finally:
        pytest_socket.enable_socket()


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """`eventually(probe, seconds=10)`: calls `probe` until it returns something true, and returns that.

    An AssertionError inside of it counts as not yet; the last one is raised when the time is over.
    """

    def wait(probe: Callable[[], Any], seconds: float = 10.0) -> Any:
        end = time.monotonic() + seconds
        pause = 0.001
        while True:
            try:
                found = probe()
                if found:
                    return found
                failure: AssertionError = AssertionError(f"still {found!r} after {seconds:g} s")
            except AssertionError as error:
                failure = error
            if time.monotonic() > end:
                raise failure
            time.sleep(pause)
            pause = min(pause * 2, 0.1)

    return wait


@pytest.fixture(scope="session")
def endpoints(request: pytest.FixtureRequest) -> Iterator[Endpoints]:
    """The three servers, started once for all tests that need any of them."""
    kind = request.config.getoption("--servers")
    if kind == "url":
        yield _named_servers()
        return
    _say(request, f"starting PostgreSQL, the broker and Valkey ({kind})")
    with (
        pytest.MonkeyPatch.context() as patch,
        _owned_servers(kind, request.config.getoption("--kafka"), patch) as servers,
    ):
        # ContainerServers and EmbeddedServers both return their endpoints when they start
        found = servers.endpoints if hasattr(servers, "endpoints") else servers.start()
        yield found


def _owned_servers(kind: str, kafka: Any, patch: pytest.MonkeyPatch) -> Any:
    if kind == "containers":
        from stanchion.embedded.containers import ContainerServers

        return ContainerServers()
    from stanchion.embedded import EmbeddedServers

    for name in VARIABLES:  # embedded means ours: a variable that was left over must not name somebody's servers
        patch.delenv(name, raising=False)
    root = ROOT.parent / ".stanchion" / f"tests-{os.getpid()}"
    return EmbeddedServers(
        root,
        kafka=kafka,
        fsync=False,
        ephemeral=True,
        cache=ROOT.parent / ".stanchion" / "cache",
    )


def _named_servers() -> Endpoints:
    from stanchion.embedded import Endpoints

    missing = [name for name in VARIABLES if not os.environ.get(name)]
    if missing:
        pytest.exit(f"--servers=url needs {', '.join(missing)}", returncode=4)
    return Endpoints(*(os.environ[name] for name in VARIABLES))


def _say(request: pytest.FixtureRequest, text: str) -> None:
    """One line on the terminal: the first start takes seconds, and silence looks like a hang."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    if reporter is not None and capture is not None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(f"\n{text} ...")


@pytest.fixture(scope="session")
def databases(endpoints: Endpoints) -> Iterator[Databases]:
    """Makes databases from a template that is migrated once."""
    from kit.databases import Databases

    with Databases(endpoints.database_url) as made:
        yield made


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """The administrator's URL of a database of this test's own, migrated and empty."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def db(database_url: str) -> Iterator[Callable[[str], Database]]:
    """`db(login)`: pooled access to this test's database under a service's login; closed at the end."""
    from stanchion.db.engine import Database, login_url

    opened: list[Database] = []

    def under(login: str) -> Database:
        opened.append(Database(login_url(database_url, login), name=f"test {login}"))
        return opened[-1]

    yield under
    for one in opened:
        one.close()


@pytest.fixture
def admin(database_url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A superuser's connection in autocommit, for looking and for damaging."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def tenant(admin: psycopg.Connection[tuple[Any, ...]]) -> UUID:
    """A tenant named `acme`."""
    row = admin.execute("SELECT stanchion.create_tenant('acme')").fetchone()
    assert row is not None
    return row[0]
