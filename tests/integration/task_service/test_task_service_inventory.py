"""What stands beside the tasks: workflows, workers and who may drain them, keys, tenants."""

from __future__ import annotations

import base64
from collections.abc import Callable

from task_service_kit import Api, Hand, seen, seen_as

from stanchion.authority.keys import Keys
from stanchion.authority.leases import Leases, Reach
from stanchion.contracts import ids
from stanchion.contracts.ids import new_id
from stanchion.contracts.signing import new_key
from stanchion.db.engine import Database


class TestInventory:
    """Workflows and workers."""

    def test_workflows_are_listed_with_their_graphs(self, api: Api) -> None:
        """By name, page by page."""
        names, cursor = [], None
        while True:
            page = api.get("/v1/workflows", params={"limit": 2, **({"cursor": cursor} if cursor else {})})
            names += [(item["name"], item["version"]) for item in page["items"]]
            if (cursor := page["next"]) is None:
                break
        assert ("fan", 1) in names
        assert names == sorted(set(names))
        assert [n["name"] for n in api.get("/v1/workflows/fan")["graph"]["nodes"]] == ["split", "work", "total"]
        assert api.get("/v1/workflows/nowhere", 404)["code"] == "E-FIND-01"

    def test_a_worker_can_be_asked_to_drain(self, api: Api, hand: Hand, make_api: Callable[..., Api]) -> None:
        """It learns it at its next sign of life; one that is not there is 404; `running` counts one's own steps."""
        seen(hand)
        made = api.submit("single", {"x": 1})
        assert hand.lease_of(made)
        worker = next(w for w in api.get("/v1/workers")["items"] if w["name"] == "hand")
        assert worker["running"] >= 1
        stranger = make_api("delta")
        assert next(w for w in stranger.get("/v1/workers")["items"] if w["name"] == "hand")["running"] == 0
        answer = api.post(f"/v1/workers/{worker['worker_id']}/drain", None, 202)
        assert answer["drain_requested"] is True
        assert seen(hand) is True
        assert api.post(f"/v1/workers/{ids.public(ids.WORKER, new_id())}/drain", None, 404)["code"] == "E-FIND-01"

    def test_an_admin_of_a_tenant_drains_only_what_serves_it_alone(
        self, hand: Hand, database: Database, make_api: Callable[..., Api]
    ) -> None:
        """A worker of all tenants or of others is refused like one that is not there; its own one is asked."""
        admin, keys = make_api("zeta", "admin"), Keys(database)
        mine, others = keys.create_tenant("zeta"), keys.create_tenant("eta")
        reaches = {"all": None, "both": [mine, others], "others": [others], "own": [mine]}
        made = {name: Leases(hand.worker_db, new_id(), Reach(reach, [], []), 30_000) for name, reach in reaches.items()}
        for name, leases in made.items():
            seen_as(leases, name)
        for worker_id in (*(made[name].worker_id for name in ("all", "both", "others")), new_id()):
            answer = admin.post(f"/v1/workers/{ids.public(ids.WORKER, worker_id)}/drain", None, 403)
            assert "worker.operate" in answer["detail"]
        admin.post(f"/v1/workers/{ids.public(ids.WORKER, made['own'].worker_id)}/drain", None, 202)
        assert [name for name, leases in made.items() if seen_as(leases, name)] == ["own"]
        viewer = make_api("zeta", "viewer")
        viewer.post(f"/v1/workers/{ids.public(ids.WORKER, made['own'].worker_id)}/drain", None, 403)

    def test_a_tenant_sees_the_workers_that_serve_it(
        self, api: Api, hand: Hand, database: Database, make_api: Callable[..., Api]
    ) -> None:
        """Not those of others, and none with its host and pid; a key above tenants sees all of all."""
        keys = Keys(database)
        for name, reach in (("of-theta", [keys.create_tenant("theta")]), ("of-iota", [keys.create_tenant("iota")])):
            seen_as(Leases(hand.worker_db, new_id(), Reach(reach, [], []), 30_000), name)
        seen = {one["name"]: one for one in make_api("theta", "admin").get("/v1/workers")["items"]}
        assert "of-theta" in seen
        assert "of-iota" not in seen
        assert {(one["host"], one["pid"]) for one in seen.values()} == {(None, None)}
        above = {one["name"]: one for one in api.get("/v1/workers")["items"]}
        assert {"of-theta", "of-iota"} <= above.keys()
        assert (above["of-iota"]["host"], above["of-iota"]["pid"]) == ("here", 1)


