"""A nemesis that kills and freezes at random while tasks of all kinds go on, then heals, then everything is judged.

The seed is printed; `--seed` replays the choices (what the processes do between them is theirs).
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from fault_flows import busy_result
from fault_lanes import LEASE_SECONDS, Expected
from kit.world import PATIENCE, World, let_pass, until

from stanchion.cli.service_process import ServiceProcess

ROUND_SECONDS = {"once": 15.0, "ci": 60.0, "full": 1_800.0}
HEAL_SECONDS = 3 * LEASE_SECONDS
OPEN_TASKS = 6


class Nemesis:
    """Breaks one thing after the other; what it froze is thawed by a timer of its own, whatever it waits for meanwhile."""

    def __init__(self, world: World, seed: int, say: Callable[[str], None]) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.say = say
        self.frozen: dict[Any, threading.Timer] = {}
        self.faults: list[str] = []
        # which faults there are at all differs from seed to seed: rare ones meet each other more often this way
        rare = [
            self.crash_database,
            self.freeze_database,
            self.empty_broker,
            self.freeze_broker,
            self.flush_valkey,
            self.end_sessions,
        ]
        self.kinds = [self.kill, self.freeze, *self.random.sample(rare, 3)]
        self.weights = [6.0, 5.0, *(self.random.uniform(0.3, 1.5) for _ in self.kinds[2:])]

    def strike(self) -> None:
        """One fault."""
        kind = self.random.choices(self.kinds, self.weights)[0]
        what = f"{kind.__name__} {kind() or ''}".strip()
        self.faults.append(what)
        self.say(f"  {what}")

    def heal(self) -> None:
        """Let nothing stand still any more."""
        for one, timer in list(self.frozen.items()):
            timer.cancel()
            self._thaw(one)

    def _thaw(self, one: Any) -> None:
        one.thaw()
        self.frozen.pop(one, None)

    def kill(self) -> str:
        """A service, by SIGKILL."""
        service = self._any()
        service.kill(signal.SIGKILL)
        return service.name

    def freeze(self) -> str:
        """A service, for less or more than a lease."""
        return self._freeze(self._any())

    def freeze_database(self) -> str:
        """PostgreSQL with all its sessions."""
        return self._freeze(self.world.stack.servers.postgres)

    def freeze_broker(self) -> str:
        """The broker."""
        kafka = self.world.stack.servers.kafka
        return self._freeze(getattr(kafka, "nodes", (kafka,))[0])

    def _freeze(self, one: Any) -> str:
        seconds = LEASE_SECONDS * self.random.uniform(0.3, 2.0)
        if one in self.frozen:
            return f"{one.name}, which stands still"
        one.freeze()
        # not by this thread: what it does next may wait for what stands still
        self.frozen[one] = threading.Timer(seconds, self._thaw, [one])
        self.frozen[one].start()
        return f"{one.name} for {seconds:.1f} s"

    def crash_database(self) -> None:
        """PostgreSQL, by SIGKILL."""
        self.world.stack.servers.postgres.kill()

    def empty_broker(self) -> None:
        """The broker; the embedded one comes back empty."""
        self.world.stack.servers.kafka.kill()

    def flush_valkey(self) -> None:
        """Valkey."""
        self.world.stack.servers.valkey.kill()

    def end_sessions(self) -> None:
        """Every session of every service."""
        self.world.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'stanchion %%'"
        )

    def _any(self) -> ServiceProcess:
        return self.random.choice([s for s in self.world.stack.services if s not in self.frozen])


class Load:
    """Keeps tasks of all kinds going."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed + 1)
        self.expected: list[Expected] = []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run, name="load", daemon=True)

    def run(self) -> None:
        """Submit whenever few are open."""
        while not self.ending.is_set():
            sql = "SELECT count(*) FROM stanchion.task WHERE task_id = ANY (%s) AND ended_at IS NULL"
            if self.world.sql(sql, [e.task.task_id for e in self.expected[-50:]])[0] < OPEN_TASKS:
                self.submit()
            self.ending.wait(0.1)

    def submit(self) -> None:
        """One task of a random kind."""
        kind = self.random.randrange(5)
        submit = self.world.submit
        if kind == 0:
            self.expected.append(Expected(submit("fault_busy"), "completed", "last", busy_result()))
        elif kind == 1:
            self.expected.append(Expected(submit("fault_upkeep"), "completed", "winner", 1))
        elif kind == 2:
            self.expected.append(Expected(submit("fault_wide", count=200), "completed", "sum_up", [200, 19_900]))
        elif kind == 3:
            self.expected.append(Expected(submit("fault_doomed"), "failed"))
        else:
            self.expected.append(Expected(submit("fault_simple", number=3), "completed", "one", 4))


def test_random_faults(world: World, seed: int, request: pytest.FixtureRequest, say: Callable[[str], None]) -> None:
    """After any mix of faults and a time to heal, all tasks have ended as they must, and new ones end too."""
    campaign, subset = request.config.getoption("--campaign"), request.config.getoption("--subset")
    seconds = ROUND_SECONDS[subset or campaign]
    say(f"nemesis: --seed {seed}, {seconds:g} s")
    nemesis, load = Nemesis(world, seed, say), Load(world, seed)
    load.thread.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        nemesis.strike()
        let_pass(nemesis.random.uniform(0.2, 1.5))
    nemesis.heal()
    load.ending.set()
    load.thread.join(PATIENCE)
    let_pass(HEAL_SECONDS)
    tail = [Expected(world.submit("fault_busy"), "completed", "last", busy_result()) for _ in range(3)]
    for one in (*load.expected, *tail):
        one.verify(world)
    world.judge(*(e.task for e in (*load.expected, *tail)), seconds=2 * PATIENCE)
    until(lambda: world.sql("SELECT count(*) = 0 FROM stanchion.outbox")[0], what="an empty outbox")
    say(f"nemesis: {len(nemesis.faults)} faults, {len(load.expected)} tasks")
