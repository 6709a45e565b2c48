"""One attempt from its lease to its outcome: arguments in, user code, result out. What went wrong becomes an outcome."""

from __future__ import annotations

import random
import traceback
from typing import Any
from uuid import UUID

from stanchion.authority import blobs
from stanchion.authority.leases import Done, Failure, Lease, Leases, Question
from stanchion.contracts import limits, payload
from stanchion.contracts.ids import new_id
from stanchion.contracts.texts import clean
from stanchion.errors import Rejected, StanchionError
from stanchion.sdk.artifacts import ArtifactDoor
from stanchion.sdk.reading import GIVEN, Ask, arguments_of, blob, own_input
from stanchion.workflow import planner
from stanchion.workflow.anatomy import between
from stanchion.workflow.codec import (
    Encoded,
    EncodedAgain,
    EncodedAsk,
    EncodedGo,
    EncodedRetry,
    EncodedSpawn,
    EncodedValue,
)
from stanchion.workflow.graph import Graph, Node

from .attempt import Asked, Attempt, Outcome, Steer
from .patience import Patience


class RaisedElsewhere(Exception):  # noqa: N818 - it is no error of this process, but the news of one
    """What user code raised in another process, described and judged there."""

    def __init__(self, described: dict[str, Any], final: bool) -> None:
        super().__init__(described.get("what"))
        self.described = described
        self.final = final


