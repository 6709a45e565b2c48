"""Settings of a maintenance worker."""

from __future__ import annotations

import hashlib
from typing import ClassVar, Self

from pydantic import Field, model_validator
from sqlalchemy.engine import make_url

from stanchion.contracts import limits
from stanchion.errors import Unprocessable
from stanchion.runtime.settings import ServiceSettings

DAY_SECONDS = 86_400


class MaintenanceSettings(ServiceSettings):
    """Any number of maintenance workers may run, and derive the same jobs."""

    SERVICE: ClassVar[str] = "maintenance"

    plan_seconds: float = Field(default=5.0, ge=0.05, le=60)  # between two looks for what is due
    job_lease_seconds: float = Field(
        default=90.0, ge=1, le=DAY_SECONDS
    )  # silence after which another worker takes a job over
    retention_every_seconds: int = Field(
        default=3_600, ge=1, le=30 * DAY_SECONDS
    )  # how often it is looked for what was kept long enough
    payload_days: float = Field(
        default=30.0, ge=0, le=36_500
    )  # how long inputs and results stay after the end of their task
    history_days: float = Field(default=365.0, ge=0, le=36_500)  # how long states, attempts and events stay
    dead_letters_every_seconds: int = Field(
        default=300, ge=1, le=30 * DAY_SECONDS
    )  # how often it is looked for parked messages to remove
    dead_letter_days: float = Field(default=limits.DEAD_LETTER_DAYS, ge=0, le=36_500)  # how long a parked message stays
    dead_letter_rows: int = Field(
        default=limits.DEAD_LETTER_ROWS, ge=1, le=2**31 - 1
    )  # of one tenant (or of none) that stay
    dead_letter_bytes: int = Field(default=limits.DEAD_LETTER_BYTES, ge=1, le=2**50)  # the same in bytes
    worker_gone_days: float = Field(
        default=limits.WORKER_GONE_DAYS, ge=0, le=36_500
    )  # how long a worker that ended is listed
    worker_silent_days: float = Field(default=limits.WORKER_SILENT_DAYS, ge=0.01, le=36_500)  # and one that fell silent
    partitions_every_seconds: int = Field(
        default=21_600, ge=1, le=30 * DAY_SECONDS
    )  # how often the months to come are prepared
    recount_every_seconds: int = Field(
        default=3_600, ge=1, le=30 * DAY_SECONDS
    )  # how often the counts of waiting joins are checked
    recount_after_seconds: int = Field(
        default=600, ge=0, le=limits.DURATION_SECONDS_MAX
    )  # a join that is younger is left alone
    tidy_every_seconds: int = Field(
        default=3_600, ge=1, le=30 * DAY_SECONDS
    )  # how often the rows of old jobs and workers are removed
    tidy_after_seconds: int = Field(
        default=30 * DAY_SECONDS, ge=0, le=limits.DURATION_SECONDS_MAX
    )  # how long they are kept
    sweep_every_seconds: int = Field(
        default=60, ge=1, le=30 * DAY_SECONDS
    )  # how often uploads are given up, and content that nothing names is deleted
    orphans_every_seconds: int = Field(
        default=21_600, ge=1, le=30 * DAY_SECONDS
    )  # how often the whole object store is looked through for content without a version
    errors_every_seconds: int = Field(
        default=30, ge=1, le=30 * DAY_SECONDS
    )  # how often failures of steps are put into groups
    samples_every_seconds: int = Field(
        default=300, ge=1, le=30 * DAY_SECONDS
    )  # how often samples are put together into spans of five minutes, and old ones removed
    sample_days: float = Field(default=limits.SAMPLE_DAYS, ge=0.05, le=36_500)  # how long those of ten seconds stay
    sample_span_days: float = Field(
        default=limits.SAMPLE_SPAN_DAYS, ge=0.05, le=36_500
    )  # how long those of five minutes do
    artifact_grace_hours: float = Field(
        default=limits.ARTIFACT_GRACE_HOURS, ge=0, le=8_760
    )  # how long an upload may take
    allow_eviction: bool = False  # start although Redis may drop entries; they are derived again, only later

    @model_validator(mode="after")
    def _has_redis(self) -> Self:
        if self.redis_url is None:
            raise Unprocessable(
                "E-CONF-01",
                "STANCHION_REDIS_URL: a maintenance worker needs Redis or Valkey for its queue",
                where="environment, STANCHION_CONFIG or flags",
                fix="set it, e.g. redis://127.0.0.1:6379/0",
            )
        return self

    @model_validator(mode="after")
    def _payloads_go_first(self) -> Self:
        if self.history_days < self.payload_days:
            raise Unprocessable(
                "E-CONF-02",
                f"history_days is {self.history_days:g}, and payload_days {self.payload_days:g}",
                why="payloads are removed before the history that names them",
                fix="set STANCHION_HISTORY_DAYS to as many days or more",
            )
        return self

    @property
    def queue(self) -> str:
        """The first part of the names of its queues: another database's workers don't get to see its jobs."""
        url = make_url(self.database_url.get_secret_value())
        place = hashlib.sha256(f"{url.host}:{url.port}/{url.database}".encode()).hexdigest()[:8]
        return f"stanchion-{place}"
