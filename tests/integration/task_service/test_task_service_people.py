"""People: getting in and out, roles that hold at once, what a browser must show, and nothing across tenants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from task_service_kit import Api, Hand

from services.task_service.settings import TaskServiceSettings
from stanchion.authority.keyring import COOKIE
from stanchion.authority.keys import ROLES, SCOPES, Keys
from stanchion.authority.people import People
from stanchion.db.engine import Database
from stanchion.errors import Unauthenticated

CANARY = "canary-4711"
BROKE = "it broke"  # what the hand says of a step that failed


@pytest.fixture
def browser(url: str) -> Iterator[httpx2.Client]:
    """A browser that has signed in as bo: it keeps the cookie."""
    with httpx2.Client(base_url=url, timeout=20.0) as client:
        made = client.post("/v1/session/dev", json={"name": "bo", "kind": "browser"})
        assert made.status_code == 201
        client.headers["x-csrf-token"] = made.json()["csrf_token"]
        yield client


class TestDevLogin:
    """At this machine anybody gets in, under any name."""

    def test_the_first_sign_in_makes_the_person(self, sign_in: Callable[..., Api]) -> None:
        """The role is that of the first time; the rights are those of the role."""
        ana = sign_in("ana", "operator")
        who = ana.get("/v1/session")
        assert (who["subject"], who["tenant"], who["role"]) == ("person:ana", "dev", "operator")
        assert set(who["rights"]) == set(ROLES["operator"])
        assert who["csrf_token"] is None
        again = sign_in("ana", "admin")
        assert again.get("/v1/session")["role"] == "operator"
        assert len(ana.get("/v1/sessions")["items"]) == 2

    @pytest.mark.parametrize("name", ["", "Ana", "a b", "-a", "a" * 65, "ana\n", "é", "key:x", "../x"])
    def test_what_is_no_name_is_refused(self, nobody: Api, name: str) -> None:
        """422, and nothing is made."""
        nobody.post("/v1/session/dev", {"name": name}, 422)

    def test_nobody_becomes_platform(self, nobody: Api) -> None:
        """The dev login gives rights within a tenant only, and takes no field that it does not know."""
        nobody.post("/v1/session/dev", {"name": "eve", "role": "platform"}, 422)
        nobody.post("/v1/session/dev", {"name": "eve", "rights": ["tenant.manage"]}, 422)
        nobody.post("/v1/session/dev", {"name": "eve", "tenant": "acme"}, 422)

    @pytest.mark.parametrize(
        "headers",
        [
            {"host": "evil.example"},
            {"host": "127.0.0.1.evil.example"},
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
        ],
    )
    def test_a_foreign_page_signs_nobody_in(self, nobody: Api, headers: dict[str, str]) -> None:
        """Neither from its own site, nor under a name that it made point here."""
        nobody.post("/v1/session/dev", {"name": "eve"}, 403, headers=headers)

    def test_twenty_first_sign_ins_at_once_make_one_person(
        self, url: str, sign_in: Callable[..., Api], database: Database
    ) -> None:
        """All of them get in."""
        answers: list[int] = []

        def begin() -> None:
            answers.append(httpx2.post(f"{url}/v1/session/dev", json={"name": "many"}, timeout=30.0).status_code)

        threads = [threading.Thread(target=begin) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [201] * 20
        people = sign_in("ana-2").get("/v1/people?limit=1000")["items"]
        assert [one["name"] for one in people].count("many") == 1

    def test_it_is_not_there_in_production_or_beyond_loopback(self, settings: TaskServiceSettings) -> None:
        """The setting that opens it is the profile and the address together."""
        assert settings.dev_login
        assert not settings.model_copy(update={"http_host": "0.0.0.0"}).dev_login
        assert not settings.model_copy(update={"profile": "production"}).dev_login


class TestSessions:
    """What opens a session, and what ends it."""

    def test_a_session_ends_by_sign_out_and_by_revoking(self, sign_in: Callable[..., Api]) -> None:
        """401 from then on."""
        one, two = sign_in("sam"), sign_in("sam")
        other = two.get("/v1/session")["session_id"]
        assert one.post("/v1/session/end")["revoked"]
        one.get("/v1/session", 401)
        three = sign_in("sam")
        three.post(f"/v1/sessions/{other}/revoke")
        two.get("/v1/tasks", 401)

    def test_a_session_runs_out(self, sign_in: Callable[..., Api], look: Any) -> None:
        """At its end, and when nobody used it for long enough."""
        late, idle = sign_in("lou"), sign_in("lou")
        newest = "SELECT max(session_id::text)::uuid FROM stanchion.session WHERE revoked_at IS NULL"
        change = f"UPDATE stanchion.session SET {{}} WHERE session_id = ({newest} {{}})"
        look.execute(change.format("used_at = clock_timestamp() - interval '5 hours'", ""))
        idle.get("/v1/session", 401)
        look.execute(
            change.format("expires_at = clock_timestamp()", "AND used_at > clock_timestamp() - interval '1 hour'")
        )
        late.get("/v1/session", 401)

    def test_the_database_keeps_no_token(self, sign_in: Callable[..., Api], look: Any) -> None:
        """Neither in the sessions nor in the audit log."""
        api = sign_in("kim")
        assert api.key
        for table in ("session", "audit", "person"):
            for row in look.execute(f"SELECT t::text FROM stanchion.{table} t"):
                assert api.key[4:20] not in row[0]

    def test_kinds_of_sessions_don_t_open_each_other_s_doors(
        self, url: str, sign_in: Callable[..., Api], browser: httpx2.Client, database: Database
    ) -> None:
        """A browser's cookie is no bearer token, a token of the command line no cookie."""
        token, cookie = sign_in("bo").key, browser.cookies[COOKIE]
        assert httpx2.get(f"{url}/v1/session", cookies={COOKIE: str(token)}).status_code == 401
        assert httpx2.get(f"{url}/v1/session", headers={"authorization": f"Bearer {cookie}"}).status_code == 401
        with pytest.raises(Unauthenticated):
            People(database).authenticate(cookie, "cli")

    @pytest.mark.parametrize("token", ["sts_", "sts_" + "A" * 43, "sts_" + "!" * 43, "stn_" + "A" * 43, "x" * 5000])
    def test_what_is_no_session_opens_nothing(self, url: str, token: str) -> None:
        """As a bearer token and as a cookie."""
        assert httpx2.get(f"{url}/v1/session", headers={"authorization": f"Bearer {token}"}).status_code == 401
        assert httpx2.get(f"{url}/v1/session", headers={"cookie": f"{COOKIE}={token}"}).status_code == 401

    def test_one_s_own_sessions_are_one_s_own(self, sign_in: Callable[..., Api], api: Api) -> None:
        """Somebody without people.manage neither lists nor ends those of others."""
        vera, admin = sign_in("vera", "viewer"), sign_in("root-2")
        theirs = admin.get("/v1/session")["session_id"]
        vera.post(f"/v1/sessions/{theirs}/revoke", status=404)
        vera.get("/v1/sessions?everybody=true", 403)
        assert {row["name"] for row in vera.get("/v1/sessions")["items"]} == {"vera"}
        assert {row["name"] for row in admin.get("/v1/sessions?everybody=true")["items"]} >= {"vera", "root-2"}
        api.post(f"/v1/sessions/{theirs}/revoke", status=404)  # of another tenant, with every right in its own
        api.post("/v1/session/end", status=422)


