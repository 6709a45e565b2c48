"""Keys, people, sessions, webhooks and the tenant on pages: who sees them, what is done there, and secrets that stand once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import HOSTILE, Read, check_harmless
from kit.engine import Admin
from records_kit import SECRET, SignIn, send

from stanchion.authority.keys import ROLES, Keys
from stanchion.contracts import ids
from stanchion.db.engine import Database

RIGHTS = {"/keys": "keys.manage", "/people": "people.manage", "/webhooks": "webhook.manage"}


@pytest.fixture(scope="module")
def ann(sign_in: SignIn) -> httpx2.Client:
    """An admin's browser."""
    return sign_in("ann", "admin")


@pytest.fixture(scope="module")
def other(site: str, service: Database, tenants: dict[str, UUID]) -> Iterator[httpx2.Client]:
    """An admin's program of another tenant."""
    _, secret = Keys(service).create(tenants["other"], "theirs", ROLES["admin"], actor="test")
    with httpx2.Client(base_url=site, headers={"authorization": f"Bearer {secret}"}, timeout=30.0) as client:
        yield client


def made(browser: httpx2.Client, **fields: str) -> tuple[str, str, httpx2.Response]:
    """A key made by the form: its id, its secret, and the answer that shows it."""
    answer = send(browser, "key.create", "new", **fields)
    assert answer.status_code == 200, answer.text[:800]
    (secret,) = set(SECRET.findall(answer.text))
    return re.findall(r"key_[0-9A-Z]{26}", answer.text)[0], secret, answer


class TestKeys:
    """Keys."""

    def test_a_secret_stands_in_one_answer(self, ann: httpx2.Client, task_service: str) -> None:
        """It opens what was asked for, and stands in no page, address or cookie that comes before or after."""
        form = ann.get("/do/key.create/new")
        key, secret, answer = made(ann, name="shown-once", role="viewer")
        assert f'curl -H "Authorization: Bearer {secret}" {task_service}/v1/session' in Read.of(answer).text
        assert answer.headers["cache-control"] == "no-store"
        assert "content-encoding" not in answer.headers
        assert secret not in str(answer.headers)
        assert secret not in str(answer.url)
        assert (
            httpx2.get(f"{task_service}/v1/session", headers={"authorization": f"Bearer {secret}"}).status_code == 200
        )
        assert key in ann.get("/keys").text
        for page in (
            form,
            *(ann.get(path) for path in ("/keys", "/audit", "/", "/do/key.create/new", f"/do/key.revoke/{key}")),
        ):
            assert secret not in page.text
        assert secret not in str(list(ann.cookies.jar))

    def test_rights_and_an_end_as_words(self, ann: httpx2.Client) -> None:
        """Several rights between blanks or commas, an end, and what they allow in words."""
        made(ann, name="two-rights", scopes="task.submit, task.read", expires_at="2100-01-01T00:00:00Z")
        read = Read.of(ann.get("/keys"))
        check_harmless(read)
        assert "two-rights" in read.text
        assert "2 rights" in read.text
        assert "submit tasks" in read.text
        assert "2100-01-01 00:00:00 UTC" in read.text

    def test_a_revoked_key_stays_listed(self, ann: httpx2.Client, task_service: str) -> None:
        """What it is is said before; it opens nothing after."""
        key, secret, _ = made(ann, name=f"ends-{os.urandom(3).hex()}", role="viewer")
        asked = Read.of(ann.get(f"/do/key.revoke/{key}")).text
        assert "task.read, worker.read" in asked
        assert "can't be taken back" in asked
        assert send(ann, "key.revoke", key).status_code == 303
        assert (
            httpx2.get(f"{task_service}/v1/session", headers={"authorization": f"Bearer {secret}"}).status_code == 401
        )
        page = ann.get("/keys").text
        assert f"/do/key.revoke/{key}" not in page
        assert "revoked" in page

    @pytest.mark.parametrize(
        ("fields", "status", "says"),
        [
            ({"name": "none"}, 422, "without rights"),
            ({"name": "x", "scopes": "task.fly"}, 422, "no right"),
            ({"name": "", "role": "viewer"}, 422, "Name is missing"),
            ({"name": "x", "role": "viewer", "expires_at": "soon"}, 422, "E-"),
            ({"name": "x", "scopes": "tenant.manage"}, 403, "lacks the right tenant.manage"),
        ],
    )
    def test_what_is_refused_is_said_with_what_was_filled_in(
        self, ann: httpx2.Client, fields: dict[str, str], status: int, says: str
    ) -> None:
        """And nothing was made."""
        answer = send(ann, "key.create", "new", **fields)
        assert answer.status_code == status
        assert says in answer.text
        assert "Nothing was changed" in answer.text
        assert not SECRET.search(answer.text)
        for name in ("scopes", "expires_at"):
            assert fields.get(name, "") in answer.text

    def test_a_forged_form_makes_no_key(self, ann: httpx2.Client) -> None:
        """Without the token of the session, or from another site."""
        before = ann.get("/keys").text.count("data-key")
        body = {"name": "forged", "role": "admin"}
        assert ann.post("/do/key.create/new", data=body | {"csrf": "wrong"}).status_code == 403
        assert ann.post("/do/key.create/new", data=body, headers={"origin": "https://evil.example"}).status_code == 403
        assert ann.get("/keys").text.count("data-key") == before

    def test_pages_follow_each_other(self, other: httpx2.Client, service: Database, tenants: dict[str, UUID]) -> None:
        """Fifty at a time."""
        for n in range(55):
            Keys(service).create(tenants["other"], f"many-{n}", ["task.read"], actor="test")
        first = Read.of(other.get("/keys"))
        (older,) = [a["href"] or "" for a in first.named("a") if a.get("rel") == "next"]
        second = Read.of(other.get(older))
        rows = [[row["data-key"] for row in read.named("tr") if row.get("data-key")] for read in (first, second)]
        assert len(rows[0]) == 50
        assert len(rows[1]) >= 6
        assert not set(rows[0]) & set(rows[1])