class Executor:
    """Decoding, encoding and the judgement of errors; user code itself is run by a runner."""

    def __init__(self, leases: Leases, graphs: Any) -> None:
        self.leases = leases
        self.graphs = graphs  # (workflow, version) -> Graph

    def arguments(self, attempt: Attempt) -> dict[str, Any]:
        """The keyword arguments of the step's function; may read the database."""
        return attempt.step.codec.decode_args(
            **arguments_of(self.leases, attempt.lease, attempt.node, Patience(attempt))
        )

    def door(self, attempt: Attempt) -> ArtifactDoor:
        """The attempt's way to artifacts."""
        return ArtifactDoor(self.leases, attempt.lease, Patience(attempt))

    @staticmethod
    def is_plain(lease: Lease) -> bool:
        """True when the arguments stand in the lease, so that making them never waits for the database."""
        return lease.input_blob is None and not any(v is None or v.get("h") is not None for v in lease.inputs or ())

    def returned(self, attempt: Attempt, value: Any) -> Outcome:
        """The outcome of user code that returned `value`; may read and write the database."""
        return self.encoded(attempt, attempt.step.codec.encode_result(value))

    def encoded(self, attempt: Attempt, encoded: Encoded) -> Outcome:
        """The outcome of what user code returned, once it is JSON."""
        lease = attempt.lease
        match encoded:
            case EncodedValue(value=plain):
                body, sha256 = self._kept(attempt, plain, f"the result of {lease.node}")
                return Done(lease, body, sha256)
            case EncodedRetry(after_seconds=after, reason=reason):
                error = {
                    "code": "E-STEP-25",
                    "what": f"the step asked to be tried again{': ' + clean(reason) if reason else ''}",
                }
                return Failure(
                    lease, error, False, delay_ms(attempt.node, lease.number) if after is None else round(after * 1000)
                )
            case EncodedAsk():
                return self._ask(attempt, encoded)
            case EncodedGo(step=target, input=given):
                return self._go(attempt, target, given)
            case EncodedAgain(step=target, input=given):
                return self._again(attempt, target, given)
            case EncodedSpawn():
                return self._spawn(attempt, encoded)

    def raised(self, attempt: Attempt, error: BaseException) -> Failure:
        """The outcome of user code that raised."""
        if isinstance(error, RaisedElsewhere):
            return self._raised(attempt, error.described, error.final)
        return self._raised(attempt, described(error), not attempt.step.retryable(error))

    @staticmethod
    def _raised(attempt: Attempt, shown: dict[str, Any], final: bool) -> Failure:
        # a host that asks to be left alone gets that on top of the step's own delay: its attempts must not be used up before
        asked_ms = round(shown.get("wait_seconds", 0.0) * 1000)
        return Failure(attempt.lease, shown, final, delay_ms(attempt.node, attempt.lease.number) + asked_ms)

    def timed_out(self, attempt: Attempt) -> Failure:
        """The outcome of user code that took longer than its timeout."""
        error = {
            "code": "E-STEP-22",
            "what": f"it ran longer than {(attempt.lease.timeout_ms or 0) / 1000:g} s",
            "fix": "raise timeout= or total=, or make the step shorter",
        }
        return Failure(attempt.lease, error, False, delay_ms(attempt.node, attempt.lease.number))

    def lost_its_loop(self, attempt: Attempt) -> Failure:
        """The outcome of user code on an event loop that had to be given up."""
        error = {
            "code": "E-STEP-30",
            "what": "the event loop that it ran on was ended time and again, by this step or by one beside it",
            "fix": "look for loop.stop() and for background tasks that raise SystemExit, or use isolation='process'",
        }
        return Failure(attempt.lease, error, False, delay_ms(attempt.node, attempt.lease.number))

    def _kept(self, attempt: Attempt, value: Any, where: str) -> tuple[Any, bytes | None]:
        """(value, None) for the row, or (None, name) once it is stored; raises TooLarge E-SIZE-01."""
        data = payload.dumps(value)
        if len(data) > limits.BLOB_BYTES and self.leases.objects.is_set:
            if len(data) > limits.VALUE_BYTES:
                raise blobs.too_large(where, len(data), limits.VALUE_BYTES)
            return None, self.door(attempt).keep_value(data)
        inline, sha256, packed, size = blobs.pack(value, where, data)
        if sha256 is None or packed is None:
            return inline, None
        row = (attempt.lease.tenant_id, sha256, size, packed)
        Patience(attempt)(lambda: blobs.put(self.leases.database, [row]))
        return None, sha256

    def _go(self, attempt: Attempt, target: str, given: dict[str, Any]) -> Steer:
        body, sha256 = self._kept(attempt, given, f"what {attempt.lease.node} gives to {target} with Go")
        targets = Patience(attempt)(lambda: self.leases.find_around(attempt.lease, attempt.node.next))
        chosen = {
            "node": target,
            "input": body,
            "input_blob": _hex(sha256),
            "targets": [str(i) for i in targets.values()],
        }
        return Steer(Done(attempt.lease, None), {"outcome": f"go {target}", "chosen": chosen})

    def _again(self, attempt: Attempt, target: str, given: dict[str, Any]) -> Steer | Failure:
        lease, node = attempt.lease, attempt.node
        if lease.round + 1 > node.max_rounds:
            error = {
                "code": "E-STEP-26",
                "what": f"{node.name} went round {lease.round} times, the limit is {node.max_rounds}",
                "fix": "raise max_rounds=, or stop asking for another round",
            }
            return Failure(lease, error, True, 0)
        graph: Graph = self.graphs(lease.workflow, lease.workflow_version)
        names = between(graph, target, node.name)
        outside = sorted(
            {p for n in names for p in graph.node(n).after}
            | {graph.node(p).scope[-1] for n in names for p in graph.node(n).after if graph.node(p).scope}
        )
        ask = Patience(attempt)
        known = ask(lambda: self.leases.find_around(lease, [n for n in outside if n not in names]))
        place = planner.Place(lease.tenant_id, lease.run_id, lease.fan_id, lease.idx, lease.round + 1)
        before = (
            own_input(self.leases, lease, ask) if target == node.name else self._input_of(lease, known, target, ask)
        )
        plan, stand_in = planner.plan_again(
            graph,
            place,
            node.name,
            target,
            {GIVEN: given, "input": unwrapped(before)},
            feeds=[],
            counts=True,
            answers=None,
            known=known,
        )
        for row in plan.steps:
            if row["node"] == target and row.get("input") is not None:
                body, sha256 = self._kept(attempt, row["input"], f"what {node.name} gives to {target} with Again")
                row |= {"input": body, "input_blob": _hex(sha256)}
        rows = {"outcome": f"again {target}", "steps": plan.steps, "barriers": plan.barriers, "stand_in": str(stand_in)}
        return Steer(Done(lease, None), rows)

    def _input_of(self, lease: Lease, known: dict[str, UUID], target: str, ask: Ask) -> Any:
        found = known.get(target) or ask(lambda: self.leases.find_around(lease, [target])).get(target)
        if found is None:
            return None
        body, sha256 = ask(lambda: self.leases.input_of(lease, found))
        return body if sha256 is None else blob(self.leases, lease, sha256, ask)

    def _ask(self, attempt: Attempt, ask: EncodedAsk) -> Asked:
        policy = attempt.node.asks
        assert policy is not None
        if ask.resource is not None:
            self.door(attempt).verify(ask.resource)  # nobody is asked about content that is not what its row says
        asked = {
            "question": ask.question,
            "summary": ask.summary,
            "operation": ask.operation,
            "key": ask.key,
            "resource": ask.resource,
            "people": policy.people,
            "teams": policy.teams,
            "needs": policy.needs,
            "four_eyes": policy.four_eyes,
            "on_timeout": policy.on_timeout,
            "on_rejected": policy.on_rejected,
            "within_ms": round(policy.within_seconds * 1000),
        }
        return Asked(attempt.lease, Question(new_id(), asked, ask.payload))

    def _spawn(self, attempt: Attempt, spawn: EncodedSpawn) -> Steer:
        lease = attempt.lease
        if len(spawn.items) > limits.FAN_OUT_CHILDREN:
            raise too_many(len(spawn.items))
        body, sha256 = self._kept(attempt, spawn.items, f"the items that {lease.node} spawns")
        graph: Graph = self.graphs(lease.workflow, lease.workflow_version)
        place = planner.Place(lease.tenant_id, lease.run_id, lease.fan_id, lease.idx, lease.round)
        plan, join_id, fan_id = planner.plan_spawn(
            graph,
            place,
            attempt.node,
            body,
            _hex(sha256),
            feeds=[],
            counts=True,
            answers=lease.node,
        )
        rows = {
            "outcome": f"spawn {spawn.step}",
            "steps": plan.steps,
            "barriers": plan.barriers,
            "stand_in": str(join_id),
            "expand": str(fan_id),
        }
        return Steer(Done(lease, None), rows)


