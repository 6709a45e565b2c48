"""Who may do what: nothing without a key but health, nothing beyond one's rights, nothing of another tenant."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from task_service_kit import Api, Hand, uuid_of

from services.task_service.access import NOBODYS
from services.task_service.app import Connections, deps_of, event_feed
from services.task_service.http import create_app
from services.task_service.settings import TaskServiceSettings
from stanchion.authority.keys import ROLES, SCOPES, Keys, ensure_dev_key
from stanchion.bus.producer import Producer
from stanchion.contracts.ids import new_id, public
from stanchion.db.engine import Database
from stanchion.runtime.hints import Hints
from stanchion.runtime.http import HttpServer


def routes_of(api: Api) -> list[tuple[str, str]]:
    """Every documented route."""
    document = api.get("/openapi.json")
    return [(m.upper(), path) for path, operations in document["paths"].items() for m in operations]


def filled(path: str) -> str:
    """A route's path with ids of nothing in it."""
    kinds = {"task_id": "tsk", "step_id": "stp", "barrier_id": "bar", "worker_id": "wrk", "key_id": "key"}
    kinds |= {"dead_letter_id": "ded", "any_id": "tsk"}
    return re.sub(r"\{(\w+)\}", lambda m: public(kinds[m[1]], new_id()) if m[1] in kinds else "1", path)


class TestWithoutKey:
    """Deny by default."""

    def test_only_health_answers(self, api: Api, nobody: Api) -> None:
        """401 for every documented route, the documents themselves, and for paths that don't exist."""
        doors = [("POST", "/v1/session/dev"), ("GET", "/v1/session/ways")]
        shut = [route for route in routes_of(api) if route not in doors]
        for method, path in [*shut, ("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/nowhere")]:
            response = nobody.http.request(method, filled(path))
            assert response.status_code == 401, f"{method} {path}"
            assert response.json()["code"] == "E-AUTH-01"
            assert response.headers["www-authenticate"] == "Bearer"
        assert nobody.http.get("/healthz").status_code == 200
        assert nobody.http.get("/readyz").json()["checks"]["database"] == "ok"

    @pytest.mark.parametrize(
        "header",
        [
            "",
            "Bearer",
            "Basic dXNlcjpwYXNz",
            "Bearer stn_",
            "Bearer stn_" + "A" * 43,
            "Bearer stn_" + "A" * 42 + "\xe9",
            "Bearer stn_" + "!" * 43,
            "Bearer " + "x" * 5_000,
            "Bearer ' OR 1=1 --",
        ],
    )
    def test_what_is_no_key_opens_nothing(self, nobody: Api, header: str) -> None:
        """401 for every form of a wrong key, and none of it comes back in the answer."""
        response = nobody.http.get("/v1/tasks", headers={"authorization": header.encode("latin-1")})
        assert response.status_code == 401
        assert "OR 1=1" not in response.text

    def test_metrics_are_open_on_loopback_only(self, nobody: Api) -> None:
        """Bound to loopback they need no key."""
        assert "stanchion_http_requests_total" in nobody.http.get("/metrics").text

    def test_elsewhere_metrics_need_their_right(
        self, settings: TaskServiceSettings, database: Database, make_api: Callable[..., Api]
    ) -> None:
        """401 without a key, 403 without metrics.read, which no role in a tenant has."""
        hints, connections = Hints(None), Connections(settings)
        feed = event_feed(settings, hints, connections)
        wide = settings.model_copy(update={"http_host": "0.0.0.0"})
        deps = deps_of(wide, connections.make("http", 2), hints, Producer(settings.kafka), feed)
        server = HttpServer(create_app(wide, deps, {}), port=0)
        server.start()
        try:
            clients = [Api(server.url, key) for key in (None, make_api("acme", "admin").key, make_api("acme").key)]
            assert [client.http.get("/metrics").status_code for client in clients] == [401, 403, 200]
            for client in clients:
                client.close()
        finally:
            assert server.stop(10)
            connections.stop()


class TestRights:
    """A key may do what its rights name, and no more."""

    def test_every_route_needs_a_right_of_its_own(
        self, api: Api, make_api: Callable[..., Api], database: Database
    ) -> None:
        """A key without any right gets 403 everywhere under /v1, and the answer names the right that is missing."""
        keys = Keys(database)
        _, secret = keys.create(keys.create_tenant("acme"), "none", [], actor="test")
        bare = Api(str(api.http.base_url), secret)
        document = api.get("/openapi.json")
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if operation["x-right"] == NOBODYS:  # about oneself, or a way in
                    assert path.startswith("/v1/session")
                    continue
                assert operation["x-right"] in SCOPES
                response = bare.http.request(method.upper(), filled(path))
                assert response.status_code == 403, f"{method} {path}: {response.text}"
                assert operation["x-right"] in response.json()["detail"]
        bare.close()

    def test_a_viewer_changes_nothing_and_sees_no_payload(self, make_api: Callable[..., Api], api: Api) -> None:
        """Every write is 403, but for views of one's own; a task is shown without its input."""
        viewer = make_api("acme", "viewer")
        made = api.submit("pair", {"topic": "secret"})
        for method, path in routes_of(api):
            if method != "GET" and not path.startswith(("/v1/session", "/v1/views")):
                assert viewer.http.request(method, filled(path), json={}).status_code == 403, path
        viewer.post("/v1/views", {"name": "for all", "query": "is:open", "shared": True}, 403)
        task = viewer.get(f"/v1/tasks/{made['task_id']}")
        assert task["input"] is None
        assert "secret" not in str(task)
        assert viewer.get(f"/v1/tasks/{made['task_id']}/input", 403)["code"] == "E-AUTH-03"
        assert viewer.get(f"/v1/tasks/{made['task_id']}/result", 403)["code"] == "E-AUTH-03"


