"""Every page there is, in one table."""

from __future__ import annotations

from typing import Final

from ..view import Page
from . import (
    approval,
    approvals,
    charts,
    dead_letters,
    errors,
    fan,
    home,
    jobs,
    operation,
    operations,
    pipeline,
    records,
    step,
    task,
    tasks,
    workers,
)

PAGES: Final[tuple[Page, ...]] = (
    *home.PAGES,
    *tasks.PAGES,
    *task.PAGES,
    *step.PAGES,
    *fan.PAGES,
    *approvals.PAGES,
    *approval.PAGES,
    *operations.PAGES,
    *operation.PAGES,
    *workers.PAGES,
    *pipeline.PAGES,
    *records.PAGES,
    *charts.PAGES,
    *dead_letters.PAGES,
    *errors.PAGES,
    *jobs.PAGES,
)
