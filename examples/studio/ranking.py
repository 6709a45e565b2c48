"""BM25 over passages (by bm25s), steered by a plan: weighted terms, corpus-wide rarity, coverage of the topic.

The library scores each term within the passages at hand. A child only sees one document, so its idea of which words are
rare would be wrong; the score's rarity part is therefore replaced by the one that the plan (in `read`) or all readings
together (in `draft`) measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import bm25s
import numpy as np
from numpy.typing import NDArray

from .shapes import Passage, Plan, Reading, Term
from .topicality import Topicality
from .words import tokens

Scores = NDArray[np.float64]
_K1, _B = 1.2, 0.6


def rarity(count: int, total: int) -> float:
    """BM25's inverse document frequency in the variant that is never negative (as Lucene and bm25s compute it)."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


@dataclass(frozen=True)
class Text:
    """One passage as ranked: its own stems, and those of the headings and title that it stands under."""

    own: list[str]
    context: list[str]


def text_of(passage: Passage, title: str, pairs: Iterable[str]) -> Text:
    """Tokens of a passage; neighbouring stems that make one of `pairs` are added as a token of their own."""
    return Text(with_pairs(tokens(passage.text), pairs), with_pairs(tokens(f"{title} {passage.heading}"), pairs))


def with_pairs(words: list[str], pairs: Iterable[str]) -> list[str]:
    wanted = set(pairs)
    return words + [pair for a, b in pairwise(words) if (pair := f"{a} {b}") in wanted]


class Index:
    """The passages at hand, ready to be scored."""

    def __init__(self, texts: Sequence[Text]) -> None:
        self._texts = texts
        self._sets = [(set(text.own), set(text.context)) for text in texts]
        corpus = [text.own + text.context or [""] for text in texts]
        self._total = len(corpus)
        self._counts = Counter(token for words in corpus for token in set(words))
        self._bm25 = bm25s.BM25(k1=_K1, b=_B, method="lucene", dtype="float64")
        self._bm25.index(corpus, show_progress=False)

    def relevance(self, terms: Iterable[Term]) -> Scores:
        """BM25 of each passage for the terms, with their weights and their rarity in the whole corpus."""
        total: Scores = np.zeros(self._total)
        for term in terms:
            if count := self._counts[term.stem]:
                local = rarity(count, self._total)
                total += self._bm25.get_scores([term.stem]) * (term.weight * term.idf / local)
        return total

    def coverage(self, topicality: Topicality, documents: Sequence[Sequence[float]]) -> list[list[float]]:
        """How much of each of the topic's words each passage has; `documents` gives what its document lends to it."""
        return [
            topicality.passage(own, context, document)
            for (own, context), document in zip(self._sets, documents, strict=True)
        ]

    def frequencies(self, stems: Iterable[str]) -> dict[str, int]:
        return {stem_: self._counts[stem_] for stem_ in stems if self._counts[stem_]}


def all_stems(plan: Plan) -> list[str]:
    """Every stem that a reading counts: the plan's terms and those of its questions."""
    terms = [*plan.terms, *(term for question in plan.questions for term in question.terms)]
    return list(dict.fromkeys(term.stem for term in terms))


def corpus_plan(plan: Plan, readings: Sequence[Reading]) -> Plan:
    """The plan with the rarities that all readings together measured, in place of the planner's estimate."""
    total = sum(reading.passages for reading in readings)
    counts: Counter[str] = Counter()
    for reading in readings:
        counts.update(reading.frequencies)

    def measured(terms: list[Term]) -> list[Term]:
        return [replace(term, idf=rarity(counts[term.stem], total) if counts[term.stem] else 0.0) for term in terms]

    questions = [replace(question, terms=measured(question.terms)) for question in plan.questions]
    return replace(plan, terms=measured(plan.terms), questions=questions)


def overlap(first: set[str], second: set[str]) -> float:
    """How much two sets of stems share, by the smaller one, 0 to 1: a shortened repetition overlaps fully."""
    smaller = min(len(first), len(second))
    return len(first & second) / smaller if smaller else 0.0
