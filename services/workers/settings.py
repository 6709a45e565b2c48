"""Settings of a worker."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_settings import NoDecode

from stanchion.contracts import limits
from stanchion.errors import Unprocessable
from stanchion.runtime.settings import ServiceSettings


class WorkerSettings(ServiceSettings):
    """What a worker serves and how much it takes on."""

    SERVICE: ClassVar[str] = "worker"

    targets: Annotated[
        tuple[str, ...], NoDecode
    ] = ()  # where its workflows are: package.module:attribute, comma-separated
    queues: Annotated[tuple[str, ...], NoDecode] = ()  # empty: all queues that its workflows name
    tenants: Annotated[tuple[str, ...], NoDecode] = ()  # empty: all
    slots: int = Field(default=8, ge=1, le=1_000)
    lease_seconds: float = Field(default=limits.LEASE_SECONDS, ge=limits.LEASE_SECONDS_MIN, le=3_600)
    heartbeat_seconds: float | None = Field(default=None, gt=0)  # unset: a third of the lease
    ahead_ms: float = Field(default=80.0, ge=0, le=1_000)  # work to hold beyond the slots, by measured duration
    ahead_most: int = Field(default=200, ge=0, le=1_000)
    find_seconds: float = Field(
        default=1.0, gt=0, le=60
    )  # an idle worker looks for ready steps whose offer did not reach it

    @property
    def heartbeat(self) -> float:
        """Seconds between two heartbeats."""
        return self.heartbeat_seconds or self.lease_seconds / limits.HEARTBEATS_PER_LEASE

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, values: dict[str, object]) -> dict[str, object]:
        for name in ("targets", "queues", "tenants"):
            if isinstance(text := values.get(name), str):
                values[name] = tuple(part.strip() for part in text.split(",") if part.strip())
        return values

    @model_validator(mode="after")
    def _heartbeat_fits(self) -> Self:
        if self.heartbeat * limits.HEARTBEATS_PER_LEASE > self.lease_seconds * 1.001:
            raise Unprocessable(
                "E-CONF-02",
                f"heartbeat_seconds ({self.heartbeat:g}) * {limits.HEARTBEATS_PER_LEASE} > lease_seconds ({self.lease_seconds:g})",
                why="a lease must outlive two lost heartbeats",
                fix="leave STANCHION_HEARTBEAT_SECONDS unset",
            )
        return self