class TestBrowsers:
    """A cookie alone changes nothing."""

    def test_the_cookie_is_strict(self, url: str) -> None:
        """No script reads it and no other site sends it; with TLS it carries a name that no neighbour can set."""
        made = httpx2.post(f"{url}/v1/session/dev", json={"name": "bo", "kind": "browser"})
        cookie = made.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/"))
        assert "token" not in made.json()
        assert made.headers["cache-control"] == "no-store"

    def test_reading_needs_the_cookie_alone(self, browser: httpx2.Client) -> None:
        """And gives the token for what changes something."""
        del browser.headers["x-csrf-token"]
        found = browser.get("/v1/session")
        assert found.status_code == 200
        assert found.json()["csrf_token"]
        assert browser.get("/v1/tasks").status_code == 200

    @pytest.mark.parametrize("token", [None, "", "x", "A" * 43])
    def test_a_change_needs_the_token_beside_it(self, browser: httpx2.Client, token: str | None) -> None:
        """403 without it, or with any other."""
        del browser.headers["x-csrf-token"]
        headers = {} if token is None else {"x-csrf-token": token}
        refused = browser.post("/v1/tasks", json={"workflow": "single", "input": {}}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "E-AUTH-07")

    def test_the_token_of_another_session_is_another(self, browser: httpx2.Client, url: str) -> None:
        """Also of the same person."""
        other = httpx2.post(f"{url}/v1/session/dev", json={"name": "bo", "kind": "browser"}).json()["csrf_token"]
        refused = browser.post("/v1/session/end", headers={"x-csrf-token": other})
        assert refused.status_code == 403

    @pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
    def test_another_site_changes_nothing_with_the_right_token(
        self, browser: httpx2.Client, headers: dict[str, str]
    ) -> None:
        """The browser says where it comes from."""
        assert browser.post("/v1/session/end", headers=headers).status_code == 403

    def test_with_both_it_works(self, browser: httpx2.Client, url: str) -> None:
        """From its own site; signing out takes the cookie away."""
        made = browser.post("/v1/tasks", json={"workflow": "single", "input": {}}, headers={"origin": url})
        assert made.status_code == 201
        ended = browser.post("/v1/session/end")
        assert ended.status_code == 200
        assert "max-age=0" in ended.headers["set-cookie"].lower()
        assert browser.get("/v1/session").status_code == 401


