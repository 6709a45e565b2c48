"""Chooses the sentences of the report: from the candidates of all readings, for each question, without repetition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .facets import BY_ID, Facet
from .passages import sentences
from .quality import code_quality, dangling, quality
from .ranking import Index, overlap, text_of
from .shapes import DocumentRef, Passage, Plan, Question, Reading
from .topicality import Topicality, subject_stems
from .words import tokens

WHOLE_PASSAGE = 330
LONGEST_SPAN = 430
PER_SECTION = 5
PER_DOCUMENT_IN_SECTION = 2
FEW = 4
LITTLE = 8
LENIENT = 0.6
"""A report of fewer statements than `LITTLE` takes what reaches this part of the usual thresholds."""
PER_DOCUMENT_SHARE = 0.4
LEAST_COVERAGE = 0.32
MOST_COVERAGE = 0.5
"""A passage must speak about so much of the topic; between the two, seven tenths of what the ten best ones reach."""
LEAST_AFFINITY = 0.3
LEAST_RELEVANCE = 0.3
"""Of the best passage's: holding the topic's words by chance is not speaking about it."""
LEAST_OF_BEST = 0.4
LEAST_SCORE = 0.18
_OUTLINE = re.compile(r"^`\w+\([^)`]*\)`: ")
_OUTLINE_ENTRY = re.compile(r"(?<=[.!?]) (?=`\w+\([^)`]*\)`: )")
SAME = 0.72
"""Two spans that share so many of the shorter one's stems say the same."""
EXAMPLES = 2
LEAST_CODE = 0.3
DANGLING = 0.6
"""What is left of a span that leans on a sentence before it, which the reader does not see."""


@dataclass(frozen=True)
class Evidence:
    """A candidate passage with its standing in the whole corpus."""

    document: DocumentRef
    passage: Passage
    relevance: float
    coverage: float
    words: list[float]


@dataclass(frozen=True)
class Span:
    """Neighbouring sentences of one passage, offered as an answer to one question.

    `score` is for the question, `merit` for the topic alone.
    """

    evidence: Evidence
    text: str
    question: str
    score: float
    merit: float
    stems: frozenset[str]


@dataclass
class Selection:
    """The chosen spans for each question id, the best code, and how good the evidence is."""

    answers: dict[str, list[Span]] = field(default_factory=dict)
    code: list[Span] = field(default_factory=list)

    def found(self) -> dict[str, int]:
        """How many spans each question has."""
        return {question: len(spans) for question, spans in self.answers.items()}


def gather(plan: Plan, readings: Iterable[Reading]) -> list[Evidence]:
    """Scores the candidates of all readings against each other, with the rarities of the whole corpus in `plan`.

    Relevance is scaled to the best passage, so 0 to 1.
    """
    pairs = [(reading, candidate) for reading in readings for candidate in reading.candidates]
    if not pairs:
        return []
    index = Index([text_of(candidate.passage, reading.document.title, plan.pairs) for reading, candidate in pairs])
    topicality = Topicality(plan)
    lent = {reading.document.id: topicality.document(reading.frequencies, reading.passages) for reading, _ in pairs}
    relevance = index.relevance(plan.terms)
    words = index.coverage(topicality, [lent[reading.document.id] for reading, _ in pairs])
    best = float(relevance.max()) or 1.0
    return [
        Evidence(reading.document, candidate.passage, float(score) / best, topicality.combine(found), found)
        for (reading, candidate), score, found in zip(pairs, relevance, words, strict=True)
    ]


def select(plan: Plan, evidence: Sequence[Evidence]) -> Selection:
    """Picks the spans of the report, best first over all questions, so that each goes where it answers best.

    Where that gives little, passages that are less about the topic are let in as well.
    """
    topicality = Topicality(plan)
    selection = Selection({question.id: [] for question in plan.questions})
    most = max(4, int(PER_DOCUMENT_SHARE * PER_SECTION * len(plan.questions)))
    worthy = _ranked(plan, topicality, evidence, 1.0)
    _fill(selection, worthy, PER_SECTION, PER_DOCUMENT_IN_SECTION, most)
    _fill(selection, worthy, FEW, FEW, most)  # what one document has to say, where others are silent
    if sum(len(spans) for spans in selection.answers.values()) < LITTLE:
        _fill(selection, _ranked(plan, topicality, evidence, LENIENT), FEW, PER_DOCUMENT_IN_SECTION, most)
    selection.code = _examples(topicality, evidence)
    return selection


