"""Backoff, clock, homes, names and metrics."""

from __future__ import annotations

import typing

import pytest

from stanchion.errors import NotFound
from stanchion.runtime import clock, homes
from stanchion.runtime.backoff import Backoff
from stanchion.telemetry import metrics, names


class TestBackoff:
    def test_grows_to_its_cap_and_no_further(self) -> None:
        """Each ceiling is twice the one before."""
        backoff = Backoff(0.1, 1.0)
        ceilings = []
        for _ in range(6):
            ceilings.append(backoff.ceiling)
            backoff.next()
        assert ceilings == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])

    def test_jitters_within_its_ceiling_and_never_to_zero(self) -> None:
        """A crowd spreads out, and nobody spins."""
        drawn = [Backoff(1.0, 1.0).next() for _ in range(500)]
        assert all(0.1 <= wait <= 1.0 for wait in drawn)
        assert max(drawn) - min(drawn) > 0.5

    def test_starts_again_after_a_success(self) -> None:
        """One long outage does not make the next one slow to notice its end."""
        backoff = Backoff(0.1, 10.0)
        for _ in range(10):
            backoff.next()
        backoff.reset()
        assert backoff.ceiling == pytest.approx(0.1)

    def test_survives_any_number_of_failures(self) -> None:
        """A year of failures does not overflow."""
        backoff = Backoff(0.1, 10.0)
        backoff.failures = 10**9
        assert backoff.next() <= 10.0


class TestDeadline:
    def test_never_hands_out_a_negative_or_endless_wait(self) -> None:
        """Libraries read 0 ms as no limit."""
        deadline = clock.Deadline(-1)
        assert (deadline.left, deadline.left_ms, deadline.passed) == (0.0, 1, True)
        assert not clock.Deadline(60).passed
        assert clock.Deadline(60).left_ms > 50_000


class TestHomes:
    @pytest.mark.parametrize(("name", "folder"), homes.SERVICES.items())
    def test_finds_a_service_by_its_name(self, name: str, folder: str) -> None:
        """In a checkout the services lie beside the package."""
        assert homes.service_module(name) == f"services.{folder}"
        assert homes.service_command(name)[1:] == ["-m", f"services.{folder}"]

    def test_prefers_the_home_in_a_wheel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A user's own package may be called services."""
        monkeypatch.setattr("stanchion.runtime.homes.find_spec", lambda _name: object())
        assert homes.service_module("worker") == "stanchion.services.workers"

    def test_a_package_of_the_user_is_not_taken_for_ours(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing of a stranger is started."""

        class Foreign:
            origin = "/elsewhere/services/__init__.py"

        monkeypatch.setattr("stanchion.runtime.homes.find_spec", lambda name: Foreign() if name == "services" else None)
        with pytest.raises(NotFound, match="not part of this installation"):
            homes.service_module("worker")

    def test_an_unknown_name_is_answered_with_those_there_are(self) -> None:
        """The error is the help text."""
        with pytest.raises(NotFound) as caught:
            homes.service_module("wroker")
        assert "orchestrator" in str(caught.value)


class TestNames:
    def test_every_metric_that_is_named_exists(self) -> None:
        """And none exists that has no name."""
        assert metrics.missing() == frozenset()
        assert metrics.declared() <= set(typing.get_args(names.MetricName))

    def test_metrics_are_rendered_in_prometheus_text(self) -> None:
        """A counter that was raised shows."""
        metrics.leases_reaped.inc(0)
        assert b"stanchion_leases_reaped_total" in metrics.render()

    @pytest.mark.parametrize("kind", [names.LogEvent, names.SpanName], ids=["log", "span"])
    def test_names_are_dotted_and_single(self, kind: typing.Any) -> None:
        """One form, so that a search finds all of a part's events."""
        listed = typing.get_args(kind)
        assert len(listed) == len(set(listed))
        assert [name for name in listed if not name.replace(".", "").replace("_", "").islower()] == []
        assert [name for name in listed if name.count(".") != 1] == []
