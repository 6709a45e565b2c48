"""Retention: what is removed after a time, payloads before history, and never from a task that has not ended.

Events go by the month: a partition is dropped once no run that still stands has an event in it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from stanchion.contracts import limits
from stanchion.db.engine import Database
from stanchion.errors import register_code

MONTHS_AHEAD: Final = 2  # partitions that exist before their month begins
INBOX_KEPT: Final = timedelta(days=limits.INBOX_DAYS)

PAYLOAD_REMOVED: Final = register_code(
    "E-TASK-08",
    "payload was removed",
    status=409,
    meaning="Input and results of a task are kept for a limited time after its end; a retry would need them.",
    fix="Submit the task anew.",
)


class Retention:
    """Under the maintenance worker's login. Each call is one short transaction; repeat it while it finds something."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def make_partitions(self, months: int = MONTHS_AHEAD) -> list[str]:
        """Make the event partitions of this month and the next ones; returns the names of the new ones.

        Raises Unavailable when a long transaction is in the way: try again later.
        """
        rows = self.database.call("maintain", "SELECT * FROM stanchion.make_partitions(%s)", (months,))
        return [r[0] for r in rows]

    def drop_partitions(self, older: timedelta) -> list[str]:
        """Drop months of events that ended longer ago and that no run needs; returns their names."""
        rows = self.database.call("maintain", "SELECT * FROM stanchion.drop_partitions(%s)", (older,))
        return [r[0] for r in rows]

    def remove_payloads(self, older: timedelta, limit: int = 20) -> int:
        """Remove inputs and results of tasks that ended longer ago; artifacts follow. Returns how many tasks."""
        return self._count(self.database.call("maintain", "SELECT stanchion.remove_payloads(%s, %s)", (older, limit)))

    def remove_artifacts(self, limit: int = 200) -> int:
        """Remove versions of tasks that lost their payloads, except for pinned ones; returns how many."""
        return self._count(self.database.call("maintain", "SELECT stanchion.remove_artifacts(%s)", (limit,)))

    def remove_history(self, older: timedelta, limit: int = 20) -> int:
        """Remove tasks that ended longer ago and whose payload is gone; returns how many."""
        return self._count(self.database.call("maintain", "SELECT stanchion.remove_history(%s, %s)", (older, limit)))

    def remove_orphans(self, limit: int = 1_000) -> int:
        """Remove stored values that were never named; returns how many."""
        return self._count(self.database.call("maintain", "SELECT stanchion.remove_orphans(%s)", (limit,)))

    def trim_inbox(self, older: timedelta = INBOX_KEPT, limit: int = 10_000) -> int:
        """Forget messages that were applied longer ago; returns how many."""
        return self._count(self.database.call("maintain", "SELECT stanchion.trim_inbox(%s, %s)", (older, limit)))

    def remove_dead_letters(self, older: timedelta, most: int, most_bytes: int, limit: int = 5_000) -> tuple[int, int]:
        """Remove parked messages: (those parked longer ago, those beyond `most` or `most_bytes` of their owner)."""
        rows = self.database.call(
            "maintain",
            "SELECT * FROM stanchion.remove_dead_letters(%s, %s, %s, %s)",
            (older, most, most_bytes, limit),
        )
        return int(rows[0][0]), int(rows[0][1])

    def remove_workers(self, gone: timedelta, silent: timedelta, limit: int = 1_000) -> int:
        """Forget workers that ended, or fell silent, longer ago; returns how many."""
        return self._count(
            self.database.call("maintain", "SELECT stanchion.remove_workers(%s, %s, %s)", (gone, silent, limit))
        )

    def remove_error_groups(self, unseen: timedelta, limit: int = 1_000) -> int:
        """Forget groups of errors that were last seen longer ago; returns how many."""
        return self._count(
            self.database.call("maintain", "SELECT stanchion.remove_error_groups(%s, %s)", (unseen, limit))
        )

    @staticmethod
    def _count(rows: list[tuple[int, ...]]) -> int:
        return int(rows[0][0])