def too_many(count: int) -> Rejected:
    """A fan-out that is larger than any may be."""
    return Rejected(
        "E-TASK-04",
        f"a fan-out of {count:,} children, the limit is {limits.FAN_OUT_CHILDREN:,}",
        why="one join could not be watched or reopened any more",
        fix="fan out twice: a list of lists",
        limit=limits.FAN_OUT_CHILDREN,
    )


def _hex(sha256: bytes | None) -> str | None:
    return None if sha256 is None else sha256.hex()


def unwrapped(value: Any) -> Any:
    """The input before any round."""
    return value.get("input") if isinstance(value, dict) and GIVEN in value else value


def delay_ms(node: Node, number: int) -> int:
    """The wait before the next attempt: exponential with full jitter, at least a tenth of its ceiling (AWS's formula)."""
    ceiling = min(node.retry_cap_seconds, node.retry_base_seconds * 2 ** min(number - 1, 60)) * 1000
    return round(random.uniform(ceiling / 10, ceiling))  # noqa: S311 - spreads load, guards nothing


def described(error: BaseException) -> dict[str, Any]:
    """An error as it is stored and shown. Whatever the error itself does when it is looked at, this never raises: it would
    end what serves others."""
    try:
        return _described(error)
    except BaseException as second:  # noqa: BLE001 - also a SystemExit out of a property
        return {
            "code": "E-STEP-27",
            "what": clean(f"{_name(error)}: (it could not be looked at: {_name(second)})", 1_000),
            "type": clean(_name(error), 200),
        }


def _described(error: BaseException) -> dict[str, Any]:
    if isinstance(error, StanchionError):
        found = {"code": error.code, "what": error.what, "where": error.where, "why": error.why, "fix": error.fix}
        shown: dict[str, Any] = {key: clean(str(value)) for key, value in found.items() if value is not None}
        asked = error.details.get("wait_seconds")
        if isinstance(asked, int | float) and asked > 0:
            shown["wait_seconds"] = min(asked, limits.HOST_WAIT_SECONDS)  # whoever raised it may ask for ever
        return shown
    try:
        text = str(error)
    except BaseException as second:  # noqa: BLE001 - an error whose text raises is still an error to be told
        text = f"(its text could not be made: {_name(second)})"
    try:
        frames = "".join(traceback.format_exception(error, limit=-8))
    except BaseException as second:  # noqa: BLE001 - nested or chained too deep, or with notes that raise
        frames = f"(it could not be made: {_name(second)})\n" + "".join(traceback.format_tb(error.__traceback__, -8))
    return {
        "code": "E-STEP-27",
        "what": clean(f"{_name(error)}: {text}", 1_000),
        "type": clean(_name(error), 200),
        "traceback": clean(frames),
    }


def _name(error: BaseException) -> str:
    """The name of its class, past any metaclass that has something else to say."""
    return str(type.__dict__["__name__"].__get__(type(error)))