def _ranked(plan: Plan, topicality: Topicality, evidence: Sequence[Evidence], strictness: float) -> list[Span]:
    """The spans that are good enough, best first; `strictness` scales every threshold."""
    required = max(LEAST_COVERAGE, strictness * required_coverage(evidence))
    usable = [
        item
        for item in evidence
        if item.passage.kind != "code" and item.coverage >= required and item.relevance >= strictness * LEAST_RELEVANCE
    ]
    spans = [span for question in plan.questions for span in _offers(topicality, question, usable)]
    best: dict[str, float] = {}
    for span in spans:
        best[span.question] = max(span.score, best.get(span.question, 0.0))
    return sorted(
        (s for s in spans if s.score >= strictness * max(LEAST_SCORE, LEAST_OF_BEST * best[s.question])),
        key=lambda s: (-s.score, s.evidence.document.id, s.evidence.passage.number, s.question),
    )


def _fill(selection: Selection, spans: Iterable[Span], per_section: int, per_document: int, most: int) -> None:
    """Takes the spans in order as long as the limits allow and nothing is said twice."""
    picked = [span for chosen in selection.answers.values() for span in chosen]
    for span in spans:
        section = selection.answers[span.question]
        document = span.evidence.document.id
        same = sum(1 for other in section if other.evidence.document.id == document)
        everywhere = sum(1 for other in picked if other.evidence.document.id == document)
        if len(section) >= per_section or same >= per_document or everywhere >= most:
            continue
        if not any(_repeats(span, other) for other in picked):
            section.append(span)
            picked.append(span)


def required_coverage(evidence: Sequence[Evidence]) -> float:
    """How much of the topic a passage must speak about, measured by the best: long topics are never covered whole."""
    best = sorted((item.coverage for item in evidence), reverse=True)[:10]
    reached = sum(best) / len(best) if best else 0.0
    return max(LEAST_COVERAGE, min(MOST_COVERAGE, 0.7 * reached))


def _repeats(span: Span, other: Span) -> bool:
    if span.evidence.passage.digest == other.evidence.passage.digest:
        return True
    first, second = set(span.stems), set(other.stems)
    if min(len(first), len(second)) < 5:  # few words are soon contained in others without saying the same
        return len(first & second) / (len(first | second) or 1) >= SAME
    return overlap(first, second) >= SAME


def _offers(topicality: Topicality, question: Question, evidence: Sequence[Evidence]) -> Iterable[Span]:
    """The best span of each passage that is on the topic and looks like an answer to the question."""
    facet = BY_ID.get(question.facet)
    for item in evidence:
        offers = []
        for text in spans_of(item.passage):
            affinity = _affinity(facet, item, text) if facet else _word_affinity(question, text)
            if affinity < (facet.least if facet else LEAST_AFFINITY):
                continue
            stems = set(tokens(text))
            on_topic = 0.4 * item.relevance + 0.6 * topicality.combine(topicality.span(stems, item.words))
            names = f"{item.document.title} {item.passage.heading}"
            good = quality(text, named=item.document.kind == "module", names=names)
            merit = on_topic * good * _density(topicality, text, item.passage.heading)
            if dangling(text):
                merit *= DANGLING**2 if facet and facet.names_subject else DANGLING
            score = merit * (0.35 + 0.65 * affinity)
            if facet and facet.names_subject:
                about = topicality.span(subject_stems(item.passage.heading, text), [0.0] * len(item.words))
                score *= 0.3 + 0.7 * max(about, default=0.0)
            offers.append(Span(item, text, question.id, score, merit, frozenset(stems)))
        if offers:
            yield max(offers, key=lambda span: span.score)


