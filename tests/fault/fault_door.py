"""The lane of the task service: somebody asks one replica for something, that one breaks, and they ask another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fault_lanes import PATIENCE, Lane, Shot
from kit.world import Task, until

from stanchion.contracts import ids
from stanchion.errors import StanchionError
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.sdk.client import Client
from stanchion.sdk.kafka_client import KafkaClient


class DoorLane(Lane):
    """Breaks a task service in the middle of a request; the same request to a peer must come to the same end.

    Commands over Kafka go to whichever replica has the partition: they are sent until the victim has got one.
    """

    asked: threading.Thread | None = None
    again: Callable[[], None] | None = None
    numbers = 0
    next_ask = 0.0

    asks: list[threading.Thread]
    failures: list[BaseException]

    def run(self) -> None:
        """Nothing is asked yet."""
        self.asks, self.failures = [], []
        super().run()

    def work(self, shot: Shot) -> None:
        """One request a shot, sent to the victim when it listens."""
        if shot.transaction == "intake":
            self._ask_by_message(shot)
        elif (self.asked is None or not self.asked.is_alive()) and self.victim.answers():
            act = getattr(self, f"_{shot.transaction}")(shot)
            self.asked = threading.Thread(target=self._ask, args=(act,), name="asked", daemon=True)
            self.again = lambda: self._ask(act, peer=True)
            self.asked.start()

    def done(self, shot: Shot) -> None:
        """Ask a peer for the same while the victim is dead or stands still, then hear the victim's answer."""
        if self.asked is not None and self.again is not None:
            self.again()
            self.asked.join(PATIENCE)
            assert not self.asked.is_alive(), f"no answer after {shot}"
        self.asked = self.again = None
        for ask in self.asks:
            ask.join(2 * PATIENCE)
            assert not ask.is_alive(), f"a command got no answer after {shot}"
        self.asks = []
        assert not self.failures, self.failures[0]

    def _ask_by_message(self, shot: Shot) -> None:
        """A command a second, each with an answer to wait for."""
        if time.monotonic() < self.next_ask or not self.victim.answers():
            return
        self.next_ask = time.monotonic() + 1.0
        self.numbers += 1
        ask = threading.Thread(target=self._ask_over_kafka, args=(shot, self.numbers), name="asked", daemon=True)
        self.asks.append(ask)
        ask.start()

    def _ask_over_kafka(self, shot: Shot, number: int) -> None:
        try:
            with KafkaClient(KafkaSettings.dev(self.world.stack.endpoints.kafka_bootstrap), tenant="dev") as client:
                receipt = client.submit("fault_simple", number=number, timeout=2 * PATIENCE)
            task = Task(ids.parse(receipt.task_id, ids.TASK), ids.parse(receipt.run_id, ids.RUN))
            self.expect(shot, task, "completed", "one", number + 1)
        except BaseException as error:  # it is raised by `done`
            self.failures.append(error)

    def _ask(self, act: Callable[[Client], object], peer: bool = False) -> None:
        """What was done before is refused the second time: that is an answer too. The end is judged by its task."""
        service = self.peers[0] if peer else self.victim
        with Client(service.url, self.world.stack.api_key, timeout=PATIENCE) as client, suppress(StanchionError):
            act(client)

    # -- what is asked for: each prepares, and returns the act --

    def _submit(self, shot: Shot) -> Callable[[Client], object]:
        self.numbers += 1
        number, seen = self.numbers, set[str]()

        def act(client: Client) -> None:
            handle = client.submit("fault_simple", number=number, key=f"{shot} {number}")
            if not seen:
                task = Task(ids.parse(handle.id, ids.TASK), ids.parse(handle.run_id, ids.RUN))
                self.expect(shot, task, "completed", "one", number + 1)
            seen.add(handle.id)
            if len(seen) > 1:
                self.failures.append(AssertionError(f"the same key made the tasks {seen}"))

        return act

    def _cancel(self, shot: Shot) -> Callable[[Client], object]:
        task = self._running(shot, "cancelled")
        return lambda client: client.cancel(_public(task), reason="test")

    def _pause(self, shot: Shot) -> Callable[[Client], object]:
        task = self._running(shot, "completed")

        def act(client: Client) -> None:
            client.pause(_public(task))
            client.resume(_public(task))
            self.let_go(task)

        return act

    def _retry(self, shot: Shot) -> Callable[[Client], object]:
        task = self.world.submit("fault_second")
        self.expect(shot, task, "completed", "try_it", 2)
        until(lambda: self.world.state(task) == "failed", PATIENCE, "the failure of the first run")
        (self.world.history / f"{_public(task)}.go").touch()
        return lambda client: client.retry(_public(task))

    def _reopen(self, shot: Shot) -> Callable[[Client], object]:
        task, step = self._held(shot, [0, 1, 2, 3])
        self.let_go(task)
        return lambda client: client.reopen([ids.public(ids.STEP, step)], reason="test")

    def _op_tell(self, shot: Shot) -> Callable[[Client], object]:
        task = self.world.submit("fault_told")
        self.expect(shot, task, "completed", "say", 1)
        sql = "SELECT operation_id FROM stanchion.operation WHERE task_id = %s AND state = 'unknown'"
        until(lambda: self.world.sql(sql, task.task_id), PATIENCE, "the doubt")
        operation = ids.public(ids.OPERATION, self.world.sql(sql, task.task_id)[0])
        body = {"reason": "test", "proof": "test", "receipt": 1}
        return lambda client: client.act(f"/v1/operations/{operation}/mark-done", body)

    def _vote(self, shot: Shot) -> Callable[[Client], object]:
        path, shown = self._waiting(shot, "completed", "praise", 1)
        with Client(self.peers[0].url, None, timeout=PATIENCE) as client:
            token = client.act("/v1/session/dev", {"name": "ann", "role": "approver"})["token"]

        def act(client: Client) -> None:
            with Client(client.transport.url, token, timeout=PATIENCE) as somebody:
                somebody.act(f"{path}/approve", {"payload_hash": shown})

        return act

    def _revoke(self, shot: Shot) -> Callable[[Client], object]:
        path, _ = self._waiting(shot, "rejected")
        return lambda client: client.act(f"{path}/revoke", {"reason": "test"})

    def _waiting(self, shot: Shot, state: str, node: str = "", value: Any = None) -> tuple[str, str]:
        """A task asks people and is to end so: its approval's path, and the hash of what is shown."""
        task = self.world.submit("fault_asking")
        self.expect(shot, task, state, node, value)
        sql = "SELECT approval_id FROM stanchion.approval WHERE task_id = %s"
        until(lambda: self.world.sql(sql, task.task_id), PATIENCE, "the question")
        (approval,) = self.world.sql(sql, task.task_id)
        (shown,) = self.world.sql(
            "SELECT encode(payload_hash, 'hex') FROM stanchion.approval WHERE approval_id = %s", approval
        )
        return f"/v1/approvals/{ids.public(ids.APPROVAL, approval)}", shown

    def _open_barrier(self, shot: Shot) -> Callable[[Client], object]:
        task, _ = self._held(shot, [0, 2, 3])
        barrier = self.world.sql(
            "SELECT barrier_id FROM stanchion.barrier WHERE run_id = %s AND kind = 'gather'", task.run_id
        )[0]
        return lambda client: client.open_barrier(str(barrier), reason="test")

    def _curate(self, shot: Shot) -> Callable[[Client], object]:
        task = self.world.submit("fault_simple", number=1)
        self.expect(shot, task, "completed", "one", 2)
        with Client(self.peers[0].url, self.world.stack.api_key, timeout=PATIENCE) as client:
            version = client.artifacts.put(_public(task), "kept", b"kept")["version_id"]

        def act(client: Client) -> None:
            client.artifacts.pin(version)
            client.artifacts.pin(version, pinned=False)
            client.artifacts.delete(version)

        return act

    def _running(self, shot: Shot, state: str) -> Task:
        task = self.world.submit("fault_slow", seconds=2 * PATIENCE)
        self.expect(shot, task, state)
        until(lambda: self.world.steps(task)[0]["state"] == "running", PATIENCE, "its start")
        return task

    def _held(self, shot: Shot, value: Any) -> tuple[Task, Any]:
        """A task whose join is held by a failed branch, all others having arrived."""
        task = self.world.submit("fault_held")
        self.expect(shot, task, "completed", "collect", value)

        def failed() -> Any:
            steps = self.world.steps(task, "grab")
            settled = len(steps) == 4 and all(s["state"] in ("succeeded", "failed") for s in steps)
            return [s["step_id"] for s in steps if s["state"] == "failed"] if settled else None

        return task, until(failed, PATIENCE, "the failed branch")[0]


def _public(task: Task) -> str:
    return ids.public(ids.TASK, task.task_id)
