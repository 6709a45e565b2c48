"""What stands in Redis is not trusted: whoever can write there can cost time, and nothing else."""

from __future__ import annotations

import io
import json
import pickle
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis
from maintenance_kit import QUEUE, Hand, rows
from rq import Queue

from services.workers.maintenance.guarded_job import FUNCTION
from services.workers.maintenance.redis_link import RedisLink
from stanchion.errors import Unprocessable

if TYPE_CHECKING:
    from kit.databases import Databases

Admin = psycopg.Connection[tuple[Any, ...]]


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self.marker, "fired"))


def plant(client: redis.Redis, name: str = "planted", **fields: Any) -> None:
    """Write an entry straight into Redis."""
    good = {
        "data": zlib.compress(
            json.dumps([FUNCTION, None, ["test", "x", "00000000-0000-0000-0000-000000000000", 0], {}]).encode()
        ),
        "origin": f"{QUEUE}-periodic",
        "status": "queued",
        "created_at": "2030-01-01T00:00:00.000000Z",
    }
    client.hset(f"rq:job:{name}", mapping={key: value for key, value in (good | fields).items() if value is not None})
    client.rpush(f"rq:queue:{QUEUE}-periodic", name)


@pytest.fixture(scope="module")
def module_url(databases: Databases) -> Iterator[str]:
    """One database for all tests of this module: what they damage is in Redis."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def database_url(module_url: str) -> str:
    """The same, without jobs."""
    with psycopg.connect(module_url, autocommit=True) as connection:
        connection.execute("DELETE FROM stanchion.maintenance_job")
    return module_url


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that must never be written."""
    return tmp_path / "marker"


class TestPickles:
    """Nothing that comes out of Redis is unpickled."""

    @pytest.mark.parametrize("packed", [False, True])
    def test_a_pickled_entry_is_refused(
        self, hand: Hand, client: redis.Redis, marker: Path, logged: io.StringIO, packed: bool
    ) -> None:
        """Its code never runs, it is reported, and it is gone; the entry behind it is done."""
        data = pickle.dumps((FUNCTION, Trap(marker), (), {}))
        plant(client, data=zlib.compress(data) if packed else data)
        hand.planner.run_once()
        hand.drain()
        assert not marker.exists()
        assert "maintenance.entry_refused" in logged.getvalue()
        assert not client.exists("rq:job:planted")
        assert len(hand.calls) == 1

    def test_an_entry_of_a_pickling_client_is_refused(self, hand: Hand, client: redis.Redis, marker: Path) -> None:
        """What RQ itself would queue by its default."""
        Queue(f"{QUEUE}-periodic", connection=client).enqueue("pathlib.Path.write_text", marker, "fired")
        hand.drain()
        assert not marker.exists()
        assert not client.keys("rq:job:*")

    @pytest.mark.parametrize("field", ["result", "meta", "exc_info", "webhooks", "retry_intervals", "dependency_ids"])
    def test_pickles_in_other_fields_are_never_read(
        self, hand: Hand, client: redis.Redis, marker: Path, field: str
    ) -> None:
        """The entry itself is taken as if they were not there."""
        plant(client, **{field: pickle.dumps(Trap(marker))})
        hand.drain()
        assert not marker.exists()

    def test_pickled_results_beside_an_entry_are_never_read(
        self, hand: Hand, client: redis.Redis, marker: Path
    ) -> None:
        """Nor is what stands in the stream of its results."""
        client.xadd("rq:results:planted", {"type": "1", "return_value": pickle.dumps(Trap(marker))})
        plant(client)
        hand.drain()
        assert not marker.exists()


