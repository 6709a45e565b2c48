"""Budgets over HTTP: given with a submission, shown with the task, enlarged by a retry."""

from __future__ import annotations

from typing import Any

import pytest
from task_service_kit import Api, Hand

from stanchion.authority.leases import Failure
from stanchion.authority.ledger import Ledger
from stanchion.contracts.ids import new_id


class TestBudgets:
    """What a task may spend: part of the submission, shown with the task, enlarged only by a retry."""

    def test_a_budget_is_accepted_and_shown(self, api: Api, other: Api) -> None:
        """In one form, for this tenant alone."""
        made = api.submit("pair", {"topic": "b"}, budget={"usd": 5.0, "tokens": 1e5})
        path = f"/v1/tasks/{made['task_id']}"
        assert api.get(path)["budget"] == [
            {"unit": "tokens", "allowed": 100_000, "spent": 0},
            {"unit": "usd", "allowed": 5, "spent": 0},
        ]
        assert other.get(path, 404)["code"] == "E-FIND-01"
        assert api.get(f"/v1/tasks/{api.submit('pair', {'topic': 'c'})['task_id']}")["budget"] == []

    def test_a_budget_is_part_of_what_a_key_stands_for(self, api: Api) -> None:
        """The same in another form is the same task, another is a conflict."""
        first = api.submit("pair", {"topic": "k"}, budget={"usd": 5}, idempotency_key="budget-1")
        again = api.submit("pair", {"topic": "k"}, 200, budget={"usd": "5.00"}, idempotency_key="budget-1")
        assert (again["task_id"], again["duplicate"]) == (first["task_id"], True)
        for other in ({"usd": 6}, {"eur": 5}, None):
            refused = api.submit("pair", {"topic": "k"}, 422, budget=other, idempotency_key="budget-1")
            assert refused["code"] == "E-IDEM-01"

    @pytest.mark.parametrize("odd", ["usd=5", [], {}, {"usd": -1}, {"usd": "NaN"}, {"usd": 0.12345678901}, {"U": 1}])
    def test_what_is_no_budget_is_refused(self, api: Api, odd: Any) -> None:
        """With its place, before anything is written."""
        refused = api.submit("pair", {"topic": "x"}, 422, budget=odd)
        assert (refused["code"], refused["where"].startswith("$.budget")) == ("E-BUD-03", True)

    def test_an_overspent_task_is_retried_with_more(self, api: Api, hand: Hand) -> None:
        """The reason says by how much, `why` says how; a retry without more changes nothing."""
        made = api.submit("pair", {"topic": "o"}, budget={"usd": 1})
        path = f"/v1/tasks/{made['task_id']}"
        (lease,) = hand.lease_of(made)
        ledger = Ledger(hand.leases.database, hand.leases.worker_id)
        assert ledger.spend(lease, new_id(), "usd", 1.5).outcome == "over"
        hand.leases.fail([Failure(lease, {"code": "E-BUD-02", "what": "x"}, True, 0)])
        hand.sweep()
        task = api.get(path)
        assert (task["state"], task["reason"]["code"]) == ("failed", "E-BUD-02")
        assert task["budget"] == [{"unit": "usd", "allowed": 1, "spent": 1.5}]
        (reason,) = api.get(f"{path}/why")["reasons"]
        assert "1 usd allowed, 1.5 spent" in reason["text"]
        assert reason["fix"] == [f"stanchion task retry {made['task_id']} --budget UNIT=NUMBER"]
        refused = api.post(f"{path}/retry", {}, 409)
        assert (refused["code"], refused["why"]) == ("E-BUD-02", "1 usd allowed, 1.5 spent")
        assert api.post(f"{path}/retry", {"budget": {"usd": -1}}, 422)["code"] == "E-BUD-03"
        api.post(f"{path}/retry", {"budget": {"usd": 2}}, 201)
        assert api.get(path)["budget"] == [{"unit": "usd", "allowed": 2, "spent": 1.5}]
