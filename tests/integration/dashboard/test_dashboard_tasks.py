"""What the pages show: the graph with its counts, barriers, attempts with fences, take-overs, refused writes, events."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from dashboard_kit import Read, check_harmless, fail, fanned, lease, lose, name_worker, steps_of, still, stream, tsk
from kit.engine import Engine

from stanchion.authority.submission import Answer
from stanchion.contracts import ids
from stanchion.errors import Superseded


def page(web: httpx2.Client, path: str, status: int = 200) -> Read:
    """A page, checked to be ours."""
    response = web.get(path)
    assert response.status_code == status, response.text[:500]
    read = Read.of(response)
    check_harmless(read)
    return read


@pytest.fixture(scope="module")
def eventful(engine: Engine) -> Answer:
    """A task with success, failure, a lost lease that was taken over, and a write that came too late."""
    task, one = fanned(engine, 8, tags=["nightly"], goal="Know about barriers")
    two = engine.worker()
    name_worker(one, "worker-one")
    name_worker(two, "worker-two")
    steps = steps_of(engine, task)
    held = lease(one, steps[:5])
    one.finish_all(held[:2], "text")
    fail(one, held[2], "it broke", "because")
    lose(engine, held[3:5])
    taken = lease(two, steps[3:5])
    two.finish_all(taken[:1], "text")
    with suppress(Superseded):  # it is on record, which is what the page shows
        one.finish_all(held[3:4], "late")
    return task


class TestTask:
    """The page of a task."""

    def test_each_node_has_its_counts_by_state(self, web: httpx2.Client, eventful: Answer) -> None:
        """As a shape and a word, with a link to the steps in that state."""
        read = page(web, f"/tasks/{tsk(eventful)}")
        for words in ("3 succeeded", "1 failed", "3 ready", "1 leased"):
            assert words in read.text
        links = [a["href"] for a in read.named("a")]
        assert f"/tasks/{tsk(eventful)}/steps?node=read&state=failed" in links

    def test_the_barrier_says_what_it_waits_for(self, web: httpx2.Client, eventful: Answer) -> None:
        """Rule, arrived, expected, failed, and that failed ones hold it."""
        text = page(web, f"/tasks/{tsk(eventful)}").text
        assert "all: 3 of 8 arrived, 1 failed" in text
        assert "failed ones hold it" in text
        assert "after: 1 of 1 arrived" in text

    def test_take_overs_and_refused_writes_stand_out(self, web: httpx2.Client, eventful: Answer) -> None:
        """Who lost the step, who has it now, and what was refused, by worker and fence."""
        read = page(web, f"/tasks/{tsk(eventful)}")
        assert page(web, f"/tasks/{tsk(eventful)}/steps").rows("takeover") == 2
        assert read.rows("lost") == 2
        assert read.rows("refused") == 1
        assert "refused : complete with fence 1, the current one was 2" in read.text
        assert "taken over with fence 2" in read.text
        assert "worker-one" in read.text
        assert "worker-two" in read.text

    def test_it_says_why_it_does_not_go_on(self, web: httpx2.Client, eventful: Answer) -> None:
        """With the codes of the command line."""
        assert (
            "W-NO-WORKER" in page(web, f"/tasks/{tsk(eventful)}").text
            or "W-OK" in page(web, f"/tasks/{tsk(eventful)}").text
        )

    def test_the_command_for_the_same_data_is_there(self, web: httpx2.Client, eventful: Answer) -> None:
        """To be copied as it stands."""
        text = page(web, f"/tasks/{tsk(eventful)}").text
        assert f"stanchion task show {tsk(eventful)}" in text
        filtered = page(web, f"/tasks/{tsk(eventful)}/steps?node=read&state=failed").text
        assert f"stanchion task steps {tsk(eventful)} --node read --state failed" in filtered

    def test_steps_are_filtered(self, web: httpx2.Client, eventful: Answer) -> None:
        """By node and state, with the error of the failed one."""
        read = page(web, f"/tasks/{tsk(eventful)}/steps?node=read&state=failed")
        listed = read.text.partition("Attempts of read, failed")[2].partition("the same on the")[0]
        assert listed.count("read[") == listed.count("read[2]") == 1
        assert "E-STEP-27 · it broke · because" in read.text
        assert "No step fits" in page(web, f"/tasks/{tsk(eventful)}/steps?state=skipped").text

    def test_events_have_the_names_of_workers(self, web: httpx2.Client, eventful: Answer) -> None:
        """The last ones, newest first."""
        text = page(web, f"/tasks/{tsk(eventful)}/history").text
        assert "StepLost" in text
        assert "worker-two" in text

    def test_payloads_are_shown_at_the_step_alone(self, web: httpx2.Client, engine: Engine) -> None:
        """To whoever may see them; no list has them."""
        task, worker = fanned(engine, 2, input={"topic": "canary-input"})
        steps = steps_of(engine, task)
        worker.finish_all(lease(worker, steps[:1]), "canary-result")
        lists = [f"/tasks/{tsk(task)}", f"/tasks/{tsk(task)}/steps", f"/tasks/{tsk(task)}/history", "/tasks"]
        assert not any("canary" in web.get(path).text for path in lists)
        assert "canary-result" in page(web, f"/steps/{ids.public(ids.STEP, steps[0])}").text

    def test_an_ended_task_says_so(self, web: httpx2.Client, engine: Engine) -> None:
        """Its page is not looked at again, and why it failed stands at the top with the error behind it."""
        task = engine.submit(engine.workflows["brief"], input={"topic": "x"})
        worker = engine.worker()
        mine = [one for one in worker.take("plan") if one.task_id == task.task_id]
        fail(worker, mine[0], "the plan broke")
        engine.sweep()
        response = web.get(f"/tasks/{tsk(task)}")
        assert "data-stream" not in response.text
        assert "http-equiv" not in response.text
        text = Read.of(response).text
        assert "E-STEP-21 · step plan failed" in text
        assert "the plan broke" in text


class TestLive:
    """The stream of what changes."""

    def test_it_is_the_same_part(self, web: httpx2.Client, eventful: Answer) -> None:
        """The page holds what the stream sends, filters included."""
        path = f"/tasks/{tsk(eventful)}/steps?node=read"
        whole = web.get(path).text
        with stream(web, path) as frames:
            frame = next(frames)
        assert set(frame.data["regions"]) == {"head", "why", "steps"}
        assert still(frame.data["regions"]["steps"]) in still(whole)

    def test_what_did_not_change_is_not_sent(self, web: httpx2.Client, engine: Engine) -> None:
        """Whoever has a revision gets what differs from it: the head and the list of the step that was done."""
        task, worker = fanned(engine, 3)
        path = f"/tasks/{tsk(task)}/history"
        with stream(web, path) as frames:
            first = next(frames)
            held = lease(worker, steps_of(engine, task)[:1])
            later = next(frame for frame in frames if frame.event == "regions")
            assert "head" not in later.data["regions"]
            assert "StepLeased" in later.data["regions"]["history"]
        assert held
        assert first.id != later.id

    def test_without_scripts_the_page_reloads_itself(self, web: httpx2.Client, eventful: Answer) -> None:
        """By a tag that only counts where scripts don't run."""
        assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in web.get(f"/tasks/{tsk(eventful)}").text

    def test_those_who_do_not_see_it_get_a_sentence(self, web: httpx2.Client, eventful: Answer) -> None:
        """How far the widest nodes are."""
        with stream(web, f"/tasks/{tsk(eventful)}") as frames:
            assert next(frames).data["said"] == "brief is running: read 3 of 8, 1 failed"


