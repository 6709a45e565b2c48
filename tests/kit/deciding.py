"""People who decide, and a workflow that asks them before it publishes."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from kit.crew import Crew
from kit.engine import Engine
from kit.outside import Outside
from stanchion.authority.approvals import Approvals, Vote
from stanchion.workflow import Ctx, Workflow
from stanchion.workflow.approval import Ask, Decision

PAGE = {"title": "A page", "channel": "spring"}


class Deciding:
    """The people of one tenant, and their say about its only approval (or the one that is named)."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.approvals = Approvals(engine.service)
        self.people: dict[str, UUID] = {}

    def person(self, name: str, *teams: str, role: str = "approver") -> UUID:
        """Somebody who may decide."""
        self.people[name] = uuid4()
        self.engine.admin.execute(
            "INSERT INTO stanchion.person (person_id, tenant_id, name, display_name, role) VALUES (%s, %s, %s, %s, %s)",
            (self.people[name], self.engine.tenant, name, name.title(), role),
        )
        for team in teams:
            self.engine.admin.execute(
                "INSERT INTO stanchion.team_member (tenant_id, team, person_id) VALUES (%s, %s, %s)",
                (self.engine.tenant, team, self.people[name]),
            )
        return self.people[name]

    @property
    def id(self) -> UUID:
        """The newest approval."""
        found: UUID = self.engine.all("SELECT approval_id FROM stanchion.approval ORDER BY approval_id DESC LIMIT 1")[0]
        return found

    @property
    def state(self) -> str:
        """Its state."""
        return str(self.engine.one("SELECT state FROM stanchion.approval WHERE approval_id = %s", self.id)[0])

    def say(
        self,
        name: str,
        vote: Vote = "approve",
        *,
        to: str | None = None,
        hash_: bytes | None = None,
        on: UUID | None = None,
    ) -> str:
        """One person says something, about what is shown unless `hash_` is that of something else."""
        approval = on or self.id
        shown = self.engine.one("SELECT payload_hash FROM stanchion.approval WHERE approval_id = %s", approval)[0]
        return self.approvals.vote(
            self.engine.tenant,
            approval,
            self.people[name],
            vote,
            payload_hash=hash_ or bytes(shown),
            comment="read it",
            delegate_to=to,
        )

    def revoke(self) -> str:
        """Somebody takes it back."""
        return self.approvals.revoke(self.engine.tenant, self.id, reason="a mistake", actor="person:cat")


def asking(outside: Outside, name: str = "asking", *, page: Any = PAGE, sent: Any = None, **policy: Any) -> Workflow:
    """Asks about `page`, then sends `sent`, the same unless it says otherwise. After a no it goes on, and sends nothing."""
    publish = outside.operation(needs_approval=True)
    wf = Workflow(name, operations=[publish])
    key = policy.pop("key", "spring")

    @wf.approval(**{"rejected": "continue"} | policy)
    def review(ctx: Ctx) -> Ask:
        return Ask("Publish it?", page, publish, key="spring", summary="A page for spring.")

    @wf.step(after=review, retry_delay="10ms", retry_cap="10ms")
    async def send(ctx: Ctx, decision: Decision) -> dict[str, Any]:
        if not decision.approved:
            return {"sent": False, "outcome": decision.outcome}
        return await ctx.op(publish, page if sent is None else sent, key=key, approval=decision)

    return wf


def state_of(engine: Engine, node: str) -> str:
    """The state of the only step of this node."""
    return str(engine.one("SELECT state FROM stanchion.step WHERE node = %s", node)[0])


def asked(engine: Engine, worker: Crew) -> None:
    """Work until people are asked."""
    worker.work(lambda: state_of(engine, "review") == "waiting")


def sent(engine: Engine, worker: Crew) -> None:
    """Work until the effect was had, or refused."""
    worker.work(lambda: state_of(engine, "send") in ("succeeded", "failed"))


def failure(engine: Engine) -> tuple[str, str]:
    """Code and reason of the failed attempt."""
    return engine.one(  # type: ignore[return-value]  # two texts
        "SELECT error->>'code', error->>'why' FROM stanchion.attempt WHERE state = 'failed'"
    )
