"""Live pages over a real server: shared, bounded, honest about what they don't know, and gone with their reader."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import Frame, fanned, lease, steps_of, stream, tsk
from kit.engine import Admin, Engine
from psycopg import sql

from services.orchestrator.dashboard import live
from services.orchestrator.dashboard.site import Site
from stanchion.authority.people import Identity, People
from stanchion.authority.submission import Answer
from stanchion.contracts import ids
from stanchion.db.engine import Database
from stanchion.runtime.clock import monotonic
from stanchion.runtime.http import HttpServer

Running = dict[str, tuple[HttpServer, Site]]


@pytest.fixture
def site(url: str, running: Running) -> Site:
    """What the server of the dev profile serves."""
    return running[url][1]


@pytest.fixture
def task(engine: Engine) -> Answer:
    """A task that goes on."""
    return fanned(engine, 20)[0]


def of_kind(frames: Iterator[Frame], kind: str) -> Frame:
    """The next event of a kind."""
    return next(frame for frame in frames if frame.event == kind)


def move(engine: Engine, task: Answer) -> None:
    """Let something happen in a task's run."""
    assert lease(engine.worker(), steps_of(engine, task)[:1])


class TestShared:
    """Many watchers cost what one does."""

    def test_one_look_for_all_who_watch(
        self, web: httpx2.Client, site: Site, engine: Engine, task: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """When something happens, all of them get it, of as many looks as if there were one."""
        looked, looks = site.look, []

        def counted(*asked: Any) -> Any:
            looks.append(asked)
            return looked(*asked)

        monkeypatch.setattr(site, "look", counted)
        with ExitStack() as stack:
            readers = [stack.enter_context(stream(web, f"/tasks/{tsk(task)}")) for _ in range(12)]
            firsts = [of_kind(frames, "regions") for frames in readers]
            assert len({frame.id for frame in firsts}) == 1
            looks.clear()
            move(engine, task)
            seconds = [of_kind(frames, "regions") for frames in readers]
            assert len({frame.id for frame in seconds}) == 1
            assert seconds[0].id != firsts[0].id
            assert len(looks) <= 3

    def test_those_who_may_see_less_get_looks_of_their_own(
        self, serve: Callable[..., str], service: Database, tenants: dict[str, UUID], engine: Engine, task: Answer
    ) -> None:
        """What one sees is never what another one's look has found."""
        url = serve(profile="production")
        people = {}
        for name, role in (("vera", "viewer"), ("olga", "operator")):
            opened = People(service).sign_in(
                tenants["dev"], Identity(name, name, role), "cli", seconds=600, idle_seconds=600, by="test"
            )
            people[name] = {"authorization": f"Bearer {opened.token}"}
        path = f"/steps/{ids.public(ids.STEP, steps_of(engine, task)[0])}"
        with httpx2.Client(base_url=url, timeout=30) as web, ExitStack() as stack:
            found = {}
            for name in ("olga", "vera"):
                frames = stack.enter_context(stream(web, path, **people[name]))
                found[name] = str(of_kind(frames, "regions").data["regions"])
        assert "hidden by role" in found["vera"].lower()
        assert "hidden by role" not in found["olga"].lower()


class TestBounds:
    """A process has only so many streams, and keeps none that nobody reads."""

    def test_too_many(self, web: httpx2.Client, task: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
        """503 with when to come again; pages are still shown; there is room again when one leaves."""
        monkeypatch.setattr(live, "MOST_STREAMS", 2)
        path = f"/tasks/{tsk(task)}"
        with stream(web, path) as one, stream(web, path) as two:
            assert of_kind(one, "regions").id == of_kind(two, "regions").id
            refused = web.get(path, headers={"accept": "text/event-stream"})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
            assert "E-BUSY-01" in refused.text
            assert web.get(path).status_code == 200

    @pytest.mark.parametrize("encoding", ["identity", "gzip"])
    def test_nobody_reads_it_any_more(
        self, web: httpx2.Client, site: Site, task: Answer, encoding: str, eventually: Callable[..., Any]
    ) -> None:
        """When the last reader has gone, its page is not looked at any more."""
        eventually(lambda: site.watches.streams == 0)
        with stream(web, f"/tasks/{tsk(task)}", **{"accept-encoding": encoding}) as frames:
            assert of_kind(frames, "regions").id
            assert (site.watches.streams, len(site.watches._watches)) == (1, 1)
        eventually(lambda: site.watches.streams == 0)
        eventually(lambda: not site.watches._watches)

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/tasks/tsk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", 404),
            ("/tasks/x", 422),
            ("/tasks?state=nonsense", 422),
            ("/tasks?nonsense=1", 422),
        ],
    )
    def test_what_is_not_there_is_no_stream(self, web: httpx2.Client, path: str, status: int) -> None:
        """The answer says so at once, instead of a stream of troubles."""
        assert web.get(path, headers={"accept": "text/event-stream"}).status_code == status

    def test_to_ask_for_the_head_alone_opens_none(
        self, web: httpx2.Client, site: Site, task: Answer, eventually: Callable[..., Any]
    ) -> None:
        """It would stay open for nobody."""
        eventually(lambda: site.watches.streams == 0)
        answer = web.head(f"/tasks/{tsk(task)}", headers={"accept": "text/event-stream"})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert site.watches.streams == 0

    @pytest.mark.parametrize("since", ["x", "x" * 5_000, "<script>", "\u00e4"])
    def test_a_revision_that_nobody_knows(self, web: httpx2.Client, task: Answer, since: str) -> None:
        """In the query or in the header: all regions, and nothing of it comes back."""
        path, header = f"/tasks/{tsk(task)}", {"last-event-id": since.encode("ascii", "replace").decode()}
        with stream(web, path) as frames:
            every = set(of_kind(frames, "regions").data["regions"])
        with stream(web, f"{path}?since={quote(since)}") as by_query, stream(web, path, **header) as by_header:
            for frames in (by_query, by_header):
                found = of_kind(frames, "regions")
                assert set(found.data["regions"]) == every
                assert found.id != since


