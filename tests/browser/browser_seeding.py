"""One stack full of everything that a page must be able to show, made by real means: submitted, run, frozen, cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from browser_flows import BIDI, EMOJI, HOSTILE, LONG, MARKUP
from kit.world import PATIENCE, World, until

from stanchion.contracts import ids
from stanchion.sdk.client import Client

FLOWS = Path(__file__).with_name("browser_flows.py")
TARGETS = [
    f"{FLOWS}:{name}" for name in ("crawl", "brief", "broken", "dozing", "frozen", "mailing", "asking", "hostile")
]
CHILDREN = 60
STANDS_STILL = {"worker-1": {"STANCHION_FAILPOINTS": "step.ran[node=hold_on]=1*stop"}}


class Seeded:
    """The seeded tasks by name, and the ids that paths are made of."""

    def __init__(self, world: World, http: Client) -> None:
        self.world = world
        self.http = http
        self.tasks: dict[str, str] = {}

    @property
    def url(self) -> str:
        """Where the pages are."""
        return self.world.stack.page_url

    def submit(self, name: str, workflow: str, values: dict[str, Any], **options: Any) -> str:
        """One more task, over HTTP."""
        self.tasks[name] = self.http.submit(workflow, values, **options).id
        return self.tasks[name]

    def open_up(self, name: str) -> None:
        """Let what waits for this name go on."""
        (self.world.history / f"{name}.go").touch()

    def uuid(self, name: str) -> UUID:
        """The bare id of a task."""
        return ids.parse(self.tasks[name], ids.TASK)

    def step(self, name: str, node: str, state: str | None = None) -> str:
        """The id of a task's first step of a node (in a state)."""
        sql = """SELECT s.step_id FROM stanchion.step s JOIN stanchion.task t ON t.run_id = s.run_id
            WHERE t.task_id = %s AND s.node = %s AND s.kind = 'step' AND s.state = coalesce(%s, s.state) ORDER BY s.idx"""
        return ids.public(ids.STEP, self.world.sql(sql, self.uuid(name), node, state)[0])

    def operation(self, kind: str) -> str:
        """The id of the first operation of a kind."""
        sql = "SELECT operation_id FROM stanchion.operation WHERE kind = %s ORDER BY operation_id LIMIT 1"
        return ids.public(ids.OPERATION, self.world.sql(sql, kind)[0])

    def approval(self) -> str:
        """The id of the first approval."""
        sql = "SELECT approval_id FROM stanchion.approval ORDER BY approval_id LIMIT 1"
        return ids.public(ids.APPROVAL, self.world.sql(sql)[0])

    def reached(self, name: str, node: str, state: str, count: int = 1) -> None:
        """Wait until so many steps of a node are in a state."""
        sql = """SELECT count(*) FROM stanchion.step s JOIN stanchion.task t ON t.run_id = s.run_id
            WHERE t.task_id = %s AND s.node = %s AND s.kind = 'step' AND s.state = %s"""
        what = f"{count} {node} of {name} {state}"
        until(lambda: self.world.sql(sql, self.uuid(name), node, state)[0] >= count, PATIENCE, what)

    def became(self, name: str, state: str) -> None:
        """Wait for the end of a task, which must be this one."""
        until(lambda: self.http.get(self.tasks[name]).state == state, PATIENCE, f"{name} {state}")


def seed(world: World, http: Client) -> Seeded:
    """Fill the stack, and return once everything stands as it is to be seen."""
    made = Seeded(world, http)
    _lose_a_lease(made)
    _submit(made)
    made.reached("paused", "doze", "running")
    http.pause(made.tasks["paused"], reason="outage of the vendor")
    made.reached("cancelled", "doze", "running")
    http.cancel(made.tasks["cancelled"], reason=f"changed my mind {MARKUP}")
    failing = sum(1 for n in range(CHILDREN) if n % 17 == 3)
    made.reached("held", "fetch", "failed", failing)
    made.reached("held", "fetch", "retry_wait")
    made.reached("held", "fetch", "succeeded", CHILDREN - failing - 2)
    made.reached("asking", "review", "waiting")
    unknown = "SELECT count(*) FROM stanchion.operation WHERE state = 'unknown'"
    until(lambda: world.sql(unknown)[0] >= 2, PATIENCE, "two unknown operations")
    for name, state in (("completed", "completed"), ("failed", "failed"), ("cancelled", "cancelled")):
        made.became(name, state)
    made.became("hostile", "failed")
    made.became("lengthy", "failed")
    return made


def _lose_a_lease(made: Seeded) -> None:
    """A worker stands still past its lease, another one takes over, and what the first one still hands in is refused."""
    world, (first, second) = made.world, made.world.stack.workers
    with world.frozen(second):
        made.submit("frozen", "frozen", {})
        until(world.fired, PATIENCE, "a worker that stands still with a result in its hands")
    made.reached("frozen", "hold_on", "succeeded")
    first.thaw()
    until(lambda: world.sql("SELECT count(*) FROM stanchion.refused_write")[0], PATIENCE, "a refused write")


def _submit(made: Seeded) -> None:
    made.submit("held", "crawl", {"count": CHILDREN}, goal="Crawl the shop's prices", tags=["nightly", "shop"])
    made.submit("completed", "brief", {"topic": "connection pools"}, goal="A brief on pools", tags=["demo"])
    made.submit("failed", "broken", {"text": "no price on page 7"})
    for name in ("running", "paused", "cancelled"):
        made.submit(name, "dozing", {"name": name})
    made.submit("unknown", "mailing", {"to": "ana@example.org"})
    made.submit("asking", "asking", {"text": "connection pools"})
    tags = [MARKUP[:64], BIDI, EMOJI, "{{7*7}}"]
    made.submit("hostile", "hostile", {"text": HOSTILE}, key=HOSTILE[:200], goal=HOSTILE, tags=tags)
    made.submit("lengthy", "hostile", {"text": LONG}, goal=LONG[:4_000], tags=[LONG[:63] + "x"])
    made.submit("hostile mail", "mailing", {"to": HOSTILE})
    made.submit("hostile question", "asking", {"text": HOSTILE})
