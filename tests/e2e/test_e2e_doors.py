"""Both doors: what is submitted over HTTP or over Kafka is the same task, and comes to its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.world import PATIENCE, Task, World, until

from stanchion.contracts import ids
from stanchion.errors import StanchionError
from stanchion.sdk.client import Client
from stanchion.sdk.kafka_client import KafkaClient
from stanchion.workflow import Ctx, Workflow


def task_of(task_id: str, run_id: str) -> Task:
    """A task by its public ids."""
    return Task(ids.parse(task_id, ids.TASK), ids.parse(run_id, ids.RUN))


def test_a_report_over_kafka(world: World, kafka: KafkaClient, http: Client, tmp_path: Path) -> None:
    """A task submitted on a topic alone becomes a cited report, by three workers; without a press it stays here."""
    for number, text in enumerate(("Leases expire.", "Fences rise by one.", "Barriers open once.")):
        lines = "\n\n".join(
            [f"# About {text}", *[f"{text} It is said {n} times, in a sentence of its own." for n in range(5)]]
        )
        (tmp_path / f"document-{number}.md").write_text(lines, encoding="utf-8")
    receipt = kafka.submit("report", topic="how leases and fences work", sources=[str(tmp_path)])
    info = http.wait(receipt.task_id, timeout=2 * PATIENCE)
    assert info.state == "completed", info.data
    result = http.result(receipt.task_id)
    assert "fence" in result["markdown"].lower()
    assert result["note"].startswith("not published: no press is configured")
    world.judge(task_of(receipt.task_id, receipt.run_id))


def test_a_task_over_http(world: World, http: Client) -> None:
    """Submitted, waited for, its result read, its events in order."""
    handle = http.submit("e2e_many", count=12)
    assert handle.result(timeout=PATIENCE) == [12, 66]
    kinds = [event.type for event in handle.events(follow=False)]
    assert kinds[0] == "TaskAccepted"
    assert kinds[-1] == "TaskCompleted"
    world.judge(task_of(handle.id, handle.run_id))


def test_one_key_over_both_doors(world: World, http: Client, kafka: KafkaClient) -> None:
    """The same key and payload give the same task, whichever way and however often; another payload is refused."""
    first = http.submit("e2e_many", count=3, key="both doors")
    for _ in range(3):
        assert kafka.submit("e2e_many", count=3, key="both doors").task_id == first.id
        assert http.submit("e2e_many", count=3, key="both doors").id == first.id
    for door in (http, kafka):
        with pytest.raises(StanchionError) as refused:
            door.submit("e2e_many", count=4, key="both doors")
        assert refused.value.code == "E-IDEM-01"
    assert world.sql("SELECT count(*) FROM stanchion.task WHERE idempotency_key = 'both doors'") == [1]


def test_what_is_refused_says_why(http: Client, kafka: KafkaClient) -> None:
    """An unknown workflow and an input that does not fit are refused alike over both doors, and nothing is written."""
    for door in (http, kafka):
        with pytest.raises(StanchionError) as unknown:
            door.submit("e2e_nobody_knows_it")
        with pytest.raises(StanchionError) as unfit:
            door.submit("e2e_many", cuont=3)
        assert (unknown.value.code, unfit.value.code) == ("E-TASK-01", "E-TASK-02")


def test_it_waits_for_its_first_worker(world: World, tmp_path: Path) -> None:
    """A task of a workflow that no worker has yet stays ready, and runs when a worker comes."""
    text = """
from stanchion.workflow import Ctx, Workflow

early = Workflow("e2e_early")


@early.step()
async def work(ctx: Ctx) -> str:
    return "here I am"
"""
    target = tmp_path / "e2e_early_bird.py"
    target.write_text(text, encoding="utf-8")
    world.register(_early())
    task = world.submit("e2e_early")
    until(lambda: world.steps(task)[0]["state"] == "ready")
    worker = world.stack.add("worker", env={"STANCHION_TARGETS": str(target)})
    try:
        assert world.ended(task) == "completed"
        assert world.result(task, "work") == "here I am"
    finally:
        world.stack.remove(worker)
    world.judge(task)


def _early() -> Workflow:
    wf = Workflow("e2e_early")

    @wf.step()
    async def work(ctx: Ctx) -> str:
        return ""

    return wf


def test_a_version_waits_for_a_worker_that_has_it(world: World, http: Client, tmp_path: Path) -> None:
    """Workers with version 1 alone leave version 2 to those that come with it; the old ones go on with theirs."""
    text = """
from stanchion.workflow import Ctx, Workflow

pages = Workflow("e2e_versions", version={version})


@pages.step()
async def say(ctx: Ctx) -> int:
    return {version}
"""
    old, new = tmp_path / "e2e_v1.py", tmp_path / "e2e_v2.py"
    old.write_text(text.format(version=1), encoding="utf-8")
    new.write_text(text.format(version=2), encoding="utf-8")
    first = world.stack.add("worker", env={"STANCHION_TARGETS": str(old)})
    try:
        assert http.submit("e2e_versions").result(PATIENCE) == 1
        world.register(_second_version())
        waiting = http.submit("e2e_versions")
        assert http.submit("e2e_versions", version=1).result(PATIENCE) == 1
        assert waiting.info().state == "accepted"
        second = world.stack.add("worker", env={"STANCHION_TARGETS": str(new)})
        try:
            assert waiting.result(PATIENCE) == 2
        finally:
            world.stack.remove(second)
    finally:
        world.stack.remove(first)


def _second_version() -> Workflow:
    wf = Workflow("e2e_versions", version=2)

    @wf.step()
    async def say(ctx: Ctx) -> int:
        return 2

    return wf
