"""Settings of the task service."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import NoDecode

from stanchion.contracts import limits
from stanchion.contracts.topics import TASK_SERVICES_GROUP
from stanchion.errors import Unprocessable

from .sign_in_settings import SignInSettings


class TaskServiceSettings(SignInSettings):
    """How much the one door lets in at once, and what it asks of Kafka commands."""

    SERVICE: ClassVar[str] = "task-service"

    http_port: int | None = Field(default=8080, ge=0, le=65_535)
    http_threads: int = Field(default=16, ge=1, le=500)  # requests that are worked on at once; others wait for a thread
    http_requests: int = Field(default=1_000, ge=1)  # requests under way, bodies included; above it: 503
    http_body_bytes: int = Field(default=256 * 1024 * 1024, ge=16 * 1024 * 1024)  # of all bodies that are being read
    db_pool: int = Field(default=10, ge=1, le=500)  # connections for requests; those beyond wait
    db_wait_seconds: float = Field(default=5.0, gt=0, le=60)  # then 503
    key_cache_seconds: float = Field(default=2.0, ge=0, le=60)  # how long a revoked key may still work

    transfers: int = Field(default=32, ge=1, le=1_000)  # uploads and downloads of artifacts at once; above it: 503
    upload_bytes: int = Field(
        default=limits.ARTIFACT_BYTES, ge=1, le=limits.ARTIFACT_BYTES
    )  # of one uploaded version; above it: 413

    streams: int = Field(default=500, ge=0)  # event streams at once; above it: 503
    stream_seconds: float = Field(default=900.0, gt=0)  # then the reader comes again, and its key is checked again
    stream_heartbeat_seconds: float = Field(default=15.0, gt=0)

    kafka_intake: bool = True
    kafka_group: str = TASK_SERVICES_GROUP
    kafka_rights: Literal["trusted", "signed"] | None = None  # unset: trusted in the dev profile, else signed
    kafka_tenants: Annotated[tuple[str, ...], NoDecode] | None = (
        None  # trusted: whose commands are taken; comma-separated
    )
    intake_batch: int = Field(default=100, ge=1, le=1_000)  # records in one transaction

    @property
    def rights(self) -> Literal["trusted", "signed"]:
        """How a Kafka command shows that it may."""
        return self.kafka_rights or ("trusted" if self.profile == "dev" else "signed")

    @property
    def tenants(self) -> tuple[str, ...]:
        """The tenants whose unsigned commands are taken."""
        if self.kafka_tenants is None:
            return ("dev",) if self.profile == "dev" else ()
        return self.kafka_tenants

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, values: dict[str, object]) -> dict[str, object]:
        if isinstance(text := values.get("kafka_tenants"), str):
            values["kafka_tenants"] = tuple(part.strip() for part in text.split(",") if part.strip())
        return values

    @model_validator(mode="after")
    def _rights_are_settled(self) -> Self:
        if self.kafka_intake and self.rights == "trusted" and not self.tenants:
            raise Unprocessable(
                "E-CONF-02",
                "kafka_rights is trusted, and kafka_tenants names nobody",
                why="a trusted command names its tenant itself; only tenants on the list may",
                fix="set STANCHION_KAFKA_TENANTS, or STANCHION_KAFKA_RIGHTS=signed",
            )
        return self
