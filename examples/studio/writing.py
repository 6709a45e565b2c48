"""The draft: evidence chosen and put in order, with its citations, its gaps and how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .ranking import corpus_plan
from .rendering import render
from .selection import Evidence, Selection, Span, gather, select
from .shapes import Citation, Draft, Missing, Plan, Reading, Section, Statement

SUMMARY = 3
SUMMARY_LEAST = 0.6
ENOUGH = 2
"""A section with fewer statements says that its evidence is weak."""


def write_draft(plan: Plan, readings: Sequence[Reading], missing: Sequence[Missing] = ()) -> Draft:
    """Drafts the report without a model: sentences quoted from the sources, ranked by BM25.

    `missing` are documents whose reading did not arrive; those that could not be read are added.
    """
    evidence, selection = find_evidence(plan, readings)
    sections, citations = arrange(plan, selection, [])
    return assemble(
        plan,
        readings,
        missing,
        evidence,
        sections=sections,
        citations=citations,
        answered=selection.found(),
        method=_method(plan),
    )


def find_evidence(plan: Plan, readings: Sequence[Reading]) -> tuple[list[Evidence], Selection]:
    """The candidates of all readings scored together, and those chosen for each question."""
    measured = corpus_plan(plan, [reading for reading in readings if not reading.problem])
    evidence = gather(measured, readings)
    return evidence, select(measured, evidence)


def assemble(
    plan: Plan,
    readings: Sequence[Reading],
    missing: Sequence[Missing],
    evidence: Sequence[Evidence],
    *,
    sections: list[Section],
    citations: list[Citation],
    answered: Mapping[str, int],
    method: str,
) -> Draft:
    """Puts a draft together and renders it; `answered` counts the passages found for each question id."""
    gone = [Missing(r.document.id, r.document.title, r.problem) for r in readings if r.problem]
    partly = [f"`{r.document.id}`: {r.note}." for r in readings if r.note]
    draft = Draft(
        topic=plan.topic,
        sections=sections,
        citations=citations,
        missing=[*missing, *gone],
        coverage=_coverage(readings, evidence, citations),
        method=method,
        documents=sum(1 for reading in readings if not reading.problem),
        notes=[*plan.notes, *_weak(plan, answered), *partly],
    )
    return replace(draft, markdown=render(draft))


def _weak(plan: Plan, answered: Mapping[str, int]) -> list[str]:
    """The questions that the sources answer poorly or not at all."""
    if not any(answered.values()):
        return []
    empty = [question for question in plan.questions if not answered.get(question.id)]
    thin = [question for question in plan.questions if 0 < answered.get(question.id, 0) < ENOUGH]
    notes = [f"Nothing in the sources answers “{question.heading}: {question.text}”" for question in empty]
    return notes + [f"“{question.heading}” rests on a single passage." for question in thin]


def _coverage(readings: Sequence[Reading], evidence: Sequence[Evidence], citations: Sequence[Citation]) -> str:
    read = [reading for reading in readings if not reading.problem]
    passages = sum(reading.passages for reading in read)
    about = len({item.document.id for item in evidence if item.coverage >= 0.5})
    speak = "speaks" if about == 1 else "speak"
    cited = len({citation.document.id for citation in citations})
    return (
        f"{len(read):,} documents with {passages:,} passages were read; {about:,} of them {speak} about the topic, "
        f"{len(citations):,} passages from {cited:,} documents are cited here."
    )


def arrange(plan: Plan, selection: Selection, citations: list[Citation]) -> tuple[list[Section], list[Citation]]:
    """Sections in the order of the plan, the summary first; new citations are numbered behind those given."""
    citations = list(citations)
    summary = summary_of(plan, selection)
    sections = [Section("In short", "", [_cite(span, citations) for span in summary], _emptiness(selection))]
    for question in plan.questions:
        spans = _ordered([span for span in selection.answers[question.id] if span not in summary])
        statements = [_cite(span, citations) for span in spans]
        if statements:
            sections.append(Section(question.heading, question.text, statements))
    if selection.code:
        sections.append(Section("In code", "", [_cite(span, citations, kind="code") for span in selection.code]))
    return sections, citations


def _emptiness(selection: Selection) -> str:
    if any(selection.answers.values()):
        return ""
    return "None of the sources that were read says anything about this topic."


def summary_of(plan: Plan, selection: Selection) -> list[Span]:
    """The statements that are most about the topic, whatever they answer, from different documents where possible.

    Lists of settings and alternatives are no short answer; they only serve when nothing else was found.
    """
    chosen: list[Span] = []
    spans = [span for question in plan.questions for span in selection.answers[question.id]]
    spans = [span for span in spans if _answers(span)] or spans
    for span in sorted(spans, key=lambda span: (-span.merit, span.evidence.document.id, span.evidence.passage.number)):
        fresh = all(span.evidence.document.id != other.evidence.document.id for other in chosen)
        if (
            len(chosen) < SUMMARY
            and fresh
            and span.merit >= SUMMARY_LEAST * max(chosen[0].merit if chosen else 0.0, 0.3)
        ):
            chosen.append(span)
    order = [question.id for question in plan.questions]
    return sorted(chosen, key=lambda span: order.index(span.question))


def _answers(span: Span) -> bool:
    return span.question not in ("settings", "relations") and span.evidence.passage.kind == "text"


def _ordered(spans: list[Span]) -> list[Span]:
    """Best first, with what comes from the same document kept together in its own order."""
    documents = list(dict.fromkeys(span.evidence.document.id for span in spans))
    return sorted(spans, key=lambda span: (documents.index(span.evidence.document.id), span.evidence.passage.number))


def _cite(span: Span, citations: list[Citation], kind: str = "text") -> Statement:
    citations.append(citation_of(span, len(citations) + 1))
    return Statement(span.text, [len(citations)], kind)


def citation_of(span: Span, number: int) -> Citation:
    passage = span.evidence.passage
    return Citation(number, span.evidence.document, passage.number, passage.heading, passage.digest, span.text)


def _method(plan: Plan) -> str:
    planned = "The questions are the usual sides of a technical topic, as far as the sources speak to them."
    if plan.model:
        planned = f"The questions were worded by the model {plan.model}."
    return (
        f"{planned} Each document was cut into passages; the passages were ranked by BM25 against the topic, its other "
        "spellings and the words that go with it, and sentences were chosen by how their wording answers the question. "
        "Every sentence is quoted from a source as it stands: the report is extractive, and no model wrote it. It can "
        "repeat what a source has wrong, and it misses what the sources say in quite different words."
    )