class TestCalls:
    """An entry names no function to import."""

    @pytest.mark.parametrize(
        "call",
        [
            ["os.system", None, ["touch {marker}"], {}],
            ["pathlib.Path.write_text", None, ["{marker}", "fired"], {}],
            ["write_text", "{marker}", ["fired"], {}],
            [FUNCTION, "x", ["test", "x", "0", 0], {}],
            [FUNCTION, None, ["test", "x", "not a uuid", 0], {}],
            [FUNCTION, None, ["test", "x"], {}],
            [FUNCTION, None, ["test", "x", "00000000-0000-0000-0000-000000000000", True], {}],
            [FUNCTION, None, ["test", "x" * 201, "00000000-0000-0000-0000-000000000000", 0], {}],
            [FUNCTION, None, {"kind": "test"}, {}],
            [FUNCTION, None, ["test", "x", "00000000-0000-0000-0000-000000000000", 0], {"more": 1}],
            {"a": 1},
            None,
            7,
        ],
    )
    def test_any_other_call_is_refused(self, hand: Hand, client: redis.Redis, marker: Path, call: object) -> None:
        """Nothing is imported, nothing is called."""
        plant(client, data=zlib.compress(json.dumps(call).replace("{marker}", str(marker)).encode()))
        hand.drain()
        assert not marker.exists()
        assert hand.calls == []
        assert not client.exists("rq:job:planted")

    @pytest.mark.parametrize("moment", ["success", "failure", "stopped"])
    def test_callbacks_of_an_entry_are_never_called(self, hand: Hand, client: redis.Redis, moment: str) -> None:
        """Their names are not even looked up."""
        plant(client, **{f"{moment}_callback_name": "os.abort"})
        hand.drain()

    def test_an_entry_can_not_claim_what_is_not_due(self, hand: Hand, client: redis.Redis, admin: Admin) -> None:
        """A well-formed forgery finds no job of that name and fence."""
        plant(client)
        hand.drain()
        assert rows(admin) == []
        assert hand.calls == []


class TestRubbish:
    """Whatever stands in the lists, jobs go on."""

    @pytest.mark.parametrize(
        "fields",
        [
            {"data": b""},
            {"data": None},
            {"data": b"\xff\xfe\x00"},
            {"data": zlib.compress(b"[" * 100_000)},
            {"data": zlib.compress(b"0" * 50_000_000)},
            {"data": b"x" * 1_000_000},
            {"status": "no such state"},
            {"origin": b"\xff\xff"},
            {"created_at": "yesterday"},
            {"enqueued_at": b"\x80"},
            {
                "timeout": "never",
                "ttl": "x",
                "result_ttl": "-1",
                "failure_ttl": "x",
                "retries_left": "x",
                "number_of_retries": "y",
            },
        ],
    )
    def test_a_malformed_entry_stops_nothing(self, hand: Hand, client: redis.Redis, fields: dict[str, Any]) -> None:
        """The one behind it is done."""
        plant(client, **fields)
        hand.planner.run_once()
        hand.drain()
        assert len(hand.calls) == 1

    @pytest.mark.parametrize("name", [b"\xff\xfe", b"", b"a:b", b"x" * 5_000, b"../../x", b"\r\n", "ключ".encode()])
    def test_a_malformed_id_stops_nothing(self, hand: Hand, client: redis.Redis, name: bytes) -> None:
        """It is popped, and that is the end of it."""
        client.rpush(f"rq:queue:{QUEUE}-periodic", name)
        hand.planner.run_once()
        hand.drain()
        assert len(hand.calls) == 1

    def test_rubbish_in_the_registries_stops_nothing(self, hand: Hand, client: redis.Redis) -> None:
        """RQ's tidying fails on it; jobs don't."""
        for part in ("wip", "finished", "failed", "deferred", "scheduled", "canceled", "ready"):
            client.zadd(f"rq:{part}:{QUEUE}-periodic", {b"\xff\xfe:\xff": 1, b"x": 1})
        client.sadd(f"rq:workers:{QUEUE}-periodic", b"\xff")
        hand.planner.run_once()
        hand.drain()
        assert len(hand.calls) == 1

    def test_keys_of_the_wrong_type_stop_nothing_for_long(self, hand: Hand, client: redis.Redis) -> None:
        """A list that is no list: the planner waits, and goes on once it is gone."""
        client.set(f"rq:queue:{QUEUE}-periodic", "x")
        assert hand.planner.run_once() > 0
        client.delete(f"rq:queue:{QUEUE}-periodic")
        hand.link.usable()
        hand.planner.run_once()
        hand.drain()

    def test_an_entry_can_not_stay_for_ever(self, hand: Hand, client: redis.Redis) -> None:
        """How long it stays is not for the entry to say."""
        plant(client, result_ttl="-1", failure_ttl="-1", ttl="-1", timeout="-1")
        hand.drain()
        assert not client.exists("rq:job:planted")

    def test_nobody_steers_a_worker_through_redis(self, hand: Hand, client: redis.Redis) -> None:
        """RQ's switch for all workers, and its commands, mean nothing here."""
        client.set("rq:workers:suspended", 1)
        client.set("rq:suspended", 1)
        hand.planner.run_once()
        hand.take()
        client.publish(f"rq:pubsub:{hand.runner._worker.name}", json.dumps({"command": "shutdown"}))  # type: ignore[union-attr]
        assert len(hand.calls) == 1
        assert client.pubsub_numsub(f"rq:pubsub:{hand.runner._worker.name}")[0][1] == 0  # type: ignore[union-attr]

    def test_what_we_queue_is_json(self, hand: Hand, client: redis.Redis) -> None:
        """And every entry has an end."""
        hand.planner.run_once()
        (key,) = client.keys("rq:job:*")
        call = json.loads(zlib.decompress(client.hget(key, "data")))
        assert call[:2] == [FUNCTION, None]
        assert 0 < client.ttl(key) <= 900


