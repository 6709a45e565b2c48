"""What an action is done to: that it is there, what it is called, how it stands, and where its page is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy import select

from stanchion.authority.queries import rows_of
from stanchion.authority.rows import Row, missing
from stanchion.contracts import ids
from stanchion.contracts.actions import BARRIER, Action
from stanchion.contracts.filters import needed
from stanchion.db import tables

from . import approval_words
from .door import Visitor
from .reads import Reads
from .view import query_text

FIRST_SHOWN: Final = 5
PLACES: Final = {
    ids.TASK: "/tasks/",
    ids.RUN: "/tasks/",
    ids.STEP: "/steps/",
    ids.OPERATION: "/operations/",
    ids.APPROVAL: "/approvals/",
    ids.ARTIFACT: "/artifacts/",
    ids.WORKER: "/workers/",
    ids.DEAD_LETTER: "/dead-letters/",
    ids.JOB: "/jobs/",
    ids.ERROR: "/errors/",
}
"""Where the page of a thing is, by the prefix of its id."""
LISTS: Final = {
    ids.KEY: "/keys",
    ids.PERSON: "/people",
    ids.SESSION: "/sessions",
    ids.WEBHOOK: "/webhooks",
    ids.DELIVERY: "/webhooks",
}
"""Where the list is that has a thing without a page of its own."""
_OF_NAMES: Final = {"key": "/keys", "person": "/people", "team": "/people", "webhook": "/webhooks"}
"""The same for actions whose target has a name, or is not there yet."""


@dataclass(frozen=True, slots=True)
class Target:
    """One thing, in words."""

    id: str
    name: str
    state: str = ""
    path: str = "/"
    facts: tuple[tuple[str, str], ...] = field(default=())
    given: Mapping[str, str] = field(default_factory=dict)
    """What fields of the action begin with."""
    review: tuple[str, str] | None = None
    """Why the action is not offered as asked for, and where to look before."""


def target_of(reads: Reads, visitor: Visitor, action: Action, text: str, given: Mapping[str, str]) -> Target:
    """What is meant by an id in an action's address; raises NotFound, also for another tenant's, and Unprocessable."""
    if action.id_field == "filter":
        return _filtered(reads, visitor, text)
    if not action.target:
        return Target(text, text, path=_OF_NAMES.get(action.name.partition(".")[0], "/"))
    value = ids.parse(text, action.target)
    public = ids.public(action.target, value)
    if action.target == ids.APPROVAL:
        return _approval(reads, visitor, value, public, action, given)
    look = _LOOKS.get(action.target)
    if look is None:
        return Target(public, public, path=PLACES.get(action.target) or LISTS.get(action.target, "/"))
    return look(reads, visitor, value, public)


def _filtered(reads: Reads, visitor: Visitor, text: str) -> Target:
    """All tasks that fit a filter: how many these are now, and the first of them."""
    wanted = needed(text, "filter").settled(visitor.name, reads.search.now(visitor.tenant_id))
    sample = reads.search.sample(visitor.tenant_id, wanted, first=FIRST_SHOWN)
    first = ", ".join(
        f"{row['workflow']} {ids.public(ids.TASK, row['task_id'])} {row['state']}" for row in sample.first
    )
    facts = (("fits now", f"{sample.count} tasks"), ("the first of them", first))
    return Target(text, text, path=f"/tasks?{query_text(q=text)}", facts=facts)


def _task(reads: Reads, visitor: Visitor, task_id: UUID, public: str) -> Target:
    task = reads.queries.task_summary(visitor.tenant_id, task_id)
    facts = (("workflow", f"{task['workflow']} v{task['version']}"), ("goal", task["goal"] or ""))
    return Target(public, task["workflow"], task["state"], PLACES[ids.TASK] + public, facts)


def _operation(reads: Reads, visitor: Visitor, operation_id: UUID, public: str) -> Target:
    found = reads.operations.get(visitor.tenant_id, operation_id, with_payload=False)
    facts = (("key", found["key"]), ("sent", f"{found['sends']} times"), ("asked after", f"{found['probes']} times"))
    return Target(public, found["kind"], found["state"], PLACES[ids.OPERATION] + public, facts)


def _approval(
    reads: Reads, visitor: Visitor, approval_id: UUID, public: str, action: Action, given: Mapping[str, str]
) -> Target:
    found = reads.approvals.get(visitor.tenant_id, approval_id)
    path = PLACES[ids.APPROVAL] + public
    allows = " ".join(part for part in (found["operation_kind"], found["operation_key"]) if part)
    question = found["question"] if visitor.sees_payloads else "hidden by role"
    facts = (("asks", question), ("allows", allows), ("asked by", found["requested_by"]))
    known: dict[str, str] = {}
    if action.name == "approval.edit" and visitor.sees_payloads:
        known["payload"] = json.dumps(found["payload"], ensure_ascii=False, indent=2)
    shown = given.get("payload_hash", "")
    review = None if action.name == "approval.revoke" else approval_words.moved_on(found, shown)
    instead = reads.approvals.replaced_by(visitor.tenant_id, found) if found["state"] == "replaced" else None
    there = PLACES[ids.APPROVAL] + ids.public(ids.APPROVAL, instead) if instead else path
    name = found["operation_kind"] or found["node"]
    return Target(public, name, found["state"], path, facts, known, (review, there) if review else None)


def _barrier(reads: Reads, visitor: Visitor, barrier_id: UUID, public: str) -> Target:
    barrier, run = tables.barrier.c, tables.run.c
    columns = (barrier.node, barrier.rule, barrier.state, barrier.expected, barrier.failed, run.task_id)
    found = select(*columns).join_from(tables.barrier, tables.run, run.run_id == barrier.run_id)
    with reads.database.tenant(visitor.tenant_id) as connection:
        rows = rows_of(connection, found.where(barrier.barrier_id == barrier_id))
    if not rows:
        raise missing("barrier")
    row = rows[0]
    facts = (("rule", row["rule"]), ("expected", f"{row['expected']:,}"), ("failed", f"{row['failed']:,}"))
    path = PLACES[ids.TASK] + ids.public(ids.TASK, row["task_id"])
    return Target(public, f"the join before {row['node']}", row["state"], path, facts)


def _worker(reads: Reads, visitor: Visitor, worker_id: UUID, public: str) -> Target:
    worker = tables.worker.c
    with reads.database.tenant(visitor.tenant_id) as connection:
        rows = rows_of(connection, select(worker.name, worker.state).where(worker.worker_id == worker_id))
    if not rows:
        raise missing("worker")
    return Target(public, rows[0]["name"], rows[0]["state"], PLACES[ids.WORKER] + public)


def _letter(reads: Reads, visitor: Visitor, letter_id: UUID, public: str) -> Target:
    letter = reads.dead_letters.get(visitor.tenant_id, letter_id)
    return Target(public, letter.topic, letter.code, PLACES[ids.DEAD_LETTER] + public)


def _artifact(reads: Reads, visitor: Visitor, version_id: UUID, public: str) -> Target:
    row = reads.artifacts.find(visitor.tenant_id, version_id)
    facts: tuple[tuple[str, str], ...] = (("size", f"{row['size']:,} bytes"), ("SHA-256", bytes(row["sha256"]).hex()))
    facts += (("pinned", "yes, until it is let go"),) if row["pinned_at"] else ()
    return Target(public, f"{row['name']} v{row['number']}", "", PLACES[ids.ARTIFACT] + public, facts)


def _key(reads: Reads, visitor: Visitor, key_id: UUID, public: str) -> Target:
    visitor.require("keys.manage")
    row = _at(reads.keys.page(visitor.tenant_id, limit=1, before=_behind(key_id)), "key_id", key_id, "key")
    state = "revoked" if row["revoked_at"] else "active"
    return Target(public, row["name"], state, "/keys", (("rights", ", ".join(row["scopes"])),))


def _webhook(reads: Reads, visitor: Visitor, webhook_id: UUID, public: str) -> Target:
    visitor.require("webhook.manage")
    rows = reads.webhooks.page(visitor.tenant_id, limit=1, before=_behind(webhook_id))
    row = _at(rows, "webhook_id", webhook_id, "webhook")
    facts = (
        ("events", ", ".join(row["events"])),
        ("waiting", f"{row['waiting']:,}"),
        ("given up", f"{row['failed']:,}"),
    )
    return Target(public, row["url"], row["state"], "/webhooks", facts)


def _behind(value: UUID) -> UUID:
    """The place in a list, newest first, behind which the first one is this."""
    return UUID(int=min(value.int + 1, 2**128 - 1))


def _at(rows: list[Row], name: str, value: UUID, kind: str) -> Row:
    if not rows or rows[0][name] != value:
        raise missing(kind)
    return rows[0]


_LOOKS: Final = {
    ids.ARTIFACT: _artifact,
    ids.KEY: _key,
    ids.WEBHOOK: _webhook,
    ids.TASK: _task,
    ids.OPERATION: _operation,
    BARRIER: _barrier,
    ids.WORKER: _worker,
    ids.DEAD_LETTER: _letter,
}
