"""The generated matrix: every ordered pair of states of every machine is tried by direct SQL, as the engine.

Rows are forged in their state by a superuser with triggers off; then the engine's role tries the change with triggers on.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any
from uuid import UUID

import psycopg
import pytest

from stanchion.state import (
    APPROVAL,
    ARTIFACT,
    ATTEMPT,
    BARRIER,
    MACHINES,
    OPERATION,
    RUN,
    STEP,
    TASK,
    Machine,
    StepState,
)

Sql = psycopg.Connection[tuple[Any, ...]]

TENANT, TASK_ID, RUN_ID, STEP_ID, BARRIER_ID, WORKER_ID, OPERATION_ID, VERSION_ID, APPROVAL_ID = (
    UUID(int=n) for n in range(1, 10)
)
FENCE = 5
IDENTITIES = {
    "task": ("task_id", TASK_ID),
    "run": ("run_id", RUN_ID),
    "step": ("step_id", STEP_ID),
    "attempt": ("step_id", STEP_ID),
    "barrier": ("barrier_id", BARRIER_ID),
    "operation": ("operation_id", OPERATION_ID),
    "artifact_version": ("version_id", VERSION_ID),
    "approval": ("approval_id", APPROVAL_ID),
}
HELD = ("leased", "running", "reconciling")


def shaped(machine: Machine, state: str) -> dict[str, str]:
    """SQL values of the columns that this state requires."""
    if machine is TASK:
        return {"ended_at": "now()" if state in ("completed", "failed", "cancelled", "rejected") else "NULL"}
    if machine is RUN:
        ended = state in ("succeeded", "failed", "cancelled")
        return {
            "ended_at": "now()" if ended else "NULL",
            "outcome": "'failed'" if state == "cancelling" else "NULL",
            "open": "0" if state == "succeeded" else "1",
        }
    if machine is ATTEMPT:
        return {"ended_at": "NULL" if state in ("granted", "running") else "now()"}
    if machine is BARRIER:
        return {"released_at": "now()" if state == "released" else "NULL"}
    if machine is OPERATION:
        return {"confirmed_at": "now()" if state in ("confirmed", "compensated") else "NULL"}
    if machine is ARTIFACT and state == "available":
        return {"number": "1", "sha256": "sha256('')", "size": "0", "available_at": "now()"}
    if machine is ARTIFACT:
        return {"deleted_at": "now()" if state == "deleted" else "NULL"}
    if machine is APPROVAL:
        return {
            "decided_at": "NULL" if state == "requested" else "now()",
            "spent_by": f"'{OPERATION_ID}'" if state == "spent" else "NULL",
        }
    return {"doubts": "1" if state == "unknown" else "0"}


def columns(machine: Machine, state: str) -> dict[str, str]:
    """A whole row in this state, as SQL values."""
    own = {
        "task": {
            "task_id": TASK_ID,
            "run_id": RUN_ID,
            "workflow": "w",
            "workflow_version": 1,
            "payload_digest": "\\x00",
            "submitted_via": "http",
            "submitted_by": "t",
        },
        "run": {"run_id": RUN_ID, "task_id": TASK_ID, "number": 1, "workflow": "w", "workflow_version": 1},
        "step": {
            "step_id": STEP_ID,
            "run_id": RUN_ID,
            "node": "n",
            "queue": "q",
            "workflow": "w",
            "workflow_version": 1,
            "fence": FENCE,
        },
        "attempt": {"step_id": STEP_ID, "run_id": RUN_ID, "worker_id": WORKER_ID, "fence": FENCE, "number": 1},
        "barrier": {
            "barrier_id": BARRIER_ID,
            "run_id": RUN_ID,
            "node": "n",
            "kind": "gather",
            "rule": "all",
            "on_failed": "collect",
            "need": 1,
            "expected": 1,
        },
        "artifact_version": {
            "version_id": VERSION_ID,
            "artifact_id": BARRIER_ID,
            "task_id": TASK_ID,
            "run_id": RUN_ID,
            "step_id": STEP_ID,
            "fence": FENCE,
            "media_type": "text/plain",
        },
        "approval": {
            "approval_id": APPROVAL_ID,
            "task_id": TASK_ID,
            "run_id": RUN_ID,
            "step_id": STEP_ID,
            "fence": FENCE,
            "node": "n",
            "question": "may it?",
            "payload_hash": "\\x" + "00" * 32,
            "operation_kind": "press.publish",
            "needs": 1,
            "four_eyes": "true",
            "on_timeout": "reject",
            "on_rejected": "end",
            "requested_by": "t",
            "expires_at": "2100-01-01",
        },
        "operation": {
            "operation_id": OPERATION_ID,
            "task_id": TASK_ID,
            "run_id": RUN_ID,
            "step_id": STEP_ID,
            "fence": FENCE,
            "scope_id": TASK_ID,
            "kind": "press.publish",
            "key": "k",
            "payload": "1",
            "payload_hash": "\\x" + "00" * 32,
            "request_key": "stn_k",
            "reach": "irreversible",
            "can_query": "true",
            "sends": 1,
            "lands_until": "2026-01-01",
        },
    }[machine.table]
    row = {name: f"'{value}'" for name, value in own.items()} | {"tenant_id": f"'{TENANT}'", "state": f"'{state}'"}
    if machine is ATTEMPT:
        row["lease_until"] = "now() + interval '1 h'"
    return row | shaped(machine, state)


def insert(sql: Sql, machine: Machine, state: str, **changes: str) -> None:
    """Insert a row of the machine's table."""
    row = columns(machine, state) | changes
    sql.execute(f"INSERT INTO stanchion.{machine.table} ({', '.join(row)}) VALUES ({', '.join(row.values())})")


