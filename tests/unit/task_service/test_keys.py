"""Keys, rights, settings and codes, without a database."""

from __future__ import annotations

import pytest

from services.task_service.settings import TaskServiceSettings
from stanchion.authority.dead_letters import headers_from_json, headers_to_json
from stanchion.authority.events import Cursor
from stanchion.authority.keys import ABOVE_TENANTS, PREFIX, ROLES, SCOPES, hash_of, new_secret, scopes_of
from stanchion.authority.outcomes import result_nodes
from stanchion.authority.why_codes import WHY, Reason
from stanchion.errors import Unprocessable
from stanchion.workflow import Ctx, Go, Workflow


class TestKeys:
    """The text of a key and its hash."""

    def test_a_key_has_one_spelling(self) -> None:
        """Changing any character, also one whose last bits say nothing, is another key or none."""
        secret = new_secret()
        assert secret.startswith(PREFIX)
        assert len(secret) == len(PREFIX) + 43
        known = hash_of(secret)
        assert known is not None
        assert len(known) == 32
        for other in (secret[:-1], secret + "A", secret.upper(), secret.removeprefix(PREFIX), " " + secret):
            assert hash_of(other) != known
        last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        spellings = [hash_of(secret[:-1] + character) for character in last]
        assert sum(found is not None for found in spellings) == 16
        assert len({found for found in spellings if found}) == 16

    @pytest.mark.parametrize("text", ["", "stn_", "stn_é", "stn_" + "=" * 43, "stn_" + "+" * 43, "x" * 47])
    def test_what_is_no_key_has_no_hash(self, text: str) -> None:
        """Nothing to ask the database for."""
        assert hash_of(text) is None

    def test_no_two_keys_are_alike(self) -> None:
        """32 random bytes each."""
        assert len({new_secret() for _ in range(100)}) == 100


class TestRights:
    """Roles are sets of rights."""

    def test_roles_grow(self) -> None:
        """Each role has what the one before has; only platform reaches beyond its tenant."""
        assert set(ROLES["viewer"]) < set(ROLES["operator"]) < set(ROLES["admin"]) < set(ROLES["platform"])
        assert set(ROLES["platform"]) == set(SCOPES)
        assert set(SCOPES) - set(ROLES["admin"]) == ABOVE_TENANTS == {"worker.operate", "metrics.read", "tenant.manage"}
        assert "payload.read" not in ROLES["viewer"]

    def test_scopes_and_roles_are_joined_in_order(self) -> None:
        """Whatever order they come in."""
        assert scopes_of(["metrics.read", "task.submit"], "viewer") == (
            "task.submit",
            "task.read",
            "worker.read",
            "metrics.read",
        )
        with pytest.raises(Unprocessable, match="no right"):
            scopes_of(["everything"])
        with pytest.raises(Unprocessable, match="no role"):
            scopes_of([], "root")


BASE = {"database_url": "postgresql://x", "kafka_bootstrap": "b:1"}


class TestSettings:
    """What holds together and what does not."""

    def test_outside_the_dev_profile_commands_are_signed(self) -> None:
        """Trust has to be asked for, with a list."""
        assert TaskServiceSettings(**BASE).rights == "signed"
        dev = TaskServiceSettings(**BASE, profile="dev")
        assert (dev.rights, dev.tenants) == ("trusted", ("dev",))
        with pytest.raises(Unprocessable, match="kafka_tenants"):
            TaskServiceSettings(**BASE, kafka_rights="trusted")
        listed = TaskServiceSettings(**BASE, kafka_rights="trusted", kafka_tenants="a, b")
        assert listed.tenants == ("a", "b")


class TestCursor:
    """Places in a stream of events."""

    def test_it_reads_what_it_wrote(self) -> None:
        """And orders by transaction, then number."""
        place = Cursor(2**63, 5)
        assert Cursor.parse(str(place), "x") == place
        assert Cursor.parse(None, "x") == Cursor.parse("", "x") == Cursor(0, 0)
        assert Cursor(1, 9) < Cursor(2, 1)

    @pytest.mark.parametrize("text", ["1", "1-", "-", "a-b", "1-1-1", f"{2**64}-1", f"1-{2**63}", "1 - 1", "١-١"])
    def test_anything_else_is_refused(self, text: str) -> None:
        """Never read as the beginning: a reader would get everything again."""
        with pytest.raises(Unprocessable):
            Cursor.parse(text, "x")


def test_headers_of_dead_letters_come_back_as_they_were() -> None:
    """Text as text, other bytes in base64, what is secret hidden and left out on the way back."""
    headers = [
        ("ce_type", b"SubmitTask"),
        ("odd", b"\xff\x00"),
        ("nul", b"a\x00"),
        ("cookie", b"s3cret"),
        ("none", None),
    ]
    kept = headers_to_json(headers)
    assert "s3cret" not in str(kept)
    assert "\x00" not in str(kept)
    assert headers_from_json(kept) == [
        ("ce_type", b"SubmitTask"),
        ("odd", b"\xff\x00"),
        ("nul", b"a\x00"),
        ("none", b""),
    ]


def test_the_result_of_a_task_is_that_of_its_ends() -> None:
    """What others come after, what only chooses, and what is spawned does not count."""
    made = Workflow("ends", version=1)

    @made.step(next=["left", "right"])
    def choose(ctx: Ctx) -> Go: ...

    @made.step(on_demand=True)
    def left(ctx: Ctx, value: int) -> int: ...

    @made.step(on_demand=True)
    def right(ctx: Ctx, value: int) -> int: ...

    assert result_nodes(made.graph()) == ["left", "right"]


def test_reasons_are_registered_and_those_that_need_somebody_come_first() -> None:
    """A code that is not in the list can't be given; what passes by itself is read later."""
    with pytest.raises(AssertionError):
        Reason("W-NOTHING", "x")
    order = [info.by_itself for info in WHY.values()]
    assert order == sorted(order)