class TestMemory:
    """A server that drops entries when its memory is full."""

    @pytest.fixture
    def policy(self, client: redis.Redis) -> Any:
        """Set a policy; the old one comes back at the end."""
        before = {name: client.config_get(name)[name] for name in ("maxmemory-policy", "maxmemory")}
        yield (
            lambda value, limit="0": (
                client.config_set("maxmemory-policy", value) and client.config_set("maxmemory", limit)
            )
        )
        for name, value in before.items():
            client.config_set(name, value)

    def test_it_is_refused_at_the_start(self, redis_url: str, policy: Callable[..., Any], logged: io.StringIO) -> None:
        """E-MAINT-01, with the setting that allows it all the same."""
        policy("allkeys-lru")
        link = RedisLink(redis_url, strict=True)
        with pytest.raises(Unprocessable) as caught:
            link.start()
        assert caught.value.code == "E-MAINT-01"
        assert link.usable() is False
        link.stop()
        assert logged.getvalue().count("maintenance.redis_evicts") == 1

    def test_in_the_dev_profile_it_is_a_warning(
        self, hand: Hand, policy: Callable[..., Any], logged: io.StringIO
    ) -> None:
        """Jobs are done, and it is said once."""
        policy("volatile-lru")
        hand.link.start()
        hand.planner.run_once()
        hand.drain()
        assert len(hand.calls) == 1
        assert logged.getvalue().count("maintenance.redis_evicts") == 1

    def test_dropped_entries_are_derived_again(
        self, hand: Hand, client: redis.Redis, policy: Callable[..., Any]
    ) -> None:
        """A server that evicts under pressure costs time, no job."""
        policy("allkeys-lru")
        for n in range(30):
            hand.periods[f"kind-{n}"] = 3_600
            hand.works[f"kind-{n}"] = hand.works["test"]
        hand.planner.run_once()
        for key in client.keys("rq:job:*")[::2]:
            client.delete(key)
        hand.drain()
        hand.planner.run_once()
        hand.drain()
        assert len({job.kind for job in hand.calls}) == len(hand.calls) == 31

    def test_a_full_server_is_waited_for(
        self, hand: Hand, client: redis.Redis, policy: Callable[..., Any], logged: io.StringIO
    ) -> None:
        """With noeviction it refuses entries; nothing fails, and they are added once there is room."""
        policy("noeviction", "1")
        assert hand.planner.run_once() > 0
        assert "maintenance.redis_full" in logged.getvalue()
        policy("noeviction")
        hand.planner.run_once()
        hand.drain()
        assert len(hand.calls) == 1