def forge(sql: Sql, machine: Machine, state: str, **changes: str) -> None:
    """The same with triggers off."""
    sql.execute("SET LOCAL session_replication_role = replica")
    insert(sql, machine, state, **changes)
    sql.execute("SET LOCAL session_replication_role = origin")


def surroundings(sql: Sql, machine: Machine, *, run: str = "running", fence: int = FENCE) -> None:
    """The rows that the machine's guards look at."""
    if machine is not RUN:
        forge(sql, RUN, run)
    if machine in (ATTEMPT, OPERATION, ARTIFACT, APPROVAL):
        forge(sql, STEP, "leased", fence=str(fence))
    if machine is APPROVAL:
        forge(sql, OPERATION, "prepared", approval_id=f"'{APPROVAL_ID}'")
    if machine is OPERATION:
        undone = {"operation_id": "gen_random_uuid()", "key": "'undo'", "request_key": "'stn_u'"}
        forge(sql, OPERATION, "confirmed", compensates=f"'{OPERATION_ID}'", **undone)


def change(machine: Machine, source: str, target: str, **more: str) -> str:
    """The UPDATE that moves the row, with all that a legal one needs."""
    values = {"state": f"'{target}'"} | shaped(machine, target)
    if machine is not ATTEMPT:
        values["version"] = "version + 1"
    if (machine is STEP and source in HELD) or machine is OPERATION:
        values["proof"] = "-4" if target == "compensated" else str(FENCE)
    if machine is STEP and (source, target) in (("ready", "leased"), ("unknown", "reconciling")):
        values["fence"] = "fence + 1"
    if machine is APPROVAL and target == "revoked":
        del values["spent_by"]  # what was spent stays on record
    values |= more
    sets = ", ".join(f"{name} = {value}" for name, value in values.items())
    return f"UPDATE stanchion.{machine.table} SET {sets} WHERE {_where(machine)}"


def _where(machine: Machine) -> str:
    key, value = IDENTITIES[machine.table]
    return f"{key} = '{value}'"


def as_engine(sql: Sql, statement: str) -> str | None:
    """Run it under the engine's role; returns the SQLSTATE that refused it, and leaves the transaction usable."""
    try:
        with sql.transaction():
            sql.execute("SET LOCAL ROLE stanchion_engine")
            assert sql.execute(statement).rowcount == 1
            sql.execute("RESET ROLE")
    except psycopg.Error as error:
        return error.sqlstate
    return None


def row(sql: Sql, machine: Machine) -> tuple[Any, ...] | None:
    """The row as it stands."""
    return sql.execute(f"SELECT t::text FROM stanchion.{machine.table} t WHERE {_where(machine)}").fetchone()


def pairs(*, legal: bool) -> list[Any]:
    """All ordered pairs of different states that are declared, or that are not."""
    return list(_pairs(legal))


