"""The Research Report Studio as a workflow: plan, read each document in a child of its own, join, draft, review.

The steps are thin: what they do is in this package's other modules and works without the engine. They are plain
functions (not `async def`) since they compute; workers run them in threads. Each may run twice without harm: they
only read.
"""

from __future__ import annotations

from stanchion import AtLeast, Ctx, Results, Workflow

from .composing import plan_with_model, write_with_model
from .model import ModelRefusedError, from_environment
from .planning import TopicError, make_plan, tasks_of
from .reading import read_document
from .review import review_draft
from .shapes import Draft, Missing, Reading, ReadingTask, Report
from .sources import SourceError
from .writing import write_draft

studio = Workflow("report", version=1)


@studio.step(timeout="5m", no_retry=(TopicError, SourceError, ModelRefusedError))
def plan(ctx: Ctx, topic: str, sources: list[str] | None = None) -> list[ReadingTask]:  # noqa: ARG001 - the engine's
    """Splits the topic into questions and lists the documents to read for them.

    `sources` are paths of folders and files, or the collections `@packages`, `@topics` and `@modules` (the default).
    """
    made, documents = make_plan(topic, sources)
    if model := from_environment():
        made = plan_with_model(made, model)
    return tasks_of(made, documents)


@studio.step(after=plan, each=True, timeout="2m")
def read(ctx: Ctx, task: ReadingTask) -> Reading:  # noqa: ARG001 - the engine's
    """Reads one document; what is wrong with it is part of the reading, not a failure."""
    return read_document(task)


@studio.step(
    after=(plan, read),
    join=AtLeast(0.9, within="10m", on_failed="collect", rest="finish"),
    timeout="15m",
    no_retry=(ModelRefusedError,),
)
def draft(ctx: Ctx, tasks: list[ReadingTask], readings: Results[Reading]) -> Draft:
    """Writes the report from the readings that arrived; the others are listed as missing."""
    missing = not_arrived(tasks, readings)
    arrived = list(readings)
    if model := from_environment():

        def progress(done: int, of: int) -> None:
            ctx.progress(done, of=of, note="sections written")

        return write_with_model(tasks[0].plan, arrived, missing, model, progress)
    return write_draft(tasks[0].plan, arrived, missing)


@studio.step(after=draft, timeout="5m")
def review(ctx: Ctx, draft: Draft) -> Report:  # noqa: ARG001 - the engine's
    """Checks every citation against its source and publishes what stands."""
    return review_draft(draft)


def not_arrived(tasks: list[ReadingTask], readings: Results[Reading]) -> list[Missing]:
    """The documents whose reading failed, or was not there when the join opened."""
    late = "not read when the join opened, which waits for nine of ten documents"
    found = [(failed.idx, f"reading it failed: {_said(failed.error)}") for failed in readings.failed]
    found += [(idx, late) for idx in readings.missing]
    return [Missing(tasks[idx].document.id, tasks[idx].document.title, reason) for idx, reason in sorted(found)]


def _said(error: object) -> str:
    """An error as stored by the engine, in one short line."""
    text = str(error.get("message") or error.get("code") or error) if isinstance(error, dict) else str(error)
    return " ".join(text.split())[:200]
