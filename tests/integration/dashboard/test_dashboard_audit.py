"""The audit log on pages: what is shown of it, taken away, and verified."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
from collections.abc import Iterator
from uuid import UUID

import httpx2
import psycopg
import pytest
from dashboard_kit import HOSTILE, Read, check_harmless, fanned, rewrite, tsk
from kit.engine import Admin, Engine
from records_kit import SignIn, send

from stanchion.authority.keys import ROLES, Keys
from stanchion.db import grants
from stanchion.db.engine import Database, login_url


@pytest.fixture(scope="module")
def ann(sign_in: SignIn) -> httpx2.Client:
    """An admin's browser."""
    return sign_in("ann", "admin")


def note(admin: Admin, tenant: UUID, actor: str, action: str, target: str, **detail: object) -> int:
    """An entry, as the functions of the engine write it; its number."""
    sql = "SELECT stanchion.note_act(%s, %s, %s, %s, %s)"
    admin.execute(sql, (tenant, actor, action, target, json.dumps(detail)))
    return int(admin.execute("SELECT max(audit_id) FROM stanchion.audit WHERE tenant_id = %s", (tenant,)).fetchone()[0])  # type: ignore[index]


@pytest.fixture
def fresh(service: Database, site: str) -> Iterator[tuple[UUID, httpx2.Client]]:
    """A tenant of its own, and a program that may read its audit log."""
    keys = Keys(service)
    tenant = keys.create_tenant(f"t-{os.urandom(4).hex()}")
    _, secret = keys.create(tenant, "auditor", ROLES["admin"], actor="test")
    with httpx2.Client(base_url=site, headers={"authorization": f"Bearer {secret}"}, timeout=30.0) as client:
        yield tenant, client


class TestList:
    """The entries."""

    def test_who_did_what_to_what_and_why(self, ann: httpx2.Client, engine: Engine) -> None:
        """A cancel stands there with its reason, the task as a link; the task's own page has it too."""
        task, _ = fanned(engine, 1)
        assert send(ann, "task.cancel", tsk(task), reason=f"no need {HOSTILE}").status_code == 303
        for path in (f"/audit?target={tsk(task)}", f"/audit?target={task.task_id}", f"/tasks/{tsk(task)}/audit"):
            read = Read.of(ann.get(path))
            check_harmless(read)
            assert "person:ann" in read.text, path
            assert "task.cancel" in read.text
            assert f"no need {HOSTILE}" in read.text
            assert f"/tasks/{tsk(task)}" in [a.get("href") for a in read.named("a")]

    def test_filters_and_what_they_refuse(self, admin: Admin, fresh: tuple[UUID, httpx2.Client]) -> None:
        """By who, what, to what and since when; nothing that matches can be dropped, nonsense is said."""
        tenant, client = fresh
        note(admin, tenant, "person:zoe", "team.add", "editors", person="bob")
        note(admin, tenant, "person:yan", "queue.pause", "crawl", reason="outage")
        assert "editors" in client.get("/audit?actor=person:zoe").text
        assert "crawl" not in client.get("/audit?actor=person:zoe").text
        assert "crawl" in client.get("/audit?action=queue.pause").text
        assert "No entry fits" in client.get("/audit?action=queue.pause&actor=person:zoe").text
        assert "No entry fits" in client.get("/audit?after=2100-01-01T00:00:00Z").text
        assert "E-" in Read.of(client.get("/audit?after=yesterday")).text
        assert client.get("/audit?colour=red").status_code == 422
        assert client.get("/audit?before=x").status_code == 200  # said on the page, and the filter is still there

    def test_pages_follow_each_other(self, admin: Admin, fresh: tuple[UUID, httpx2.Client]) -> None:
        """By number, fifty at a time, none twice, none left out."""
        tenant, client = fresh
        made = {note(admin, tenant, "person:zoe", "view.save", f"v{n}") for n in range(120)}
        seen: list[int] = []
        path = "/audit?action=view.save"
        while path:
            read = Read.of(client.get(path))
            found = [int((row.get("id") or "e0")[1:]) for row in read.named("tr") if row.get("data-key")]
            assert 0 < len(found) <= 50
            seen += found
            path = next((a["href"] or "" for a in read.named("a") if a.get("rel") == "next"), "")
        assert seen == sorted(made, reverse=True)

    def test_it_needs_the_right(self, sign_in: SignIn, engine: Engine) -> None:
        """403 with the roles that have it; the part of a task says that it is hidden, and shows the rest."""
        vera, (task, _) = sign_in("vera", "viewer"), fanned(engine, 1)
        for path in ("/audit", "/audit/verify", "/audit/export"):
            refused = vera.get(path)
            assert (refused.status_code, "audit.read" in refused.text, "admin" in refused.text) == (403, True, True)
        part = vera.get(f"/tasks/{tsk(task)}/audit")
        assert (part.status_code, "Hidden by role" in part.text) == (200, True)

    def test_another_tenants_entries_are_not_there(
        self, ann: httpx2.Client, admin: Admin, tenants: dict[str, UUID]
    ) -> None:
        """On no page and in no export."""
        note(admin, tenants["other"], "person:canary", "team.add", "canary-4713")
        for path in ("/audit?target=canary-4713", "/audit?actor=person:canary"):
            assert "No entry fits" in ann.get(path).text
        for path in ("/audit/export", "/audit/export?format=csv"):
            assert "canary" not in ann.get(path).text

    def test_a_command_to_copy_is_one_command(self, ann: httpx2.Client) -> None:
        """Whatever stands in a link that somebody was sent."""
        page = ann.get("/audit", params={"actor": "$(rm -rf ~); x", "action": "' ; y"})
        (command,) = {
            b["data-copy"] for b in Read.of(page).named("button") if "audit list" in (b.get("data-copy") or "")
        }
        assert shlex.split(command or "")[3:] == ["--actor", "$(rm -rf ~); x", "--action", "' ; y"]


