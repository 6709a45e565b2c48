"""Answers about lists: pages of tasks, counts, jobs in bulk, saved views, groups of errors."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from stanchion.contracts import ids

from .views import Paged, RunId, StepId, TaskId, TaskSummary, Value, View, form, shown

JobId = Annotated[UUID, shown(ids.JOB), form(ids.JOB)]
SavedViewId = Annotated[UUID, shown(ids.VIEW), form(ids.VIEW)]
ErrorId = Annotated[UUID, shown(ids.ERROR), form(ids.ERROR)]


class TaskPage(Paged[TaskSummary]):
    """A page of tasks. `scanned`: tasks that no index could rule out and that were looked at; `partial`: the search ended
    for its time before the page was full, and `next` goes on; `since`: nothing older was looked at."""

    scanned: int = 0
    partial: bool = False
    since: datetime | None = None


class CountView(View):
    """How many there are; not `exact`: so many or more."""

    number: int
    exact: bool


class StateCounts(View):
    """How many tasks of each state fit; null: that can't be counted in time."""

    states: dict[str, CountView | None]


class JobPlan(View):
    """What a job would be about: how many tasks (or failed steps, for `task.reopen`), and the first of the tasks."""

    action: str
    filter: str
    count: CountView
    first: list[TaskSummary]


class JobView(View):
    """A job in bulk. `state`: waiting, running, stopping, stopped (by somebody), halted (too many failed again), done, or
    failed. `reasons` counts what was skipped or failed by code; `halted` says how many had failed again of how many."""

    job_id: JobId
    state: str
    action: str
    filter: str
    node: str | None
    reason: str
    rate: int
    by: str
    count: CountView
    done: int
    skipped: int
    failed: int
    reasons: dict[str, int]
    canary: str | None
    halted: dict[str, Any] | None
    stopped: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobTarget(View):
    """What became of one target of a job; `made` is the run of a retry."""

    target: str
    outcome: str
    code: str | None
    what: str | None
    made: str | None
    at: datetime


class SavedViewView(View):
    """A view of the task list. The built-in ones have neither id nor owner."""

    view_id: SavedViewId | None = None
    name: str
    query: str
    order: str
    shared: bool = True
    owner: str | None = None
    built_in: bool = False


class SavedViewState(View):
    """A view after something was done to it."""

    view_id: SavedViewId
    state: str


class ErrorView(View):
    """Failures that are the same: `count` of attempts, `failed` of steps that failed for good. `message` has no numbers,
    ids and quotes; it and the example are withheld from those who may not see payloads."""

    error_id: ErrorId = Field(validation_alias="group_id")
    workflow: str
    node: str
    code: str
    type: str | None
    place: str | None
    message: str | None
    versions: list[int]
    count: int
    failed: int
    first_at: datetime
    last_at: datetime
    example: Value = None
    example_step_id: StepId
    known: bool
    note: str | None
    link: str | None
    assigned_to: str | None
    marked_by: str | None
    marked_at: datetime | None


class ErrorMember(View):
    """A step whose last failure is in a group, and how it stands now."""

    step_id: StepId
    task_id: TaskId
    run_id: RunId
    node: str
    index: int
    state: str
    failures: int
    worker: str | None
    first_at: datetime
    last_at: datetime


class ErrorDetail(ErrorView):
    """A group of errors with a page of its steps, the newest first."""

    members: list[ErrorMember]
    next: str | None = None


class RunErrorView(View):
    """A group among the steps of one run that have failed and stay so."""

    error_id: ErrorId = Field(validation_alias="group_id")
    workflow: str
    node: str
    code: str
    type: str | None
    place: str | None
    message: str | None
    count: int
    first_at: datetime
    last_at: datetime
    workers: list[str]
    example: Value = None
    known: bool
    link: str | None


class RunErrors(View):
    """The groups of a task's current run, the largest first."""

    items: list[RunErrorView]