class TestKeyRoutes:
    """Keys over HTTP."""

    def test_a_key_is_shown_once_and_works_until_revoked(self, api: Api, url: str) -> None:
        """Made with a role, listed without its secret, revoked at once."""
        made = api.post("/v1/keys", {"name": "web", "role": "operator"}, 201)
        client = Api(url, made["secret"])
        assert client.submit("single", {})["state"] == "accepted"
        assert client.get("/v1/keys", 403)["code"] == "E-AUTH-03"
        listed = [key for key in api.get("/v1/keys")["items"] if key["name"] == "web"]
        assert "secret" not in listed[0]
        assert api.post("/v1/keys", {"name": "web", "role": "viewer"}, 409)["code"] == "E-KEY-01"
        assert api.post(f"/v1/keys/{made['key_id']}/revoke")["revoked"] is True
        assert client.get("/v1/tasks", 401)["code"] == "E-AUTH-02"
        client.close()

    def test_nobody_gives_more_than_they_have(self, make_api: Callable[..., Api]) -> None:
        """An admin makes no platform key; unknown rights and empty keys are refused."""
        admin = make_api("acme", "admin")
        assert admin.post("/v1/keys", {"name": "up", "role": "platform"}, 403)["code"] == "E-AUTH-03"
        assert admin.post("/v1/keys", {"name": "up", "scopes": ["tenant.manage"]}, 403)["code"] == "E-AUTH-03"
        assert admin.post("/v1/keys", {"name": "up", "scopes": ["all"]}, 422)["where"] == "$.scopes"
        assert admin.post("/v1/keys", {"name": "up", "role": "root"}, 422)["where"] == "$.role"
        assert admin.post("/v1/keys", {"name": "up"}, 422)["where"] == "$.scopes"
        assert admin.post("/v1/tenants", {"name": "mine"}, 403)["code"] == "E-AUTH-03"

    def test_a_tenant_comes_with_the_key_of_its_admin(self, api: Api, url: str) -> None:
        """Once: its name is taken then."""
        made = api.post("/v1/tenants", {"name": "epsilon"}, 201)
        client = Api(url, made["key"]["secret"])
        assert client.get("/v1/tasks")["items"] == []
        assert api.post("/v1/tenants", {"name": "epsilon"}, 409)["code"] == "E-KEY-01"
        for bad in ("", " ", "a b", "x" * 65, "'; DROP TABLE", "-a", "é"):
            assert api.post("/v1/tenants", {"name": bad}, 422)["code"] == "E-DATA-15"
        client.close()

    def test_signing_keys_are_registered_and_revoked(self, api: Api, database: Database) -> None:
        """32 bytes in base64, an id that is free; listed with its rights."""
        body = {"key_id": "batch-1", "public_key": base64.b64encode(new_key()[1]).decode()}
        assert api.post("/v1/signing-keys", body, 201)["scopes"] == ["task.submit", "task.cancel"]
        assert api.post("/v1/signing-keys", body, 409)["code"] == "E-KEY-01"
        assert api.post("/v1/signing-keys", {**body, "public_key": "AAAA"}, 422)["where"] == "$.public_key"
        assert [key["key_id"] for key in api.get("/v1/signing-keys")["items"]] == ["batch-1"]
        assert api.post("/v1/signing-keys/batch-1/revoke") == {"revoked": True}
        assert api.post("/v1/signing-keys/nobody/revoke", None, 404)["code"] == "E-FIND-01"
