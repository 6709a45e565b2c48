"""A campaign of publications: answers are lost, requests land late, workers die and stand still, the press is killed.

Afterwards the press has done each at most once, and its books and the ledger agree in both directions. The seed is
printed; `--seed` replays the choices (what the processes do between them is theirs).
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from fault_lanes import LEASE_SECONDS
from fault_press import KINDS
from kit.press import Press
from kit.world import PATIENCE, Task, World, let_pass, until

from stanchion.authority.operations import Operations
from stanchion.cli.service_process import ServiceProcess
from stanchion.db.engine import Database, login_url
from stanchion.db.grants import TASK_SERVICE

PUBLICATIONS: Final = {"once": 100, "full": 1_000}
TASKS_OF: Final = 25
SECONDS: Final = {"once": 120.0, "full": 900.0}
"""A bound of liveness, not a measure."""
FAULTS: Final = ("drop_reply", "error_after", "bad_answer", "late", "delay", "refuse", "rate_limit")
PLACES: Final = (
    "op_prepare.after_commit",
    "op_dispatch.before_commit",
    "op_dispatch.after_commit",
    "op.send",
    "op.sent",
    "op_settle.before_commit",
    "op_settle.mid_commit",
    "op_settle.after_commit",
    "op_probe.before_commit",
    "op_probe.after_commit",
)
LATE_SECONDS: Final = 1.5
STRIKE_AFTER: Final = (3, 15)
STRIKE_SECONDS: Final = 10.0
MOST: Final = 0.8
"""So many publications come to rest in the midst of faults, the others after them."""
AT_WORK: Final = ("pending", "ready", "leased", "running", "retry_wait", "reconciling")


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger says of one publication."""

    kind: str
    state: str
    request_key: str
    payload_hash: str


class Plan:
    """What is published, and what happens to each request: all drawn from the seed before anything begins."""

    def __init__(self, seed: int, count: int) -> None:
        self.random = random.Random(seed)
        self.wanted = [
            {"channel": f"s{seed}-{number}", "kind": self.random.choices(KINDS, (6, 3, 1))[0]}
            for number in range(count)
        ]
        self.groups = [self.wanted[first : first + TASKS_OF] for first in range(0, count, TASKS_OF)]
        self.cancelled = self.random.sample(range(len(self.groups)), len(self.groups) // 4)
        self.faults = [fault for one in self.wanted for fault in self._faults(one["channel"])]

    def _faults(self, channel: str) -> Iterator[dict[str, Any]]:
        for _ in range(self.random.choices((0, 1, 2, 3), (3, 4, 2, 1))[0]):
            kind = self.random.choice(FAULTS)
            wait = {"seconds": round(self.random.uniform(0.1, LATE_SECONDS), 2)} if kind in ("late", "delay") else {}
            yield {"kind": kind, "channel": channel, **wait}
        if self.random.random() < 0.1:  # and whoever asks after it is not answered either
            yield {"kind": self.random.choice(("refuse", "drop_reply")), "channel": channel, "method": "GET"}


class Nemesis:
    """Kills and freezes workers, by signals and at failpoints, and kills the press, until it is told to end.

    It strikes each time that a few more publications have left: on a machine that is busy faults come as slowly as work.
    """

    def __init__(self, world: World, press: Press, seed: int, left: Callable[[], int]) -> None:
        self.world = world
        self.left = left
        self.press = press
        self.random = random.Random(seed + 1)
        self.workers = [service for service in world.stack.services if service.name.startswith("worker")]
        self.faults: Counter[str] = Counter()
        self.failures: list[BaseException] = []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, name="nemesis", daemon=True)

    def __enter__(self) -> Nemesis:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.thread.join(PATIENCE)
        for worker in self.workers:
            worker.kill()  # whoever is armed still would strike later; the world starts all of them anew
        if self.failures:
            raise self.failures[0]

    def _run(self) -> None:
        kinds = (self._kill, self._freeze, self._arm, self._kill_press)
        try:
            while self._is_due():
                kind = self.random.choices(kinds, (3, 3, 5, 0.5))[0]
                kind(self.random.choice(self.workers))
                self.faults[kind.__name__.strip("_")] += 1
        except BaseException as error:  # the test raises it
            self.failures.append(error)

    def _is_due(self) -> bool:
        """True after a while in which some have left, or none for long; False when it is to end."""
        before, end = self.left(), time.monotonic() + STRIKE_SECONDS
        some = self.random.randint(*STRIKE_AFTER)
        while not self.ending.wait(0.2):
            if self.left() >= before + some or time.monotonic() > end:
                return True
        return False

    def _kill(self, worker: ServiceProcess) -> None:
        worker.kill()

    def _freeze(self, worker: ServiceProcess) -> None:
        """For less or more than a lease."""
        worker.freeze()
        self.ending.wait(LEASE_SECONDS * self.random.uniform(0.3, 1.5))
        worker.thaw()

    def _arm(self, worker: ServiceProcess) -> None:
        """Begin anew, to die or stand still at the n-th hit of a place."""
        place, action = self.random.choice(PLACES), self.random.choice(("kill", "stop"))
        with worker.hold():
            if worker.is_running():
                worker.kill()
            worker.env["STANCHION_FAILPOINTS"] = f"{place}={self.random.randint(1, 3)}*{action}"
            worker.launch()
            del worker.env["STANCHION_FAILPOINTS"]

    def _kill_press(self, _worker: ServiceProcess) -> None:
        port = self.press.url.rpartition(":")[2]
        self.press.kill()
        self.press.start("--port", port)


