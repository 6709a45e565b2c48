"""Review: every citation is looked up in its source again; what does not stand there is withdrawn from the report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .blocks import Unreadable
from .extract import extract
from .passages import split
from .rendering import numbers_in_use, render
from .shapes import Citation, DocumentRef, Draft, Passage, Report, Section


def review_draft(draft: Draft) -> Report:
    """Checks each citation against its source and publishes what stands.

    A citation resolves when its document, read again, has the passage with that number and digest, and the quoted
    words stand in it. Statements with no citation left are withdrawn, with the reason, and counted as unresolved.
    """
    problems = _problems(draft.citations)
    sections = [_checked(section, set(problems)) for section in draft.sections]
    used = numbers_in_use(sections)
    kept = [citation for citation in draft.citations if citation.number in used]
    withdrawn = [f"Citation {number} was withdrawn: {reason}." for number, reason in sorted(problems.items())]
    renumbered = {citation.number: position for position, citation in enumerate(kept, 1)}
    final = replace(
        draft,
        sections=[_renumber(section, renumbered) for section in sections],
        citations=[replace(citation, number=renumbered[citation.number]) for citation in kept],
        notes=[*draft.notes, *withdrawn],
    )
    resolved = len(draft.citations) - len(problems)
    return Report(
        topic=draft.topic,
        markdown=render(final, verdict=_verdict(len(draft.citations), resolved)),
        documents=draft.documents,
        missing=len(draft.missing),
        citations=len(draft.citations),
        resolved=resolved,
        unresolved=len(problems),
        withdrawn=withdrawn,
    )


def _verdict(cited: int, resolved: int) -> str:
    if resolved == cited:
        return f"Review read every cited passage again: all {cited} quotations stand in their sources."
    stand = f"{resolved} of {cited} quotations stand in their sources"
    return f"Review read every cited passage again: {stand}; the rest was withdrawn."


def _problems(citations: Iterable[Citation]) -> dict[int, str]:
    """The reason for each citation number that does not resolve; each document is read once."""
    by_document: dict[DocumentRef, list[Citation]] = {}
    for citation in citations:
        by_document.setdefault(citation.document, []).append(citation)
    problems: dict[int, str] = {}
    for document, group in by_document.items():
        try:
            passages = {passage.number: passage for passage in split(extract(document)[0])}
        except Unreadable as reason:
            problems.update({citation.number: f"`{document.id}` can no longer be read: {reason}" for citation in group})
            continue
        for citation in group:
            if problem := _problem(citation, passages):
                problems[citation.number] = problem
    return problems


def _problem(citation: Citation, passages: dict[int, Passage]) -> str:
    passage = passages.get(citation.passage)
    where = f"passage {citation.passage} of `{citation.document.id}`"
    if passage is None:
        return f"{where} is no longer there"
    if passage.digest != citation.digest:
        return f"{where} has changed since it was read"
    if citation.quote not in passage.text:
        return f"the quoted words do not stand in {where}"
    return ""


def _checked(section: Section, unresolved: set[int]) -> Section:
    statements = []
    for statement in section.statements:
        standing = [number for number in statement.citations if number not in unresolved]
        if standing:
            statements.append(replace(statement, citations=standing))
    lost = len(section.statements) - len(statements)
    remark = section.remark
    if lost and not statements:
        remark = "What was found for this did not stand up to review."
    return replace(section, statements=statements, remark=remark)


def _renumber(section: Section, numbers: dict[int, int]) -> Section:
    statements = [
        replace(statement, citations=[numbers[number] for number in statement.citations])
        for statement in section.statements
    ]
    return replace(section, statements=statements)
