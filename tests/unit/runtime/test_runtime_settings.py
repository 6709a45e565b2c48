"""Settings: defaults < file < environment < flags, checked at the start, secrets hidden."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from stanchion.errors import Unprocessable
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.runtime.settings import ServiceSettings

DATABASE = "postgresql://worker:hunter2@db:5432/stanchion"


class WorkerSettings(ServiceSettings):
    SERVICE: ClassVar[str] = "worker"

    slots: int = 8


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("STANCHION_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STANCHION_DATABASE_URL", DATABASE)
    monkeypatch.setenv("STANCHION_KAFKA_BOOTSTRAP", "kafka:9092")


def config(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> None:
    path.write_text(text)
    monkeypatch.setenv("STANCHION_CONFIG", str(path))


class TestSources:
    def test_each_overrides_the_one_before(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Default, file, the service's table in the file, environment, flag."""
        assert WorkerSettings.load().slots == 8
        config(monkeypatch, tmp_path / "c.toml", "slots = 1\n")
        assert WorkerSettings.load().slots == 1
        config(monkeypatch, tmp_path / "c.toml", "slots = 1\n[worker]\nslots = 2\n[orchestrator]\nslots = 9\n")
        assert WorkerSettings.load().slots == 2
        monkeypatch.setenv("STANCHION_SLOTS", "3")
        assert WorkerSettings.load().slots == 3
        assert WorkerSettings.load(["--slots", "4"]).slots == 4
        assert WorkerSettings.load(["--slots=5"]).slots == 5

    def test_an_empty_variable_counts_as_not_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As compose files and shells leave them."""
        monkeypatch.setenv("STANCHION_SLOTS", "")
        monkeypatch.setenv("STANCHION_REDIS_URL", "")
        settings = WorkerSettings.load()
        assert (settings.slots, settings.redis_url) == (8, None)

    def test_are_frozen(self) -> None:
        """What was checked at the start holds to the end."""
        with pytest.raises(ValueError, match="frozen"):
            WorkerSettings.load().slots = 1  # type: ignore[misc]

    @pytest.mark.parametrize("text", ["not toml at all [", "\xff"])
    def test_a_file_that_can_not_be_read_is_named(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
    ) -> None:
        """No start with half the settings."""
        (tmp_path / "c.toml").write_bytes(text.encode("latin-1"))
        monkeypatch.setenv("STANCHION_CONFIG", str(tmp_path / "c.toml"))
        with pytest.raises(Unprocessable, match="STANCHION_CONFIG"):
            WorkerSettings.load()

    def test_a_missing_file_is_named_too(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Whoever names a file means it."""
        monkeypatch.setenv("STANCHION_CONFIG", str(tmp_path / "none.toml"))
        with pytest.raises(Unprocessable, match="STANCHION_CONFIG"):
            WorkerSettings.load()

    def test_a_misspelt_name_in_the_services_own_table_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """There it can't belong to another service."""
        config(monkeypatch, tmp_path / "c.toml", "of_another_service = 1\n[worker]\nslotz = 2\n")
        with pytest.raises(Unprocessable, match="slotz"):
            WorkerSettings.load()


class TestRefusals:
    def test_a_missing_one_is_named_as_its_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The reader can set it right away."""
        monkeypatch.delenv("STANCHION_DATABASE_URL")
        with pytest.raises(Unprocessable, match="STANCHION_DATABASE_URL") as caught:
            WorkerSettings.load()
        assert caught.value.code == "E-CONF-01"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("SLOTS", "many"),
            ("PROFILE", "test"),
            ("HTTP_PORT", "70000"),
            ("DRAIN_SECONDS", "-1"),
            ("LOG_LEVEL", "loud"),
        ],
    )
    def test_a_wrong_value_is_named_and_not_shown(self, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
        """It may have been pasted into the wrong variable."""
        monkeypatch.setenv(f"STANCHION_{name}", value)
        with pytest.raises(Unprocessable, match=f"STANCHION_{name}") as caught:
            WorkerSettings.load()
        assert value not in str(caught.value).replace(name, "")

    @pytest.mark.parametrize("argv", [["--slotz", "1"], ["slots", "1"], ["--slots"], ["-x"], ["--"]])
    def test_a_wrong_flag_is_refused(self, argv: list[str]) -> None:
        """Nothing is guessed."""
        with pytest.raises(Unprocessable):
            WorkerSettings.load(argv)

    def test_relations_are_checked_at_the_start(self) -> None:
        """A heartbeat that is too rare would cost the partitions."""
        with pytest.raises(Unprocessable, match="heartbeat_interval_ms") as caught:
            WorkerSettings.load(["--kafka-session-timeout-ms", "5000"])
        assert caught.value.code == "E-CONF-02"


class TestKafka:
    def test_the_profile_gives_the_timings(self) -> None:
        """Short sessions on a laptop, long ones in production."""
        dev = WorkerSettings.load(["--profile", "dev"]).kafka
        production = WorkerSettings.load().kafka
        assert (dev.session_timeout_ms, dev.heartbeat_interval_ms, dev.fetch_max_wait_ms) == (2_000, 500, 20)
        assert (production.session_timeout_ms, production.heartbeat_interval_ms, production.fetch_max_wait_ms) == (
            45_000,
            3_000,
            500,
        )
        assert dev.bootstrap == "kafka:9092"
        assert dev.client_id.startswith("worker-")

    def test_a_setting_overrides_the_profile(self) -> None:
        """Each on its own."""
        settings = WorkerSettings.load(
            ["--profile=dev", "--kafka-fetch-max-wait-ms=7", "--kafka-sasl-password=hunter2"]
        )
        assert (settings.kafka.fetch_max_wait_ms, settings.kafka.session_timeout_ms) == (7, 2_000)
        assert settings.kafka.sasl_password == "hunter2"
        assert "hunter2" not in repr(settings.kafka)

    def test_the_defaults_of_both_profiles_fit_together(self) -> None:
        """No start fails by itself."""
        assert KafkaSettings("x").faults() == []
        assert KafkaSettings.dev("x").faults() == []


class TestPrinting:
    def test_shows_all_and_no_secret(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """Connection strings without their passwords, marked ones hidden."""
        monkeypatch.setenv("STANCHION_KAFKA_SASL_PASSWORD", "hunter2")
        with pytest.raises(SystemExit) as caught:
            WorkerSettings.load(["--print-settings", "--slots", "4"])
        shown = capsys.readouterr().out
        assert caught.value.code == 0
        assert "hunter2" not in shown
        assert 'database_url = "postgresql://worker:[hidden]@db:5432/stanchion"' in shown
        assert 'kafka_sasl_password = "[hidden]"' in shown
        assert "slots = 4" in shown
        assert "# redis_url is not set" in shown

    def test_the_text_of_the_object_shows_no_secret_either(self) -> None:
        """A log line of the settings is harmless."""
        assert "hunter2" not in repr(WorkerSettings.load())