def _affinity(facet: Facet, item: Evidence, text: str) -> float:
    """The facet's cues, and what the place says: below "Raises" is no setting, a class's first words define it."""
    affinity = facet.affinity(text)
    inner = item.passage.heading.rsplit(" › ", 1)[-1]
    if inner in ("Raises", "Warning", "Warnings"):
        affinity += {"limits": 0.3, "settings": -0.6}.get(facet.id, 0.0)
    elif inner in ("Returns", "Return", "Yields"):
        affinity -= 0.3
    elif facet.id == "definition" and item.passage.lead and text == spans_of(item.passage)[0]:
        name = inner.rsplit(".", 1)[-1]
        affinity += 0.45 if name[:1].isupper() or item.document.kind == "package" else 0.0
    return min(1.0, affinity)


def _density(topicality: Topicality, text: str, heading: str) -> float:
    """Takes from a span for each sentence that does not speak about the topic at all.

    An outline of methods is about the topic as a whole when its class is named for it, else only by its lines.
    """
    if _OUTLINE.match(text):
        entries = _OUTLINE_ENTRY.split(text)
        touching = sum(1 for entry in entries if topicality.touches(set(tokens(entry))))
        if len(entries) > 1 and topicality.touches(set(tokens(heading.rsplit(".", 1)[-1]))):
            return 1.0
        return max(0.3, touching / len(entries))
    items = text.split("; ")
    if len(items) >= 4:  # a list of features of which one is the topic
        return 0.4 + 0.6 * sum(1 for item in items if topicality.touches(set(tokens(item)))) / len(items)
    parts = sentences(text)
    idle = sum(1 for part in parts if not topicality.touches(set(tokens(part))))
    return float(0.85 ** min(idle, len(parts) - 1))


def _word_affinity(question: Question, text: str) -> float:
    stems = set(tokens(text))
    wanted = [term.stem for term in question.terms]
    return min(1.0, 2.5 * sum(1 for stem in wanted if stem in stems) / len(wanted)) if wanted else 0.5


def spans_of(passage: Passage) -> list[str]:
    """A short passage as it is; of a longer one each run of one to three sentences that does not start in mid-thought.

    A list item is only quoted from its beginning, where it says what it is about; an outline of methods by the line.
    """
    text = passage.text
    if passage.kind == "text" and _OUTLINE.match(text):
        entries = _OUTLINE_ENTRY.split(text)
        return [*entries, text] if len(entries) > 1 and len(text) <= LONGEST_SPAN else entries
    if len(text) <= WHOLE_PASSAGE:
        return [text]
    parts = sentences(text)
    spans = []
    for start in range(1 if passage.kind == "item" else len(parts)):
        if start and dangling(parts[start]):
            continue
        for end in range(start + 1, min(start + 3, len(parts)) + 1):
            span = " ".join(parts[start:end])
            if len(span) > LONGEST_SPAN and end > start + 1:
                break
            if span in text:
                spans.append(span)
    return spans


def _examples(topicality: Topicality, evidence: Sequence[Evidence]) -> list[Span]:
    """The code that is most about the topic, three to thirty lines, from different documents."""
    offers = []
    least = required_coverage(evidence)
    for item in evidence:
        text = item.passage.text
        if item.passage.kind != "code" or not 3 <= text.count("\n") + 1 <= 30 or item.coverage < least:
            continue
        stems = frozenset(tokens(text))
        own = topicality.combine(topicality.span(set(stems), item.words))
        offers.append(Span(item, text, "code", (0.3 * item.relevance + 0.7 * own) * code_quality(text), own, stems))
    chosen: list[Span] = []
    for span in sorted(offers, key=lambda span: (-span.score, span.evidence.document.id, span.evidence.passage.number)):
        taken = {other.evidence.document.id for other in chosen}
        fresh = not any(overlap(set(span.stems), set(other.stems)) > SAME for other in chosen)
        if len(chosen) < EXAMPLES and span.evidence.document.id not in taken and fresh and span.score >= LEAST_CODE:
            chosen.append(span)
    return chosen