class TestExport:
    """What is taken away."""

    def test_json_lines_are_those_of_the_filter(self, admin: Admin, fresh: tuple[UUID, httpx2.Client]) -> None:
        """Each a whole entry with its hash, as a file."""
        tenant, client = fresh
        entry = note(admin, tenant, "person:zoe", "team.add", "editors", person="bob")
        note(admin, tenant, "person:yan", "team.add", "editors", person="eve")
        answer = client.get("/audit/export?format=jsonl&actor=person:zoe")
        (row,) = [json.loads(line) for line in answer.text.splitlines()]
        assert (row["audit_id"], row["actor"], row["detail"], len(row["hash"])) == (
            entry,
            "person:zoe",
            {"person": "bob"},
            64,
        )
        assert answer.headers["content-disposition"] == 'attachment; filename="audit.jsonl"'
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"

    def test_a_table_computes_nothing(self, admin: Admin, fresh: tuple[UUID, httpx2.Client]) -> None:
        """What a spreadsheet would take for a formula is a text."""
        tenant, client = fresh
        note(admin, tenant, "=cmd|'/c calc'!A1", "team.add", "@SUM(A1)", note='-1+2, "x"\n')
        rows = list(csv.DictReader(io.StringIO(client.get("/audit/export?format=csv").text)))
        assert (rows[0]["actor"], rows[0]["target"]) == ("'=cmd|'/c calc'!A1", "'@SUM(A1)")
        assert json.loads(rows[0]["detail"]) == {"note": '-1+2, "x"\n'}

    @pytest.mark.parametrize("query", ["format=exe", "colour=red", "after=x", "actor=" + "x" * 300])
    def test_nonsense_is_refused(self, ann: httpx2.Client, query: str) -> None:
        """422, and no file."""
        answer = ann.get(f"/audit/export?{query}")
        assert (answer.status_code, "attachment" in answer.headers.get("content-disposition", "")) == (422, False)

    def test_it_is_bounded(
        self, fresh: tuple[UUID, httpx2.Client], admin: Admin, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The newest that fit, and no more than was promised."""
        tenant, client = fresh
        monkeypatch.setattr("services.orchestrator.dashboard.files.EXPORTED", 7)
        monkeypatch.setattr("services.orchestrator.dashboard.files.EXPORT_PAGE", 3)
        entries = [note(admin, tenant, "person:zoe", "view.save", f"v{n}") for n in range(12)]
        found = [json.loads(line)["audit_id"] for line in client.get("/audit/export").text.splitlines()]
        assert found == entries[:-8:-1]


class TestVerify:
    """Whether the record is whole."""

    def test_it_walks_on_until_all_was_looked_at(
        self, admin: Admin, fresh: tuple[UUID, httpx2.Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Some entries for each page, which leads to the next one by itself; the last one says up to where."""
        tenant, client = fresh
        monkeypatch.setattr("services.orchestrator.dashboard.views.audit.WALKED", 1)
        last = note(admin, tenant, "person:zoe", "team.add", "editors")
        path, pages = "/audit/verify", 0
        while path:
            page = client.get(path)
            assert page.status_code == 200
            pages += 1
            refresh = [m["content"] or "" for m in Read.of(page).named("meta") if m.get("http-equiv") == "refresh"]
            onward = [content for content in refresh if content.startswith("0;url=")]
            path = onward[0].removeprefix("0;url=") if onward else ""
        assert pages > 1
        assert f"Chain intact up to entry {last:,}." in Read.of(page).text

    def test_a_changed_entry_is_named(self, admin: Admin, fresh: tuple[UUID, httpx2.Client]) -> None:
        """By its number, with what is wrong with it."""
        tenant, client = fresh
        entry = note(admin, tenant, "person:zoe", "team.add", "editors")
        note(admin, tenant, "person:zoe", "team.add", "writers")
        rewrite(admin, "UPDATE stanchion.audit SET actor = 'person:eve' WHERE audit_id = %s", entry)
        text = Read.of(client.get("/audit/verify")).text
        assert f"Entry {entry:,} does not fit" in text
        assert "intact" not in text

    def test_an_end_that_was_cut_off_is_found_with_an_anchor(
        self, admin: Admin, fresh: tuple[UUID, httpx2.Client]
    ) -> None:
        """The heads that the page shows are the anchor of the next walk."""
        tenant, client = fresh
        entry = note(admin, tenant, "person:zoe", "team.add", "editors")
        page = Read.of(client.get("/audit/verify"))
        anchor = next(text.strip() for text in page.texts if text.strip().startswith("0:"))
        assert "Chain intact" in Read.of(client.get("/audit/verify", params={"anchor": anchor})).text
        rewrite(admin, "DELETE FROM stanchion.audit WHERE audit_id = %s", entry)
        assert "the end was cut off" in client.get("/audit/verify", params={"anchor": anchor}).text
        assert client.get("/audit/verify", params={"anchor": "nonsense"}).status_code == 422

    @pytest.mark.parametrize("seal", ["", "0" * 32, "é"])
    def test_a_link_of_somebody_else_skips_nothing(
        self, admin: Admin, fresh: tuple[UUID, httpx2.Client], seal: str
    ) -> None:
        """Who changed an entry can't send a link that begins behind it: the walk begins at the beginning."""
        tenant, client = fresh
        entry = note(admin, tenant, "person:zoe", "team.add", "editors")
        rewrite(admin, "UPDATE stanchion.audit SET actor = 'person:eve' WHERE audit_id = %s", entry)
        place = f"8/9120114//0:{entry}:{'a' * 64}"
        text = Read.of(client.get("/audit/verify", params={"at": place, "seal": seal})).text
        assert f"Entry {entry:,} does not fit" in text


def test_a_target_is_found_by_an_index(database_url: str, tenants: dict[str, UUID]) -> None:
    """Ten million entries or not: what was done to one thing is asked for by its own index."""
    sql = "EXPLAIN SELECT * FROM stanchion.audit WHERE tenant_id = %s AND target = 'x' ORDER BY audit_id DESC LIMIT 51"
    with psycopg.connect(login_url(database_url, grants.DASHBOARD)) as connection:
        connection.execute("SELECT set_config('stanchion.tenant', %s, true)", (str(tenants["dev"]),))
        connection.execute("SET LOCAL enable_seqscan = off")  # a table of a test is small
        plan = str(connection.execute(sql, (tenants["dev"],)).fetchall())
    assert "audit_of_target" in plan