class TestLists:
    """Tasks and steps."""

    def test_tasks_are_paged_by_key(self, web: httpx2.Client, engine: Engine) -> None:
        """All are seen once, newest first, in pages of 50."""
        tasks = engine.submit_all(engine.workflows["brief"], [({"input": {"topic": "t"}}, None)] * 120)
        seen: list[str] = []
        path: str | None = "/tasks"
        while path:
            read = page(web, path)
            found = [a["href"] for a in read.named("a") if (a["href"] or "").startswith("/tasks/tsk_")]
            assert len(found) <= 50
            seen += [str(href) for href in found]
            path = next((str(a["href"]) for a in read.named("a") if "before=" in (a["href"] or "")), None)
        assert len(seen) == len(set(seen))
        assert {f"/tasks/{tsk(task)}" for task in tasks} <= set(seen)
        assert seen == sorted(seen, reverse=True)

    def test_tasks_are_filtered_by_state(self, web: httpx2.Client, eventful: Answer) -> None:
        """With the command that does the same."""
        read = page(web, "/tasks?state=cancelled")
        assert "No task fits" in read.text
        assert "stanchion task list --filter state:cancelled" in read.text
        assert tsk(eventful) not in read.text

    def test_a_step_has_its_attempts(self, web: httpx2.Client, engine: Engine, eventful: Answer) -> None:
        """With fences, times, what was refused, and its events."""
        stp = ids.public(ids.STEP, steps_of(engine, eventful)[3])
        read = page(web, f"/steps/{stp}")
        assert read.rows("takeover") == 1
        assert read.rows("refused") == 1
        for words in ("read[3]", "worker-two", "lost", "StepLost", f"stanchion step show {stp}"):
            assert words in read.text

    def test_a_step_that_never_ran_has_a_page(self, web: httpx2.Client, engine: Engine, eventful: Answer) -> None:
        """Which says so."""
        stp = ids.public(ids.STEP, steps_of(engine, eventful)[7])
        assert "Never leased" in page(web, f"/steps/{stp}").text

    def test_it_is_the_same_everywhere(self, web: httpx2.Client, engine: Engine, eventful: Answer) -> None:
        """The page shows the counts that the database has."""
        counted = engine.states(eventful, "read")
        text = page(web, f"/tasks/{tsk(eventful)}").text
        assert all(f"{count} {state}" in text for state, count in counted.items())
        assert json.dumps(counted)