class Campaign:
    """The publications of one seed, and what became of them."""

    def __init__(self, world: World, press: Press, seed: int, count: int, seconds: float) -> None:
        self.world = world
        self.press = press
        self.plan = Plan(seed, count)
        self.seconds = seconds
        self.mark = f"s{seed}-%"
        self.tasks: list[Task] = []
        self.database = Database(login_url(world.database_url, TASK_SERVICE), name="somebody")
        self.tenant = world.sql("SELECT tenant_id FROM stanchion.tenant WHERE name = %s", world.stack.tenant)[0]

    def submit(self) -> None:
        """All tasks; some of them are cancelled a moment after the first of their requests."""
        self.tasks = self.world.submit_all([("fault_publications", {"wanted": group}) for group in self.plan.groups])
        begun = "SELECT count(*) > 0 FROM stanchion.operation WHERE task_id = %s AND sends > 0"
        for number in self.plan.cancelled:
            task = self.tasks[number]
            until(lambda: self.world.sql(begun, task.task_id)[0], self.seconds, "a first request")  # noqa: B023
            let_pass(self.plan.random.uniform(0.0, 0.5))
            self.world.cancel(task)

    def left(self) -> int:
        """How many publications have been sent."""
        sent = "SELECT count(*) FROM stanchion.operation WHERE key LIKE %s AND sends > 0"
        return int(self.world.sql(sent, self.mark)[0])

    def until_known(self, share: float = 1.0) -> None:
        """Until so many branches have come to rest, and all of them are known that can be."""

        def known() -> bool:
            states, expected = self._branches()
            resting = states.total() - sum(states[state] for state in AT_WORK)
            return resting >= share * expected and (share < 1 or not self._ask_again())

        until(known, self.seconds, "what can be known")

    def _ask_again(self) -> bool:
        """Have all that is unknown asked after now; True while the answer of one may still change."""
        let_pass(0.5)  # what was asked before is answered, and the log of acts stays short
        executed = self.executions()
        unknown = self.unknown()
        for one in unknown:
            Operations(self.database).probe(self.tenant, one["operation_id"], actor="ann")
        return any(one["key"] in executed or one["kind"] == "press.timed" for one in unknown)

    def unknown(self) -> list[Any]:
        """What is listed as unknown."""
        rows: list[Any] = []
        for kind in KINDS:
            rows += Operations(self.database).page(self.tenant, limit=1_000, states=["unknown"], kind=kind)
        return [row for row in rows if row["key"].startswith(self.mark[:-1])]

    def tell(self) -> int:
        """Somebody looks into the books of the press, and says what became of the rest; how much it was."""
        executed, unknown = self.executions(), self.unknown()
        for one in unknown:
            Operations(self.database).tell(
                self.tenant,
                one["operation_id"],
                done=one["key"] in executed,
                reason="test",
                proof="the books of the press",
                actor="ann",
            )
        return len(unknown)

    # -- both books --

    def ledger(self) -> dict[str, Entry]:
        """What the ledger says, by channel."""
        rows = self.world.sql(
            "SELECT key, kind, state, request_key, encode(payload_hash, 'hex') FROM stanchion.operation WHERE key LIKE %s",
            self.mark,
        )
        return {row[0]: Entry(*row[1:]) for row in rows}

    def executions(self) -> dict[str, list[Any]]:
        """What the press has really done, by channel."""
        found: dict[str, list[Any]] = {}
        for one in self.press.get("/executions", limit=1_000)["items"]:
            if one["channel"].startswith(self.mark[:-1]):
                found.setdefault(one["channel"], []).append(one)
        return found

    def agree(self) -> Counter[str]:
        """Both books say the same; how many operations are in each state."""
        ledger, executed = self.ledger(), self.executions()
        for channel, done in executed.items():
            assert len(done) == 1, f"{channel} was published {len(done)} times: {ledger.get(channel)}"
            assert channel in ledger, f"the ledger knows nothing of {channel}"
            assert ledger[channel].state in ("confirmed", "unknown"), f"{channel} was published: {ledger[channel]}"
            assert done[0]["payload_hash"] == ledger[channel].payload_hash
            assert done[0]["key"] == (ledger[channel].request_key if ledger[channel].kind == "press.keyed" else None)
        for channel, entry in ledger.items():
            assert entry.state != "confirmed" or channel in executed, f"{channel} was never published: {entry}"
        return Counter(entry.state for entry in ledger.values())

    def _branches(self) -> tuple[Counter[str], int]:
        """How many branches are in each state, and how many there are to be: those of a cancelled run may never begin."""
        rows = self.world.sql(
            "SELECT r.run_id, r.ended_at IS NOT NULL, s.state FROM stanchion.run r LEFT JOIN stanchion.step s"
            " ON s.run_id = r.run_id AND s.node = 'publish' AND s.kind = 'step' WHERE r.run_id = ANY (%s)",
            [task.run_id for task in self.tasks],
        )
        ended = {run for run, over, _ in rows if over}
        states = Counter(state for run, _, state in rows if run not in ended and state is not None)
        sizes = zip(self.tasks, self.plan.groups, strict=True)
        return states, sum(len(group) for task, group in sizes if task.run_id not in ended)