class TestTenants:
    """What is somebody else's does not exist."""

    def test_ids_of_others_answer_like_ids_of_nothing(self, api: Api, other: Api, hand: Hand) -> None:
        """404 by every route that takes an id, with the same body as for an id that never was."""
        made = api.submit("strict", {"count": 2})
        hand.run(lambda lease: [1, 2] if lease.node == "begin" else RuntimeError() if lease.node == "part" else 1)
        step = api.get(f"/v1/tasks/{made['task_id']}/steps")["items"][0]
        mine = {"task_id": made["task_id"], "step_id": step["step_id"], "any_id": made["task_id"]}
        checked = 0
        for method, path in routes_of(api):
            if not (names := re.findall(r"\{(\w+)\}", path)) or names[0] not in mine:
                continue
            body: dict[str, Any] = {"json": {"reason": "x"}} if method == "POST" else {}
            if (method, path) == ("POST", "/v1/tasks/{task_id}/artifacts"):
                body["params"] = {"name": "x"}
            foreign = other.http.request(method, path.replace(f"{{{names[0]}}}", mine[names[0]]), **body)
            unknown = other.http.request(method, filled(path), **body)
            assert foreign.status_code == unknown.status_code == 404, f"{method} {path}: {foreign.text}"
            bodies = [response.json() for response in (foreign, unknown)]
            for found in bodies:
                found.pop("request_id")
            assert bodies[0] == bodies[1]
            checked += 1
        assert checked >= 6

    def test_lists_and_counts_hold_nothing_of_others(self, api: Api, make_api: Callable[..., Api]) -> None:
        """A new tenant sees empty lists whatever others have."""
        for n in range(5):
            api.submit("single", {"x": n}, tags=["canary"])
        empty = make_api("gamma")
        for path in ("/v1/tasks", "/v1/tasks?tag=canary", "/v1/dead-letters"):
            if path.split("?")[0] in {p for _, p in routes_of(api)}:
                assert empty.get(path)["items"] == [], path

    def test_a_key_and_its_tenant_are_one(self, api: Api, other: Api) -> None:
        """Neither a header nor a field says another tenant than the key does."""
        made = api.post(
            "/v1/tasks", {"workflow": "single", "input": {}}, 201, headers={"x-tenant": "beta", "ce_tenant": "beta"}
        )
        assert other.get(f"/v1/tasks/{made['task_id']}", 404)["code"] == "E-FIND-01"


class TestKeys:
    """What stands behind a key."""

    def test_a_revoked_or_expired_key_opens_nothing(self, url: str, database: Database) -> None:
        """401 from then on."""
        keys = Keys(database)
        tenant = keys.create_tenant("acme")
        key_id, secret = keys.create(tenant, "short", ROLES["viewer"], actor="test")
        _, old = keys.create(
            tenant, "old", ROLES["viewer"], expires_at=datetime.now(UTC) - timedelta(seconds=1), actor="test"
        )
        client, late = Api(url, secret), Api(url, old)
        assert client.get("/v1/tasks")
        keys.revoke(tenant, key_id, actor="test")
        assert client.get("/v1/tasks", 401)["code"] == "E-AUTH-02"
        assert late.get("/v1/tasks", 401)["code"] == "E-AUTH-02"
        client.close()
        late.close()

    def test_the_database_keeps_no_secret(self, database: Database, look: Any) -> None:
        """No column of any row holds the text of a key, or its bytes."""
        keys = Keys(database)
        _, secret = keys.create(keys.create_tenant("acme"), "hidden", ["task.read"], actor="test")
        found = look.execute("SELECT k::text FROM stanchion.api_key k UNION ALL SELECT a::text FROM stanchion.audit a")
        assert not [row for row in found if secret[4:20] in row[0]]

    def test_the_key_of_the_dev_profile_is_kept(self, database: Database, tmp_path: Any) -> None:
        """Made once, written for its owner alone, made anew when it no longer works."""
        path = tmp_path / "run" / "dev-key"
        secret = ensure_dev_key(database, "devs", keep_in=path)
        assert path.read_text().strip() == secret
        assert path.stat().st_mode & 0o777 == 0o600
        assert ensure_dev_key(database, "devs", keep_in=path) == secret
        assert ensure_dev_key(database, "devs", secret) == secret
        path.write_text("stn_nonsense\n")
        renewed = ensure_dev_key(database, "devs", keep_in=path)
        assert renewed != secret
        assert Keys(database).authenticate(renewed).tenant == "devs"


def test_ids_are_public_and_parse_back(api: Api) -> None:
    """An id that was shown is accepted by the routes, in any case and as a bare UUID."""
    made = api.submit("single", {})
    for form in (made["task_id"], made["task_id"].lower(), str(uuid_of(made["task_id"]))):
        assert api.get(f"/v1/tasks/{form}")["task_id"] == made["task_id"]
    for wrong in ("x", "run_" + made["task_id"][4:], made["task_id"] + "0", "' OR 1=1 --", "%00"):
        assert api.get(f"/v1/tasks/{wrong}", 422)["code"] == "E-DATA-11"
