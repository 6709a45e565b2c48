"""Settings of an orchestrator."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, SecretStr

from stanchion.contracts import limits
from stanchion.contracts.topics import TASK_SERVICES_GROUP
from stanchion.runtime.webhook_settings import WebhookSettings


class OrchestratorSettings(WebhookSettings):
    """Any number of orchestrators may run; none of them leads."""

    SERVICE: ClassVar[str] = "orchestrator"

    lookout_seconds: float = Field(default=0.5, gt=0, le=5)  # how often an idle orchestrator looks for work
    webhook_calls: int = Field(default=16, ge=0, le=500)  # calls of webhooks under way at once; 0: it makes none
    cancel_grace_seconds: float = Field(default=limits.CANCEL_GRACE_SECONDS, ge=0, le=3_600)
    kafka_group: str = TASK_SERVICES_GROUP  # the consumer group of the intake, whose lag is looked at
    dashboard_database_url: SecretStr | None = (
        None  # the database, under a login that only reads; unset: there is no dashboard here
    )
    task_service_url: str | None = None  # where the task service answers: the dashboard's one door for changes
    page_tenant: str = Field(
        default="dev", min_length=1, max_length=limits.TENANT_CHARACTERS
    )  # dev profile only: whose tasks the pages show without a key
    status_open: bool = False  # whether /status, the platform's numbers without any name, is shown without signing in