def _pairs(legal: bool) -> Iterator[Any]:
    for machine in MACHINES:
        for source, target in machine.pairs():
            if machine.legal(source, target) is legal:
                yield pytest.param(machine, source.value, target.value, id=f"{machine.table}-{source}-{target}")


def fenced() -> list[Any]:
    """All fenced transitions from each of their sources."""
    return list(_fenced())


def _fenced() -> Iterator[Any]:
    for machine in (STEP, ATTEMPT, OPERATION, ARTIFACT):
        for transition in machine.transitions:
            for source in transition.sources if transition.fenced else ():
                name = f"{machine.table}-{transition.name}-{source}"
                yield pytest.param(machine, source.value, transition.target.value, id=name)


def votes(sql: Sql, vote: str) -> None:
    """Somebody who may has said this about the approval, with triggers off."""
    person = f"'{WORKER_ID}', '{TENANT}'"
    sql.execute("SET LOCAL session_replication_role = replica")
    sql.execute(
        "INSERT INTO stanchion.person (person_id, tenant_id, name, display_name, role)"
        f" VALUES ({person}, 'ann', 'Ann', 'approver')"
    )
    sql.execute(
        "INSERT INTO stanchion.approval_vote (person_id, tenant_id, approval_id, number, subject, vote, payload_hash)"
        f" SELECT {person}, '{APPROVAL_ID}', 1, 'person:ann', '{vote}', payload_hash FROM stanchion.approval"
    )
    sql.execute("SET LOCAL session_replication_role = origin")


@pytest.mark.parametrize(("machine", "source", "target"), pairs(legal=True))
def test_a_declared_transition_passes(sql: Sql, machine: Machine, source: str, target: str) -> None:
    """With the version raised by one, the right shape and the right proof."""
    surroundings(sql, machine)
    forge(sql, machine, source, **({"expires_at": "'2020-01-01'"} if target == "expired" else {}))
    if machine is APPROVAL:
        votes(sql, "reject" if target == "rejected" else "approve")
    assert as_engine(sql, change(machine, source, target)) is None
    found = sql.execute(f"SELECT state FROM stanchion.{machine.table} WHERE {_where(machine)}").fetchone()
    assert found == (target,)


@pytest.mark.parametrize(("machine", "source", "target"), pairs(legal=False))
def test_every_other_pair_is_refused(sql: Sql, machine: Machine, source: str, target: str) -> None:
    """With ST001 (an attempt that ended: ST004), whatever else is right; nothing changes."""
    surroundings(sql, machine)
    forge(sql, machine, source)
    before = row(sql, machine)
    assert as_engine(sql, change(machine, source, target)) == "ST001"
    assert row(sql, machine) == before


@pytest.mark.parametrize(
    ("machine", "state"),
    [pytest.param(m, s, id=f"{m.table}-{s}") for m in MACHINES for s in m.states],
)
def test_births(sql: Sql, machine: Machine, state: StrEnum) -> None:
    """A row is born in a declared state only."""
    surroundings(sql, machine)
    with sql.transaction():
        sql.execute("SET LOCAL ROLE stanchion_engine")
        try:
            with sql.transaction():
                insert(sql, machine, state.value)
            refused = None
        except psycopg.Error as error:
            refused = error.sqlstate
        sql.execute("RESET ROLE")
    assert refused == (None if state in machine.births else "ST001")


