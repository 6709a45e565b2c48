"""settings.md: every setting of every service, and the variables that are none of a service's."""

from __future__ import annotations

import importlib
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from stanchion.db import grants
from stanchion.runtime.homes import SERVICES, service_module
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.runtime.settings import PREFIX, ServiceSettings

from . import comments
from .markdown import code, page, section, table

_INTRO = """
Defaults, then the TOML file that `STANCHION_CONFIG` names, then the environment, then flags (`--lease-seconds 10`): the
later one holds. Settings are read once, when a process starts; relations between them are checked then. `stanchion
serve NAME --print-settings` shows what holds, with secrets hidden. A file and a flag use the name without `STANCHION_`,
in lower case.
"""
_BOUNDS = (
    ("ge", "≥ "),
    ("gt", "> "),
    ("le", "≤ "),
    ("lt", "< "),
    ("min_length", "at least "),
    ("max_length", "at most "),
)
_SAID = {
    "database_url": "PostgreSQL, under the service's own login",
    "kafka_bootstrap": "the broker: `host:port`, several separated by commas",
    "redis_url": "Valkey or Redis, for wake-up hints; unset: polling does the work alone",
    "profile": "`dev` honours failpoints, shortens the broker's sessions and trusts Kafka commands of the tenant `dev`",
    "instance": "what this process is called in logs, in the list of workers and at the broker",
    "log_format": "JSON, a form for people, or whichever fits standard output",
    "log_level": "the least that is logged",
    "http_host": "where health pages, metrics and the API listen",
    "drain_seconds": "what work in hand gets between SIGTERM and the end",
    "kafka_heartbeat_interval_ms": "between two signs of life in the consumer group",
    "kafka_request_timeout_ms": "one request to the broker",
    "kafka_linger_ms": "how long a message waits for others to travel with",
    "kafka_security_protocol": "how to speak to the broker",
    "kafka_ssl_cafile": "certificates to trust",
    "kafka_sasl_mechanism": "e.g. `SCRAM-SHA-512`",
    "kafka_sasl_username": "the login at the broker",
    "kafka_sasl_password": "its password",
    "kafka_intake": "whether commands are taken from Kafka",
    "kafka_group": "the consumer group of the intake",
    "stream_heartbeat_seconds": "a comment is sent into a silent stream after so long",
    "cancel_grace_seconds": "what a running step gets after a cancel before its lease is taken",
    "relay_lease_seconds": "silence after which another relay takes a partition of the outbox",
    "relay_batch": "rows that are read and sent at once",
    "relay_idle_seconds": "the longest wait between two looks when no hint comes",
    "slots": "steps that run at once",
    "lease_seconds": "how long a hold on a step lasts without a heartbeat",
    "ahead_most": "the most steps to hold beyond the slots",
}
"""Settings whose line in the source says nothing; a test finds those that have neither."""

OTHERS = {
    "STANCHION_CONFIG": "a TOML file: top-level keys for all services, a table named like a service for that one",
    "STANCHION_ADMIN_DATABASE_URL": "the database as its administrator, for `stanchion db` and `stanchion doctor`",
    **{
        grants.password_variable(login): f"the password that `stanchion db migrate` gives to the login `{login}`"
        for login in grants.LOGINS
    },
    "STANCHION_API_URL": "where the command line and the clients find the API",
    "STANCHION_API_KEY": "the key that they send",
    "STANCHION_PAGE_URL": "where `stanchion open` finds the dashboard",
    "STANCHION_TENANT": "the tenant in whose name the command line sends Kafka commands",
    "STANCHION_SIGNING_KEY_ID": "the name of the key that the command line signs Kafka commands with",
    "STANCHION_SIGNING_KEY": "its private half, 32 bytes in base64",
    "STANCHION_HOME": "the folder of the command line's own files: profiles, logins, the id of the last task",
    "STANCHION_RUN_DIR": "a folder in which each service with HTTP leaves a file that says where it listens",
    "STANCHION_FAILPOINTS": "what to arm; in the `dev` profile only ([failpoints](failpoints.md))",
    "STANCHION_FAILPOINT_DIR": "where failpoints leave their marks",
    "STANCHION_MODEL_URL": "the Studio's model server (OpenAI-compatible); unset: it ranks and extracts instead",
    "STANCHION_MODEL_NAME": "which model to ask for",
    "STANCHION_MODEL_KEY": "the key for it",
    "STANCHION_MODEL_TIMEOUT_SECONDS": "how long one answer may take",
    "STANCHION_TEST_HISTORY": "a folder in which test workflows note each execution of a step",
    "STANCHION_STUDIO_ROOTS": "the folders below which the Studio may read documents that a task names",
    "STANCHION_STUDIO_PRESS_URL": "where the Studio publishes what people have approved; without it reports end as artifacts",
}
"""Variables that are read outside of a service's settings; a test finds those that are missing here."""


