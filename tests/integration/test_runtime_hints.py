"""Hints over a real Valkey: fast when it is there, harmless when it is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis
from bus_kit import eventually, own_server

from stanchion.embedded import Endpoints
from stanchion.embedded.ports import free_port
from stanchion.embedded.valkey import Valkey
from stanchion.runtime.clock import monotonic
from stanchion.runtime.hints import Hints


@pytest.fixture
def hints(endpoints: Endpoints) -> Iterator[tuple[Hints, Hints]]:
    """Two processes' ends: one that publishes and one that listens."""
    one, other = Hints(endpoints.redis_url), Hints(endpoints.redis_url)
    yield one, other
    assert one.stop(5)
    assert other.stop(5)


def listening(hints: Hints, name: str) -> threading.Event:
    """An event that is subscribed by now: the first wake-up comes with the subscription itself."""
    event = hints.subscribe([name])
    eventually(event.is_set)
    event.clear()
    return event


def woken(publisher: Hints, name: str, event: threading.Event) -> bool:
    publisher.publish(name)
    return event.wait(0.05)


class TestDelivery:
    def test_a_hint_wakes_who_listens_to_its_name(self, hints: tuple[Hints, Hints]) -> None:
        """And nobody else."""
        one, other = hints
        relay, planner = listening(other, "relay"), listening(other, "planner")
        eventually(lambda: woken(one, "relay", relay))
        assert not planner.is_set()

    def test_one_event_may_listen_to_several_names(self, hints: tuple[Hints, Hints]) -> None:
        """A loop has one event to wait for."""
        one, other = hints
        event = threading.Event()
        assert other.subscribe(["a", "b"], event) is event
        for name in ("a", "b"):
            eventually(lambda name=name: woken(one, name, event))  # type: ignore[misc]
            event.clear()

    def test_a_burst_is_one_message(self, hints: tuple[Hints, Hints], endpoints: Endpoints) -> None:
        """Ten thousand commits a second must not become ten thousand messages."""
        one, _ = hints
        client = redis.Redis.from_url(endpoints.redis_url)
        watch = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        watch.subscribe("stanchion.hint.burst")
        eventually(lambda: client.pubsub_numsub("stanchion.hint.burst")[0][1] == 1)
        watch.get_message(timeout=5)  # the subscription's own confirmation
        started = monotonic()
        for _ in range(10_000):
            one.publish("burst")
        spent = monotonic() - started
        seen = 0
        while watch.get_message(timeout=0.5) is not None:
            seen += 1
        assert 1 <= seen <= spent / 0.002 + 3
        watch.close()
        client.close()

    def test_nothing_listens_and_nothing_happens(self, hints: tuple[Hints, Hints]) -> None:
        """A hint to nobody is no error."""
        hints[0].publish("nobody")


class TestWithoutValkey:
    def test_no_url_means_polling_alone(self) -> None:
        """No thread, no error, an event that nobody sets."""
        hints = Hints(None)
        event = hints.subscribe(["relay"])
        hints.publish("relay")
        assert not event.is_set()
        assert hints.stop(1)

    def test_publishing_never_waits_for_the_network(self) -> None:
        """A thousand hints to a port where nobody answers take no time."""
        hints = Hints(f"redis://127.0.0.1:{free_port()}/0")
        started = monotonic()
        for _ in range(1_000):
            hints.publish("relay")
        assert monotonic() - started < 1.0
        assert hints.stop(5)

    def test_a_frozen_server_does_not_hold_the_publisher(self) -> None:
        """Its socket is open and silent: only our own thread waits for it."""
        with own_server(Valkey) as valkey:
            hints = Hints(valkey.url)
            event = listening(hints, "relay")
            eventually(lambda: woken(hints, "relay", event))
            valkey.freeze()
            started = monotonic()
            for _ in range(1_000):
                hints.publish("relay")
            assert monotonic() - started < 1.0
            valkey.thaw()
            event.clear()
            eventually(lambda: woken(hints, "relay", event))
            assert hints.stop(5)

    def test_a_lost_server_is_found_again(self) -> None:
        """Listeners are woken once it is back, since they may have missed a hint meanwhile."""
        with own_server(Valkey) as valkey:
            hints = Hints(valkey.url)
            event = listening(hints, "relay")
            for _ in range(2):
                valkey.kill()
                hints.publish("relay")
                event.clear()  # while nobody can set it
                valkey.restart()
                eventually(event.is_set)
                event.clear()
                eventually(lambda: woken(hints, "relay", event))
            assert hints.stop(5)

    def test_it_may_start_before_its_server(self) -> None:
        """The services of a stack start in any order."""
        with own_server(Valkey) as valkey:
            valkey.kill()
            hints = Hints(valkey.url)
            event = hints.subscribe(["relay"])
            hints.publish("relay")
            valkey.restart()
            eventually(event.is_set)
            assert hints.stop(5)
