"""Commands: decide what can be decided here, then one transaction, then a hint to whoever waits for what it wrote."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from stanchion.authority.approvals import Approvals, Vote
from stanchion.authority.keys import Principal
from stanchion.authority.operations import Operations
from stanchion.authority.queries import Queries
from stanchion.authority.rows import Row, missing
from stanchion.authority.submission import Answer, Prepared, Request, Submission, prepare
from stanchion.authority.tasks import Tasks
from stanchion.authority.workflows import Workflows
from stanchion.contracts import ids, limits, payload
from stanchion.contracts.amounts import Number
from stanchion.contracts.commands import SubmitTask
from stanchion.errors import Conflict, NotAllowed, NotFound, Rejected, StanchionError, Unprocessable
from stanchion.runtime.clock import utc_now
from stanchion.runtime.hints import ORCHESTRATOR, RELAY, Hints

from .bodies import NotDoneBody, ReopenBody
from .bodies_people import EditBody, VoteBody


@dataclass(frozen=True, slots=True)
class Handlers:
    """What commands need; the same for HTTP and for Kafka."""

    workflows: Workflows
    submission: Submission
    tasks: Tasks
    queries: Queries
    operations: Operations
    approvals: Approvals
    hints: Hints

    def plan(self, request: Request) -> Prepared:
        """Work a submission out; raises Rejected for one that can't be accepted now. It may have been: see `recognise`."""
        command = request.command
        payload.check_size(payload.size(command.constraints), limits.INLINE_BYTES, "$.constraints")
        try:
            prepared = prepare(self.workflows, request)
        except NotFound as error:  # of the workflow; the path that was asked for does exist
            raise Unprocessable(error.code, error.what, where=error.where, why=error.why, fix=error.fix) from None
        if command.deadline is not None and command.deadline <= utc_now():
            raise Unprocessable("E-TASK-03", "the deadline lies in the past", where="$.deadline")
        return prepared

    def recognise(self, refused: Sequence[tuple[Request, Rejected]]) -> list[Answer | Rejected]:
        """The answers to submissions that `plan` refused: those that were accepted before get their task, not an error.

        Only these are looked up, all at once: what `plan` lets pass is recognised where it is accepted.
        """
        found = self.submission.find([request for request, _ in refused])
        return [error if answer is None else answer for (_, error), answer in zip(refused, found, strict=True)]

    def submit(self, principal: Principal, command: SubmitTask) -> Answer:
        """Accept one task; raises Unprocessable E-IDEM-01 when its key belongs to another payload."""
        outcome = self.submit_bulk(principal, [command])[0]
        if isinstance(outcome, StanchionError):
            raise outcome
        return outcome

    def submit_many(self, prepared: Sequence[Prepared]) -> list[Answer]:
        """Accept a batch in one transaction."""
        answers = self.submission.submit(prepared)
        if any(answer.outcome == "created" for answer in answers):
            self.hints.publish(RELAY)
        return answers

    def submit_bulk(
        self, principal: Principal, commands: Sequence[SubmitTask | StanchionError]
    ) -> list[Answer | StanchionError]:
        """Accept what is right of a bulk, in one transaction; for what is not, its error stands in its place."""
        outcomes: dict[int, Answer | StanchionError] = {}
        prepared: dict[int, Prepared] = {}
        refused: dict[int, tuple[Request, Rejected]] = {}
        for place, command in enumerate(commands):
            if isinstance(command, StanchionError):
                if command.status >= 500:
                    raise command
                outcomes[place] = command
                continue
            request = Request(principal.tenant_id, command, "http", principal.actor)
            try:
                prepared[place] = self.plan(request)
            except Rejected as error:
                refused[place] = (request, error)
        outcomes.update(zip(refused, self.recognise(list(refused.values())), strict=True))
        outcomes.update(zip(prepared, self.submit_many(list(prepared.values())), strict=True))
        return [_or_conflict(outcomes[place]) for place in range(len(commands))]

    def cancel(self, principal: Principal, task_id: UUID, reason: str) -> str:
        """Ask for the end of a task; returns its state. Raises NotFound, and Conflict E-TASK-05 when it is too late."""
        state = self.tasks.cancel(principal.tenant_id, task_id, reason=reason, actor=principal.actor)
        self.hints.publish(RELAY)
        self.hints.publish(ORCHESTRATOR)
        return state

    def pause(self, principal: Principal, task_id: UUID, *, paused: bool) -> None:
        """Pause or resume; raises NotFound, and Conflict E-TASK-05 after the end."""
        self.tasks.pause(principal.tenant_id, task_id, paused=paused, actor=principal.actor)
        if not paused:
            self.hints.publish(ORCHESTRATOR)  # what waited is to be offered

    def retry(
        self, principal: Principal, task_id: UUID, reason: str, budget: dict[str, Number] | None = None
    ) -> tuple[UUID, list[str]]:
        """A new run; raises NotFound, and Conflict E-TASK-07 unless the task failed or was cancelled, E-BUD-02 when it has
        spent more than it may."""
        run_id, kept = self.tasks.retry(
            principal.tenant_id, task_id, reason=reason, actor=principal.actor, budget=budget
        )
        self.hints.publish(RELAY)
        self.hints.publish(ORCHESTRATOR)
        return run_id, kept

    def reopen(self, principal: Principal, body: ReopenBody) -> Row:
        """Reopen failed steps; raises NotFound for what is not there, Conflict E-TASK-06 when none could be."""
        payload.check_size(payload.size(body.input), limits.INLINE_BYTES, "$.input")
        steps, more = self._steps_to_reopen(principal, body)
        states = self.queries.states_of(principal.tenant_id, steps)
        if len(states) < len(set(steps)):
            raise missing("step")
        done = self.tasks.reopen(
            principal.tenant_id, steps, step_input=body.input, reason=body.reason, actor=principal.actor
        )
        refused = [
            {"step_id": step_id, "state": state, "why": _not_reopened(state)}
            for step_id, state in states.items()
            if step_id not in done
        ]
        if refused and not done:
            raise Conflict("E-TASK-06", "none of these steps can be reopened", why=str(refused[0]["why"]))
        self.hints.publish(RELAY)
        return {"reopened": done, "refused": refused, "more": more}

    def open_barrier(self, principal: Principal, barrier_id: UUID, reason: str) -> None:
        """Open a join by hand; raises NotFound, and Conflict E-JOIN-22 when only waiting helps."""
        self.tasks.open_barrier(principal.tenant_id, barrier_id, reason=reason, actor=principal.actor)
        self.hints.publish(RELAY)

    def tell_operation(
        self, principal: Principal, operation_id: UUID, *, done: bool, told: NotDoneBody, receipt: Any = None
    ) -> str:
        """What a person says became of an operation; raises NotFound, Conflict E-OP-13."""
        payload.check_size(payload.size(receipt), limits.INLINE_BYTES, "$.receipt")
        state = self.operations.tell(
            principal.tenant_id,
            operation_id,
            done=done,
            reason=told.reason,
            proof=told.proof,
            receipt=receipt,
            actor=principal.actor,
        )
        self._wake()
        return state

    def compensate(self, principal: Principal, operation_id: UUID, reason: str) -> UUID:
        """Have an effect undone; returns the step that does it. Raises NotFound, Conflict E-OP-15."""
        step = self.operations.compensate(principal.tenant_id, operation_id, reason=reason, actor=principal.actor)
        self._wake()
        return step

    def probe_operation(self, principal: Principal, operation_id: UUID) -> str:
        """Have the outside system asked; raises NotFound."""
        state = self.operations.probe(principal.tenant_id, operation_id, actor=principal.actor)
        self._wake()
        return state

    def vote(
        self, principal: Principal, approval_id: UUID, vote: Vote, told: VoteBody, *, delegate_to: str | None = None
    ) -> str:
        """What a person says about an approval; returns its state. Raises NotAllowed E-APR-03 for a key, and what
        `Approvals.vote` does."""
        state = self.approvals.vote(
            principal.tenant_id,
            approval_id,
            _person(principal),
            vote,
            payload_hash=bytes.fromhex(told.payload_hash),
            comment=told.comment or None,
            delegate_to=delegate_to,
        )
        self._wake()
        return state

    def edit_approval(self, principal: Principal, approval_id: UUID, told: EditBody) -> UUID:
        """What a person wants to be asked instead; returns the id of the new approval. Raises as `vote`, and E-APR-10."""
        replaced_by = self.approvals.edit(
            principal.tenant_id,
            approval_id,
            _person(principal),
            told.payload,
            payload_hash=bytes.fromhex(told.payload_hash),
            comment=told.comment or None,
        )
        self._wake()
        return replaced_by

    def revoke_approval(self, principal: Principal, approval_id: UUID, reason: str) -> str:
        """Take an approval back; raises NotFound, Conflict E-APR-01."""
        state = self.approvals.revoke(principal.tenant_id, approval_id, reason=reason, actor=principal.actor)
        self._wake()
        return state

    def _wake(self) -> None:
        self.hints.publish(RELAY)
        self.hints.publish(ORCHESTRATOR)

    def drain(self, principal: Principal, worker_id: UUID) -> None:
        """Ask a worker to drain; raises NotFound, and NotAllowed E-AUTH-03 for one that serves other tenants too."""
        if "worker.operate" in principal.scopes:
            return self.tasks.drain(principal.tenant_id, worker_id, actor=principal.actor)
        try:
            self.tasks.drain(principal.tenant_id, worker_id, actor=principal.actor, only_of=principal.tenant_id)
        except NotFound:  # there is none, or it is not this tenant's alone: which of the two is not for it to learn
            principal.require("worker.operate")

    def _steps_to_reopen(self, principal: Principal, body: ReopenBody) -> tuple[list[UUID], bool]:
        by_node = body.task_id is not None and body.node is not None
        if (body.steps is not None) == by_node or (body.steps is not None and (body.task_id or body.node)):
            raise Unprocessable(
                "E-DATA-15", "say which steps: steps, or task_id and node", where="$", fix="send one of the two"
            )
        if body.steps is not None:
            return [ids.parse(step, ids.STEP) for step in body.steps], False
        page = self.queries.steps(
            principal.tenant_id,
            ids.parse(body.task_id or "", ids.TASK),
            node=body.node,
            states=(body.state,),
            limit=body.limit,
        )
        return [row["step_id"] for row in page.items], page.next is not None