@pytest.fixture
def campaign(world: World, press: Press, seed: int, request: pytest.FixtureRequest) -> Iterator[Campaign]:
    which = request.config.getoption("--campaign")
    made = Campaign(world, press, seed, PUBLICATIONS[which], SECONDS[which])
    yield made
    made.database.close()


def test_every_publication_is_had_at_most_once(
    world: World, press: Press, campaign: Campaign, seed: int, say: Callable[[str], None]
) -> None:
    """In the end somebody tells what nobody else could know, every task ends, and both books are the same."""
    began = time.monotonic()
    say(
        f"publications: --seed {seed}, {len(campaign.plan.wanted)} with {len(campaign.plan.faults)} faults of the press"
    )
    for fault in campaign.plan.faults:
        press.fault(**fault)
    with Nemesis(world, press, seed, campaign.left) as nemesis:
        campaign.submit()
        campaign.until_known(MOST)
    campaign.until_known()
    let_pass(LATE_SECONDS + 2 * LEASE_SECONDS)  # what is late lands, and whoever stood still has sent what they had
    campaign.until_known()
    before = campaign.agree()
    assert before["unknown"] == len(campaign.unknown())
    assert before["dispatched"] == 0
    fired = sum(press.fired())
    press.web.delete("/faults").raise_for_status()
    told = campaign.tell()
    for task in campaign.tasks:
        world.ended(task, 2 * PATIENCE)
    after = campaign.agree()
    assert after["unknown"] == after["dispatched"] == 0
    world.judge(*campaign.tasks, seconds=2 * PATIENCE)
    say(
        f"publications: {time.monotonic() - began:.0f} s, {fired} faults of the press, workers {dict(nemesis.faults)}, "
        f"{told} told by somebody, before {dict(before)}, after {dict(after)}"
    )
