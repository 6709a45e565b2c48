"""Group care: a join that the library forgot is taken up again; nothing is done while all is well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stanchion.bus import group_care
from stanchion.bus.group_care import GroupCare
from stanchion.bus.library import MemberState
from stanchion.runtime.kafka_settings import KafkaSettings


class Client:
    """The four answers of a consumer that the care asks for."""

    def __init__(self, state: Any, *, rejoins: bool) -> None:
        self.asked = 0
        self.state = state
        self.rejoins = rejoins
        self._coordinator = self

    def group_metadata(self) -> Any:
        return SimpleNamespace(state=self.state)

    def need_rejoin(self) -> bool:
        return self.rejoins

    def request_rejoin(self) -> None:
        self.asked += 1
        self.rejoins = True


@pytest.mark.parametrize("settings", [KafkaSettings("x"), KafkaSettings.dev("x")], ids=["production", "dev"])
class TestForgottenJoins:
    def test_a_member_that_joins_and_has_forgotten_it_is_told(self, settings: KafkaSettings) -> None:
        """Once; after that it knows."""
        client = Client(MemberState.REBALANCING, rejoins=False)
        care = GroupCare(settings, "g")
        care.look(client)
        care.look(client)
        assert client.asked == 1

    @pytest.mark.parametrize(("state", "rejoins"), [("STABLE", False), ("UNJOINED", False), ("REBALANCING", True)])
    def test_others_are_left_alone(self, settings: KafkaSettings, state: str, rejoins: bool) -> None:
        """A stable member, one that has not begun, and one whose join is on its way."""
        client = Client(getattr(MemberState, state), rejoins=rejoins)
        GroupCare(settings, "g").look(client)
        assert client.asked == 0


class TestStuckGroups:
    @pytest.fixture
    def repaired(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        groups: list[str] = []
        monkeypatch.setattr(group_care, "repair", lambda _settings, group: groups.append(group))
        return groups

    def test_a_group_that_does_not_come_to_rest_is_repaired(self, repaired: list[str]) -> None:
        """Only after a long while, and then again only after another one."""
        care = GroupCare(KafkaSettings.dev("x"), "g")
        client = Client(MemberState.REBALANCING, rejoins=True)
        care.look(client)
        assert repaired == []
        care._restless_since = -1_000.0
        care.look(client)
        care.look(client)
        assert repaired == ["g"]

    def test_rest_in_between_starts_the_count_again(self, repaired: list[str]) -> None:
        """A group that rebalances often is not stuck."""
        care = GroupCare(KafkaSettings.dev("x"), "g")
        client = Client(MemberState.REBALANCING, rejoins=True)
        care._restless_since = -1_000.0
        client.state = MemberState.STABLE
        care.look(client)
        client.state = MemberState.REBALANCING
        care.look(client)
        assert repaired == []

    def test_in_production_no_group_is_ever_deleted(self, repaired: list[str]) -> None:
        """Apache Kafka needs no such help, and its offsets are worth more than time."""
        care = GroupCare(KafkaSettings("x"), "g")
        care._restless_since = -1_000_000.0
        care.look(Client(MemberState.REBALANCING, rejoins=True))
        assert repaired == []
