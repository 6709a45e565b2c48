"""The files in `deploy/` fit the program. No container engine is needed, and none is asked."""

from __future__ import annotations

import re
from typing import Any

import plain_yaml
import pytest
from docs_kit import CHECKOUT

from stanchion.cli.launches import LOGINS
from stanchion.db.grants import DASHBOARD, password_variable
from stanchion.runtime.homes import SERVICES
from stanchion.testing.reference.settings_page import OTHERS, service_settings

DEPLOY = CHECKOUT / "deploy"
COMPOSE: dict[str, Any] = plain_yaml.load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
PARTS: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: part for name, part in PARTS.items() if str(part.get("command", "")).startswith("['serve'")}


def test_every_service_is_there() -> None:
    """Compose runs each service of the program, each with a command that exists."""
    assert {part["command"][1] for part in OURS.values()} == set(SERVICES)
    assert all(name == part["command"][1] for name, part in OURS.items())


@pytest.mark.parametrize("name", sorted(OURS))
def test_variables_of_a_service_exist(name: str) -> None:
    """Each variable is a setting of that service, and what it requires is set."""
    fields = service_settings()[name].model_fields
    given = {key for key in OURS[name]["environment"] if key.startswith("STANCHION_")}
    assert {key.removeprefix("STANCHION_").lower() for key in given} <= set(fields)
    required = {f"STANCHION_{field.upper()}" for field, info in fields.items() if info.is_required()}
    assert required <= given


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_service_has_its_own_login(name: str) -> None:
    """No service connects with more rights than its own, nor with a password that opens another login."""
    variable = password_variable(LOGINS[name])
    assert f"//{LOGINS[name]}:${{{variable}:?" in OURS[name]["environment"]["STANCHION_DATABASE_URL"]
    assert variable in PARTS["migrate"]["environment"]
    assert not [other for other in OURS.values() if other is not OURS[name] and variable in str(other)]


def test_the_dashboard_reads_by_its_own_login_and_acts_through_the_task_service() -> None:
    """Its password is chosen by whoever deploys, given to the migration, and known to no other service."""
    variable, environment = password_variable(DASHBOARD), OURS["orchestrator"]["environment"]
    assert f"//{DASHBOARD}:${{{variable}:?" in environment["STANCHION_DASHBOARD_DATABASE_URL"]
    assert environment["STANCHION_TASK_SERVICE_URL"] == "http://task-service:8080"
    assert variable in PARTS["migrate"]["environment"]
    assert [name for name, part in OURS.items() if variable in str(part)] == ["orchestrator"]
    assert f"\n{variable}=\n" in (DEPLOY / "stanchion.env.example").read_text(encoding="utf-8")


def test_the_migration_runs_before_the_services() -> None:
    """The schema is there before anything needs it; topics are made by the task service, once the broker is there."""
    assert PARTS["migrate"]["command"] == ["db", "migrate"]
    assert {key for key in PARTS["migrate"]["environment"] if key.startswith("STANCHION_")} <= set(OTHERS)
    for part in OURS.values():
        assert part["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
        assert part["depends_on"]["kafka"]["condition"] == "service_healthy"


def test_what_is_depended_on_exists() -> None:
    """A condition names a part that can fulfil it."""
    for name, part in PARTS.items():
        for other, wanted in part.get("depends_on", {}).items():
            assert other in PARTS, f"{name} depends on {other}"
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in PARTS[other], f"{other} never says that it is healthy"
        for mount in part.get("volumes", ()):
            source = mount.partition(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists(), f"{name} mounts {source}"


def test_services_run_with_few_rights() -> None:
    """A service can't write to its image, gains no privileges, and has time to drain."""
    for part in OURS.values():
        assert part["read_only"] is True
        assert part["cap_drop"] == ["ALL"]
        assert part["security_opt"] == ["no-new-privileges:true"]
        assert int(part["stop_grace_period"].removesuffix("s")) > 30


def test_no_secret_stands_in_a_file() -> None:
    """Passwords come from the environment file, and compose refuses to start without them."""
    example = (DEPLOY / "stanchion.env.example").read_text(encoding="utf-8")
    wanted = set(re.findall(r"^([A-Z_]+)=$", example, re.MULTILINE))
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{(\w+):\?", text)) == wanted
    assert not re.findall(r"\$\{(\w+)\}", text)
    assert "stanchion.env" in (DEPLOY / ".gitignore").read_text(encoding="utf-8")


def test_the_image_runs_as_a_user_of_its_own() -> None:
    """Nothing of the image runs as root, and its health is asked for."""
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines()
    stages = [line for line in lines if line.startswith("FROM ")]
    assert stages == ["FROM python:3.12-slim AS build", "FROM python:3.12-slim"]
    last = lines[lines.index(stages[-1]) :]
    assert "USER 10001" in last
    assert any(line.startswith("HEALTHCHECK") for line in last)
    assert 'ENTRYPOINT ["stanchion"]' in last
    variables = set(re.findall(r"STANCHION_[A-Z_]+", "\n".join(last)))
    known = {f"STANCHION_{field.upper()}" for kind in service_settings().values() for field in kind.model_fields}
    assert variables <= known
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert all((CHECKOUT / name).exists() for name in copied)


def test_the_reader_refuses_what_is_not_plain() -> None:
    """A file that the reader does not understand fails, instead of being read as something else."""
    for text in ("a: |\n  b", "a: {b: 1}", "a:\n\t- b", "a: 1\na: 2", "a: b: c"):
        with pytest.raises(plain_yaml.PlainYamlError):
            plain_yaml.load(text)
