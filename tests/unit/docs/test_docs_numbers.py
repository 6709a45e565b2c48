"""Numbers that pages repeat are those of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.orchestrator.settings import OrchestratorSettings
from services.outbox_relay.settings import RelaySettings
from services.task_service.settings import TaskServiceSettings
from services.workers.maintenance.settings import MaintenanceSettings
from services.workers.settings import WorkerSettings
from stanchion.authority import pipeline, samples
from stanchion.contracts import limits

ROOT = Path(__file__).parents[3]

MAINTENANCE = "services/workers/maintenance/README.md"
OPERATE = "docs/howto/operate.md"


def default(settings: Any, name: str) -> Any:
    """The default of a setting."""
    return settings.model_fields[name].default


@pytest.mark.parametrize(
    ("page", "text", "holds"),
    [
        ("services/outbox_relay/README.md", "twice a second", default(RelaySettings, "relay_idle_seconds") == 0.5),
        ("services/outbox_relay/README.md", "within 2 s", limits.RELAY_TAKEOVER_SECONDS == 2),
        ("docs/internals/outbox-relay.md", "1.5 s by default", default(RelaySettings, "relay_lease_seconds") == 1.5),
        ("docs/internals/outbox-relay.md", "at least twice a second", default(RelaySettings, "relay_idle_seconds") == 0.5),
        ("docs/internals/outbox-relay.md", "up to 2,000 rows", default(RelaySettings, "relay_batch") == 2_000),
        ("docs/internals/orchestrator.md", "at least twice a second", default(OrchestratorSettings, "lookout_seconds") == 0.5),
        ("docs/internals/task-service.md", "for 2 s", default(TaskServiceSettings, "key_cache_seconds") == 2),
        ("docs/concepts/leases-and-fences.md", "It lasts 30 s by default", default(WorkerSettings, "lease_seconds") == 30),
        ("docs/concepts/leases-and-fences.md", "three times a lease", limits.HEARTBEATS_PER_LEASE == 3),
        ("docs/concepts/leases-and-fences.md", "80 ms", default(WorkerSettings, "ahead_ms") == 80),
        (MAINTENANCE, "| `retention` | every hour |", default(MaintenanceSettings, "retention_every_seconds") == 3_600),
        (MAINTENANCE, "| `partitions` | every 6 hours |", default(MaintenanceSettings, "partitions_every_seconds") == 21_600),
        (MAINTENANCE, "| `recount` | every hour |", default(MaintenanceSettings, "recount_every_seconds") == 3_600),
        (MAINTENANCE, "| `dead-letters` | every 5 minutes |", default(MaintenanceSettings, "dead_letters_every_seconds") == 300),
        (MAINTENANCE, "| `tidy` | every hour |", default(MaintenanceSettings, "tidy_every_seconds") == 3_600),
        (MAINTENANCE, "more than 30 days ago", default(MaintenanceSettings, "tidy_after_seconds") == 30 * 86_400),
        (MAINTENANCE, "ended a day ago or fell silent a week ago", (limits.WORKER_GONE_DAYS, limits.WORKER_SILENT_DAYS) == (1, 7)),
        (MAINTENANCE, "| `samples` | every 5 minutes |", default(MaintenanceSettings, "samples_every_seconds") == 300),
        (OPERATE, "taken 5 s after its end", samples.MARGIN_SECONDS == 5),
        (OPERATE, "Every ten seconds", samples.SLOT_SECONDS == 10),
        (OPERATE, "of up to five minutes are made up for", samples.BACK_SLOTS * samples.SLOT_SECONDS == 300),
        (OPERATE, "at most 300 attempts", samples.ATTEMPTS == 300),
        (OPERATE, "Every five seconds", pipeline.EVERY.total_seconds() == 5),
        (OPERATE, "stays for 30 days", limits.DEAD_LETTER_DAYS == 30),
        (OPERATE, "at most 100,000 or 100 MiB", (limits.DEAD_LETTER_ROWS, limits.DEAD_LETTER_BYTES) == (100_000, 100 * limits.MIB)),
        (OPERATE, "get 30 s (`STANCHION_CANCEL_GRACE_SECONDS`)", limits.CANCEL_GRACE_SECONDS == 30),
        ("docs/howto/submit-over-kafka.md", "for 29 days after its `ce_time`", limits.SIGNED_DAYS == 29),
        ("docs/howto/submit-over-kafka.md", "at most 5 minutes ahead", limits.SIGNED_AHEAD_SECONDS == 300),
        ("docs/howto/submit-over-kafka.md", "remembered for 30 days", limits.INBOX_DAYS == 30),
        ("docs/howto/submit-over-kafka.md", "at most 64 KiB", limits.COMMAND_BYTES == 64 * limits.KIB),
        ("docs/howto/scale-workers.md", "at most 5,000 offers", limits.OFFER_WINDOW == 5_000),
    ],
)  # fmt: skip
def test_a_number_on_a_page_is_that_of_the_code(page: str, text: str, holds: bool) -> None:
    """The page says it, and the settings have it: who changes one finds the other here."""
    assert text in (ROOT / page).read_text(encoding="utf-8")
    assert holds
