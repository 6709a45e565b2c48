"""Bodies of requests about lists: jobs in bulk, saved views, groups of errors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from stanchion.contracts import limits
from stanchion.contracts.commands import Reason
from stanchion.contracts.message import Name

from .bodies import Body

Text = Annotated[str, StringConstraints(max_length=limits.REASON_CHARACTERS)]
FilterText = Annotated[str, StringConstraints(max_length=limits.FILTER_CHARACTERS)]


class JobBody(Body):
    """One act on all tasks that fit a filter, at `rate` a second. `dry_run` answers what it would be about.

    `node` says whose failed steps `task.reopen` is about; `canary`: one first, the others once it did not fail again (for
    `task.reopen` unless it is false). `job_id` makes it safe to send again: the same id is the same job.
    """

    action: Name
    filter: FilterText
    reason: Reason = ""
    rate: Annotated[int, Field(strict=True, ge=1, le=limits.JOB_RATE_MAX)] = limits.JOB_RATE
    node: Name | None = None
    canary: Annotated[bool, Field(strict=True)] | None = None
    expect_count: Annotated[int, Field(strict=True, ge=0, le=limits.COUNTED_ROWS)] | None = None
    dry_run: Annotated[bool, Field(strict=True)] = False
    job_id: Annotated[str, StringConstraints(max_length=64)] | None = None


class SavedViewBody(Body):
    """A view of the task list under a name; one's own of this name is changed."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=limits.TAG_CHARACTERS)]
    query: FilterText
    order: Literal["newest", "oldest", "still"] = "newest"
    shared: Annotated[bool, Field(strict=True)] = False


class MarkErrorBody(Body):
    """What is known of a group of errors; what is left out stays, an empty text clears it."""

    known: Annotated[bool, Field(strict=True)] | None = None
    note: Text | None = None
    link: (
        Annotated[str, StringConstraints(max_length=limits.REASON_CHARACTERS, pattern=r"^(https?://\S+)?$")] | None
    ) = None
    assigned_to: Annotated[str, StringConstraints(max_length=limits.NAME_CHARACTERS)] | None = None
