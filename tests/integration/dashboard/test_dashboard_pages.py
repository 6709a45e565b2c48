"""All pages there are, by one table: each can be made, is ours alone, is live, and shows only what its visitor may see."""

from __future__ import annotations

import gzip
import hashlib
import html
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import HOSTILE, Read, check_harmless, fail, fanned, lease, name_worker, steps_of, still, stream, tsk
from kit.engine import Admin, Engine
from psycopg.types.json import Jsonb

from services.orchestrator.dashboard.door import Visitor
from services.orchestrator.dashboard.site import Site
from services.orchestrator.dashboard.views import PAGES
from stanchion.authority.artifacts import Artifacts
from stanchion.authority.error_groups import ErrorCollector
from stanchion.authority.jobs import Jobs, Wanted
from stanchion.authority.keys import SCOPES, Keys
from stanchion.authority.queues import Queues
from stanchion.contracts import ids
from stanchion.contracts.actions import ACTIONS
from stanchion.contracts.filters import parse
from stanchion.db import grants
from stanchion.db.engine import Database, login_url
from stanchion.objects import Stored

STATIC = Path(__file__).parents[3] / "services/orchestrator/dashboard/static"
OWN_FIXTURES = ("/approvals/{approval_id}", "/operations/{operation_id}", "/artifacts/{version_id}/compare", "/find")
"""Pages whose own tests stage what they show; `/find` leads to others."""


@pytest.fixture(scope="module")
def places(engine: Engine, admin: Admin, service: Database, database_url: str) -> dict[str, str]:
    """Something to be shown on every page, hostile texts in it."""
    task, worker = fanned(engine, 6, tags=["nightly"], goal=HOSTILE)
    name_worker(worker, HOSTILE)
    steps = steps_of(engine, task)
    fail(worker, lease(worker, steps)[0], HOSTILE, HOSTILE)
    maintenance = Database(login_url(database_url, grants.MAINTENANCE), name="test")
    ErrorCollector(maintenance).collect()
    maintenance.close()
    letter = {
        "topic": HOSTILE,
        "partition": 1,
        "offset": 2,
        "key": None,
        "value": "PGltZz4A",
        "headers": [[HOSTILE, HOSTILE]],
    }
    letter |= {"tenant_id": str(engine.tenant), "code": "E-MSG-01", "reason": HOSTILE}
    service.call("bury", "SELECT stanchion.bury(%s)", (Jsonb([letter]),))
    job_id = ids.new_id()
    Jobs(service).create(
        engine.tenant, job_id, Wanted("task.cancel", parse("workflow:nobody"), HOSTILE), actor="key:test"
    )
    artifacts, content = Artifacts(service), Stored(hashlib.sha256(b"x").digest(), 1)
    version = artifacts.upload(
        engine.tenant, task.task_id, HOSTILE, lambda: content, media_type=HOSTILE, actor=f"key:{HOSTILE}"
    )
    Queues(service).pause(engine.tenant, "default", reason=HOSTILE, actor=HOSTILE)

    def one(sql: str) -> UUID:
        return engine.one(sql)[0]  # type: ignore[no-any-return]  # an id

    return {
        "task_id": tsk(task),
        "node": "read",
        "step_id": ids.public(ids.STEP, steps[0]),
        "worker_id": ids.public(ids.WORKER, worker.leases.worker_id),
        "queue": "default",
        "version_id": ids.public(ids.ARTIFACT, version["version_id"]),
        "letter_id": ids.public(ids.DEAD_LETTER, one("SELECT dead_letter_id FROM stanchion.dead_letter")),
        "job_id": ids.public(ids.JOB, job_id),
        "group_id": ids.public(ids.ERROR, one("SELECT group_id FROM stanchion.error_group")),
    }


def path_of(path: str, places: dict[str, str]) -> str:
    """A page's path with real ids in it."""
    return path.format(**places)


