"""The audit log: every act of people and keys leaves an entry, and whoever changes one is found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from kit.databases import Databases
from task_service_kit import Api, Hand

from stanchion.authority.audit import PAGE, Audit, AuditFilter, Walk, heads_of, heads_text
from stanchion.db.engine import Database, login_url
from stanchion.db.grants import TASK_SERVICE
from stanchion.errors import Unprocessable


def verify(api: Api, anchor: str | None = None) -> Any:
    """The whole walk, part by part."""
    cursor = None
    while True:
        query = {name: value for name, value in (("anchor", anchor), ("cursor", cursor)) if value is not None}
        part = api.get("/v1/audit/verify", params=query)
        cursor = part["next"]
        if cursor is None:
            return part


class TestActs:
    """What somebody did stands there, with who it was."""

    def test_every_act_leaves_an_entry(self, make_api: Callable[..., Api], hand: Hand, nobody: Api, url: str) -> None:
        """Submitting, steering, keys, people, teams, webhooks, sessions, tenants."""
        boss = make_api("audited", "platform")
        done = boss.submit("pair", {"topic": "a"})["task_id"]
        boss.post("/v1/tasks/bulk", {"tasks": [{"workflow": "single"}, {"workflow": "single"}]})
        boss.post(f"/v1/tasks/{done}/pause")
        boss.post(f"/v1/tasks/{done}/resume")
        boss.post(f"/v1/tasks/{done}/cancel", {"reason": "enough"}, 202)
        hand.sweep()
        boss.post(f"/v1/tasks/{done}/retry", status=201)
        key = boss.post("/v1/keys", {"name": "k", "role": "viewer"}, 201)
        boss.post(f"/v1/keys/{key['key_id']}/revoke")
        public = "A" * 43 + "="
        boss.post("/v1/signing-keys", {"key_id": "s", "public_key": public}, 201)
        boss.post("/v1/signing-keys/s/revoke")
        boss.post("/v1/tenants", {"name": "born"}, 201)
        hook = boss.post("/v1/webhooks", {"url": "http://127.0.0.1:9/x", "events": ["*"]}, 201)["webhook_id"]
        for act in ("pause", "resume", "remove"):
            boss.post(f"/v1/webhooks/{hook}/{act}")
        entries = boss.get("/v1/audit?limit=1000")["items"]
        assert {entry["action"] for entry in entries} >= {
            "task.submit", "task.pause", "task.resume", "task.cancel", "task.retry", "key.create", "key.revoke",
            "signing_key.create", "signing_key.revoke", "tenant.create",
            "webhook.create", "webhook.pause", "webhook.resume", "webhook.remove",
        }  # fmt: skip
        ours = boss.get(f"/v1/audit?target={done}")["items"]  # the id as it is shown
        assert [entry["action"] for entry in ours] == [
            "task.retry", "task.cancel", "task.resume", "task.pause", "task.submit",
        ]  # fmt: skip
        assert {entry["actor"] for entry in entries if not entry["action"].startswith("key.create")} == {
            "key:platform-0"
        }
        submitted = [entry for entry in entries if entry["action"] == "task.submit"]
        assert sorted(len(entry["detail"]["tasks"]) for entry in submitted) == [1, 2]
        assert verify(boss)["intact"]

    def test_acts_of_people_name_them(self, url: str, nobody: Api) -> None:
        """From their first sign-in on."""
        token = nobody.post("/v1/session/dev", {"name": "ann"}, 201)["token"]
        ann = Api(url, token)
        nobody.post("/v1/session/dev", {"name": "new"}, 201)
        ann.post("/v1/people/new/role", {"role": "viewer"})
        ann.post("/v1/teams/crew/add", {"name": "new"})
        ann.post("/v1/people/new/disable")
        ann.post("/v1/session/end")
        other = Api(url, nobody.post("/v1/session/dev", {"name": "ann"}, 201)["token"])
        found = other.get("/v1/audit", params={"actor": "person:ann", "limit": 1000})["items"]
        wanted = {"session.open", "person.role", "team.add", "person.disable", "session.close"}
        assert {entry["action"] for entry in found} >= wanted
        changed = next(entry for entry in found if entry["action"] == "person.role")
        assert (changed["detail"]["before"], changed["detail"]["after"]) == ("admin", "viewer")
        ann.close()
        other.close()

    def test_what_changed_nothing_leaves_nothing(self, make_api: Callable[..., Api]) -> None:
        """The same submission again, the same role again, a refused act."""
        boss = make_api("quiet", "platform")
        boss.submit("single", {}, idempotency_key="same")
        before = len(boss.get("/v1/audit")["items"])
        boss.submit("single", {}, 200, idempotency_key="same")
        boss.post("/v1/keys", {"name": "none"}, 422)
        make_api("quiet", "viewer")
        assert len(boss.get("/v1/audit")["items"]) == before + 1  # the key of the viewer

    def test_filters_and_pages(self, make_api: Callable[..., Api]) -> None:
        """Newest first, page by page, each once."""
        boss = make_api("paged", "platform")
        for n in range(5):
            boss.submit("single", {}, tags=[str(n)])
        first = boss.get("/v1/audit", params={"action": "task.submit", "limit": 3})
        rest = boss.get("/v1/audit", params={"action": "task.submit", "limit": 3, "cursor": first["next"]})
        entries = [entry["entry"] for entry in [*first["items"], *rest["items"]]]
        assert len(entries) == 5
        assert entries == sorted(entries, reverse=True)
        assert rest["next"] is None
        boss.get("/v1/audit", 422, params={"cursor": "x"})
        boss.get("/v1/audit/verify", 422, params={"cursor": "9/0//"})
        boss.get("/v1/audit/verify", 422, params={"anchor": "1:2"})

    def test_a_tenant_sees_its_own_alone(self, make_api: Callable[..., Api], api: Api) -> None:
        """Neither entries nor counts of another."""
        fresh = make_api("lonely", "admin")
        assert {entry["action"] for entry in fresh.get("/v1/audit")["items"]} == {"key.create"}
        assert verify(fresh)["checked"] == 1


Broken = tuple[psycopg.Connection[Any], Audit, UUID, list[int]]
"""A superuser with triggers switched off, the log, a tenant, and the numbers of its 40 entries, from place 1 on."""


@pytest.fixture(scope="module")
def chained_url(databases: Databases) -> Iterator[str]:
    """A database with chains of its own, to be broken."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def broken(chained_url: str) -> Iterator[Broken]:
    """A superuser's connection with triggers switched off, the log, and a tenant with 40 entries in two lanes."""
    database = Database(login_url(chained_url, TASK_SERVICE), name="test", pool_size=1)
    with psycopg.connect(chained_url, autocommit=True) as admin:
        tenant = UUID(int=admin.execute("SELECT count(*) FROM stanchion.audit").fetchone()[0] + 1)  # type: ignore[index]  # one row
        admin.execute(
            "INSERT INTO stanchion.audit (tenant_id, lane, actor, action, target, detail)"
            " SELECT %s, n %% 2, 'key:a', 'test', n::text, jsonb_build_object('n', n) FROM generate_series(1, 40) n",
            (tenant,),
        )
        ids = admin.execute(
            "SELECT audit_id FROM stanchion.audit WHERE tenant_id = %s ORDER BY 1", (tenant,)
        ).fetchall()
        admin.execute("ALTER TABLE stanchion.audit ALTER audit_id SET GENERATED BY DEFAULT")
        admin.execute("SET session_replication_role = replica")
        yield admin, Audit(database), tenant, [0, *(row[0] for row in ids)]
    database.close()


