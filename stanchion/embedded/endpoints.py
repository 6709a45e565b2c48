"""The three addresses that everything else needs, and the variables that replace them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

DATABASE_VARIABLE = "STANCHION_DATABASE_URL"
KAFKA_VARIABLE = "STANCHION_KAFKA_BOOTSTRAP"
REDIS_VARIABLE = "STANCHION_REDIS_URL"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where PostgreSQL, the broker and Valkey answer.

    `database_url` is the administrator's (`postgresql://stanchion@127.0.0.1:PORT/stanchion` when embedded),
    `kafka_bootstrap` is `host:port[,host:port]`, `redis_url` is `redis://host:port/db`.
    """

    database_url: str
    kafka_bootstrap: str
    redis_url: str

    def as_environment(self) -> dict[str, str]:
        """Return the variables that point a child process at these servers."""
        return {
            DATABASE_VARIABLE: self.database_url,
            KAFKA_VARIABLE: self.kafka_bootstrap,
            REDIS_VARIABLE: self.redis_url,
        }

    def as_dict(self) -> dict[str, str]:
        """Return the three addresses by field name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Real servers named in the environment; `None` means that the embedded one is started."""

    database_url: str | None = None
    kafka_bootstrap: str | None = None
    redis_url: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Overrides:
        """Read the three variables; an empty one counts as not set."""
        source = os.environ if environment is None else environment
        return cls(
            database_url=source.get(DATABASE_VARIABLE) or None,
            kafka_bootstrap=source.get(KAFKA_VARIABLE) or None,
            redis_url=source.get(REDIS_VARIABLE) or None,
        )