class TestTrouble:
    """When nobody can tell how it stands."""

    @pytest.fixture(autouse=True)
    def quickly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Signs of life as often as tests are patient."""
        monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.1)
        monkeypatch.setattr(live, "FAILED_SECONDS", 0.1)

    def test_the_database_is_away(self, serve: Callable[..., str], admin: Admin, engine: Engine, task: Answer) -> None:
        """An open page is told, a new one is a 503; once it is back, what happened meanwhile comes by itself."""
        with httpx2.Client(base_url=serve(), timeout=30) as web, stream(web, f"/tasks/{tsk(task)}") as frames:
            first = of_kind(frames, "regions")
            with no_connections(admin):
                said = of_kind(frames, "trouble").data
                assert said["code"].startswith("E-DB-")
                refused = web.get("/tasks")
                assert refused.status_code == 503
                assert "tasks keep running" in refused.text
            move(engine, task)
            assert of_kind(frames, "regions").id != first.id

    def test_a_bug_in_a_look(
        self,
        web: httpx2.Client,
        site: Site,
        engine: Engine,
        task: Answer,
        monkeypatch: pytest.MonkeyPatch,
        eventually: Callable[..., Any],
    ) -> None:
        """Is said as one, without its words, and ends no stream."""
        eventually(lambda: web.get("/tasks").status_code == 200)  # connections that were cut are found to be so
        looked = site.look
        with stream(web, f"/tasks/{tsk(task)}") as frames:
            first = of_kind(frames, "regions")
            monkeypatch.setattr(site, "look", lambda *asked: {}["canary-4711"])
            move(engine, task)
            said = of_kind(frames, "trouble").data
            assert said == {"code": "E-BUG-01", "what": "this page could not be made"}
            monkeypatch.setattr(site, "look", looked)
            assert of_kind(frames, "regions").id != first.id

    def test_this_replica_stops(self, serve: Callable[..., str], running: Running, task: Answer) -> None:
        """The reader is told to go elsewhere, with what it has; another replica goes on from there."""
        here, there = serve(), serve()
        path = f"/tasks/{tsk(task)}"
        with httpx2.Client(base_url=here, timeout=30) as web, stream(web, path) as frames:
            first = of_kind(frames, "regions")
            running[here][0].quiesce()
            assert of_kind(frames, "goodbye").data == {}
            assert next(frames, None) is None
        with httpx2.Client(base_url=there, timeout=30) as web, stream(web, path, **{"last-event-id": first.id}) as more:
            assert next(more).event in ("regions", "beat")


class TestSession:
    """Who reads a stream is asked again."""

    def test_a_revoked_session_reads_no_longer_than_a_stream_lasts(
        self,
        serve: Callable[..., str],
        service: Database,
        tenants: dict[str, UUID],
        task: Answer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The stream ends after its time, and opens for nobody whose session is over."""
        monkeypatch.setattr(live, "STREAM_SECONDS", 1.0)
        monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.1)
        people, path = People(service), f"/tasks/{tsk(task)}"
        opened = people.sign_in(
            tenants["dev"], Identity("rita", "rita", "viewer"), "cli", seconds=600, idle_seconds=600, by="test"
        )
        header = {"authorization": f"Bearer {opened.token}"}
        with httpx2.Client(base_url=serve(profile="production"), timeout=30) as web:
            with stream(web, path, **header) as frames:
                assert of_kind(frames, "regions").id
                people.end_session(tenants["dev"], opened.session_id, of=None, actor="test")
                assert not [frame for frame in frames if frame.event == "goodbye"]  # and it has ended
            again = web.get(path, headers=header | {"accept": "text/event-stream"})
            assert again.status_code == 401


