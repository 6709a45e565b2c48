"""Event streams: every event once and in order, over broken connections, slow commits and stopping servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import psycopg
import pytest
from task_service_kit import Api, Hand, uuid_of

from services.task_service.app import Connections, deps_of, event_feed
from services.task_service.http import create_app
from services.task_service.settings import TaskServiceSettings
from stanchion.bus.producer import Producer
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.hints import Hints
from stanchion.runtime.http import HttpServer
from stanchion.runtime.loop import Loop

Look = psycopg.Connection[tuple[Any, ...]]


def frames(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """(id, data) of the events in a stream."""
    found = ""
    for line in lines:
        if line.startswith("id: "):
            found = line[4:]
        elif line.startswith("data: "):
            yield found, json.loads(line[6:])


def read(api: Api, task: str, **options: Any) -> list[tuple[str, Any]]:
    """All events until the stream ends."""
    headers = {"last-event-id": options.pop("last")} if "last" in options else {}
    with api.http.stream("GET", f"/v1/tasks/{task}/events", params=options, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(frames(response.iter_lines()))


class Follower:
    """Follows a stream in a thread."""

    def __init__(self, api: Api, task: str, last: str = "") -> None:
        self.events: list[tuple[str, Any]] = []
        self.ended = threading.Event()
        self._args = (api, task, last)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        api, task, last = self._args
        headers = {"authorization": f"Bearer {api.key}", **({"last-event-id": last} if last else {})}
        with (
            httpx2.Client(base_url=api.http.base_url, headers=headers, timeout=30) as client,
            client.stream("GET", f"/v1/tasks/{task}/events") as response,
        ):
            for event in frames(response.iter_lines()):
                self.events.append(event)
        self.ended.set()


@contextmanager
def replica(settings: TaskServiceSettings, **changes: Any) -> Iterator[tuple[str, HttpServer, Any]]:
    """Another process's worth of the service: address, server, feed."""
    changed = settings.model_copy(update=changes)
    hints, connections = Hints(changed.redis_url.get_secret_value()), Connections(changed)
    producer = Producer(changed.kafka)
    feed = event_feed(changed, hints, connections)
    loop = Loop("feed", feed.run_once, idle_wait=1.0, wake=feed.wake)
    deps = deps_of(changed, connections.make("http", changed.db_pool), hints, producer, feed)
    server = HttpServer(create_app(changed, deps, {}), port=0)
    loop.start()
    server.start()
    try:
        yield server.url, server, feed
    finally:
        assert server.stop(10)
        loop.stop(5)
        connections.stop()
        hints.stop()