class TestFence:
    """Leaving leased or running needs the current fence, an expired attempt (reaper) or a run that winds down."""

    @pytest.mark.parametrize(("machine", "source", "target"), fenced())
    @pytest.mark.parametrize("off", [-1, 1])
    def test_a_stale_fence_is_refused(self, sql: Sql, machine: Machine, source: str, target: str, off: int) -> None:
        """One too low or one too high: ST003, and nothing changes."""
        surroundings(sql, machine, fence=FENCE + off)
        forge(sql, machine, source)
        before = row(sql, machine)
        more = {"proof": str(FENCE + off)} if machine is STEP else {}  # of the others the step itself has moved on
        assert as_engine(sql, change(machine, source, target, **more)) == "ST003"
        assert row(sql, machine) == before

    @pytest.mark.parametrize(("machine", "source", "target"), [p for p in fenced() if p.values[0] in (STEP, OPERATION)])
    def test_no_proof_at_all_is_refused(self, sql: Sql, machine: Machine, source: str, target: str) -> None:
        """Whoever forgets the fence writes nothing."""
        surroundings(sql, machine)
        forge(sql, machine, source)
        before = row(sql, machine)
        assert as_engine(sql, change(machine, source, target, proof="0")) == "ST003"
        assert row(sql, machine) == before

    @pytest.mark.parametrize("source", HELD)
    @pytest.mark.parametrize("target", ["ready", "failed", "succeeded", "retry_wait", "cancelled", "unknown"])
    @pytest.mark.parametrize("expired", [False, True])
    def test_the_reaper_frees_only_what_expired(self, sql: Sql, source: str, target: str, expired: bool) -> None:
        """By the database's clock, and only to ready, failed or unknown."""
        surroundings(sql, STEP)
        forge(sql, STEP, source)
        until = "now() - interval '1 s'" if expired else "now() + interval '1 h'"
        forge(sql, ATTEMPT, "granted", lease_until=until)
        legal = STEP.legal(StepState(source), StepState(target))
        refusal = "ST003" if legal else "ST001"
        allowed = legal and expired and target in ("ready", "failed", "unknown")
        assert as_engine(sql, change(STEP, source, target, proof="-1")) == (None if allowed else refusal)

    @pytest.mark.parametrize("source", HELD)
    @pytest.mark.parametrize("target", ["ready", "failed", "succeeded", "retry_wait", "cancelled", "unknown"])
    @pytest.mark.parametrize("run", ["running", "cancelling", "failed"])
    def test_the_canceller_takes_only_from_a_run_that_winds_down(
        self, sql: Sql, source: str, target: str, run: str
    ) -> None:
        """And only to cancelled or unknown."""
        surroundings(sql, STEP, run=run)
        forge(sql, STEP, source)
        legal = STEP.legal(StepState(source), StepState(target))
        refusal = "ST003" if legal else "ST001"
        allowed = legal and run == "cancelling" and target in ("cancelled", "unknown")
        assert as_engine(sql, change(STEP, source, target, proof="-2")) == (None if allowed else refusal)

    def test_the_proof_is_never_stored(self, sql: Sql) -> None:
        """The next writer must present its own."""
        surroundings(sql, STEP)
        forge(sql, STEP, "leased")
        assert as_engine(sql, change(STEP, "leased", "running")) is None
        assert sql.execute("SELECT proof FROM stanchion.step").fetchone() == (0,)
        assert as_engine(sql, change(STEP, "running", "succeeded", proof="proof")) == "ST003"

    @pytest.mark.parametrize("state", [s.value for s in STEP.states])
    @pytest.mark.parametrize("by", [-1, 1])
    def test_the_fence_moves_only_with_a_lease(self, sql: Sql, state: str, by: int) -> None:
        """Never down, never up without ready -> leased."""
        surroundings(sql, STEP)
        forge(sql, STEP, state)
        statement = f"UPDATE stanchion.step SET fence = fence + {by}, proof = {FENCE}"
        assert as_engine(sql, statement) == "ST002"

    @pytest.mark.parametrize("by", [0, 2])
    def test_a_lease_raises_it_by_one(self, sql: Sql, by: int) -> None:
        """Not by none and not by two."""
        surroundings(sql, STEP)
        forge(sql, STEP, "ready")
        assert as_engine(sql, change(STEP, "ready", "leased", fence=f"fence + {by}")) == "ST002"

    @pytest.mark.parametrize("state", [s.value for s in STEP.states if s.value not in ("leased", "running")])
    def test_a_version_of_a_step_that_is_held_no_longer_stays_pending(self, sql: Sql, state: str) -> None:
        """Also with the fence of its last lease; a probe makes no content either."""
        forge(sql, RUN, "running")
        forge(sql, STEP, state)
        forge(sql, ARTIFACT, "pending")
        assert as_engine(sql, change(ARTIFACT, "pending", "available")) == "ST003"

    def test_a_version_is_born_with_the_current_fence(self, sql: Sql) -> None:
        """Another one is refused."""
        surroundings(sql, ARTIFACT)
        stale = columns(ARTIFACT, "pending") | {"fence": str(FENCE - 1)}
        assert (
            as_engine(
                sql, f"INSERT INTO stanchion.artifact_version ({', '.join(stale)}) VALUES ({', '.join(stale.values())})"
            )
            == "ST003"
        )

    def test_an_attempt_is_born_with_the_current_fence(self, sql: Sql) -> None:
        """Another one is refused, and so is a second open attempt."""
        surroundings(sql, ATTEMPT)
        stale = columns(ATTEMPT, "granted") | {"fence": str(FENCE - 1)}
        names, values = ", ".join(stale), ", ".join(stale.values())
        assert as_engine(sql, f"INSERT INTO stanchion.attempt ({names}) VALUES ({values})") == "ST003"
        forge(sql, ATTEMPT, "granted", fence=str(FENCE - 1))
        good = columns(ATTEMPT, "granted")
        names, values = ", ".join(good), ", ".join(good.values())
        assert as_engine(sql, f"INSERT INTO stanchion.attempt ({names}) VALUES ({values})") == "23505"

    @pytest.mark.parametrize("state", [s.value for s in ATTEMPT.terminal])
    def test_an_attempt_that_ended_is_immutable(self, sql: Sql, state: str) -> None:
        """Not one column of it changes any more."""
        surroundings(sql, ATTEMPT)
        forge(sql, ATTEMPT, state)
        assert as_engine(sql, "UPDATE stanchion.attempt SET counted = NOT counted") == "ST004"


