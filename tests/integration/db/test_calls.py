"""Steps that a lost worker gave up are offered where it read; whoever is called looks for them in the database itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kit.crew import crew
from kit.engine import Engine
from kit.flows import single

from services.orchestrator.lease_reaper import LeaseReaper
from stanchion.runtime.hints import WORKERS, Hints

if TYPE_CHECKING:
    from stanchion.embedded import Endpoints

NEVER = 3_600.0


def test_a_worker_that_is_called_takes_over_what_was_offered_elsewhere(engine: Engine) -> None:
    """Without the call it would wait for its next look, or for the group to give it the lost worker's partitions."""
    engine.submit_all(single("left"), [({}, None)] * 2)
    lost = engine.worker(ttl_ms=1)
    assert len(lost.take()) == 2
    engine.upkeep.reap(10)
    with crew(engine) as other:
        other.foreman.find_seconds = NEVER
        other.foreman._look_at = NEVER * 1e6
        other.foreman.run_once()
        assert not other.foreman.held
        other.foreman.called.set()
        assert other.foreman.run_once() is True
        assert {a.lease.fence for a in other.foreman.held.values()} == {2}
        assert not other.foreman.called.is_set()


def test_the_reaper_calls_the_workers(engine: Engine, endpoints: Endpoints) -> None:
    engine.submit_all(single("left"), [({}, None)])
    engine.worker(ttl_ms=1).take()
    hints, called = Hints(endpoints.redis_url), threading.Event()
    hints.start()
    try:
        hints.subscribe([WORKERS], called)
        assert called.wait(10), "every listener is woken once it is connected"
        called.clear()
        LeaseReaper(engine.upkeep, hints).run_once()
        assert called.wait(10)
    finally:
        hints.stop()


def test_a_call_for_nothing_costs_one_look(engine: Engine) -> None:
    with crew(engine) as other:
        other.foreman.find_seconds = NEVER
        other.foreman.called.set()
        assert other.foreman.run_once() is not True
        assert not other.foreman.called.is_set()