class TestStream:
    """GET /v1/tasks/{id}/events."""

    def test_the_whole_story_in_order(self, api: Api, hand: Hand) -> None:
        """From acceptance to the end; the stream ends by itself once the task has."""
        made = api.submit("pair", {"topic": "s"})
        hand.run(lambda lease: "x", made)
        events = read(api, made["task_id"])
        kinds = [event["type"] for _, event in events]
        assert kinds[0] == "TaskAccepted"
        assert kinds[-1] == "TaskCompleted"
        assert kinds.index("StepSucceeded") < kinds.index("BarrierReleased")
        assert [event["node"] for _, event in events if event["type"] == "StepLeased"] == ["first", "second"]
        assert len({event_id for event_id, _ in events}) == len(events)
        assert {event["task_id"] for _, event in events} == {made["task_id"]}

    def test_it_goes_on_behind_the_last_event(self, api: Api, hand: Hand) -> None:
        """Cut anywhere, by header or parameter: the two parts are the whole, nothing twice."""
        made = api.submit("pair", {"topic": "s"})
        hand.run(lambda lease: "x", made)
        whole = read(api, made["task_id"])
        for cut in (1, len(whole) // 2, len(whole) - 1):
            last = whole[cut - 1][0]
            assert whole[:cut] + read(api, made["task_id"], last=last) == whole
            assert whole[:cut] + read(api, made["task_id"], after=last) == whole
        assert read(api, made["task_id"], last=whole[-1][0]) == []

    def test_follow_false_ends_at_now(self, api: Api) -> None:
        """Also while the task goes on; with everything that had happened before the call."""
        made = api.submit("pair", {"topic": "s"})
        events = read(api, made["task_id"], follow="false")
        assert [event["type"] for _, event in events][:2] == ["TaskAccepted", "StepReady"]

    def test_a_follower_sees_what_happens(self, api: Api, hand: Hand, eventually: Callable[..., Any]) -> None:
        """Events come while they happen, and the stream ends with the task."""
        made = api.submit("pair", {"topic": "live"})
        follower = Follower(api, made["task_id"])
        eventually(lambda: len(follower.events) >= 2)
        for _ in range(2):
            hand.complete(hand.lease_of(made), lambda lease: "x")
        assert follower.ended.wait(20)
        assert follower.events == read(api, made["task_id"])

    def test_a_slow_transaction_is_waited_for(self, api: Api, look: Look, admin_url: str) -> None:
        """An event with a lower number that commits later is not skipped by whoever read past its number."""
        made = api.submit("single", {"x": 1})
        run, tenant = look.execute(
            "SELECT run_id, tenant_id FROM stanchion.task WHERE task_id = %s", (uuid_of(made["task_id"]),)
        ).fetchone()
        insert = "INSERT INTO stanchion.event (tenant_id, run_id, kind) VALUES (%s, %s, %s)"
        follower_start = read(api, made["task_id"], follow="false")
        with psycopg.connect(admin_url) as slow:
            slow.execute(insert, (tenant, run, "SlowOne"))
            look.execute(insert, (tenant, run, "FastOne"))
            follower = Follower(api, made["task_id"], follower_start[-1][0])
            assert not follower.ended.wait(0.3)
            assert follower.events == []
            slow.commit()
        assert _eventually(lambda: len(follower.events) == 2)
        assert {event["type"] for _, event in follower.events} == {"SlowOne", "FastOne"}
        api.post(f"/v1/tasks/{made['task_id']}/cancel", {}, 202)

    def test_many_events_come_in_pages(self, api: Api, hand: Hand) -> None:
        """Thousands of events of one task, each once."""
        made = api.submit("fan", {"count": 700})
        hand.run(lambda lease: list(range(700)) if lease.node == "split" else 1, made)
        events = read(api, made["task_id"])
        assert len(events) > 2_800
        assert len({event_id for event_id, _ in events}) == len(events)
        assert sum(event["type"] == "StepSucceeded" for _, event in events) == 702
        assert {event["index"] for _, event in events if event.get("node") == "work"} >= set(range(700))

    def test_another_replica_goes_on(self, api: Api, hand: Hand, settings: TaskServiceSettings) -> None:
        """A server that stops ends its streams at once; the reader finds the rest with another one."""
        made = api.submit("pair", {"topic": "move"})
        with replica(settings) as (url, server, _):
            there = Api(url, api.key)
            follower = Follower(there, made["task_id"])
            assert _eventually(lambda: len(follower.events) >= 2)
            server.quiesce()
            assert follower.ended.wait(10)
            there.close()
        hand.run(lambda lease: "x", made)
        whole = read(api, made["task_id"])
        assert follower.events + read(api, made["task_id"], last=follower.events[-1][0]) == whole

    @pytest.mark.parametrize("last", ["x", "1", "1-", "-1", "1-2-3", "99999999999999999999999-1", "1-1; DROP", "٣-٤"])
    def test_an_id_that_is_none_is_refused(self, api: Api, last: str) -> None:
        """422, not the beginning again."""
        made = api.submit("single", {})
        path = f"/v1/tasks/{made['task_id']}/events"
        assert api.get(path, 422, headers={"last-event-id": last.encode()})["code"] == "E-DATA-15"
        assert api.get(path, 422, params={"after": last})["code"] == "E-DATA-15"


class TestBounds:
    """What streams may cost."""

    def test_no_more_streams_than_allowed(self, api: Api, settings: TaskServiceSettings) -> None:
        """503 with Retry-After for the one too many; a place that is given up can be had again."""
        made = api.submit("pair", {"topic": "s"})
        with replica(settings, streams=2) as (url, _, feed):
            there = Api(url, api.key)
            with (
                there.http.stream("GET", f"/v1/tasks/{made['task_id']}/events") as one,
                there.http.stream("GET", f"/v1/tasks/{made['task_id']}/events"),
            ):
                problem = there.get(f"/v1/tasks/{made['task_id']}/events", 503)
                assert problem["code"] == "E-BUSY-01"
                assert one.status_code == 200
            assert _eventually(lambda: feed.count == 0)
            assert there.http.get(f"/v1/tasks/{made['task_id']}/events?follow=false").status_code == 200
            there.close()

    def test_who_leaves_costs_nothing_more(self, api: Api, settings: TaskServiceSettings, look: Look) -> None:
        """40 clients, each gone in the middle: no reader, no connection and no thread stays."""
        made = api.submit("pair", {"topic": "s"})
        with replica(settings, streams=200) as (url, _, feed):
            before = threading.active_count()
            for _ in range(40):
                client = httpx2.Client(base_url=url, headers={"authorization": f"Bearer {api.key}"}, verify=False)
                request = client.build_request("GET", f"/v1/tasks/{made['task_id']}/events")
                response = client.send(request, stream=True)
                assert response.status_code == 200
                response.close()
                client.close()
            assert _eventually(lambda: feed.count == 0)
            assert threading.active_count() <= before + settings.http_threads
            idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
            assert look.execute(idle).fetchone() == (0,)

    def test_silence_is_broken_by_heartbeats_and_ends_in_time(self, api: Api, settings: TaskServiceSettings) -> None:
        """Comments keep proxies from cutting; after its time the stream ends, so that a revoked key has an end too."""
        made = api.submit("pair", {"topic": "s"})
        with replica(settings, stream_heartbeat_seconds=0.05, stream_seconds=0.5) as (url, _, _feed):
            there = Api(url, api.key)
            text = there.http.get(f"/v1/tasks/{made['task_id']}/events").text
            assert text.count(":\n\n") >= 2
            assert text.startswith("retry: 2000\n\n")
            there.close()


def _eventually(probe: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = Deadline(seconds)
    while not probe():
        if deadline.passed:
            return False
        pause(0.01)
    return True