@pytest.mark.parametrize(
    ("machine", "column"),
    [pytest.param(m, c, id=f"{m.table}.{c}") for m in MACHINES for c in m.immutable],
)
def test_identity_never_changes(sql: Sql, machine: Machine, column: str) -> None:
    """A row can't be moved to another tenant, run or fan-out, nor be made another thing."""
    state = next(s for s in machine.states if s.value not in HELD).value
    surroundings(sql, machine)
    forge(sql, machine, state)
    kind = sql.execute(
        "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s",
        (f"stanchion.{machine.table}", column),
    ).fetchone()
    assert kind is not None
    other = {
        "uuid": "gen_random_uuid()",
        "text": "'other'",
        "bytea": "'\\xff'",
        "text[]": "'{other}'",
        "boolean": f"NOT {column}",
        "timestamp with time zone": "now()",
    }.get(kind[0], "77")
    assert as_engine(sql, f"UPDATE stanchion.{machine.table} SET {column} = {other} WHERE {_where(machine)}") == "ST002"


VERSIONED = [m for m in MACHINES if m is not ATTEMPT]


class TestVersion:
    """The version counts the transitions, no more and no less."""

    @pytest.mark.parametrize("machine", VERSIONED, ids=lambda m: m.table)
    def test_a_transition_raises_it_by_one(self, sql: Sql, machine: Machine) -> None:
        """By none or by two is refused."""
        source = machine.births[0]
        target = machine.targets_of(source)[0]
        surroundings(sql, machine)
        forge(sql, machine, source.value)
        if machine is APPROVAL:
            votes(sql, "approve")
        for version in ("version", "version + 2"):
            statement = change(machine, source.value, target.value, version=version)
            assert as_engine(sql, statement) == "ST002"

    @pytest.mark.parametrize("machine", VERSIONED, ids=lambda m: m.table)
    def test_nothing_else_raises_it(self, sql: Sql, machine: Machine) -> None:
        """Without a change of state it stays."""
        surroundings(sql, machine)
        forge(sql, machine, machine.births[0].value)
        assert (
            as_engine(sql, f"UPDATE stanchion.{machine.table} SET version = version + 1 WHERE {_where(machine)}")
            == "ST002"
        )


@pytest.mark.parametrize("state", [s.value for s in ARTIFACT.states])
@pytest.mark.parametrize(
    "change_to",
    ["sha256 = sha256('x')", "size = 7", "number = 7, available_at = now()", "made_from = ARRAY[gen_random_uuid()]"],
)
def test_content_never_changes(sql: Sql, state: str, change_to: str) -> None:
    """In no state: what was promoted is what everybody reads for ever."""
    surroundings(sql, ARTIFACT)
    forge(sql, ARTIFACT, state)
    assert as_engine(sql, f"UPDATE stanchion.artifact_version SET {change_to}") == "ST004"


@pytest.mark.parametrize("state", [s.value for s in ARTIFACT.states])
def test_only_a_deleted_version_leaves_its_table(sql: Sql, state: str) -> None:
    """With history; a row that went earlier would leave an object without one."""
    surroundings(sql, ARTIFACT)
    forge(sql, ARTIFACT, state)
    assert as_engine(sql, "DELETE FROM stanchion.artifact_version") == (None if state == "deleted" else "ST004")


