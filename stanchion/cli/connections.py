"""Where the API, the database and the broker are, and which key to show: each value with the place it came from.

Flag, then environment, then `stanchion.toml` from the working directory upward, then the profile file of the user, then
a development stack (`.stanchion/dev/endpoints.json`) from the working directory upward; a profile that is asked for by
its name goes before the project's file. A key that stands beside an address, in a profile or a stack, is shown at that
address only: a file in some working directory must not be able to have it sent elsewhere.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stanchion.cli.exit_codes import NO_SERVER
from stanchion.cli.logins import token_for
from stanchion.cli.session import Session
from stanchion.errors import Unavailable, Unprocessable

PROJECT_FILE: Final = "stanchion.toml"
PROFILE_FILE: Final = "config.toml"
STACK_FOLDER: Final = Path(".stanchion") / "dev"

VARIABLES: Final[dict[str, str]] = {
    "api_url": "STANCHION_API_URL",
    "api_key": "STANCHION_API_KEY",
    "page_url": "STANCHION_PAGE_URL",
    "kafka_bootstrap": "STANCHION_KAFKA_BOOTSTRAP",
    "redis_url": "STANCHION_REDIS_URL",
    "objects_url": "STANCHION_OBJECTS_URL",
    "admin_database_url": "STANCHION_ADMIN_DATABASE_URL",
    "tenant": "STANCHION_TENANT",
    "signing_key_id": "STANCHION_SIGNING_KEY_ID",
    "signing_key": "STANCHION_SIGNING_KEY",
}
"""The settings of the command line, and the variable of each."""

SECRET: Final = frozenset({"api_key", "signing_key"})


@dataclass(frozen=True, slots=True)
class Found:
    """A value and where it stands."""

    value: str
    origin: str


class Connections:
    """The settings of one invocation; files are read on first use."""

    def __init__(self, session: Session, start: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._session = session
        self._start = (start or Path.cwd()).absolute()
        self._environ = os.environ if environ is None else environ
        self._sources: list[tuple[str, dict[str, str]]] | None = None

    def find(self, name: str) -> Found | None:
        """The value of a setting of `VARIABLES`, or None."""
        for origin, values in self._read():
            if values.get(name):
                return Found(values[name], origin)
        return None

    def value(self, name: str) -> str | None:
        """The value alone."""
        found = self.find(name)
        return found.value if found else None

    @property
    def api_url(self) -> str:
        """The address of the API; raises Unavailable E-CLI-03 when nothing names one."""
        if (found := self.find("api_url")) is None:
            raise Unavailable(
                NO_SERVER,
                "nothing says where the API is",
                why=f"no --api-url, no STANCHION_API_URL, no {PROJECT_FILE}, no stack in or above {self._start}",
            )
        return found.value

    @property
    def api_key(self) -> str | None:
        """The key for `api_url`, or the token of a login there.

        A login goes before what stands in files, not before a flag or the environment. A key that stands beside an
        address is shown only there.
        """
        found = self.find("api_key")
        asked_for = found is not None and found.origin.startswith(("flag", "environment"))
        if (
            not asked_for
            and (token := token_for(profile_folder(self._environ), self.value("api_url") or "")) is not None
        ):
            return token
        if found is None or asked_for:
            return found.value if found else None
        beside = dict(self._read())[found.origin].get("api_url")
        return found.value if beside is None or beside == self.value("api_url") else None

    def all(self) -> dict[str, Found]:
        """Every setting that has a value."""
        return {name: found for name in VARIABLES if (found := self.find(name)) is not None}

    def _read(self) -> list[tuple[str, dict[str, str]]]:
        if self._sources is None:
            self._sources = list(self._each_source())
        return self._sources

    def _each_source(self) -> Iterator[tuple[str, dict[str, str]]]:
        flags = {"api_url": self._session.api_url, "api_key": self._session.api_key}
        yield "flag", {name: value for name, value in flags.items() if value}
        for name, variable in VARIABLES.items():
            if value := self._environ.get(variable):
                yield f"environment {variable}", {name: value}
        files = [self._project(), self._profile()]
        for source in reversed(files) if self._session.profile else files:
            yield from source
        for folder in (self._start, *self._start.parents):
            if stack := read_stack(folder / STACK_FOLDER):
                yield f"stack {folder / STACK_FOLDER}", stack
                break

    def _project(self) -> Iterator[tuple[str, dict[str, str]]]:
        for folder in (self._start, *self._start.parents):
            if (path := folder / PROJECT_FILE).is_file():
                yield f"file {path}", _settings(path, _toml(path), None)
                return

    def _profile(self) -> Iterator[tuple[str, dict[str, str]]]:
        path = profile_folder(self._environ) / PROFILE_FILE
        if path.is_file() or self._session.profile:
            yield f"profile {path}", _settings(path, _toml(path), self._session.profile)


def profile_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where the settings of a user are: STANCHION_HOME, or `stanchion` in the XDG folder of configurations."""
    environ = os.environ if environ is None else environ
    if own := environ.get("STANCHION_HOME"):
        return Path(own)
    shared = environ.get("XDG_CONFIG_HOME")
    return (Path(shared) if shared else Path.home() / ".config") / "stanchion"


def read_stack(root: Path) -> dict[str, str]:
    """The settings that a running stack of this root has; empty when there is none."""
    try:
        document = json.loads((root / "endpoints.json").read_text(encoding="utf-8"))
        key = (root / "dev-key").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict) or not _runs(document.get("pid")):
        return {}
    values = {
        "api_url": document.get("api_url"),
        "api_key": key,
        "page_url": document.get("page_url"),
        "kafka_bootstrap": document.get("kafka_bootstrap"),
        "redis_url": document.get("redis_url"),
        "admin_database_url": document.get("database_url"),
        "tenant": document.get("tenant"),
    }
    return {name: value for name, value in values.items() if isinstance(value, str)}


def _runs(pid: object) -> bool:
    # A stack that was killed leaves its file behind.
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Unprocessable("E-CONF-01", f"{path.name} can't be read: {error}", where=str(path)) from None


def _settings(path: Path, document: dict[str, Any], profile: str | None) -> dict[str, str]:
    table = document
    profiles = document.get("profiles", {})
    if not isinstance(profiles, dict):
        raise Unprocessable(
            "E-CONF-01", "profiles is no table", where=str(path), fix="[profiles.NAME] above its settings"
        )
    if profile is not None:
        if profile not in profiles:
            raise Unprocessable(
                "E-CONF-01",
                f"there is no profile {profile[:60]!a}",
                where=str(path),
                fix=f"one of {', '.join(sorted(profiles))}" if profiles else f"add [profiles.{profile}] to it",
            )
        table = profiles[profile]
        if not isinstance(table, dict):
            raise Unprocessable("E-CONF-01", f"profile {profile[:60]!a} is no table", where=str(path))
    for name in table:
        if name not in VARIABLES and not (profile is None and name == "profiles"):
            raise Unprocessable(
                "E-CONF-01",
                f"there is no setting {name[:60]!a}",
                where=str(path),
                fix=f"one of {', '.join(VARIABLES)}",
            )
        if name in VARIABLES and not isinstance(table[name], str):
            raise Unprocessable("E-CONF-01", f"{name} is no text", where=str(path), fix=f'{name} = "..."')
    return {name: value for name, value in table.items() if name in VARIABLES}