@contextmanager
def no_connections(admin: Admin) -> Iterator[None]:
    """The database refuses everybody but us, and ends what is open."""
    name = sql.Identifier(admin.info.dbname)
    admin.execute(sql.SQL("ALTER DATABASE {} CONNECTION LIMIT 0").format(name))
    try:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND usename = 'stanchion_dashboard'"
        )
        yield
    finally:
        admin.execute(sql.SQL("ALTER DATABASE {} CONNECTION LIMIT -1").format(name))


class TestFlood:
    """Visitors take nothing from the process that they are served by."""

    def test_health_is_answered_when_all_pages_hang(
        self, serve: Callable[..., str], eventually: Callable[..., Any]
    ) -> None:
        """A database that takes connections and says nothing, and more visitors than there are threads."""
        with socket.create_server(("127.0.0.1", 0), backlog=512) as silent, ExitStack() as stack:
            port = silent.getsockname()[1]
            url = serve(dashboard_database_url=f"postgresql://stanchion_dashboard@127.0.0.1:{port}/none")
            asking = stack.enter_context(ThreadPoolExecutor(60))
            waiting = [asking.submit(httpx2.get, f"{url}{path}", timeout=60) for path in ("/", "/sign-out") * 30]
            eventually(lambda: httpx2.get(f"{url}/healthz", timeout=2).status_code == 200)
            began = monotonic()
            assert httpx2.get(f"{url}/healthz", timeout=2).status_code == 200
            assert httpx2.get(f"{url}/metrics", timeout=2).status_code == 200
            assert monotonic() - began < 2
            assert not any(one.done() for one in waiting[-20:])
            silent.close()
            assert {one.result().status_code for one in waiting} == {503}

    def test_pages_go_on_when_all_forms_hang(self, serve: Callable[..., str], task: Answer) -> None:
        """A task service that takes connections and says nothing, and more forms than may wait for it."""
        with socket.create_server(("127.0.0.1", 0), backlog=512) as silent, ExitStack() as stack:
            url = serve(task_service_url=f"http://127.0.0.1:{silent.getsockname()[1]}")
            asking = stack.enter_context(ThreadPoolExecutor(20))
            form = {"name": "ines", "role": "viewer"}
            waiting = [asking.submit(httpx2.post, f"{url}/sign-in", data=form, timeout=60) for _ in range(20)]
            began = monotonic()
            for path in ("/tasks", f"/tasks/{tsk(task)}", "/healthz"):
                assert httpx2.get(url + path, timeout=10).status_code == 200
            assert monotonic() - began < 10
            assert not any(one.done() for one in waiting)
            silent.close()  # whoever waits learns it
            assert {one.result().status_code for one in waiting} == {503}