@pytest.mark.parametrize("run", [s.value for s in RUN.states])
def test_a_step_is_reopened_only_while_its_run_is_live(sql: Sql, run: str) -> None:
    """Terminal stays terminal once the run winds down or has ended."""
    surroundings(sql, STEP, run=run)
    forge(sql, STEP, "failed")
    allowed = run in ("created", "running")
    assert as_engine(sql, change(STEP, "failed", "ready")) == (None if allowed else "ST001")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.table)
def test_a_state_that_is_not_declared_is_refused(sql: Sql, machine: Machine) -> None:
    """Also to a superuser with triggers off: a CHECK holds the list."""
    surroundings(sql, machine)
    with pytest.raises(psycopg.errors.CheckViolation):
        forge(sql, machine, "blocked")


SHAPES = [
    (TASK, "a_task_has_an_end_only_when_it_ended", "completed", {"ended_at": "NULL"}),
    (RUN, "a_run_has_an_end_only_when_it_ended", "running", {"ended_at": "now()"}),
    (RUN, "a_run_winds_down_to_an_outcome", "cancelling", {"outcome": "NULL"}),
    (RUN, "a_run_winds_down_to_an_outcome", "cancelling", {"outcome": "'succeeded'"}),
    (RUN, "a_succeeded_run_has_nothing_open", "succeeded", {"open": "1"}),
    (STEP, "a_fan_out_is_never_leased", "ready", {"kind": "'fan'"}),
    (STEP, "attempts_stay_within_the_budget", "ready", {"attempts": "5", "max_attempts": "4"}),
    (STEP, "only_a_skipped_step_is_spoiled", "ready", {"spoiled": "true"}),
    (STEP, "what_is_in_doubt_is_never_settled", "succeeded", {"doubts": "1"}),
    (STEP, "only_doubts_make_a_step_unknown", "unknown", {"doubts": "0"}),
    (OPERATION, "an_operation_was_sent_when_it_is_known_of", "dispatched", {"sends": "0"}),
    (OPERATION, "a_confirmed_operation_has_a_time", "confirmed", {"confirmed_at": "NULL"}),
    (OPERATION, "a_payload_is_bound_by_its_sha256", "prepared", {"payload_hash": "'\\x00'"}),
    (APPROVAL, "an_approval_has_a_time_once_it_is_decided", "granted", {"decided_at": "NULL"}),
    (APPROVAL, "a_spent_approval_names_its_operation", "spent", {"spent_by": "NULL"}),
    (APPROVAL, "only_what_was_spent_names_an_operation", "granted", {"spent_by": f"'{OPERATION_ID}'"}),
    (APPROVAL, "silence_never_approves", "requested", {"on_timeout": "'approve'"}),
    (APPROVAL, "an_approval_needs_somebody", "requested", {"needs": "0"}),
    (APPROVAL, "a_no_ends_the_task_or_not", "requested", {"on_rejected": "'pause'"}),
    (APPROVAL, "who_replaces_an_approval_is_named", "requested", {"edited_by": "'person:ann'"}),
    (ATTEMPT, "an_attempt_has_an_end_only_when_it_ended", "granted", {"ended_at": "now()"}),
    (BARRIER, "counts_never_pass_expected", "waiting", {"succeeded": "1", "failed": "1"}),
    (BARRIER, "a_release_has_its_time", "released", {"released_at": "NULL"}),
    (BARRIER, "a_barrier_counts_down_to_zero", "waiting", {"slots_left": "-1"}),
    (
        BARRIER,
        "only_a_join_of_all_that_never_holds_has_slots",
        "waiting",
        {"slots": "1", "on_failed": "'hold'", "step_id": "gen_random_uuid()"},
    ),
    (BARRIER, "a_join_without_a_step_only_waits", "waiting", {"on_failed": "'fail'"}),
]


@pytest.mark.parametrize(("machine", "constraint", "state", "broken"), SHAPES)
def test_an_impossible_shape_is_refused(
    sql: Sql, machine: Machine, constraint: str, state: str, broken: dict[str, str]
) -> None:
    """By the constraint that is named for the rule."""
    surroundings(sql, machine)
    with pytest.raises(psycopg.errors.CheckViolation) as refused:
        forge(sql, machine, state, **broken)
    assert refused.value.diag.constraint_name == constraint
