"""One child's work: extract a document, cut it into passages, score them, bring the best home."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from .blocks import Unreadable
from .extract import extract
from .facets import BY_ID
from .passages import split
from .ranking import Index, Scores, all_stems, text_of
from .shapes import Candidate, Passage, Plan, Question, Reading, ReadingTask
from .topicality import Topicality
from .words import tokens

PER_QUESTION = 6
PER_DOCUMENT_CODE = 2
LEAST_COVERAGE = 0.2
MAX_RESULT_BYTES = 48 * 1024
"""Well below the 64 KiB that a result may have before it is stored apart from its row."""


def read_document(task: ReadingTask) -> Reading:
    """Reads one document for a plan and returns its best passages for each question.

    Never raises for what is wrong with the document: the reading then has a `problem` in words and no candidates.
    """
    try:
        blocks, note = extract(task.document)
    except Unreadable as reason:
        return Reading(task.document, 0, 0, {}, [], problem=str(reason))
    passages = split(blocks)
    if not passages:
        return Reading(task.document, 0, 0, {}, [], problem="no readable text in it")
    texts = [text_of(passage, task.document.title, task.plan.pairs) for passage in passages]
    index = Index(texts)
    candidates = _candidates(task.plan, passages, index)
    words = sum(len(text.own) for text in texts)
    frequencies = index.frequencies(all_stems(task.plan))
    return Reading(task.document, len(passages), words, frequencies, _fitting(candidates), note=note)


def _candidates(plan: Plan, passages: list[Passage], index: Index) -> list[Candidate]:
    topicality = Topicality(plan)
    lent = topicality.document(index.frequencies(all_stems(plan)), len(passages))
    coverage = np.array([topicality.combine(found) for found in index.coverage(topicality, [lent] * len(passages))])
    base = index.relevance(plan.terms) * coverage
    wanted = set(tokens(plan.topic))
    prose = np.array([_is_prose(passage, wanted) for passage in passages]) & (coverage >= LEAST_COVERAGE)
    chosen: dict[int, dict[str, float]] = {}
    for question in plan.questions:
        scores = np.where(prose, _question_scores(question, passages, index, base), 0.0)
        for row in _best(scores, PER_QUESTION):
            chosen.setdefault(row, {})[question.id] = round(float(scores[row]), 4)
    code = np.array([passage.kind == "code" and not passage.noise for passage in passages]) & (
        coverage >= LEAST_COVERAGE
    )
    for row in _best(np.where(code, base, 0.0), PER_DOCUMENT_CODE):
        chosen.setdefault(row, {})["code"] = round(float(base[row]), 4)
    return [Candidate(passages[row], scores) for row, scores in sorted(chosen.items())]


def _question_scores(question: Question, passages: list[Passage], index: Index, base: Scores) -> Scores:
    """On the topic first; how well the wording answers the question decides between passages that are."""
    scores = base * (1.0 + 0.1 * index.relevance(question.terms))
    facet = BY_ID.get(question.facet)
    if facet is not None:
        scores = scores * np.array([0.4 + facet.affinity(passage.text) for passage in passages])
    return np.asarray(scores, dtype=np.float64)


def _is_prose(passage: Passage, wanted: set[str]) -> bool:
    """Parts about the project (installing, releases) only count for a topic that asks for them by name."""
    if passage.kind not in ("text", "item", "list"):
        return False
    return not passage.noise or bool(wanted & set(tokens(passage.heading.rsplit(" › ", 1)[-1])))


def _best(scores: Scores, count: int) -> list[int]:
    """Rows of the highest positive scores, best first; equal ones in reading order, so that runs agree."""
    order = np.argsort(-scores, kind="stable")[:count]
    return [int(row) for row in order if scores[row] > 0]


def _fitting(candidates: list[Candidate]) -> list[Candidate]:
    """Drops the weakest candidates until the rest fits into a result."""
    sizes = {id(candidate): len(json.dumps(asdict(candidate), ensure_ascii=False).encode()) for candidate in candidates}
    kept = sorted(candidates, key=lambda candidate: -max(candidate.scores.values()))
    while kept and sum(sizes[id(candidate)] for candidate in kept) > MAX_RESULT_BYTES:
        kept.pop()
    return sorted(kept, key=lambda candidate: candidate.passage.number)