class TestBounds:
    """However large a run is."""

    def test_a_wide_run_takes_as_many_statements_as_a_narrow_one(
        self, web: httpx2.Client, engine: Engine, admin: Any
    ) -> None:
        """And shows 50 steps, with the way to the next."""
        from sqlalchemy import event

        from services.orchestrator.dashboard.door import READING, Visitor
        from services.orchestrator.dashboard.reads import Reads
        from services.orchestrator.dashboard.task_api import TaskApi
        from services.orchestrator.dashboard.view import Asked
        from services.orchestrator.dashboard.views import PAGES
        from stanchion.db.engine import Database

        visitor = Visitor(engine.tenant, "dev", "test", READING)
        views = [one for one in PAGES if one.path.startswith("/tasks/{task_id}")]
        statements: list[str] = []
        counts: list[list[int]] = []
        sizes: list[int] = []
        for width in (60, 1_500):
            task, worker = fanned(engine, width)
            worker.finish_all(lease(worker, steps_of(engine, task)[:55]), "x")
            database = Database(engine.orchestrator.url, name="count")
            reads = Reads(database)
            taken: list[int] = []
            event.listen(database.engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
            for view in views:
                asked = Asked(visitor, reads, {"task_id": tsk(task), "node": "read"}, {}, TaskApi(None))
                view.view(asked)
                statements.clear()
                view.view(asked)
                taken.append(len(statements))
            counts.append(taken)
            database.close()
            response = web.get(f"/tasks/{tsk(task)}/steps")
            sizes.append(len(response.content))
            assert f"{width - 55:,} ready" in page(web, f"/tasks/{tsk(task)}").text
            assert any("after=stp_" in (a["href"] or "") for a in Read.of(response).named("a"))
        # what is told of the two differs by a statement or two, never with the number of steps
        assert all(abs(narrow - wide) <= 2 for narrow, wide in zip(*counts, strict=True)), counts
        assert sizes[1] < sizes[0] * 1.1

    def test_steps_are_paged_by_key(self, web: httpx2.Client, engine: Engine) -> None:
        """Each step once."""
        task, _ = fanned(engine, 130)
        path: str | None = f"/tasks/{tsk(task)}/steps?node=read"
        seen: list[str] = []
        while path:
            read = page(web, path)
            part = web.get(path).text.partition('id="steps"')[2]
            seen += [piece.partition('"')[0] for piece in part.split('href="/steps/')[1:]]
            path = next(
                (str(a["href"]).partition("#")[0] for a in read.named("a") if "after=stp_" in (a["href"] or "")), None
            )
        assert len(seen) == len(set(seen)) == 130
