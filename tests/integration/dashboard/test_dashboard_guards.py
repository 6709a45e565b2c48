"""Who sees the pages, and what can't be done through them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import (
    HOSTILE,
    Read,
    check_harmless,
    fail,
    fanned,
    lease,
    name_worker,
    rewrite,
    steps_of,
    tsk,
)
from kit.engine import Admin, Engine

from stanchion.authority.keys import Keys
from stanchion.authority.people import Identity, People
from stanchion.contracts import ids
from stanchion.db.engine import Database

TEXTS = [
    HOSTILE,
    "</script><script>alert(2)</script>",
    "'\"><svg onload=alert(3)>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(4)",
]


@pytest.fixture(scope="module")
def closed(serve: Callable[..., str], engine: Engine) -> Iterator[httpx2.Client]:
    """A visitor of a server outside the dev profile."""
    with httpx2.Client(base_url=serve(profile="production"), timeout=30.0) as client:
        yield client


def bearer(service: Database, tenant: UUID, *scopes: str) -> dict[str, str]:
    """The header of a new key with these rights."""
    _, secret = Keys(service).create(tenant, f"k-{os.urandom(4).hex()}", scopes, actor="test")
    return {"authorization": f"Bearer {secret}"}


class TestKeys:
    """Outside the dev profile."""

    @pytest.mark.parametrize(
        "path", ["/", "/tasks", "/tasks/tsk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", "/steps/x", "/do/task.cancel/x"]
    )
    def test_nothing_is_shown_without_a_key(self, closed: httpx2.Client, path: str) -> None:
        """401, with how to ask."""
        response = closed.get(path)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
        assert "E-AUTH-01" in response.text

    @pytest.mark.parametrize(
        "header", ["Bearer", "Bearer stn_x", "Basic abc", "Bearer stn_" + "A" * 43, "bearer \u00e4"]
    )
    def test_a_bad_key_is_refused(self, closed: httpx2.Client, header: str) -> None:
        """401, whatever is wrong with it."""
        response = closed.get("/", headers={"authorization": header.encode("latin-1")})
        assert response.status_code == 401

    def test_texts_of_errors_need_payload_read(
        self, closed: httpx2.Client, service: Database, tenants: dict[str, UUID], engine: Engine
    ) -> None:
        """They may quote what a step was given; the page of the same moment shows them to whoever has the right."""
        task, worker = fanned(engine, 2)
        steps = steps_of(engine, task)
        fail(worker, lease(worker, steps)[0], "canary-4711")
        reads = bearer(service, tenants["dev"], "task.read")
        sees = bearer(service, tenants["dev"], "task.read", "payload.read")
        paths = (f"/tasks/{tsk(task)}/steps", f"/steps/{ids.public(ids.STEP, steps[0])}")
        for path in paths:
            assert "canary-4711" in closed.get(path, headers=sees).text, path
            shown = closed.get(path, headers=reads)
            assert shown.status_code == 200
            assert "canary-4711" not in shown.text, path

    def test_a_session_of_the_command_line_opens_what_a_key_does(
        self, closed: httpx2.Client, service: Database, tenants: dict[str, UUID]
    ) -> None:
        """Until it is revoked."""
        people, who = People(service), Identity("ana", "ana", "viewer")
        opened = people.sign_in(tenants["dev"], who, "cli", seconds=60, idle_seconds=60, by="test")
        header = {"authorization": f"Bearer {opened.token}"}
        assert closed.get("/", headers=header).status_code == 200
        people.end_session(tenants["dev"], opened.session_id, of=None, actor="test")
        assert closed.get("/", headers=header).status_code == 401

    def test_a_key_shows_its_own_tenant(
        self, closed: httpx2.Client, service: Database, tenants: dict[str, UUID], engine: Engine
    ) -> None:
        """What another tenant owns is not there: task, its parts and its step are 404."""
        task, _ = fanned(engine, 3)
        mine = bearer(service, tenants["dev"], "task.read")
        theirs = bearer(service, tenants["other"], "task.read")
        step = f"/steps/{ids.public(ids.STEP, steps_of(engine, task)[0])}"
        for path in (f"/tasks/{tsk(task)}", f"/tasks/{tsk(task)}/steps", f"/tasks/{tsk(task)}/history", step):
            assert closed.get(path, headers=mine).status_code == 200
            refused = closed.get(path, headers=theirs)
            assert (refused.status_code, "E-FIND-01" in refused.text) == (404, True)
        assert tsk(task) in closed.get("/tasks", headers=mine).text
        assert tsk(task) not in closed.get("/tasks", headers=theirs).text

    def test_the_right_is_needed(self, closed: httpx2.Client, service: Database, tenants: dict[str, UUID]) -> None:
        """403 names it."""
        response = closed.get("/", headers=bearer(service, tenants["dev"], "task.submit"))
        assert response.status_code == 403
        assert "task.read" in response.text

    def test_a_revoked_key_is_over_at_once(
        self, closed: httpx2.Client, service: Database, tenants: dict[str, UUID]
    ) -> None:
        """No page remembers it."""
        key_id, secret = Keys(service).create(tenants["dev"], "to-revoke", ["task.read"], actor="test")
        headers = {"authorization": f"Bearer {secret}"}
        assert closed.get("/", headers=headers).status_code == 200
        Keys(service).revoke(tenants["dev"], key_id, actor="test")
        assert closed.get("/", headers=headers).status_code == 401


class TestDev:
    """On a laptop."""

    def test_it_is_open_on_loopback(self, web: httpx2.Client, engine: Engine) -> None:
        """And shows the tenant that the setting names."""
        text = Read.of(web.get("/")).text
        assert "dev this machine" in text

    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "169.254.169.254", "[::ffff:1]"]
    )
    def test_another_name_for_this_machine_is_refused(self, web: httpx2.Client, host: str) -> None:
        """A foreign page that makes a browser come here under its own name reads nothing."""
        response = web.get("/", headers={"host": host})
        assert response.status_code in (400, 403)
        assert "sections" not in response.text

    def test_it_is_closed_when_others_can_reach_it(self, serve: Callable[..., str]) -> None:
        """A server that listens on more than loopback needs keys in every profile."""
        with httpx2.Client(base_url=serve(http_host="0.0.0.0")) as client:
            assert client.get("/").status_code == 401

    def test_a_tenant_that_is_not_there_yet(self, serve: Callable[..., str]) -> None:
        """404 with what to do."""
        with httpx2.Client(base_url=serve(page_tenant="nobody")) as client:
            response = client.get("/")
        assert response.status_code == 404
        assert "STANCHION_PAGE_TENANT" in response.text


class TestEscaping:
    """What people and workers write stays text."""

    @pytest.mark.parametrize("text", TEXTS)
    def test_hostile_texts_stay_texts(self, web: httpx2.Client, engine: Engine, admin: Admin, text: str) -> None:
        """In tags, goals, names of workers, steps and submitters, errors and events, on every page."""
        task, worker = fanned(engine, 2, tags=[text[:64]], goal=text)
        name_worker(worker, text)
        steps = steps_of(engine, task)
        held = lease(worker, steps)
        fail(worker, held[0], text, text)
        rewrite(admin, "UPDATE stanchion.step SET node = %s, queue = %s WHERE step_id = %s", text, text, steps[0])
        rewrite(admin, "UPDATE stanchion.task SET submitted_by = %s WHERE task_id = %s", text, task.task_id)
        rewrite(admin, "UPDATE stanchion.event SET actor = %s, kind = %s WHERE step_id = %s", text, text, steps[0])
        step = f"/steps/{ids.public(ids.STEP, steps[0])}"
        paths = ["/tasks", *(f"/tasks/{tsk(task)}{part}" for part in ("", "/steps", "/history")), step]
        for path in paths:
            response = web.get(path)
            assert response.status_code == 200, path
            read = Read.of(response)
            check_harmless(read)
            assert " ".join(text.split()) in read.text, path

    @pytest.mark.parametrize("text", TEXTS)
    @pytest.mark.parametrize("name", ["state", "before", "node", "after", "x", "return_url"])
    def test_nothing_is_reflected(self, web: httpx2.Client, engine: Engine, name: str, text: str) -> None:
        """Every parameter, on every page: refused, and shown as text where it is shown."""
        task, _ = fanned(engine, 1)
        for path in (
            "/tasks",
            f"/tasks/{tsk(task)}/steps",
            "/sign-in",
            f"/steps/{ids.public(ids.STEP, steps_of(engine, task)[0])}",
        ):
            response = web.get(path, params={name: text})
            assert response.status_code in (200, 422)
            check_harmless(Read.of(response))

    @pytest.mark.parametrize("path", [f"/{HOSTILE}", f"/tasks/{HOSTILE}", f"/steps/{HOSTILE}", f"/static/{HOSTILE}"])
    def test_paths_are_not_reflected(self, web: httpx2.Client, path: str) -> None:
        """404 or 422."""
        response = web.get(path)
        assert response.status_code in (404, 422)
        assert HOSTILE not in response.text

    def test_no_page_lets_a_script_of_its_own_run(self, web: httpx2.Client, engine: Engine) -> None:
        """The policy stands on pages, parts, files and errors, and nothing can be sent from them."""
        task, _ = fanned(engine, 1)
        (script,) = Read.of(web.get("/")).named("script")
        for path in ("/", f"/tasks/{tsk(task)}", "/sign-in", script["src"], "/nothing", "/tasks/bad"):
            headers = web.get(str(path)).headers
            assert headers["content-security-policy"].startswith("default-src 'self';"), path
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"


class TestRequests:
    """What comes in."""

    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/tasks?state=running&state=failed", 422),
            ("/tasks?state=nonsense", 422),
            ("/tasks?before=xyz", 422),
            ("/tasks?before=stp_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", 422),
            ("/tasks?limit=1000000", 422),
            ("/tasks/1", 422),
            ("/tasks/tsk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", 404),
            ("/steps/stp_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", 404),
            ("/steps/tsk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", 422),
            ("/nothing/here", 404),
            ("/static/../pages.py", 404),
            ("/static/..%2fpages.py", 404),
            ("/static/page.css", 404),
            ("/tasks?state=" + "x" * 5_000, 422),
        ],
    )
    def test_bad_ones_get_a_page_that_says_why(self, web: httpx2.Client, path: str, status: int) -> None:
        """Never a 500, never everything."""
        assert web.get(path).status_code == status

    @pytest.mark.parametrize("node", ["' OR 1=1 --", "read'; DROP TABLE x", "%", "re_d", "\x00", "x" * 300])
    def test_filters_are_bound(self, web: httpx2.Client, engine: Engine, node: str) -> None:
        """They match nothing, or are refused."""
        task, _ = fanned(engine, 2)
        response = web.get(f"/tasks/{tsk(task)}/steps", params={"node": node})
        assert response.status_code in (200, 422)
        if response.status_code == 200:
            assert "No step fits" in response.text

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
    def test_pages_are_only_read(self, web: httpx2.Client, method: str) -> None:
        """405."""
        assert web.request(method, "/").status_code == 405

    def test_files_never_change_under_their_name(self, web: httpx2.Client) -> None:
        """A hash in the name, and kept for ever by whoever has it."""
        read = Read.of(web.get("/"))
        for path in [*(a["href"] for a in read.named("link")), *(a["src"] for a in read.named("script"))]:
            response = web.get(str(path))
            assert response.status_code == 200
            assert "immutable" in response.headers["cache-control"]

    def test_health_and_metrics_are_on_the_same_server(self, web: httpx2.Client) -> None:
        """Open, and as every service has them."""
        assert web.get("/healthz").json()["status"] == "ok"
        assert web.get("/readyz").json()["checks"] == {"database": "ok", "broker": "failing"}
        assert "stanchion_runs_finished_total" in web.get("/metrics").text

    def test_a_database_that_is_away_is_said(self, serve: Callable[..., str]) -> None:
        """503, and that only the display is affected."""
        url = serve(dashboard_database_url="postgresql://stanchion_dashboard@127.0.0.1:9/none")
        with httpx2.Client(base_url=url, timeout=30) as client:
            response = client.get("/")
        assert response.status_code == 503
        assert "tasks keep running" in response.text

    def test_our_own_files_name_nobody_else(self) -> None:
        """No template, style or script has the address of another host."""
        home = Path(__file__).parents[3] / "services" / "orchestrator" / "dashboard"
        files = [*home.glob("templates/**/*.html"), *home.glob("static/*")]
        assert len(files) > 10
        for path in files:
            text = path.read_text().replace("http://www.w3.org/2000/svg", "")
            assert "http://" not in text, path
            assert "https://" not in text, path