class TestRoles:
    """What a person may do changes at once, and nobody gives more than they have."""

    def test_a_role_holds_from_the_next_request_on(self, sign_in: Callable[..., Api]) -> None:
        """For sessions that are open."""
        admin, pat = sign_in("root"), sign_in("pat", "viewer")
        pat.submit("single", {}, 403)
        admin.post("/v1/people/pat/role", {"role": "operator"})
        pat.submit("single", {})
        admin.post("/v1/people/pat/role", {"role": "approver"})
        pat.submit("single", {}, 403)
        assert "approval.decide" in pat.get("/v1/session")["rights"]

    def test_nobody_gives_or_takes_more_than_they_have(
        self, sign_in: Callable[..., Api], make_api: Callable[..., Api]
    ) -> None:
        """An admin makes nobody platform, and touches nobody who is."""
        admin = sign_in("root")
        sign_in("max", "viewer")
        admin.post("/v1/people/max/role", {"role": "platform"}, 403)
        make_api("dev", "platform").post("/v1/people/max/role", {"role": "platform"})
        admin.post("/v1/people/max/role", {"role": "viewer"}, 403)
        admin.post("/v1/people/max/disable", status=403)
        make_api("dev", "platform").post("/v1/people/max/role", {"role": "viewer"})
        for wrong in ({"role": "god"}, {"role": "viewer", "rights": ["tenant.manage"]}, {"role": "viewer", "x": 1}):
            admin.post("/v1/people/max/role", wrong, 422)
        admin.post("/v1/people/nobody-at-all/role", {"role": "viewer"}, 404)

    def test_who_is_disabled_is_out_at_once(self, sign_in: Callable[..., Api], nobody: Api) -> None:
        """Their sessions have ended, and they can't sign in before somebody lets them."""
        admin, tom = sign_in("root"), sign_in("tom")
        admin.post("/v1/people/tom/disable")
        tom.get("/v1/session", 401)
        assert nobody.post("/v1/session/dev", {"name": "tom"}, 403)["code"] == "E-PERSON-01"
        admin.post("/v1/people/tom/enable")
        tom.get("/v1/session", 401)
        assert sign_in("tom").get("/v1/session")["name"] == "tom"

    def test_teams_are_part_of_who_one_is(self, sign_in: Callable[..., Api]) -> None:
        """From the next request on."""
        admin, eda = sign_in("root"), sign_in("eda", "viewer")
        admin.post("/v1/teams/editors/add", {"name": "eda"})
        assert eda.get("/v1/session")["teams"] == ["editors"]
        teams = {row["team"]: row["members"] for row in admin.get("/v1/teams")["items"]}
        assert "eda" in teams["editors"]
        admin.post("/v1/teams/editors/remove", {"name": "eda"})
        assert eda.get("/v1/session")["teams"] == []
        admin.post("/v1/teams/Not a team/add", {"name": "eda"}, 422)
        admin.post("/v1/teams/editors/add", {"name": "no-such"}, 404)

    @pytest.mark.parametrize("role", ["viewer", "operator", "approver"])
    def test_only_admins_manage(self, sign_in: Callable[..., Api], role: str) -> None:
        """403 for people, teams, keys, webhooks and the audit log."""
        somebody = sign_in(f"some-{role}", role)
        for path in ("/v1/people", "/v1/teams", "/v1/keys", "/v1/webhooks", "/v1/webhook-deliveries", "/v1/audit"):
            somebody.get(path, 403)
        somebody.post(f"/v1/people/some-{role}/role", {"role": "admin"}, 403)
        somebody.post("/v1/teams/editors/add", {"name": f"some-{role}"}, 403)

    def test_an_admin_of_another_tenant_sees_nobody(self, sign_in: Callable[..., Api], other: Api) -> None:
        """Lists hold nothing of theirs, and their names answer like names of nobody."""
        sign_in(CANARY)
        for path in ("/v1/people", "/v1/teams", "/v1/sessions?everybody=true", "/v1/audit", "/v1/webhooks"):
            assert CANARY not in str(other.get(path))
        foreign = other.post(f"/v1/people/{CANARY}/role", {"role": "viewer"}, 404)
        unknown = other.post("/v1/people/never-was/role", {"role": "viewer"}, 404)
        assert {k: v for k, v in foreign.items() if k != "request_id"} == {
            k: v for k, v in unknown.items() if k != "request_id"
        }

    def test_keys_keep_their_rights(self, database: Database) -> None:
        """Every role's rights exist."""
        assert {scope for role in ROLES.values() for scope in role} == set(SCOPES)
        assert Keys(database)


