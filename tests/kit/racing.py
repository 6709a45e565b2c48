"""Races: several threads, each with a connection of its own, let go at the same moment again and again."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

from kit.engine import Engine

SECONDS = 120


def race(times: int, *acts: Callable[[int], Any]) -> list[list[Any]]:
    """Call each act with 0, 1, 2 ... in a thread of its own, all at the same moment; returns the answers by act.

    The first exception of any act is raised here.
    """
    gate = Barrier(len(acts))
    answers: list[list[Any]] = [[] for _ in acts]
    errors: list[BaseException] = []

    def run(number: int, act: Callable[[int], Any]) -> None:
        try:
            for n in range(times):
                gate.wait(SECONDS)
                answers[number].append(act(n))
        except BaseException as error:
            errors.append(error)
            gate.abort()

    threads = [Thread(target=run, args=(n, act), daemon=True) for n, act in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(t.is_alive() for t in threads), "a race has not ended"
    real = [e for e in errors if type(e).__name__ != "BrokenBarrierError"]
    if real:
        raise real[0]
    return answers


def deadlocks(engine: Engine) -> int:
    """How many transactions this database has ended as victims of a deadlock."""
    engine.admin.execute("SELECT pg_stat_force_next_flush()")
    return int(engine.one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0])
