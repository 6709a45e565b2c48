"""Every page there is, in one table."""

from __future__ import annotations

from typing import Final

from ..view import Page
from . import (
    access,
    approval,
    approvals,
    artifact,
    artifacts,
    audit,
    charts,
    dead_letters,
    errors,
    fan,
    help,
    home,
    jobs,
    operation,
    operations,
    pipeline,
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
    *charts.PAGES,
    *dead_letters.PAGES,
    *errors.PAGES,
    *jobs.PAGES,
    *artifacts.PAGES,
    *artifact.PAGES,
    *audit.PAGES,
    *access.PAGES,
    *help.PAGES,
)
