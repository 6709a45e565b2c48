"""Settings of a relay."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from stanchion.contracts import limits
from stanchion.runtime.settings import ServiceSettings


class RelaySettings(ServiceSettings):
    """A relay's share of the outbox is taken over when it is silent for `relay_lease_seconds`."""

    SERVICE: ClassVar[str] = "outbox-relay"

    relay_lease_seconds: float = Field(default=1.5, ge=0.5, le=limits.RELAY_TAKEOVER_SECONDS)
    relay_batch: int = Field(default=limits.RELAY_BATCH, ge=1, le=10_000)
    relay_idle_seconds: float = Field(default=0.5, gt=0, le=5)
    topic_partitions: int | None = Field(
        default=None, ge=1
    )  # of topics it creates for new queues; unset: what the profile says
