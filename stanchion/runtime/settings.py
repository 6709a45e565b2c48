"""Settings of a service: defaults < file < environment < flags, frozen, checked once at the start.

The file is TOML, named by STANCHION_CONFIG: top-level keys are for every service, a table named like a service is for
that one. Environment variables carry the prefix STANCHION_. Flags are `--name value`; `--print-settings` shows what
holds, with its secrets hidden.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from stanchion.errors import Unprocessable
from stanchion.runtime.kafka_settings import KafkaSettings, SecurityProtocol
from stanchion.runtime.logging import Format, Level
from stanchion.runtime.redaction import HIDDEN, is_marked, redact_text

PREFIX = "STANCHION_"


def _instance() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


class ServiceSettings(BaseSettings):
    """What every service has; a service adds its own fields and sets `SERVICE`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True, env_ignore_empty=True
    )

    SERVICE: ClassVar[str] = ""

    database_url: SecretStr
    kafka_bootstrap: str
    redis_url: SecretStr | None = None
    objects_url: str | None = None  # where artifacts lie: s3://bucket/prefix?endpoint=..., or file:///folder
    profile: Literal["dev", "production"] = "production"
    instance: str = Field(default_factory=_instance, min_length=1, max_length=200)
    log_format: Format = "auto"
    log_level: Level = "info"
    http_host: str = "127.0.0.1"
    http_port: int | None = Field(default=None, ge=0, le=65_535)  # unset: no server; 0: a free port
    drain_seconds: float = Field(default=30.0, ge=0)

    kafka_session_timeout_ms: int | None = Field(default=None, gt=0)  # unset: what the profile says
    kafka_heartbeat_interval_ms: int | None = Field(default=None, gt=0)
    kafka_fetch_max_wait_ms: int | None = Field(default=None, gt=0)
    kafka_request_timeout_ms: int | None = Field(default=None, gt=0)
    kafka_delivery_timeout_ms: int | None = Field(default=None, gt=0)
    kafka_commit_interval_ms: int | None = Field(default=None, gt=0)
    kafka_linger_ms: int | None = Field(default=None, ge=0)
    kafka_queue_high: int | None = Field(default=None, gt=0)
    kafka_queue_low: int | None = Field(default=None, gt=0)
    kafka_security_protocol: SecurityProtocol = "PLAINTEXT"
    kafka_ssl_cafile: str | None = None
    kafka_sasl_mechanism: str | None = None
    kafka_sasl_username: str | None = None
    kafka_sasl_password: SecretStr | None = None

    @property
    def kafka(self) -> KafkaSettings:
        """The bus settings: those of the profile, with what is set here."""
        client = f"{self.SERVICE or 'stanchion'}-{self.instance}"
        base = KafkaSettings.dev if self.profile == "dev" else KafkaSettings
        password = self.kafka_sasl_password
        given = {
            name: value
            for name in KafkaSettings.__dataclass_fields__
            if name not in ("bootstrap", "client_id") and (value := getattr(self, f"kafka_{name}", None)) is not None
        }
        given["sasl_password"] = password.get_secret_value() if password else None
        return replace(base(self.kafka_bootstrap, client), **given)

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if faults := self.kafka.faults():
            raise Unprocessable("E-CONF-02", "; ".join(faults), where="kafka settings")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic-settings'
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags (given as arguments) over environment over file."""
        return init_settings, env_settings, _File(settings_cls)

    @classmethod
    def load(cls, argv: Sequence[str] | None = None) -> Self:
        """Read the settings of this process; `argv` without the program's name, None for no flags.

        Raises Unprocessable E-CONF-01 naming the variable. `--print-settings` prints and ends the process.
        """
        flags, show = _flags(cls, list(argv or ()))
        try:
            settings = cls(**flags)
        except ValidationError as error:
            _raise_named(error)
        if show:
            sys.stdout.write(settings.rendered() + "\n")
            raise SystemExit(0)
        return settings

    def rendered(self) -> str:
        """All settings as lines of TOML, secrets hidden, connection strings without passwords."""
        return "\n".join(_line(name, getattr(self, name)) for name in type(self).model_fields)


class _File(PydanticBaseSettingsSource):
    """STANCHION_CONFIG, if it is set: the top-level keys, and over them the table of this service."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        """Unused: the file is read as a whole."""
        raise NotImplementedError

    def __call__(self) -> dict[str, Any]:
        path = os.environ.get(f"{PREFIX}CONFIG")
        if not path:
            return {}
        try:
            read = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise Unprocessable("E-CONF-01", f"STANCHION_CONFIG can't be read: {error}", where=path) from None
        service = getattr(self.settings_cls, "SERVICE", "")
        own = read.get(service, {})
        fields = self.settings_cls.model_fields
        for name in own:
            if name not in fields:  # in its own table a misspelt setting can be told from one of another service
                raise Unprocessable("E-CONF-01", f"there is no setting {name!a}", where=f"{path} [{service}]")
        return {name: value for name, value in {**read, **own}.items() if name in fields}


def _flags(cls: type[ServiceSettings], argv: list[str]) -> tuple[dict[str, Any], bool]:
    flags: dict[str, Any] = {}
    show = False
    while argv:
        word = argv.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        field = name.replace("-", "_")
        if word == "--print-settings":
            show = True
        elif not word.startswith("--") or field not in cls.model_fields:
            raise Unprocessable("E-CONF-01", f"there is no flag {word[:60]!a}", fix="--print-settings shows the names")
        elif equals:
            flags[field] = value
        elif argv:
            flags[field] = argv.pop(0)
        else:
            raise Unprocessable("E-CONF-01", f"{word} needs a value")
    return flags, show


def _raise_named(error: ValidationError) -> NoReturn:
    faults = error.errors(include_url=False, include_input=False)
    named = [f"{PREFIX}{'_'.join(str(step) for step in fault['loc']).upper()}: {fault['msg']}" for fault in faults]
    raise Unprocessable(
        "E-CONF-01",
        "; ".join(named),
        where="environment, STANCHION_CONFIG or flags",
        fix="set the variable that is named",
    ) from None


def _line(name: str, value: object) -> str:
    if value is None:
        return f"# {name} is not set"
    if isinstance(value, SecretStr):
        secret = value.get_secret_value()
        value = redact_text(secret) if "://" in secret and not is_marked(name) else HIDDEN
    return f"{name} = {json.dumps(value, default=str)}"
