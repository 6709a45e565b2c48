"""The plan: which documents, which questions, and how their evidence is recognised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from .facets import ALWAYS, FACETS, Facet
from .modules import docstring_text
from .passages import sentences
from .shapes import DocumentRef, Plan, Question, ReadingTask, Term
from .sources import list_documents, raw_text
from .topicality import parts_of
from .vocabulary import Sample, topic_pairs, topic_terms
from .words import content_words, tokens, word_stem

SAMPLE_PER_DOCUMENT = 40_000
SAMPLE_TOTAL = 4_000_000
MOST_WORDS = 12
LONGEST_TOPIC = 400
_ENOUGH = 6
"""A facet beyond the four basic ones is asked when so many sentences of the sample speak to it."""

METHOD = "facets"


class TopicError(ValueError):
    """A topic that cannot be researched as it is worded; trying again will not help."""


def make_plan(topic: str, sources: Iterable[str] | None = None) -> tuple[Plan, list[DocumentRef]]:
    """Plans without a model: lists the documents, samples them, asks four to six questions.

    Raises `TopicError` for an empty or overlong topic and `SourceError` for a source that does not exist.
    """
    topic = " ".join(topic.split())
    words = content_words(topic)[:MOST_WORDS]
    if not words or len(topic) > LONGEST_TOPIC:
        raise TopicError(
            f"the topic must have at least one word that says something, and at most {LONGEST_TOPIC} characters"
        )
    documents = list_documents(sources, words)
    sample = sample_of(documents, topic_pairs(words))
    terms = topic_terms(words, sample)
    questions = [_question(facet, sample) for facet in _chosen(terms, sample)]
    notes = _absent_words(words, terms)
    return Plan(
        topic, words, terms, topic_pairs(words), questions, METHOD, parts_of(topic, words), notes=notes
    ), documents


def tasks_of(plan: Plan, documents: Iterable[DocumentRef]) -> list[ReadingTask]:
    return [ReadingTask(document, plan) for document in documents]


def sample_of(documents: Iterable[DocumentRef], pairs: list[str]) -> Sample:
    """Term statistics of the beginnings of the documents, up to 4 million characters of all."""
    sample = Sample()
    left = SAMPLE_TOTAL
    for document in documents:
        if left <= 0:
            break
        limit = min(left, SAMPLE_PER_DOCUMENT)
        text = docstring_text(document, limit) if document.kind == "module" else raw_text(document, limit)
        left -= len(text)
        sample.add(document.id, text, pairs)
    return sample


def _chosen(terms: list[Term], sample: Sample) -> list[Facet]:
    """The facets that the sources have something to say about, in their order; the four basic ones always."""
    own = {term.stem for term in terms if term.covers}
    counts: Counter[str] = Counter()
    for row, paragraph in enumerate(sample.paragraphs):
        if len(paragraph & own) < min(2, len(own)):
            continue
        for sentence in sentences(" ".join(sample.raw[row].split()))[:8]:
            counts.update(facet.id for facet in FACETS if facet.affinity(sentence) >= 0.5)
    return [facet for facet in FACETS if facet.id in ALWAYS or counts[facet.id] >= _ENOUGH]


def _question(facet: Facet, sample: Sample) -> Question:
    terms = [Term(stem, 0.15, sample.idf(stem)) for stem in dict.fromkeys(tokens(facet.words))]
    return Question(facet.id, facet.heading, facet.question, facet.id, terms)


def _absent_words(words: list[str], terms: list[Term]) -> list[str]:
    """Words of the topic that stand in no source: the reader must know that the report is not about them."""
    known = {term.stem for term in terms if term.idf > 0}
    covered = {index for term in terms if term.stem in known for index in term.covers}
    absent = [word for index, word in enumerate(words) if index not in covered]
    if not absent:
        return []
    return [f"No document that was sampled for the plan contains {', '.join(f'“{word}”' for word in absent)}."]


def custom_question(id_: str, heading: str, text: str, search: str, plan: Plan) -> Question:
    """A question worded by a model, found by its search words instead of a facet's cues."""
    stems = dict.fromkeys(stem for stem in tokens(f"{search} {text}") if stem not in {word_stem(w) for w in plan.words})
    return Question(id_, heading, text, "", [Term(stem, 0.6, 0.0) for stem in list(stems)[:12]])


def with_questions(plan: Plan, questions: list[Question], method: str, model: str, notes: list[str]) -> Plan:
    return replace(plan, questions=questions, method=method, model=model, notes=[*plan.notes, *notes])
