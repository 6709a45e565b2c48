"""Publishing a report through the press, an outside system of its own: the operation, and what is sent and asked.

`STANCHION_STUDIO_PRESS_URL` tells workers where the press is (`python -m examples.press`). Where it is not set reports
end as reviewed artifacts, and nobody is asked. The graph is the same either way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from stanchion import Artifact, Ask, Decision
from stanchion.connectors.http import Http, HttpReceipt

from .shapes import Proposal, Publication, Report

PRESS_VARIABLE: Final = "STANCHION_STUDIO_PRESS_URL"
CHANNEL: Final = "reports"
LONGEST_TITLE: Final = 300

press = Http(os.environ.get(PRESS_VARIABLE, ""), deadline_header="Request-Deadline")
to_press = press.operation(
    "press.publish",
    "POST",
    "/publications",
    lookup="/publications/by-key/{key}",
    keeps_key="1d",
    needs_approval=True,
)


class ChannelError(Exception):
    """The name of the channel is none: another attempt will not help."""


def check_channel(name: str | None) -> str | None:
    """The channel; None for a report that is not to be published. Raises `ChannelError`."""
    if name is not None and not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
        raise ChannelError(
            f"{name[:80]!r} is no channel: 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or a digit"
        )
    return name


def addressed(report: Report, artifact: Artifact, channel: str | None) -> Report:
    """The report as it was written down, with where it goes, or why it goes nowhere."""
    if channel is None:
        return replace(report, artifact=artifact, note="not published: its task names no channel")
    if not press.base_url:
        why = f"not published: no press is configured ({PRESS_VARIABLE} on the workers)"
        return replace(report, artifact=artifact, note=why)
    return replace(report, artifact=artifact, channel=channel)


def proposal_of(report: Report) -> Proposal:
    """What people are asked about: small, whatever the size of the report."""
    assert report.artifact is not None
    title = "".join(sign for sign in " ".join(report.topic.split()) if sign.isprintable())[:LONGEST_TITLE]
    counted = f"{report.documents} documents, {report.citations} citations, {report.unresolved} withdrawn by the review"
    return Proposal(report.channel, title, report.artifact, counted)


def payload_of(proposal: Proposal) -> dict[str, Any]:
    """What is approved, and what is sent: the same value, made in one place."""
    written = proposal.artifact
    return {
        "channel": proposal.channel,
        "title": proposal.title,
        "artifact": {"sha256": written.sha256, "version": written.number},
    }


def question(proposal: Proposal) -> Ask:
    """The question, bound to the payload, the key and the version."""
    written = proposal.artifact
    return Ask(
        f"Publish “{proposal.title}” in the channel {proposal.channel}?",
        payload_of(proposal),
        operation=to_press,
        key=proposal.channel,
        resource=written,
        summary=f"{written.name}, version {written.number}: {proposal.summary}",
    )


def published(report: Report, receipt: HttpReceipt, decision: Decision) -> Report:
    """The report with the receipt of its publication, from the reply to the request or from a look-up.

    It is published whatever the receipt looks like: one that can't be read is said in the note.
    """
    body: Any = receipt["body"]
    found = body.get("receipt", body) if isinstance(body, Mapping) else None
    if not isinstance(found, Mapping) or not {"id", "url", "at"} <= found.keys():
        return replace(report, note="published; the receipt of the press can't be read")
    done = Publication(str(found["id"]), press.base_url + str(found["url"]), str(found["at"]), decision.by)
    return replace(report, publication=done)