def _not_reopened(state: str) -> str:
    if state != "failed":
        return f"it is {state}, and only failed steps are reopened"
    return "its run has ended, or nothing waits for it any more: no join with on_failed=hold does"


def _or_conflict(outcome: Answer | StanchionError) -> Answer | StanchionError:
    conflict = isinstance(outcome, Answer) and outcome.outcome == "conflict"
    return key_conflict() if conflict else outcome


def key_conflict() -> Unprocessable:
    """The answer to a key that belongs to a task with another payload."""
    return Unprocessable(
        "E-IDEM-01",
        "this idempotency key was used for another payload",
        where="$.idempotency_key",
        why="a key stands for one submission: workflow, version, input, tags, priority, deadline, goal, constraints and budget",
        fix="use a new key, or send the same payload",
    )


def with_header_key(body: dict[str, Any], header: str | None) -> dict[str, Any]:
    """A submission's body with the key of its header; raises Unprocessable when both are there and differ."""
    if header is None:
        return body
    key = payload.check_key(_header_text(header), "header Idempotency-Key")
    inside = body.get("idempotency_key")
    if inside is not None and not (isinstance(inside, str) and unicodedata.normalize("NFC", inside) == key):
        raise Unprocessable(
            "E-DATA-12",
            "the header Idempotency-Key and the field idempotency_key differ",
            where="$.idempotency_key",
            fix="send one of them",
        )
    return body | {"idempotency_key": key}


def _header_text(header: str) -> str:
    try:
        return header.encode("latin-1").decode()  # the server reads headers as Latin-1; clients write UTF-8
    except UnicodeError:
        raise Unprocessable(
            "E-DATA-12", "the idempotency key is not UTF-8", where="header Idempotency-Key", fix="encode as UTF-8"
        ) from None


def _person(principal: Principal) -> UUID:
    if principal.signed_in is None:
        raise NotAllowed(
            "E-APR-03",
            "a key decides nothing: an approval needs somebody who has read it",
            fix="sign in: stanchion login",
        )
    return principal.signed_in.person_id
