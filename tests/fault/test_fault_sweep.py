"""The sweep: a process is killed or frozen at each failpoint, before, during and after COMMIT, and all ends well.

`once` fires each failpoint once, by a fixed scheme of kill and freeze, in lanes that run side by side on one
long-lived stack. `full` fires the product of failpoints, actions and hits, one at a time, and judges the history after
each. Its subset `ci` fires each with the action that `once` leaves out; that of `once`, for other brokers, only what
touches the broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from fault_door import DoorLane
from fault_effects import WHISPER, done
from fault_lanes import (
    EFFECTS,
    Lane,
    MaintenanceLane,
    OrchestratorLane,
    OutcomeLane,
    RelayLane,
    Shot,
    WorkerLane,
    run_side_by_side,
)
from kit.world import World, until

import services.outbox_relay.publisher
import services.task_service.intake
import services.workers.maintenance.bulk
import services.workers.maintenance.performer
import services.workers.slots  # noqa: F401 - these declare failpoints
import stanchion.sdk.gateway  # noqa: F401 - and this
from stanchion.db.engine import PHASES, TRANSACTIONS
from stanchion.runtime.failpoints import FAILPOINTS

PLACES: dict[str, type[Lane]] = {
    **dict.fromkeys(
        (
            *("submit", "cancel", "pause", "reopen", "open_barrier", "retry", "intake", "curate"),
            *("op_tell", "vote", "revoke"),
        ),
        DoorLane,
    ),
    **dict.fromkeys(("lease", "renew", "give_back", "bury", "step"), WorkerLane),
    **dict.fromkeys(("complete", "steer", "fail", "ask", "begin_artifact", "flip_artifact", "artifact"), OutcomeLane),
    **dict.fromkeys(EFFECTS, OutcomeLane),
    **dict.fromkeys(("expand", "timers", "reap", "offer", "sweep_run", "sweep_barrier", "set_aside"), OrchestratorLane),
    **dict.fromkeys(("relay_claim", "relay_delete", "relay"), RelayLane),
    **dict.fromkeys(("maintenance", "act_for_job"), MaintenanceLane),
}
"""In which process each transaction, and each place between two of them, is broken."""

VICTIMS = {
    DoorLane: "task-service-2",
    WorkerLane: "worker-2",
    OutcomeLane: "worker-3",
    OrchestratorLane: "orchestrator-2",
    RelayLane: "outbox-relay-2",
    MaintenanceLane: "maintenance-2",
}
ACTIONS = ("kill", "stop")
NAMES = sorted(name for name in FAILPOINTS if not name.startswith("test"))


BROKER = ("intake", "relay", "relay_claim", "relay_delete", "bury", "lease", "renew")
"""What touches the broker; and what is killed while it renews holds something for certain, which is offered again."""


def shots_of(lane: type[Lane], campaign: str, subset: str | None) -> list[Shot]:
    """What is fired in one lane."""
    names = [name for name in NAMES if PLACES.get(name.partition(".")[0]) is lane]
    if campaign == "full" and subset is None:
        product = [Shot(name, action, nth) for name in names for action in ACTIONS for nth in (1, 3)]
        return [shot for shot in product if shot.nth == 1 or shot.transaction != "give_back"]  # a process ends once
    other = campaign == "full"
    # one kill for two freezes, which need no new process; from one transaction to the next the kill wanders over its phases
    kills = {name for i, name in enumerate(names) if (i + i // len(PHASES)) % len(PHASES) == 0}
    shots = [Shot(name, ACTIONS[(name in kills) == other]) for name in names]
    return [shot for shot in shots if other or subset is None or shot.transaction in BROKER]


class Sweep:
    """The lanes of a campaign, run to their end."""

    def __init__(self, world: World, campaign: str, subset: str | None, say: Callable[[str], None]) -> None:
        self.say = say
        self.started = time.monotonic()
        service = world.stack.service
        self.lanes = [
            lane(
                world,
                service(victim),
                [service(victim[:-1] + "1")] if lane is not MaintenanceLane else [],  # jobs come to it by themselves
                shots_of(lane, campaign, subset),
                after_each=self._after,
                one_by_one=campaign == "full" and subset is None,
            )
            for lane, victim in VICTIMS.items()
        ]
        if campaign == "full" and subset is None:
            self.failures = [failure for one in self.lanes for failure in run_side_by_side([one])]
        else:
            self.failures = run_side_by_side(self.lanes)

    def _after(self, lane: Lane, shot: Shot) -> None:
        self.say(f"{time.monotonic() - self.started:6.1f} s  {shot}")
        if lane.one_by_one:
            lane.verify()
            lane.expected.clear()

    @property
    def wanted(self) -> set[str]:
        """The names that were to fire."""
        return {shot.name for lane in self.lanes for shot in lane.shots}

    @property
    def fired(self) -> set[str]:
        """The names that fired."""
        return {shot.name for lane in self.lanes for shot in lane.fired}


@pytest.fixture(scope="module")
def sweep(world: World, request: pytest.FixtureRequest, say: Callable[[str], None]) -> Sweep:
    """Fires everything."""
    return Sweep(world, request.config.getoption("--campaign"), request.config.getoption("--subset"), say)


def test_every_failpoint_has_its_place() -> None:
    """A failpoint that no lane fires would be a fault that is never tried."""
    assert {name.partition(".")[0] for name in NAMES} == set(PLACES)
    assert {f"{t}.{p}" for t in TRANSACTIONS for p in PHASES} <= set(NAMES)


def test_the_lanes_come_to_their_end(world: World, sweep: Sweep) -> None:
    """Nothing that was asked for while a process was broken stayed without its answer."""
    if sweep.failures:
        raise sweep.failures[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_failpoint_fires(name: str, sweep: Sweep) -> None:
    """Killed or frozen at this place, a process of its kind comes back."""
    if name not in sweep.wanted:
        pytest.skip("not part of this subset")
    assert name in sweep.fired


@pytest.mark.parametrize("victim", VICTIMS.values())
def test_all_ends_as_without_faults(victim: str, sweep: Sweep) -> None:
    """Each task has the state and the result that it has without faults, and nothing speaks against its history."""
    next(lane for lane in sweep.lanes if lane.victim.name == victim).verify()


def test_every_effect_was_had_once(world: World, sweep: Sweep) -> None:
    """By the outside system's own book; and it has nothing that the ledger does not know."""
    keys = [line["key"] for line in done(world.history)]
    assert len(keys) == len(set(keys))
    ledger = world.sql("SELECT request_key, state, kind FROM stanchion.operation WHERE kind LIKE 'outside.%%'")
    assert {state for _, state, _ in ledger} <= {"confirmed"}
    assert set(keys) <= {key for key, _, _ in ledger}
    # what a person said was done may not have been: the request of a worker that was killed before never left
    assert set(keys) >= {key for key, _, kind in ledger if kind != WHISPER.kind}
    if sweep.wanted & {f"{name}.{phase}" for name in EFFECTS for phase in PHASES}:
        assert world.sql("SELECT count(*) FROM stanchion.operation WHERE probes > 0 AND state = 'confirmed'")[0] > 0


def test_what_must_happen_at_least_once(world: World, sweep: Sweep) -> None:
    """A sweep in which no lease was ever lost, taken over or refused would have tried nothing."""
    assert world.sql("SELECT count(*) FROM stanchion.attempt WHERE state = 'lost'")[0] > 0
    assert world.sql("SELECT count(*) FROM stanchion.attempt WHERE fence > 1 AND state = 'succeeded'")[0] > 0
    if any(name.startswith("give_back.") for name in sweep.wanted):
        assert world.sql("SELECT count(*) FROM stanchion.attempt WHERE state = 'released'")[0] > 0
    assert world.sql("SELECT max(fence) FROM stanchion.outbox_partition")[0] > 1
    until(lambda: world.sql("SELECT count(*) = 0 FROM stanchion.outbox")[0], what="an empty outbox")
