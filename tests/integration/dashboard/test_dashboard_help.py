"""Words, keys of the keyboard, and finding: what helps on every page."""

from __future__ import annotations

from uuid import UUID

import httpx2
import pytest
from dashboard_kit import HOSTILE, Read, check_harmless, fanned, steps_of, tsk
from kit.engine import Engine

from stanchion.authority.keys import Keys
from stanchion.contracts import ids
from stanchion.db.engine import Database


def found(web: httpx2.Client, text: str) -> str:
    """Where `/find` leads."""
    answer = web.get("/find", params={"q": text})
    assert answer.status_code == 303, answer.text[:400]
    return str(answer.headers["location"])


class TestFind:
    """From an id to its page."""

    def test_any_id_leads_to_its_page(self, web: httpx2.Client, engine: Engine) -> None:
        """With its prefix in any case, or bare; a run and a join lead to their task."""
        task, _ = fanned(engine, 2)
        run, step = engine.run_of(task), steps_of(engine, task)[0]
        barrier = engine.one("SELECT barrier_id FROM stanchion.barrier WHERE run_id = %s LIMIT 1", run)[0]
        page = f"/tasks/{tsk(task)}"
        for text in (
            tsk(task),
            tsk(task).lower(),
            f" {tsk(task)} ",
            str(task.task_id),
            ids.public(ids.RUN, run),
            str(run),
        ):
            assert found(web, text) == page, text
        assert found(web, ids.public("bar", barrier)) == page
        assert found(web, ids.public(ids.STEP, step)) == found(web, str(step)) == f"/steps/{ids.public(ids.STEP, step)}"

    def test_what_has_no_page_leads_to_its_list(self, web: httpx2.Client) -> None:
        """With its place in it."""
        key = ids.public(ids.KEY, ids.new_id())
        assert found(web, key) == f"/keys#{key}"

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("rate limit", "q=%22rate+limit%22"),
            ("state:failed tag:x", "q=state%3Afailed+tag%3Ax"),
            ("nonsense:", "q=%22nonsense%3A%22"),
            ("nightly", "q=nightly"),
        ],
    )
    def test_any_other_text_is_looked_for_in_tasks(self, web: httpx2.Client, text: str, query: str) -> None:
        """A filter as it was typed, and words as they stand."""
        assert found(web, text) == f"/tasks?{query}"
        assert web.get(found(web, text)).status_code == 200

    def test_keys_and_goals_are_found(self, web: httpx2.Client, engine: Engine) -> None:
        """By the idempotency key, and by words of the goal."""
        task, _ = fanned(engine, 1, goal="Chart the southern sky", idempotency_key="order-4711")
        for text in ("order-4711", "southern sky"):
            assert tsk(task) in web.get(found(web, text)).text, text

    def test_an_id_that_names_nothing_is_a_text(self, web: httpx2.Client) -> None:
        """One looks for it in tasks, and finds none."""
        unknown = ids.public(ids.TASK, ids.new_id())
        assert found(web, unknown) == f"/tasks?q={unknown}"
        assert found(web, "") == "/tasks"

    def test_what_is_another_tenants_is_not_found(
        self, site: str, engine: Engine, service: Database, tenants: dict[str, UUID]
    ) -> None:
        """Neither by its id nor as a bare one."""
        task, _ = fanned(engine, 1)
        _, secret = Keys(service).create(tenants["other"], "finder", ["task.read"], actor="test")
        with httpx2.Client(base_url=site, headers={"authorization": f"Bearer {secret}"}) as other:
            for text in (tsk(task), str(task.task_id), ids.public(ids.RUN, engine.run_of(task))):
                assert found(other, text).startswith("/tasks?q="), text

    @pytest.mark.parametrize(
        "text", [HOSTILE, "//evil.example", "https://evil.example", "\\\\evil", "x" * 200, "tsk_", "%00"]
    )
    def test_it_leads_nowhere_else(self, web: httpx2.Client, text: str) -> None:
        """Whatever is typed, the way stays on this site."""
        assert found(web, text).startswith("/tasks?q=")


class TestWords:
    """The glossary."""

    def test_all_words_or_those_that_fit(self, web: httpx2.Client) -> None:
        """Code stands as code; a word that is none is said."""
        read = Read.of(web.get("/words"))
        check_harmless(read)
        assert "the number of a step's lease; it rises with each lease" in read.text
        fits = Read.of(web.get("/words?q=fence")).text
        assert "proof" in fits
        assert "webhook" not in fits
        assert "No word fits" in web.get("/words", params={"q": HOSTILE}).text
        check_harmless(Read.of(web.get("/words", params={"q": HOSTILE})))

    def test_they_do_not_live(self, web: httpx2.Client) -> None:
        """No stream is opened for what never changes, and nothing is said to have ended."""
        (body,) = Read.of(web.get("/words")).named("body")
        assert "data-ended" not in body
        assert "data-stream" not in body


def test_the_keys_of_the_keyboard_are_listed(web: httpx2.Client) -> None:
    """With where they work."""
    read = Read.of(web.get("/keyboard"))
    check_harmless(read)
    for text in ("find an id or a text", "go to Records", "reject: asks first", "all pages"):
        assert text in read.text
