"""The clients against running services, over connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cutting_proxy import CuttingProxy

from stanchion import AsyncClient, Client, KafkaClient
from stanchion.cli.stack import Stack
from stanchion.errors import Conflict, NotFound, Unavailable, Unprocessable
from stanchion.sdk.faults import TaskCancelled, TaskFailed, WaitTimeout

Eventually = Callable[..., Any]
PATIENCE = 60.0


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with Client(stack.api_url, stack.api_key) as made:
        yield made


@pytest.fixture
def proxy(stack: Stack) -> Iterator[CuttingProxy]:
    with CuttingProxy(int(urlsplit(stack.api_url).port or 0)) as made:
        yield made


def count(client: Client, tag: str) -> int:
    return len(client.list(tag=tag, limit=100).items)


def test_a_task_runs_to_its_result(client: Client) -> None:
    """Submit, wait, result; the handle knows its id and that it was new."""
    handle = client.submit("squares", n=4, tags=["sdk"], priority=5)
    assert (handle.duplicate, handle.state) == (False, "accepted")
    assert handle.result(timeout=PATIENCE) == 14
    info = handle.info()
    assert (info.ended, info.state, info.workflow, info.version) == (True, "completed", "squares", 1)
    assert client.get(handle.id).data["priority"] == 5


def test_a_submission_whose_answer_got_lost_is_one_task(stack: Stack, client: Client, proxy: CuttingProxy) -> None:
    """The server has accepted it, the client never heard: it asks again with the same key, though nobody gave one."""
    proxy.cut_answers = 2
    with Client(proxy.url, stack.api_key) as broken:
        handle = broken.submit("squares", n=1, tags=["lost-answer"])
    assert proxy.requests == 3
    assert handle.duplicate
    assert count(client, "lost-answer") == 1


def test_what_may_not_be_repeated_is_not(stack: Stack, client: Client, proxy: CuttingProxy, tmp_path: Path) -> None:
    """A retry whose answer got lost may have been done: the caller is told so, and decides."""
    handle = client.submit("failing", mended=str(tmp_path / "mended"))
    assert handle.wait(PATIENCE).state == "failed"
    (tmp_path / "mended").touch()
    proxy.cut_answers = 1
    with Client(proxy.url, stack.api_key) as broken, pytest.raises(Unavailable) as refused:
        broken.retry(handle.id)
    assert "may or may not have been done" in (refused.value.why or "")
    assert proxy.requests == 1
    assert handle.wait(PATIENCE).state == "completed"


def test_kept_connections_that_the_server_closed_are_not_used(stack: Stack, proxy: CuttingProxy) -> None:
    """Two calls use one connection; one that was closed meanwhile is replaced without a failed request."""
    with Client(proxy.url, stack.api_key) as kept:
        kept.list(limit=1)
        connection = kept.transport._free[0]
        kept.list(limit=1)
        assert kept.transport._free == [connection]
        proxy.cut_all()
        before = proxy.requests
        assert kept.list(limit=1) is not None
        assert proxy.requests == before + 1


def test_events_end_in_time(stack: Stack, client: Client, tmp_path: Path) -> None:
    """Of a task that goes on: with an error that says so, and not at the server's next word."""
    held = client.submit("gated", gate=str(tmp_path / "never"))
    seen: list[str] = []
    with pytest.raises(WaitTimeout):
        seen.extend(event.type for event in client.events(held.id, timeout=0.5))
    client.cancel(held.id)


def test_events_go_on_behind_the_last_one_that_came(stack: Stack, client: Client, proxy: CuttingProxy) -> None:
    """A stream that is cut in the middle of an event is opened again: every event once, in order."""
    handle = client.submit("squares", n=20)
    handle.wait(PATIENCE)
    whole = list(client.events(handle.id))
    for after in (400, 3_000, 9_000):
        proxy.cut_stream_after = after
        with Client(proxy.url, stack.api_key) as broken:
            assert [event.id for event in broken.events(handle.id)] == [event.id for event in whole]
        assert proxy.cut_stream_after == 0, "it was cut"
    assert [event.id for event in client.events(handle.id, after=whole[4].id)] == [event.id for event in whole[5:]]
    assert whole[0].type == "TaskAccepted"
    assert whole[-1].type == "TaskCompleted"


