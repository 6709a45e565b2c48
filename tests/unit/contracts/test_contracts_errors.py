"""The tree of errors: families, problem details, SQLSTATEs, codes."""

from __future__ import annotations

import pickle

import pytest

from stanchion import errors
from stanchion.contracts.envelope import BadMessage


def every_kind(root: type[errors.StanchionError]) -> list[type[errors.StanchionError]]:
    return [root, *(kind for child in root.__subclasses__() for kind in every_kind(child))]


class TestStanchionError:
    def test_shows_code_what_where_why_and_fix(self) -> None:
        """The text of an error holds all five parts, the code first."""
        error = errors.Unprocessable(
            "E-DATA-07", "duplicate key", where="$.a", why="readers differ", fix="send it once"
        )
        assert str(error) == "E-DATA-07 duplicate key ($.a)\nreaders differ\nfix: send it once"

    def test_survives_a_process_boundary(self) -> None:
        """An error of a process-isolated step comes home with all its parts."""
        error = errors.Unavailable("E-DB-01", "away", why="refused", fix="wait", attempts=3)
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is errors.Unavailable
        assert (copy.code, copy.what, copy.why, copy.fix, copy.details) == (
            "E-DB-01",
            "away",
            "refused",
            "wait",
            {"attempts": 3},
        )

    def test_a_subclass_with_its_own_constructor_survives_too(self) -> None:
        """BadMessage takes a reason alone and still comes home whole."""
        copy = pickle.loads(pickle.dumps(BadMessage("no id", where="ce_id")))
        assert (copy.code, copy.reason, copy.where) == ("E-MSG-01", "no id", "ce_id")

    @pytest.mark.parametrize(
        ("kind", "status"),
        [
            (errors.Rejected, 400),
            (errors.Unauthenticated, 401),
            (errors.NotAllowed, 403),
            (errors.NotFound, 404),
            (errors.Conflict, 409),
            (errors.TooLarge, 413),
            (errors.Unprocessable, 422),
            (errors.Superseded, 409),
            (errors.Unavailable, 503),
            (errors.InvariantViolated, 500),
        ],
    )
    def test_each_kind_has_its_http_status(self, kind: type[errors.StanchionError], status: int) -> None:
        """What an error is decides its status, not who raises it."""
        assert kind("E-BUG-01", "x").problem()["status"] == status

    def test_every_kind_stands_in_one_of_four_families(self) -> None:
        """The catcher can always tell what to do; a client's own outcomes (waited too long, task failed) stand beside."""
        families = (errors.Rejected, errors.Unavailable, errors.Superseded, errors.InvariantViolated)
        kinds = [kind for kind in every_kind(errors.StanchionError) if kind is not errors.StanchionError]
        strays = [kind for kind in kinds if not issubclass(kind, families)]
        assert [kind for kind in strays if kind.__module__ != "stanchion.sdk.faults"] == []

    def test_losing_the_lease_is_no_exception(self) -> None:
        """`except Exception` in user code does not eat it."""
        assert not issubclass(errors.LeaseLost, Exception)
        assert "fence 41" in str(errors.LeaseLost("stp_1", fence=41))


class TestProblem:
    def test_is_an_rfc_9457_object(self) -> None:
        """Type, title, status and detail of the RFC, and our code, place, reason and fix."""
        error = errors.Unprocessable("E-IDEM-01", "key order-42 was used", where="idempotency_key")
        assert error.problem("req-1") == {
            "type": "/docs/errors/E-IDEM-01",
            "title": "key used for another payload",
            "status": 422,
            "detail": "key order-42 was used",
            "code": "E-IDEM-01",
            "where": "idempotency_key",
            "fix": "Use a new key, or send the same payload.",
            "request_id": "req-1",
        }

    def test_a_foreign_exception_shows_nothing_of_itself(self) -> None:
        """The text of an unexpected error may hold a secret."""
        shown = errors.problem(RuntimeError("postgresql://u:hunter2@db/x"), "req-1")
        assert shown["code"] == "E-BUG-01"
        assert "hunter2" not in str(shown)


