"""Fan-outs and timelines: every child as a letter in its place, problems first, and what the database summed."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest
from dashboard_kit import Read, check_harmless, fail, fanned, lease, lose, steps_of, stream, tsk
from kit.engine import Engine

from services.orchestrator.dashboard.views.fan import CHUNK
from stanchion.authority.fan_view import LETTERS, FanView
from stanchion.authority.submission import Answer
from stanchion.contracts import ids
from stanchion.errors import NotFound
from stanchion.state import StepState


def page(web: httpx2.Client, path: str, status: int = 200) -> Read:
    """A page, checked to be ours."""
    response = web.get(path)
    assert response.status_code == status, response.text[:500]
    read = Read.of(response)
    check_harmless(read)
    return read


def cells(read: Read) -> str:
    """The letters that the picture is drawn from."""
    (box,) = [attributes for attributes in read.named("div") if attributes.get("id") == "cells"]
    return box["data-cells"] or ""


@pytest.fixture(scope="module")
def mixed(engine: Engine) -> Answer:
    """Eight children: two succeeded, one failed, one lost and leased again, one leased, three ready."""
    task, one = fanned(engine, 8)
    steps = steps_of(engine, task)
    held = lease(one, steps[:5])
    one.finish_all(held[:2], "text")
    fail(one, held[2], "no price on page 4711", "because")
    lose(engine, held[3:4])
    lease(engine.worker(), steps[3:4])
    return task


class TestFan:
    """The page of a fan-out."""

    def test_each_child_is_a_letter_in_its_place(self, web: httpx2.Client, mixed: Answer) -> None:
        """By index, whatever order they ended in."""
        assert cells(page(web, f"/tasks/{tsk(mixed)}/fan/read")) == "ssfllrrr"

    def test_every_state_has_a_letter(self) -> None:
        """A new state must not be drawn as another one."""
        assert set(LETTERS) == {state.value for state in StepState}

    def test_failed_ones_come_first_when_there_are_any(self, web: httpx2.Client, mixed: Answer) -> None:
        """With attempt, fence, worker and error; the others are a link away."""
        read = page(web, f"/tasks/{tsk(mixed)}/fan/read")
        assert "Failed children" in read.text
        assert "no price on page 4711" in read.text
        assert re.findall(r"read\[\d\]", read.text.partition("Failed children")[2]) == ["read[2]"]
        every = page(web, f"/tasks/{tsk(mixed)}/fan/read?state=all").text
        assert re.findall(r"read\[\d\]", every.partition("All children")[2]) == [f"read[{n}]" for n in range(8)]

    def test_children_are_filtered_and_paged(self, web: httpx2.Client, engine: Engine, mixed: Answer) -> None:
        """By the groups of states that the legend has, each child once."""
        running = page(web, f"/tasks/{tsk(mixed)}/fan/read?state=running").text
        assert re.findall(r"read\[\d\]", running.partition("Running children")[2]) == ["read[3]", "read[4]"]
        assert "No child is unknown" in page(web, f"/tasks/{tsk(mixed)}/fan/read?state=unknown").text
        task, _ = fanned(engine, 120)
        seen: list[str] = []
        path: str | None = f"/tasks/{tsk(task)}/fan/read"
        while path:
            read = page(web, path)
            seen += re.findall(r"read\[\d+\]", read.text)
            path = next((str(a["href"]) for a in read.named("a") if "after=" in (a["href"] or "")), None)
        assert seen == [f"read[{n}]" for n in range(120)]

    def test_the_join_over_them_is_there_with_what_can_be_done(self, web: httpx2.Client, mixed: Answer) -> None:
        """Failed ones hold it: reopen them, or open without them."""
        read = page(web, f"/tasks/{tsk(mixed)}/fan/read")
        assert "the join before draft : all" in read.text
        assert "2 of 8 arrived, 1 failed" in read.text
        acts = [str(a["href"]) for a in read.named("a") if str(a["href"]).startswith("/do/")]
        assert f"/do/task.reopen/{tsk(mixed)}?node=read" in acts
        assert any(href.startswith("/do/barrier.open/bar_") for href in acts)

    def test_a_cell_leads_to_its_step(self, web: httpx2.Client, engine: Engine, mixed: Answer) -> None:
        """By its index."""
        answer = web.get(f"/tasks/{tsk(mixed)}/fan/read/3")
        step = ids.public(ids.STEP, steps_of(engine, mixed)[3])
        assert (answer.status_code, answer.headers["location"]) == (303, f"/steps/{step}")
        assert web.get(f"/tasks/{tsk(mixed)}/fan/read/99").status_code == 404

    @pytest.mark.parametrize("node", ["draft", "plan", "nobody", "%25", "re_d"])
    def test_what_is_no_fan_out_is_not_there(self, web: httpx2.Client, mixed: Answer, node: str) -> None:
        """404, as for what never existed."""
        assert web.get(f"/tasks/{tsk(mixed)}/fan/{node}").status_code == 404

    def test_another_tenants_fan_out_is_not_there(self, engine: Engine, make_engine: Any, mixed: Answer) -> None:
        """Neither its children nor the step of one."""
        fans = FanView(engine.orchestrator)
        other = make_engine("other").tenant
        with pytest.raises(NotFound):
            fans.fan(other, mixed.task_id, "read")
        with pytest.raises(NotFound):
            fans.child(other, mixed.task_id, "read", 0)

    def test_the_stream_sends_the_pieces_that_changed(self, web: httpx2.Client, engine: Engine) -> None:
        """Of three pieces the one whose child was leased."""
        task, worker = fanned(engine, 2 * CHUNK + 10)
        steps = steps_of(engine, task)
        with stream(web, f"/tasks/{tsk(task)}/fan/read") as frames:
            first = next(frames).data["regions"]
            assert "".join(first[f"cells-{n}"] for n in range(3)) == "r" * (2 * CHUNK + 10)
            lease(worker, steps[CHUNK + 1 : CHUNK + 2])
            later = next(frame for frame in frames if frame.event == "regions").data["regions"]
        assert {name for name in later if name.startswith("cells-")} == {"cells-1"}
        assert later["cells-1"] == "rl" + "r" * (CHUNK - 2)

    def test_a_stream_is_compressed_for_whoever_takes_that(self, web: httpx2.Client, mixed: Answer) -> None:
        """And readable as it comes, frame by frame."""
        path = f"/tasks/{tsk(mixed)}/fan/read"
        with stream(web, path, **{"accept-encoding": "gzip"}) as frames:
            assert next(frames).data["regions"]["cells-0"] == "ssfllrrr"
        with web.stream("GET", path, headers={"accept": "text/event-stream"}) as answer:
            assert answer.headers["content-encoding"] == "gzip"


class TestGraph:
    """The picture of a graph."""

    def test_nodes_lead_to_what_they_stand_for(self, web: httpx2.Client, engine: Engine, mixed: Answer) -> None:
        """A fan-out to its children, a step to its page; each says its state in words."""
        nodes = {a["data-node"]: a for a in page(web, f"/tasks/{tsk(mixed)}").named("a") if "data-node" in a}
        assert set(nodes) == {"plan", "read", "draft"}
        (plan,) = steps_of(engine, mixed, "plan")
        assert nodes["plan"]["href"] == f"/steps/{ids.public(ids.STEP, plan)}"
        assert nodes["read"]["href"] == f"/tasks/{tsk(mixed)}/fan/read"
        assert nodes["read"]["aria-label"] == "read: failed, 2/8 · 1 failed"
        assert nodes["draft"]["aria-label"] == "draft: pending; gate all: 2 / 8 arrived"
        assert nodes["plan"]["data-to"] == "read"


class TestTimeline:
    """A task on its time axis."""

    def test_each_step_has_a_lane(self, web: httpx2.Client, mixed: Answer) -> None:
        """With its attempts, the most at once, and what was lost."""
        text = page(web, f"/tasks/{tsk(mixed)}/timeline").text
        assert "1 lost" in text
        assert "1 failed" in text
        assert re.search(r"read 1 lost 1 failed 5 6 ", text), text

    def test_lanes_by_worker_and_the_longest_attempts(self, web: httpx2.Client, mixed: Answer) -> None:
        """Six attempts of children and one of the plan."""
        assert page(web, f"/tasks/{tsk(mixed)}/timeline?by=worker").text.count("busy") == 1
        child = page(web, f"/tasks/{tsk(mixed)}/timeline?by=child")
        assert "The 7 attempts that took longest" in child.text
        assert len(re.findall(r"read\[\d\]", child.text)) == 6

    def test_a_window_of_time_is_looked_at_alone(self, web: httpx2.Client, mixed: Answer) -> None:
        """Nothing started in a year's time, and a window that ends before it begins is the whole."""
        later = page(web, f"/tasks/{tsk(mixed)}/timeline?from=31536000000&to=31536001000").text
        assert "Nothing has started in this time" in later
        assert "1 lost" in page(web, f"/tasks/{tsk(mixed)}/timeline?from=5&to=5").text

    @pytest.mark.parametrize("query", ["by=nobody", "from=x", "from=-1", "to=99999999999999999999", "to=0"])
    def test_what_is_no_window_is_refused(self, web: httpx2.Client, mixed: Answer, query: str) -> None:
        """422."""
        assert web.get(f"/tasks/{tsk(mixed)}/timeline?{query}").status_code == 422
