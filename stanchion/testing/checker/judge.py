"""The judge: runs every check over one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import psycopg

from stanchion.testing.history import Execution

from . import approvals, artifacts, budgets, effects, ends, joins, leases, lives
from .facts import read
from .verdicts import Check, Finding

CHECKS: Final[dict[str, Check]] = {
    check.__name__: check
    for check in (
        lives.legal_transitions,
        lives.versions_without_holes,
        lives.every_event_is_known,
        leases.a_fence_for_each_lease,
        leases.nothing_by_an_old_fence,
        leases.attempts_match_leases,
        leases.attempts_within_budget,
        leases.one_result_for_each_success,
        leases.executions_were_granted,
        leases.refusals_were_due,
        joins.released_once,
        joins.released_after_enough,
        joins.held_until_released,
        joins.counts_are_recounts,
        joins.each_child_once,
        artifacts.versions_lived_legally,
        artifacts.promoted_by_the_holder,
        artifacts.numbers_without_holes,
        effects.operations_by_their_events,
        approvals.approvals_by_their_events,
        approvals.what_left_was_approved,
        budgets.budgets_by_their_events,
        effects.doubts_are_known,
        effects.nothing_in_doubt_at_the_end,
        ends.ready_means_ready,
        ends.waiting_has_an_end,
        ends.open_is_what_is_open,
        ends.task_follows_its_run,
        ends.everything_ended,
        ends.no_session_hangs,
    )
}
"""Every check by its name; each is one rule."""


def check(
    connection: psycopg.Connection[Any],
    *,
    tasks: Sequence[UUID] | None = None,
    executions: Sequence[Execution] | None = None,
    settled: bool = True,
) -> list[Finding]:
    """What can't have happened, among `tasks` (None: all of the database); empty when all is well.

    `connection` is an administrator's, in autocommit. `executions` are what user code noted. `settled=False` is for a
    history that still goes on: then nothing is asked to have ended.
    """
    facts = read(connection, tasks, executions, settled)
    return [Finding(name, where, what) for name, one in CHECKS.items() for where, what in one(facts)]


def report(findings: Sequence[Finding], most: int = 20) -> str:
    """The findings as text, the first `most` of them."""
    lines = [str(finding) for finding in findings[:most]]
    return "\n".join([f"{len(findings)} findings", *lines, *(["…"] if len(findings) > most else [])])
