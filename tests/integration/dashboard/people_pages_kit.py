"""What the tests of approvals and operations share: questions and effects in every state, and forms as a browser sends them."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from uuid import UUID

import httpx2
from kit.engine import Engine, Worker

from stanchion.authority.leases import Lease, Question
from stanchion.authority.ledger import Intent, Ledger
from stanchion.authority.operations import Operations
from stanchion.authority.submission import Request, Submission, prepare
from stanchion.authority.workflows import Workflows
from stanchion.contracts import ids
from stanchion.contracts.commands import SubmitTask
from stanchion.workflow import Ctx, Workflow
from stanchion.workflow.operation import Call, Operation

PAGE = {"title": "On stars", "audience": 212}
HOSTILE = "<img src=x onerror=alert(1)>'\"{{ 7 * 7 }}"


def nothing(call: Call, payload: dict[str, Any]) -> dict[str, Any]:
    return payload


RETRACT = Operation("press.retract", do=nothing, check=nothing, keeps_key="1d")
PUBLISH = Operation("press.publish", do=nothing, check=nothing, keeps_key="1d", lands_within="2m", undo=RETRACT)
APPROVED = Operation("press.publish", do=nothing, check=nothing, keeps_key="1d", needs_approval=True)
MAIL = Operation("mail.send", do=nothing, unsafe_no_check="a test")

pair = Workflow("pair", version=1)


@pair.step(retries=0)
def first(ctx: Ctx, topic: str = "x") -> str: ...


@pair.step(after=first)
def second(ctx: Ctx, text: str) -> str: ...


class Started:
    """A task whose first step one worker holds."""

    def __init__(self, engine: Engine, by: str = "key:web", **command: Any) -> None:
        self.engine = engine
        engine.register(pair)
        known = Workflows(engine.service)
        request = Request(
            engine.tenant, SubmitTask(workflow="pair", **({"input": {"topic": "x"}} | command)), "http", by
        )
        (self.task,) = Submission(engine.service, known).submit([prepare(known, request)])
        self.worker: Worker = engine.worker()
        self.lease = self.leased()
        self.tsk = ids.public(ids.TASK, self.task.task_id)

    def leased(self) -> Lease:
        """The step of this task that is ready, leased."""
        run = self.engine.run_of(self.task)
        steps = self.engine.all(
            "SELECT s.step_id FROM stanchion.ready y JOIN stanchion.step s USING (step_id) WHERE s.run_id = %s", run
        )
        (lease,) = self.worker.leases.lease(steps, 1)
        return lease


class Asked(Started):
    """A question to people."""

    def __init__(
        self,
        engine: Engine,
        by: str = "key:web",
        page: Any = None,
        about: Callable[[Started], UUID] | None = None,
        **policy: Any,
    ) -> None:
        super().__init__(engine, by)
        asked = {
            "question": "Publish “On stars”?",
            "summary": "Two sections.",
            "operation": APPROVED.kind,
            "key": "spring",
            "resource": str(about(self)) if about else None,
            "people": [],
            "teams": [],
            "needs": 1,
            "four_eyes": True,
            "on_timeout": "reject",
            "on_rejected": "continue",
            "within_ms": 3_600_000,
        } | policy
        self.page = PAGE if page is None else page
        question = Question(ids.new_id(), asked, self.page)
        assert self.worker.leases.ask(self.lease, question)
        self.uuid = question.approval_id
        self.id = ids.public(ids.APPROVAL, question.approval_id)
        self.path = f"/approvals/{self.id}"

    @property
    def hash(self) -> str:
        """Of its payload."""
        sql = "SELECT encode(payload_hash, 'hex') FROM stanchion.approval WHERE approval_id = %s"
        return str(self.engine.one(sql, self.uuid)[0])

    @property
    def state(self) -> str:
        """As it stands in the database."""
        return str(self.engine.one("SELECT state FROM stanchion.approval WHERE approval_id = %s", self.uuid)[0])

    def spend(self) -> UUID:
        """Send what it allows; the id of the operation."""
        lease, ledger = self.leased(), Ledger(self.engine.worker_database, self.worker.leases.worker_id)
        found = ledger.prepare(lease, Intent.of(APPROVED, "spring", self.page, approval=self.uuid)).operation_id
        assert found is not None
        assert ledger.dispatch(lease, found).outcome == "dispatched"
        return found


class Effect(Started):
    """An effect outside, as far as `until`: prepared, dispatched, or what it was settled as."""

    def __init__(
        self,
        engine: Engine,
        until: str = "unknown",
        operation: Any = PUBLISH,
        payload: Any = None,
        key: str = "spring",
        check_in_ms: int | None = None,
    ) -> None:
        super().__init__(engine)
        self.ledger = Ledger(engine.worker_database, self.worker.leases.worker_id)
        intent = Intent.of(operation, key, PAGE if payload is None else payload)
        found = self.ledger.prepare(self.lease, intent).operation_id
        assert found is not None
        self.uuid: UUID = found
        self.id = ids.public(ids.OPERATION, found)
        self.path = f"/operations/{self.id}"
        if until != "prepared":
            assert self.ledger.dispatch(self.lease, found).outcome == "dispatched"
        if until == "unknown":
            self.ledger.settle(self.lease, found, "unknown", error={"code": "E-OP-10", "what": "canary-error"})
            self.ledger.end_in_doubt(self.lease, {"code": "E-OP-10", "what": "lost"}, check_in_ms)
        elif until in ("confirmed", "refused"):
            error = {"code": "E-OP-08", "what": "canary-error"} if until == "refused" else None
            self.ledger.settle(self.lease, found, until, receipt={"id": "canary-receipt"}, error=error)

    @property
    def state(self) -> str:
        """As it stands in the database."""
        return str(self.engine.one("SELECT state FROM stanchion.operation WHERE operation_id = %s", self.uuid)[0])

    def undo(self) -> None:
        """Undo it, as a worker does once somebody asked for it."""
        step = Operations(self.engine.service).compensate(self.engine.tenant, self.uuid, reason="test", actor="test")
        (lease,) = self.worker.leases.lease([step], 1)
        found = self.ledger.prepare(lease, Intent.of(RETRACT, str(self.uuid), PAGE, compensates=self.uuid)).operation_id
        assert found is not None
        assert self.ledger.dispatch(lease, found).outcome == "dispatched"
        self.ledger.settle(lease, found, "confirmed", receipt={})


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.hidden: dict[str, str] = {}
        self.areas: dict[str, str] = {}
        self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and given.get("href", "").startswith("/do/"):
            self.links.append(given["href"])
        elif tag == "input" and given.get("type") == "hidden":
            self.hidden[given["name"]] = given.get("value", "")
        self._area = given["name"] if tag == "textarea" else ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.areas[self._area] = self.areas.get(self._area, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._area = ""


def taken_apart(response: httpx2.Response) -> _Links:
    """The actions of a page, and what its forms hold already."""
    made = _Links()
    made.feed(response.text)
    return made


def ways(web: httpx2.Client, path: str) -> list[str]:
    """The names of the actions that a page offers."""
    return [re.split(r"[/?]", link)[2] for link in taken_apart(web.get(path)).links]


def act(web: httpx2.Client, path: str, name: str, **filled: str) -> httpx2.Response:
    """Do what a person without scripts does: follow the action of a page, fill its form in, send it."""
    link = next(one for one in taken_apart(web.get(path)).links if one.startswith(f"/do/{name}/"))
    return send(web, link, **filled)


def send(web: httpx2.Client, link: str, **filled: str) -> httpx2.Response:
    """Fill the form in that an action's page shows, and send it."""
    form = taken_apart(web.get(link))
    return web.post(link.partition("?")[0], data=form.hidden | form.areas | filled)