def service_settings() -> dict[str, type[ServiceSettings]]:
    """The settings class of every service that has one of its own, by the service's name."""
    found = {}
    for name in SERVICES:
        module = importlib.import_module(service_module(name) + ".settings")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, ServiceSettings) and value.__module__ == module.__name__:
                found[name] = value
    return found


def settings_page() -> str:
    """The page of all settings."""
    common = section("Every service", table(_HEAD, _rows(ServiceSettings, {})))
    own = [
        section(name, _says(kind), table(_HEAD, _rows(kind, ServiceSettings.model_fields)))
        for name, kind in service_settings().items()
    ]
    others = section("Other variables", table(("variable", "what it is"), ((code(n), t) for n, t in OTHERS.items())))
    return page("Settings", _INTRO, common, *own, others)


_HEAD = ("variable", "default", "allowed", "what it is")


def _says(kind: type[ServiceSettings]) -> str:
    return " ".join((kind.__doc__ or "").split())


def _rows(kind: type[ServiceSettings], inherited: dict[str, FieldInfo]) -> list[tuple[str, str, str, str]]:
    bus = {f"kafka_{name}": text for name, text in comments.fields(KafkaSettings).items() if text}
    said = {**_SAID, **{name: text for name, text in comments.fields(kind).items() if text}, **bus}
    rows = []
    for name, field in kind.model_fields.items():
        before = inherited.get(name)
        if before is not None and repr(before) == repr(field):
            continue  # a service lists what it adds, and what it sets anew
        rows.append((code(PREFIX + name.upper()), _default(name, field), _allowed(field), said.get(name, "")))
    return rows


def _default(name: str, field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "host and process id"
    if field.default is PydanticUndefined:
        return "**required**"
    value = field.default
    if value is None:
        return _bus_default(name.removeprefix("kafka_"))
    if isinstance(value, tuple):
        return code(",".join(str(item) for item in value)) or "empty"
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(f"{value:g}" if isinstance(value, float) else value)


def _bus_default(name: str) -> str:
    """Of a setting of the bus that is unset: what the two profiles say."""
    calm, quick = (getattr(kind("nowhere"), name, None) for kind in (KafkaSettings, KafkaSettings.dev))
    if calm is None:
        return "unset"
    return code(calm) if calm == quick else f"{code(calm)}, in `dev` {code(quick)}"


def _allowed(field: FieldInfo) -> str:
    kind = _plain(field.annotation)
    bounds = []
    for rule in field.metadata:
        for attribute, sign in _BOUNDS:
            if (bound := getattr(rule, attribute, None)) is not None:
                unit = " characters" if "length" in attribute and bound != 1 else ""
                bounds.append(f"{sign}{bound:g}{unit}" if isinstance(bound, float) else f"{sign}{bound:,}{unit}")
    return ", ".join([kind, *bounds])


def _plain(kind: Any) -> str:
    """A type in words, without None."""
    if kind is SecretStr:
        return "secret text"
    names = {int: "whole number", float: "number", str: "text", bool: "`true` or `false`"}
    if kind in names:
        return names[kind]
    if get_origin(kind) is Literal:
        return ", ".join(code(one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        return "list, separated by commas"
    inner = [_plain(one) for one in get_args(kind) if one is not type(None)]
    return " or ".join(dict.fromkeys(inner)) or "text"
