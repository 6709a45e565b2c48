"""What the tests of the pages share: a run with everything on it, and a reader of HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any
from uuid import UUID

import httpx2
from kit.engine import Admin, Engine, Worker

from stanchion.authority.leases import Failure, Lease
from stanchion.authority.submission import Answer
from stanchion.contracts import ids
from stanchion.workflow import All, Ctx, Results, Workflow

HOSTILE = "<img src=x onerror=alert(1)>"

brief = Workflow("brief", version=3)


@brief.step()
def plan(ctx: Ctx, topic: str) -> list[int]: ...


@brief.step(after=plan, each=True, retries=2)
def read(ctx: Ctx, item: int) -> str: ...


@brief.step(after=read, join=All(on_failed="hold"))
def draft(ctx: Ctx, pages: Results[str]) -> str: ...


def fanned(engine: Engine, count: int, **fields: object) -> tuple[Answer, Worker]:
    """A task whose fan-out has `count` branches, all of them ready."""
    task = engine.submit(brief, **({"input": {"topic": "stars"}} | fields))
    worker = engine.worker()
    mine = [lease for lease in worker.take("plan") if lease.task_id == task.task_id]
    worker.finish(mine[0], list(range(count)))
    engine.expand()
    return task, worker


def steps_of(engine: Engine, task: Answer, node: str = "read") -> list[UUID]:
    """The plain steps of a node, by index."""
    sql = "SELECT step_id FROM stanchion.step WHERE run_id = %s AND node = %s AND kind = 'step' ORDER BY idx"
    return engine.all(sql, engine.run_of(task), node)


def lease(worker: Worker, steps: list[UUID]) -> list[Lease]:
    """Lease these, in order of their index."""
    return sorted(worker.leases.lease(steps, len(steps)), key=lambda x: x.idx)


def fail(worker: Worker, one: Lease, what: str, why: str = "") -> None:
    """Fail a step for good, with this text."""
    error = {"code": "E-STEP-27", "what": what, "why": why}
    worker.leases.fail([Failure(one, error, True, 0)])


def lose(engine: Engine, leases: list[Lease]) -> None:
    """Let these leases run out, after their steps had begun, and take them back."""
    steps = [one.step_id for one in leases]
    with engine.admin.transaction():
        engine.admin.execute("SET LOCAL session_replication_role = replica")
        engine.admin.execute(
            "UPDATE stanchion.attempt SET lease_until = stanchion.clock() - interval '1 s', started_at = granted_at"
            " WHERE step_id = ANY (%s) AND ended_at IS NULL",
            (steps,),
        )
    engine.upkeep.reap()


def name_worker(worker: Worker, name: str) -> None:
    """Report the presence of a worker under a name."""
    worker.leases.seen(
        name=name, host="h", pid=1, slots=4, running=1, state="active", clock=datetime.now(UTC)
    )  # fmt: skip


def rewrite(admin: Admin, sql: str, *parameters: object) -> None:
    """Change what no caller can change."""
    with admin.transaction():
        admin.execute("SET LOCAL session_replication_role = replica")
        admin.execute(sql, parameters)


def tsk(task: Answer) -> str:
    """The public id of a task."""
    return ids.public(ids.TASK, task.task_id)


@dataclass
class Read(HTMLParser):
    """A page, taken apart: its tags with their attributes, and its text."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    @classmethod
    def of(cls, response: httpx2.Response) -> Read:
        """Read a response."""
        made = cls()
        made.feed(response.text)
        made.close()
        return made

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        """All text, with single blanks."""
        return " ".join(" ".join(self.texts).split())

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        """The attributes of each tag of this name."""
        return (attributes for name, attributes in self.tags if name == tag)

    def rows(self, mark: str) -> int:
        """How many table rows have this class."""
        return sum(attributes.get("class") == mark for attributes in self.named("tr"))


_TAGS = """html head meta title link script noscript body a header nav span b main h1 h2 p div section table thead tbody
tr th td dl dt dd svg rect path circle code pre ol ul li time footer button g text defs marker details summary form input
label select option textarea h3 canvas datalist figure figcaption img kbd"""
ALLOWED = frozenset(_TAGS.split())


def check_harmless(page: Read) -> None:
    """Only the tags that our templates have; no handler, no style, no address outside."""
    for tag, attributes in page.tags:
        assert tag in ALLOWED, tag
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", tag
            if name in ("src", "href", "action"):
                assert value is not None
                assert value.startswith(("/", "#")), (tag, value)
                assert not value.startswith("//"), (tag, value)
    assert all(attributes.get("src", "").startswith("/static/") for attributes in page.named("script"))


@dataclass(frozen=True)
class Frame:
    """One event of a stream."""

    event: str
    id: str
    data: Any


@contextmanager
def stream(web: httpx2.Client, path: str, **headers: str) -> Iterator[Iterator[Frame]]:
    """The events of a live page, as they come."""
    with web.stream("GET", path, headers={"accept": "text/event-stream", **headers}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _frames(answer.iter_lines())


def _frames(lines: Iterator[str]) -> Iterator[Frame]:
    given: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            given[name] = value
        elif "data" in given:
            yield Frame(given.get("event", ""), given.get("id", ""), json.loads(given["data"]))
            given = {}


def still(html: str) -> str:
    """Without the times in words, which go on by themselves."""
    return re.sub(r"(?<=>)[^<]*(?=</time>)|(?<=data-running>)[^<]*(?=</span>)", "", html)
