"""Every page there is, in one table."""

from __future__ import annotations

from typing import Final

from ..view import Page
from . import approval, approvals, fan, operation, operations, step, task, tasks

PAGES: Final[tuple[Page, ...]] = (
    *tasks.PAGES,
    *task.PAGES,
    *step.PAGES,
    *fan.PAGES,
    *approvals.PAGES,
    *approval.PAGES,
    *operations.PAGES,
    *operation.PAGES,
)