class TestPeople:
    """People and teams."""

    def test_roles_teams_and_the_way_out(self, ann: httpx2.Client, sign_in: SignIn) -> None:
        """Each change is made by a form, and stands on the page."""
        bob = sign_in("bob", "viewer")
        assert bob.get("/people").status_code == 403
        assert send(ann, "person.role", "bob", role="operator", rights="payload.read").status_code == 303
        assert send(ann, "team.add", "editors", name="bob").status_code == 303
        read = Read.of(ann.get("/people"))
        check_harmless(read)
        assert "bob operator + payload.read editors" in read.text
        assert send(ann, "team.remove", "editors", name="bob").status_code == 303
        assert "editors" not in ann.get("/people").text.replace("stanchion team add editors ana", "")
        assert send(ann, "person.disable", "bob").status_code == 303
        assert "/do/person.enable/bob" in ann.get("/people").text
        assert "sign in" in bob.get("/tasks").text.lower() or bob.get("/tasks").status_code in (200, 401)
        assert send(ann, "person.enable", "bob").status_code == 303
        assert "/do/person.disable/bob" in ann.get("/people").text

    def test_a_role_that_is_none_is_refused(self, ann: httpx2.Client) -> None:
        """And somebody who is not there."""
        assert send(ann, "person.role", "ann", role="emperor").status_code == 422
        assert send(ann, "person.disable", "nobody").status_code == 404

    def test_hostile_names_stay_names(self, ann: httpx2.Client, admin: Admin, tenants: dict[str, UUID]) -> None:
        """Of people as a provider says them."""
        admin.execute(
            "UPDATE stanchion.person SET display_name = %s, email = %s WHERE name = 'ann' AND tenant_id = %s",
            (HOSTILE, "a@<script>", tenants["dev"]),
        )
        check_harmless(Read.of(ann.get("/people")))


class TestSessions:
    """One's own sessions."""

    def test_everybody_sees_and_ends_their_own(self, sign_in: SignIn) -> None:
        """A viewer too: the session ends with the next request."""
        cleo = sign_in("cleo", "viewer")
        page = cleo.get("/sessions").text
        (ses,) = set(re.findall(r"ses_[0-9A-Z]{26}", page))
        assert cleo.get("/sessions?of=all").status_code == 403
        assert send(cleo, "session.revoke", ses).status_code == 303
        assert ses not in cleo.get("/sessions").text

    def test_nobody_sees_those_of_others(self, sign_in: SignIn, ann: httpx2.Client) -> None:
        """But whoever looks after people, who can end them."""
        dora = sign_in("dora", "viewer")
        (ses,) = set(re.findall(r"ses_[0-9A-Z]{26}", dora.get("/sessions").text))
        assert ses not in ann.get("/sessions").text
        assert ses in ann.get("/sessions?of=all").text
        eve = sign_in("eve", "viewer")
        assert send(eve, "session.revoke", ses).status_code == 404
        assert ses in dora.get("/sessions").text
        assert send(ann, "session.revoke", ses).status_code == 303

    def test_a_neighbour_and_a_key_have_none(self, web: httpx2.Client, other: httpx2.Client) -> None:
        """The page says why."""
        for client in (web, other):
            assert "you have not signed in as one" in client.get("/sessions").text