class TestPayloads:
    """Who lacks payload.read sees none, anywhere, and that there was one."""

    def test_a_viewer_sees_no_payload_and_is_told(
        self, sign_in: Callable[..., Api], hand: Hand, make_api: Callable[..., Api]
    ) -> None:
        """Input, result, progress, texts of errors: in tasks, steps, lists, reasons and events."""
        admin, vera = make_api("dev", "platform"), sign_in("vera", "viewer")
        made = admin.submit("pair", {"topic": CANARY})
        hand.run(lambda lease: RuntimeError(CANARY), made)
        task_id = made["task_id"]
        step_id = admin.get(f"/v1/tasks/{task_id}/steps")["items"][0]["step_id"]
        paths = ("/v1/tasks", f"/v1/tasks/{task_id}", f"/v1/steps/{step_id}", f"/v1/tasks/{task_id}/why")
        streamed = {"follow": "false"}
        for path in paths:
            shown = str(vera.get(path))
            assert CANARY not in shown, path
            assert BROKE not in shown, path
        events = vera.http.get(f"/v1/tasks/{task_id}/events", params=streamed).text
        assert "StepFailed" in events
        assert BROKE not in events
        assert vera.get(f"/v1/tasks/{task_id}")["withheld"] == ["input", "constraints"]
        step = vera.get(f"/v1/steps/{step_id}")
        assert step["withheld"] == ["input", "result"]
        error = step["attempt_list"][0]["error"]
        assert error["withheld"] is True
        assert error["code"].startswith("E-")
        assert vera.get(f"/v1/tasks/{task_id}/input", 403)["code"] == "E-AUTH-03"
        # and whoever may see it does
        assert CANARY in str(admin.get(f"/v1/tasks/{task_id}"))
        assert BROKE in str(admin.get(f"/v1/steps/{step_id}"))
        assert BROKE in admin.http.get(f"/v1/tasks/{task_id}/events", params=streamed).text

    def test_payloads_are_a_right_of_their_own(self, sign_in: Callable[..., Api], make_api: Callable[..., Api]) -> None:
        """A viewer who was given it sees them, and still changes nothing."""
        admin, pia = make_api("dev", "platform"), sign_in("pia", "viewer")
        task_id = admin.submit("pair", {"topic": CANARY})["task_id"]
        admin.post("/v1/people/pia/role", {"role": "viewer", "rights": ["payload.read"]})
        assert CANARY in str(pia.get(f"/v1/tasks/{task_id}/input"))
        assert pia.get(f"/v1/tasks/{task_id}")["withheld"] == []
        pia.submit("single", {}, 403)
