"""Exactly one bound field is changed, whichever and however: nothing leaves, and the approval stays as it was."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.deciding import PAGE, Deciding, asking
from kit.engine import Engine
from kit.outside import Outside

from stanchion.authority.leases import Lease
from stanchion.authority.ledger import Intent, Ledger
from stanchion.contracts import payload
from stanchion.workflow.operation import Operation

scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text("abcé\u2028", max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner), max_leaves=6
)
hashes = st.binary(min_size=32, max_size=32)
names = st.text("abcdefgh.", min_size=1, max_size=20)

OF_THE_OPERATION = {"task_id": st.uuids(), "kind": names, "key": names, "payload_hash": hashes}
OF_THE_APPROVAL = {
    "task_id": st.uuids(),
    "operation_kind": names,
    "operation_key": names,
    "payload_hash": hashes,
    "state": st.sampled_from(["requested", "rejected", "expired", "revoked", "spent"]),
    "expires_at": st.integers(1, 10**9).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    "needs": st.integers(2, 20),
    "resource_id": st.uuids(),
    "requested_by": st.just("person:ann"),
}

Ready = tuple[Ledger, Lease, UUID]
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def ready(engine: Engine, people: Deciding) -> Ready:
    """An operation that is prepared under an approval that covers it, and the lease of its step."""
    outside = Outside()
    engine.submit(asking(outside, by="editors"))
    hand = engine.worker(600_000)
    (lease,) = hand.take("review")
    hand.settle([hand.run(lease)])
    people.say("ann")
    (lease,) = hand.take("send")
    ledger = Ledger(engine.worker_database, hand.leases.worker_id)
    publish = engine.workflows["asking"].operations["press.publish"]
    found = ledger.prepare(lease, Intent.of(publish, "spring", PAGE, approval=people.id)).operation_id
    assert found is not None
    return ledger, lease, found


def forge(engine: Engine, sql: str, *parameters: Any) -> None:
    """Write past all triggers, as nobody but a superuser can."""
    with engine.admin.transaction():
        engine.admin.execute("SET LOCAL session_replication_role = replica")
        engine.admin.execute(sql, parameters)


@pytest.mark.parametrize("column", list(OF_THE_OPERATION))
def test_one_field_of_the_operation(engine: Engine, people: Deciding, ready: Ready, column: str) -> None:
    """As if somebody had found a way to write it."""
    ledger, lease, operation = ready

    @quick
    @given(value=OF_THE_OPERATION[column])
    def one(value: Any) -> None:
        before = engine.one(f"SELECT {column} FROM stanchion.operation")[0]
        if before == value:
            return
        forge(engine, f"UPDATE stanchion.operation SET {column} = %s", value)
        told = ledger.dispatch(lease, operation)
        forge(engine, f"UPDATE stanchion.operation SET {column} = %s", before)
        assert (told.outcome, people.state) == ("unapproved", "granted"), (column, value)

    one()
    assert ledger.dispatch(lease, operation).outcome == "dispatched"


@pytest.mark.parametrize("column", list(OF_THE_APPROVAL))
def test_one_field_of_the_approval(engine: Engine, people: Deciding, ready: Ready, column: str) -> None:
    """The version, the time, the votes and who asked for it are bound like the payload."""
    ledger, lease, operation = ready
    whole = engine.one("SELECT a::text FROM stanchion.approval a")[0]
    # what the CHECKs ask for beside it
    besides = {"spent": {"spent_by": UUID(int=1)}, "requested": {"decided_at": None}}

    @quick
    @given(value=OF_THE_APPROVAL[column])
    def one(value: Any) -> None:
        changed = {column: value} | besides.get(value if column == "state" else "", {})
        if column == "resource_id":
            changed["resource_sha256"] = bytes(32)
        forge(engine, f"UPDATE stanchion.approval SET {', '.join(f'{n} = %s' for n in changed)}", *changed.values())
        told = ledger.dispatch(lease, operation)
        spent_by = engine.one("SELECT spent_by FROM stanchion.approval")[0]
        forge(engine, "DELETE FROM stanchion.approval")
        forge(engine, "INSERT INTO stanchion.approval SELECT (%s::stanchion.approval).*", whole)
        assert (told.outcome, spent_by) == ("unapproved", changed.get("spent_by")), (column, value)

    one()
    assert ledger.dispatch(lease, operation).outcome == "dispatched"


@quick
@given(shown=values, sent=values)
def test_hashes_are_those_of_the_canonical_form(shown: Any, sent: Any) -> None:
    """Equal payloads have one hash, whatever their order; others have another."""
    operation: Operation[Any, Any] = Outside().operation()
    one, other = (Intent.of(operation, "k", {"x": value}) for value in (shown, sent))
    assert (one.hash == other.hash) == (payload.canonical({"x": shown}) == payload.canonical({"x": sent}))
