"""The Research Report Studio as a workflow: plan, read each document in a child of its own, join, draft, review; then
ask whether it may be published, and publish it.

The steps are thin: what they do is in this package's other modules and works without the engine. They are plain
functions (not `async def`) since they compute; workers run them in threads. Each may run twice without harm: they
only read, write a version of an artifact, or publish through the ledger, which does it once.
"""

from __future__ import annotations

from stanchion import Ask, AtLeast, Ctx, Decision, Go, Results, Workflow

from .composing import plan_with_model, write_with_model
from .model import ModelRefusedError, from_environment
from .planning import TopicError, make_plan, tasks_of
from .publishing import (
    CHANNEL,
    ChannelError,
    addressed,
    check_channel,
    payload_of,
    proposal_of,
    published,
    question,
    to_press,
)
from .reading import read_document
from .review import review_draft
from .shapes import Draft, Missing, Proposal, Reading, ReadingTask, Report
from .sources import SourceError
from .writing import write_draft

studio = Workflow("report", version=2, operations=[to_press])


@studio.step(no_retry=(ChannelError,))
def aim(ctx: Ctx, channel: str | None = CHANNEL) -> str | None:  # noqa: ARG001 - the engine's
    """Says where the report is to be published (null: nowhere); a bad name fails before anything is read."""
    return check_channel(channel)


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


@studio.step(after=(draft, aim), timeout="5m")
def review(ctx: Ctx, draft: Draft, channel: str | None) -> Report:
    """Checks every citation against its source and writes what stands as a version of `report`."""
    report = review_draft(draft)
    written = ctx.artifact("report", report.markdown, media_type="text/markdown").put()
    return addressed(report, written, channel)


@studio.step(after=review, next="approve")
def offer(ctx: Ctx, report: Report) -> Go | None:  # noqa: ARG001 - the engine's
    """Has people asked, unless the report goes nowhere."""
    return Go(approve, proposal=proposal_of(report)) if report.channel else None


@studio.approval(within="7d")
def approve(ctx: Ctx, proposal: Proposal) -> Ask:  # noqa: ARG001 - the engine's
    """Asks whether this version may be published in this channel."""
    return question(proposal)


@studio.step(after=(review, approve), timeout="5m", retries=10)
def publish(ctx: Ctx, report: Report, decision: Decision | None) -> Report:
    """Publishes what was approved, once, and hands on the report with its receipt; a press that is away is waited for."""
    if decision is None:
        return report
    approved = decision.applied_to(payload_of(proposal_of(report)))
    sent = ctx.op(to_press, approved, key=report.channel, approval=decision)
    return published(report, sent.wait(), decision)


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