class TestSqlstates:
    @pytest.mark.parametrize(
        ("state", "kind", "code"),
        [
            ("ST001", errors.InvariantViolated, "E-STATE-01"),
            ("ST002", errors.InvariantViolated, "E-STATE-02"),
            ("ST003", errors.Superseded, "E-LEASE-01"),
            ("ST004", errors.InvariantViolated, "E-STATE-03"),
            ("ST010", errors.NotFound, "E-FIND-01"),
            ("ST011", errors.Conflict, "E-CONFLICT-01"),
            ("ST012", errors.Unprocessable, "E-DATA-20"),
            ("40001", errors.Unavailable, "E-DB-03"),
            ("40P01", errors.Unavailable, "E-DB-03"),
            ("57P01", errors.Unavailable, "E-DB-01"),
            ("57P02", errors.Unavailable, "E-DB-01"),
            ("57P03", errors.Unavailable, "E-DB-01"),
            ("53300", errors.Unavailable, "E-DB-07"),
            ("53100", errors.Unavailable, "E-DB-07"),
            ("08006", errors.Unavailable, "E-DB-01"),
            ("25006", errors.Unavailable, "E-DB-04"),
            ("28P01", errors.Unavailable, "E-DB-08"),
            (None, errors.Unavailable, "E-DB-01"),
            ("", errors.Unavailable, "E-DB-01"),
            ("42883", errors.InvariantViolated, "E-DB-02"),
            ("42501", errors.InvariantViolated, "E-DB-02"),
            ("23505", errors.Unstorable, "E-DB-11"),
            ("22P05", errors.Unstorable, "E-DB-11"),
            ("54000", errors.Unstorable, "E-DB-11"),
            ("XX000", errors.InvariantViolated, "E-DB-09"),
            ("ST999", errors.InvariantViolated, "E-DB-09"),
        ],
    )
    def test_each_state_has_one_meaning(self, state: str | None, kind: type[errors.StanchionError], code: str) -> None:
        """The family follows from the SQLSTATE alone."""
        error = errors.from_sqlstate(state, "something happened")
        assert (type(error), error.code) == (kind, code)

    def test_a_message_of_ours_may_open_with_the_precise_code(self) -> None:
        """`E-CODE what` in MESSAGE, why in DETAIL, the fix in HINT."""
        error = errors.from_sqlstate("ST012", "E-IDEM-01 this key was used", "another payload", "use a new key")
        assert (error.code, error.what, error.why, error.fix) == (
            "E-IDEM-01",
            "this key was used",
            "another payload",
            "use a new key",
        )

    def test_the_row_of_a_failed_constraint_is_not_carried_on(self) -> None:
        """PostgreSQL's DETAIL shows the row, and the row may hold a secret."""
        error = errors.from_sqlstate("23514", "violates check", "Failing row contains (hunter2).")
        assert "hunter2" not in str(error)

    def test_an_outdated_plan_passes_and_a_missing_feature_does_not(self) -> None:
        """0A000 has two meanings; only the message tells them apart."""
        assert errors.from_sqlstate("0A000", "cached plan must not change result type").code == "E-DB-06"
        assert isinstance(errors.from_sqlstate("0A000", "not supported"), errors.InvariantViolated)


class TestCodes:
    def test_every_code_is_complete(self) -> None:
        """A title, a meaning and a way out for each, since pages are rendered from them."""
        for code, info in errors.CODES.items():
            assert info.title, code
            assert info.meaning.endswith("."), code
            assert info.fix, code
            assert 400 <= info.status < 600, code

    def test_registering_twice_the_same_is_harmless_and_another_meaning_is_not(self) -> None:
        """Two parts can't use one code for two things."""
        info = errors.CODES["E-BUG-01"]
        assert errors.register_code("E-BUG-01", info.title, status=info.status, meaning=info.meaning, fix=info.fix)
        with pytest.raises(ValueError, match="registered already"):
            errors.register_code("E-BUG-01", "another", status=500, meaning="x.", fix="y")

    @pytest.mark.parametrize("code", ["E-bug-01", "BUG-01", "E-BUG-1", "E-BUG-001", ""])
    def test_a_malformed_code_is_refused(self, code: str) -> None:
        """Codes are searched for in logs and pages: one form."""
        with pytest.raises(ValueError, match="looks like"):
            errors.register_code(code, "x", status=500, meaning="x.", fix="y")