class TestWebhooks:
    """Whom we call."""

    def test_one_is_added_paused_resumed_and_removed(self, ann: httpx2.Client) -> None:
        """Its secret stands in one answer."""
        answer = send(ann, "webhook.add", "new", url="http://127.0.0.1:9/hook", events="task.failed task.completed")
        assert answer.status_code == 200, answer.text[:600]
        (whk,) = set(re.findall(r"whk_[0-9A-Z]{26}", answer.text))
        (secret,) = set(re.findall(r"whs_[A-Za-z0-9_-]{43}", answer.text))
        page = ann.get("/webhooks")
        check_harmless(Read.of(page))
        assert "task.failed" in page.text
        assert secret not in page.text
        assert send(ann, "webhook.pause", whk).status_code == 303
        assert f"/do/webhook.resume/{whk}" in ann.get("/webhooks").text
        assert send(ann, "webhook.resume", whk).status_code == 303
        assert send(ann, "webhook.remove", whk).status_code == 303
        assert whk not in ann.get("/webhooks").text

    def test_filters_of_calls(self, ann: httpx2.Client) -> None:
        """A filter that matches nothing can be dropped; nonsense is refused."""
        assert "No call fits" in ann.get("/webhooks?state=failed").text
        assert ann.get("/webhooks?state=lost").status_code == 422
        assert ann.get("/webhooks?webhook=xyz").status_code == 422


class TestTenant:
    """What the tenant has."""

    def test_counts_and_limits(self, ann: httpx2.Client) -> None:
        """How many keys work, how many people there are, what can be run into."""
        read = Read.of(ann.get("/tenant"))
        check_harmless(read)
        assert "Tenant dev" in read.text
        assert "children of a fan-out 100,000" in read.text
        assert "a payload in its row 64 KiB" in read.text
        assert "/people" in [a.get("href") for a in read.named("a")]

    def test_counts_of_people_are_hidden_by_role(self, sign_in: SignIn) -> None:
        """And said to be."""
        text = Read.of(sign_in("vera", "viewer").get("/tenant")).text
        assert "hidden by role: needs people.manage" in text


class TestRights:
    """Who sees what."""

    @pytest.mark.parametrize("role", ["viewer", "operator", "approver"])
    @pytest.mark.parametrize(("path", "right"), list(RIGHTS.items()))
    def test_only_admins_see_them(self, sign_in: SignIn, role: str, path: str, right: str) -> None:
        """Others are told which right it takes and which roles have it; no link leads there."""
        browser = sign_in(f"r-{role}", role)
        refused = browser.get(path)
        assert (refused.status_code, right in refused.text, "admin" in refused.text) == (403, True, True)
        links = [a.get("href") for a in Read.of(browser.get("/artifacts")).named("a")]
        assert path not in links
        assert "/sessions" in links

    def test_what_is_another_tenants_is_not_there(self, ann: httpx2.Client, other: httpx2.Client) -> None:
        """On lists, and for acts on it."""
        key, _, _ = made(ann, name=f"mine-{os.urandom(3).hex()}", role="viewer")
        assert key not in other.get("/keys").text
        assert other.get(f"/do/key.revoke/{key}").status_code == 404
        assert "ann" not in [text.strip() for text in Read.of(other.get("/people")).texts]

    def test_viewers_can_read_the_words_and_the_keys_of_the_keyboard(self, sign_in: SignIn) -> None:
        """These are nobody's secret."""
        for path in ("/words", "/keyboard"):
            assert sign_in("vera", "viewer").get(path).status_code == 200

    def test_a_key_that_is_not_there(self, ann: httpx2.Client) -> None:
        """404 for its act."""
        assert ann.get(f"/do/key.revoke/{ids.public(ids.KEY, ids.new_id())}").status_code == 404