def walked(audit: Audit, tenant: UUID, anchor: str | None = None) -> Walk:
    """The walk to its end."""
    walk = Walk()
    while not walk.done:
        audit.go_on(tenant, walk, heads_of(anchor, "test"))
    return walk


class TestBrokenChains:
    """A superuser who switches the triggers off is found out."""

    @pytest.mark.parametrize(
        "act",
        [
            "UPDATE stanchion.audit SET detail = '{\"n\": 0}' WHERE {e}",
            "UPDATE stanchion.audit SET actor = 'key:b' WHERE {e}",
            "UPDATE stanchion.audit SET action = 'tes', target = 't' || target WHERE {e}",
            "UPDATE stanchion.audit SET at = at + interval '1 us' WHERE {e}",
            "UPDATE stanchion.audit SET lane = 1 - lane WHERE {e}",
            "UPDATE stanchion.audit SET hash = sha256(hash) WHERE {e}",
            "UPDATE stanchion.audit SET detail = NULL, hash = hash WHERE false AND {e}",
        ],
    )
    @pytest.mark.parametrize("place", [1, 17, 40])
    def test_an_edited_entry_is_named(self, broken: Broken, act: str, place: int) -> None:
        """Whatever field it was; entries around it don't hide it."""
        admin, audit, tenant, entries = broken
        entry = entries[place]
        admin.execute(act.replace("{e}", f"audit_id = {entry}"))  # type: ignore[arg-type]  # our own text
        fault = walked(audit, tenant).fault
        if "false" in act:
            assert fault is None
            return
        assert fault is not None
        assert fault.entry == entry or ("lane" in act and fault.entry >= entry)

    @pytest.mark.parametrize("place", [1, 2, 20, 38])
    def test_a_removed_entry_is_missed_at_the_next_one(self, broken: Broken, place: int) -> None:
        """Also the first of a lane."""
        admin, audit, tenant, entries = broken
        entry, following = entries[place], entries[place + 2]
        admin.execute("DELETE FROM stanchion.audit WHERE audit_id = %s", (entry,))
        fault = walked(audit, tenant).fault
        assert fault is not None
        assert fault.entry == following

    def test_an_entry_put_between_two_is_named(self, broken: Broken) -> None:
        """Also one whose own hash is right, at the place of one that was removed."""
        admin, audit, tenant, entries = broken
        entry = entries[21]
        admin.execute("DELETE FROM stanchion.audit WHERE audit_id = %s", (entry,))
        admin.execute(
            "INSERT INTO stanchion.audit (tenant_id, lane, audit_id, at, actor, action, target, detail, previous_hash, hash)"
            " SELECT tenant_id, lane, %(e)s, at, 'key:evil', action, target, detail, hash,"
            "  sha256(hash || convert_to(stanchion.audit_text(tenant_id, lane, %(e)s, at, 'key:evil', action, target, detail), 'UTF8'))"
            " FROM stanchion.audit WHERE audit_id = %(before)s",
            {"e": entry, "before": entries[19]},
        )
        fault = walked(audit, tenant).fault
        assert fault is not None
        assert fault.entry == entries[23]

    def test_two_entries_that_changed_places_are_named(self, broken: Broken) -> None:
        """Their numbers are part of what is hashed."""
        admin, audit, tenant, entries = broken
        one, two = entries[11], entries[13]
        for before, after in ((one, -1), (two, one), (-1, two)):
            admin.execute("UPDATE stanchion.audit SET audit_id = %s WHERE audit_id = %s", (after, before))
        fault = walked(audit, tenant).fault
        assert fault is not None
        assert fault.entry == one

    def test_an_end_that_was_cut_off_is_found_with_an_anchor(self, broken: Broken) -> None:
        """And only with one: what is left is a whole chain."""
        admin, audit, tenant, entries = broken
        anchor = heads_text(walked(audit, tenant).heads)
        assert walked(audit, tenant, anchor).fault is None
        last = entries[40]
        admin.execute("DELETE FROM stanchion.audit WHERE audit_id = %s", (last,))
        assert walked(audit, tenant).fault is None
        fault = walked(audit, tenant, anchor).fault
        assert fault is not None
        assert fault.entry == last
        admin.execute("DELETE FROM stanchion.audit WHERE tenant_id = %s", (tenant,))
        assert walked(audit, tenant, anchor).fault is not None

    def test_a_chain_written_anew_is_found_with_an_anchor(self, broken: Broken) -> None:
        """Each of its entries fits the one before it."""
        admin, audit, tenant, _entries = broken
        anchor = heads_text(walked(audit, tenant).heads)
        admin.execute("CREATE TEMP TABLE kept AS SELECT * FROM stanchion.audit WHERE tenant_id = %s", (tenant,))
        admin.execute("DELETE FROM stanchion.audit WHERE tenant_id = %s", (tenant,))
        admin.execute("SET session_replication_role = origin")
        admin.execute(
            "INSERT INTO stanchion.audit (tenant_id, lane, actor, action, target, detail)"
            " SELECT tenant_id, lane, 'key:evil', action, target, detail FROM kept ORDER BY audit_id"
        )
        assert walked(audit, tenant).fault is None
        assert walked(audit, tenant, anchor).fault is not None

    def test_the_log_grows_after_an_anchor(self, broken: Broken) -> None:
        """That is no fault."""
        admin, audit, tenant, _entries = broken
        anchor = heads_text(walked(audit, tenant).heads)
        admin.execute("SET session_replication_role = origin")
        admin.execute("SELECT stanchion.note_act(%s, 'key:a', 'test', 'more', '{}')", (tenant,))
        assert walked(audit, tenant, anchor).fault is None

    def test_a_walk_goes_on_from_page_to_page(self, broken: Broken) -> None:
        """It keeps a head for each lane and nothing else, however long the log is."""
        admin, audit, tenant, _entries = broken
        admin.execute("SET session_replication_role = origin")
        admin.execute(
            "INSERT INTO stanchion.audit (tenant_id, actor, action, target, detail)"
            " SELECT %s, 'key:a', 'test', n::text, '{}' FROM generate_series(1, %s) n",
            (tenant, 2 * PAGE + 1),
        )
        walk, parts = Walk(), 0
        while not walk.done:
            audit.go_on(tenant, walk, {}, most=PAGE)
            parts += 1
        assert walk.fault is None
        assert walk.checked == 40 + 2 * PAGE + 1
        assert parts >= 3
        assert len(walk.heads) == 2


def test_texts_can_not_be_shifted_between_fields(broken: Broken) -> None:
    """Two entries whose fields run together to one text have different hashes."""
    admin, _, tenant, _ = broken
    texts = {
        admin.execute(
            "SELECT stanchion.audit_text(%s, 0::smallint, 1, 'epoch', %s, %s, 'x', '{}')", (tenant, actor, action)
        ).fetchone()
        for actor, action in (("a\x1fb", "c"), ("a", "b\x1fc"), ("a", 'b","c'), ('a","b', "c"))
    }
    assert len(texts) == 4


def test_heads_are_read_as_they_were_written() -> None:
    """And nothing else is."""
    heads = {0: (5, b"\x01" * 32), 3: (9, b"\xff" * 32)}
    assert heads_of(heads_text(heads), "x") == heads
    assert heads_of(None, "x") == heads_of("", "x") == {}
    for wrong in ("x", "0:1", "9:1:" + "0" * 64, "0:1:" + "0" * 63, "0:-1:" + "0" * 64):
        with pytest.raises(Unprocessable):
            heads_of(wrong, "x")
    assert AuditFilter().actor is None