@pytest.mark.parametrize("page", [p for p in PAGES if p.path not in OWN_FIXTURES], ids=lambda page: page.path)
class TestEveryPage:
    """What holds for all of them."""

    def test_it_is_made_of_our_own_tags_and_stays_so(
        self, web: httpx2.Client, places: dict[str, str], page: Any
    ) -> None:
        """One heading of the first level, a title, the bar, and the way past it; hostile texts stay texts."""
        response = web.get(path_of(page.path, places))
        assert response.status_code == 200, response.text[:600]
        read = Read.of(response)
        check_harmless(read)
        assert len(list(read.named("h1"))) == 1
        assert any(a.get("class") == "skip" and a["href"] == "#main" for a in read.named("a"))
        assert "<img" not in response.text

    def test_its_stream_has_what_it_shows(self, web: httpx2.Client, places: dict[str, str], page: Any) -> None:
        """Each region of the page is in the first event."""
        path = path_of(page.path, places)
        shown = {str(a["id"])[2:] for a in Read.of(web.get(path)).named("div") if str(a.get("id", "")).startswith("r-")}
        with stream(web, path) as frames:
            sent = set(next(frames).data["regions"])
        assert shown
        assert shown <= sent

    def test_what_it_does_not_know_is_refused(self, web: httpx2.Client, places: dict[str, str], page: Any) -> None:
        """A filter must never be ignored."""
        assert web.get(path_of(page.path, places), params={"nonsense": "1"}).status_code == 422

    def test_what_is_shared_is_about_nobody(
        self, url: str, running: dict[str, tuple[Any, Site]], engine: Engine, places: dict[str, str], page: Any
    ) -> None:
        """One look is painted for all who have the same rights: it names none of them, and holds no token."""
        if page.personal:
            return
        site, path = running[url][1], {name: places[name] for name in re.findall(r"{(\w+)}", page.path)}
        seen = []
        for name in ("person:ann-4711", "person:bob-4711"):
            headers, token = {"cookie": f"c-{name}"}, f"token-{name}"
            visitor = Visitor(engine.tenant, "dev", name, frozenset(SCOPES), "person", ids.new_id(), token, headers)
            regions = site.look(page, visitor, path, {}).regions
            assert not [text for text in regions.values() if name in text or token in text]
            # but for numbers: durations in sentences and drawings go on between the two
            seen.append({region: re.sub(r"[\d.]+", "#", still(text)) for region, text in regions.items()})
        assert seen[0] == seen[1]

    def test_what_it_offers_can_be_done(self, web: httpx2.Client, places: dict[str, str], page: Any) -> None:
        """Every button and form names an action that there is, says only what that one asks for, and leads to its page."""
        read = Read.of(web.get(path_of(page.path, places)))
        doors = [*(a["href"] for a in read.named("a")), *(a.get("action") for a in read.named("form"))]
        for door in {str(door) for door in doors if str(door).startswith("/do/")}:
            where = urlsplit(door)
            action = ACTIONS[where.path.split("/")[2]]
            assert {name for name, _ in parse_qsl(where.query)} <= {one.name for one in action.fields}, door
            target = where.path.split("/")[3:]
            assert len(target) < 2, door
            if target:
                offered = web.get(door)
                assert offered.status_code == 200, door
                assert action.effect in html.unescape(offered.text), door

    def test_its_right_is_needed(
        self, serve: Callable[..., str], service: Database, engine: Engine, places: dict[str, str], page: Any
    ) -> None:
        """Without it 403, which names it; with a key that has it alone it is there."""
        _, bare = Keys(service).create(engine.tenant, f"b-{os.urandom(4).hex()}", ["task.submit"], actor="test")
        _, able = Keys(service).create(engine.tenant, f"a-{os.urandom(4).hex()}", [page.right], actor="test")
        path = path_of(page.path, places)
        with httpx2.Client(base_url=closed(serve), timeout=30) as client:
            refused = client.get(path, headers={"authorization": f"Bearer {bare}"})
            assert refused.status_code == 403
            assert page.right in refused.text
            assert client.get(path, headers={"authorization": f"Bearer {able}"}).status_code == 200

    def test_another_tenant_learns_nothing(
        self, serve: Callable[..., str], service: Database, tenants: dict[str, UUID], places: dict[str, str], page: Any
    ) -> None:
        """What has an id is 404, as if it had never been; lists are lists of nothing."""
        _, key = Keys(service).create(tenants["other"], f"o-{os.urandom(4).hex()}", [page.right], actor="test")
        with httpx2.Client(base_url=closed(serve), timeout=30) as client:
            answer = client.get(path_of(page.path, places), headers={"authorization": f"Bearer {key}"})
        if "_id}" in page.path and "worker_id" not in page.path:
            assert answer.status_code == 404
        assert HOSTILE.replace("<", "&lt;") not in answer.text or "worker" in page.path
        assert places["task_id"] not in answer.text.replace(path_of(page.path, places), "")


_closed: list[str] = []


def closed(serve: Callable[..., str]) -> str:
    """A server outside the dev profile, the same for all tests of this module."""
    if not _closed:
        _closed.append(serve(profile="production"))
    return _closed[0]


def test_scripts_are_few_and_ours() -> None:
    """All of them together are under 40 kB compressed, and every file is listed here."""
    names = {path.name for path in STATIC.iterdir()}
    assert names == {"page.css", "page.js", "fan.js", "approvals.js", "icon.svg"}
    assert sum(len(gzip.compress((STATIC / name).read_bytes())) for name in names if name.endswith(".js")) < 40_000


def test_templates_name_actions_that_there_are() -> None:
    """Those too that no page of these tests shows."""
    named = [
        (path, name)
        for path in (STATIC.parent / "templates").rglob("*.html")
        for name in re.findall(
            r"""(?:parts\.do\(\s*|/do/|in actions and .*?|")["']?([a-z]+\.[a-z-]+)["'/]""", path.read_text()
        )
        if name.partition(".")[0] in {action.partition(".")[0] for action in ACTIONS}
    ]
    assert len(named) > 10
    for path, name in named:
        assert name in ACTIONS or name in SCOPES, path


def test_templates_hold_no_script_or_style() -> None:
    """Neither inline, nor marked as safe, nor as a handler."""
    for path in (STATIC.parent / "templates").rglob("*.html"):
        text = path.read_text()
        assert "|safe" not in text.replace(" ", ""), path
        assert not re.search(r"\son[a-z]+=", text), path
        assert "style=" not in text, path
        assert not re.search(r"<script(?! src=)", text), path
        assert "<style" not in text, path