def test_errors_keep_their_families(client: Client, tmp_path: Path) -> None:
    """What the caller must change, what is not there, and what is too early are told apart by class."""
    with pytest.raises(Unprocessable) as refused:
        client.submit("nothing")
    assert refused.value.details["request_id"]
    with pytest.raises(NotFound):
        client.get("tsk_" + "0" * 26)
    handle = client.submit("gated", gate=str(tmp_path / "gate"))
    with pytest.raises(Conflict):
        client.result(handle.id)
    with pytest.raises(WaitTimeout):
        handle.wait(0.05)
    with pytest.raises(TimeoutError):
        handle.wait(0)
    handle.cancel(reason="test")
    (tmp_path / "gate").touch()
    with pytest.raises(TaskCancelled):
        handle.result(PATIENCE)
    failed = client.submit("failing", mended=str(tmp_path / "never"))
    with pytest.raises(TaskFailed) as told:
        failed.result(PATIENCE)
    assert told.value.task_id == failed.id


def test_nobody_there_is_unavailable_in_bounded_time() -> None:
    """A port where nothing listens, tried a few times."""
    with Client("http://127.0.0.1:9", "k", timeout=1.0) as nobody, pytest.raises(Unavailable) as refused:
        nobody.list()
    assert refused.value.code == "E-API-01"


@pytest.mark.asyncio
async def test_the_async_client_does_the_same(stack: Stack, tmp_path: Path) -> None:
    """Submit, follow, wait and result without blocking the loop; many waits at once need no thread each."""
    gate = tmp_path / "gate"
    async with AsyncClient(stack.api_url, stack.api_key) as client:
        handles = [await client.submit("gated", gate=str(gate)) for _ in range(4)]
        waits = [asyncio.create_task(handle.wait(PATIENCE)) for handle in handles * 10]
        seen = [event.type async for event in handles[0].events(follow=False)]
        assert seen[0] == "TaskAccepted"
        gate.touch()
        assert {info.state for info in await asyncio.gather(*waits)} == {"completed"}
        assert await handles[0].result(PATIENCE) == f"report\n{gate}"
        assert (await handles[0].info()).ended
        followed = [event.type async for event in handles[0].events()]
        assert followed[-1] == "TaskCompleted"
        with pytest.raises(NotFound):
            await client.get("tsk_" + "0" * 26)
        held = await client.submit("gated", gate=str(tmp_path / "never"))
        with pytest.raises(WaitTimeout):
            await held.wait(0.05)

        async def listen() -> None:
            async for _ in held.events():
                pass

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(listen(), 0.2)
        await held.cancel()


def test_over_kafka_the_same_key_is_the_same_task(stack: Stack, client: Client) -> None:
    """Accepted, duplicate and refused, each by its own answer."""
    with KafkaClient(stack.endpoints.kafka_bootstrap, tenant=stack.tenant) as kafka:
        first = kafka.submit("squares", n=2, key="over-kafka")
        again = kafka.submit("squares", n=2, key="over-kafka")
        assert (first.duplicate, again.duplicate, again.task_id) == (False, True, first.task_id)
        with pytest.raises(Unprocessable) as refused:
            kafka.submit("squares", n=3, key="over-kafka")
        assert refused.value.code == "E-IDEM-01"
        with pytest.raises(Unprocessable):
            kafka.submit("nothing")
        assert client.wait(first.task_id, PATIENCE).state == "completed"
        with pytest.raises(Conflict):
            kafka.cancel(first.task_id)


def test_over_kafka_a_task_is_cancelled(stack: Stack, client: Client, tmp_path: Path) -> None:
    """The answer says that the cancel is on record; the end follows."""
    with KafkaClient(stack.endpoints.kafka_bootstrap, tenant=stack.tenant) as kafka:
        receipt = kafka.submit("gated", gate=str(tmp_path / "gate"))
        assert kafka.cancel(receipt.task_id, reason="test") in ("cancelling", "cancelled")
    (tmp_path / "gate").touch()
    assert client.wait(receipt.task_id, PATIENCE).state == "cancelled"


def test_a_command_outlives_the_task_service(stack: Stack, client: Client) -> None:
    """Nobody answers for a while: the client waits, sends again, and there is one task in the end."""
    service = stack.service("task-service")
    service.supervise = False
    service.kill()
    try:
        with KafkaClient(stack.endpoints.kafka_bootstrap, tenant=stack.tenant) as kafka:
            with pytest.raises(WaitTimeout) as late:
                kafka.submit("squares", n=1, key="outlives", tags=["outlives"], timeout=2)
            assert late.value.details["key"] == "outlives"
            service.supervise = True
            receipt = kafka.submit("squares", n=1, key="outlives", tags=["outlives"], timeout=PATIENCE)
    finally:
        service.supervise = True
    assert receipt.duplicate
    assert count(client, "outlives") == 1
