"""How far a text is about the topic: which of its words it uses, weighed so that no part of the topic is forgotten.

A topic has parts, divided by its small words: *structured logging* | *context variables*. A passage that holds one part
twice and the other never (template engines have context variables too) is not about the topic, so the parts are
multiplied, not added. A part may also be covered by the headings or by the document as a whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .shapes import Plan
from .words import STOP, stem, word_stem

HEADING_SHARE = 0.7
DOCUMENT_SHARE = 0.45
"""What a word counts that only stands in the headings above a passage, or only elsewhere in its document."""
PASSAGE_SHARE = 0.6
"""What a word counts for a sentence when it stands in the passage around it."""
APART = 0.35
"""What a part of the topic loses whose words stand in a text, but never side by side."""
LEAST_PAIR_WEIGHT = 0.6
TOGETHER = 0.3
"""What the other alternatives count beside the best one."""
_LEAST_PART = 0.08
_LISTING = {"and", "or", ",", "/", "vs", "versus"}


def parts_of(topic: str, words: Sequence[str]) -> list[list[list[int]]]:
    """The topic's parts, each a list of alternatives, each of these indexes into its words.

    Small words divide the parts; `and`, `or` and commas divide the alternatives within one.
    """
    index = {word_stem(word): position for position, word in reversed(list(enumerate(words)))}
    parts: list[list[list[int]]] = [[[]]]
    for word in re.findall(r"[^\W_]+|[,;:/()]", topic):
        position = index.get(word_stem(word))
        if word.lower() in _LISTING:
            parts[-1].append([])
        elif word.lower() in STOP or position is None:
            parts.append([[]])
        elif position not in parts[-1][-1]:
            parts[-1][-1].append(position)
    filled = [[alternative for alternative in part if alternative] for part in parts]
    return [_distributed(part) for part in filled if part]


def _distributed(part: list[list[int]]) -> list[list[int]]:
    """*HTTP retries and timeouts* means HTTP timeouts, *sign and verify messages* means sign messages.

    What stands before the first noun belongs to the others, too, and what stands behind the last verb to the first.
    """
    first, last = part[0], part[-1]
    if len(part) > 1 and len(last) > 1 and all(len(other) == 1 for other in part[:-1]):
        return [*(other + last[1:] for other in part[:-1]), last]
    return [first, *(first[:-1] + other if len(other) == 1 else other for other in part[1:])]


@dataclass(frozen=True)
class _Alternative:
    """Words of the topic that belong together, the gaps between them, and what the words weigh in all."""

    words: list[int]
    gaps: list[int]
    weight: float


class Topicality:
    """Measures texts against a plan's topic."""

    def __init__(self, plan: Plan) -> None:
        self._terms = [term for term in plan.terms if term.covers]
        self._rarities = self._word_rarities(plan)
        parts = [[self._alternative(words, len(plan.words)) for words in part] for part in plan.parts]
        known = [[alternative for alternative in part if alternative.weight] for part in parts]
        self._parts = [(part, self._weight(part)) for part in known if part]

    def _alternative(self, words: list[int], count: int) -> _Alternative:
        """The words that some document has, and the pairs among them that some document has side by side."""
        known = [word for word in words if self._rarities[word]]
        present = {word for term in self._terms for word in term.covers}
        gaps = [count + a for a, b in pairwise(known) if b == a + 1 and count + a in present]
        return _Alternative(known, gaps, sum(self._rarities[word] for word in known))

    def _weight(self, part: list[_Alternative]) -> float:
        """A part weighs what its rarest word does: a long part must not drown a single word that says it all."""
        return max(self._rarities[word] for alternative in part for word in alternative.words)

    def _word_rarities(self, plan: Plan) -> list[float]:
        """The rarity of each word of the topic, none more than a little above the middle one.

        A word that no document contains counts nothing. Without the cap one rare verb of a long topic would weigh
        more than its subject.
        """
        rarities = [0.0] * (2 * len(plan.words))
        for term in self._terms:
            if term.covers[0] < len(plan.words) and len(term.covers) == 1 and term.weight >= 1.0:
                rarities[term.covers[0]] = max(rarities[term.covers[0]], term.idf)
        present = sorted(value for value in rarities if value)
        highest = 1.2 * present[(len(present) - 1) // 2] if present else 0.0
        return [min(value, highest) for value in rarities]

    def document(self, frequencies: Mapping[str, int], passages: int) -> list[float]:
        """How much of each word a document as a whole lends to its passages: words of several passages count full."""
        enough = max(1.0, min(4.0, 0.05 * passages))
        found = [0.0] * len(self._rarities)
        for term in self._terms:
            share = DOCUMENT_SHARE * min(1.0, term.weight) * min(1.0, frequencies.get(term.stem, 0) / enough)
            for word in term.covers:
                found[word] = max(found[word], share)
        return found

    def passage(self, own: set[str], context: set[str], document: Sequence[float]) -> list[float]:
        """How much of each word a passage has, by itself, by its headings, by its document."""
        found = list(document)
        for term in self._terms:
            share = 1.0 if term.stem in own else HEADING_SHARE if term.stem in context else 0.0
            for word in term.covers if share else ():
                found[word] = max(found[word], share * min(1.0, term.weight))
        return found

    def span(self, own: set[str], passage: Sequence[float]) -> list[float]:
        """How much of each word a sentence has, by itself or by the passage around it."""
        found = [PASSAGE_SHARE * part for part in passage]
        for term in self._terms:
            if term.stem in own:
                for word in term.covers:
                    found[word] = max(found[word], min(1.0, term.weight))
        return found

    def touches(self, stems: set[str]) -> bool:
        """Whether a text uses any of the topic's words."""
        return any(term.stem in stems for term in self._terms)

    def combine(self, found: Sequence[float]) -> float:
        """One number from 0 to 1: the geometric mean over the topic's parts, each weighed by its rarest word.

        Of a part's alternatives the best one counts, and all of them together a little.
        """
        total = sum(weight for _, weight in self._parts)
        if not total:
            return 0.0
        mean = 0.0
        for part, weight in self._parts:
            shares = [self._share(alternative, found) for alternative in part]
            share = (1 - TOGETHER) * max(shares) + TOGETHER * sum(shares) / len(shares)
            mean += weight * math.log(max(_LEAST_PART, share))
        return math.exp(mean / total)

    def _share(self, alternative: _Alternative, found: Sequence[float]) -> float:
        share = sum(found[word] * self._rarities[word] for word in alternative.words) / alternative.weight
        if alternative.gaps:
            joined = sum(found[gap] for gap in alternative.gaps) / (LEAST_PAIR_WEIGHT * len(alternative.gaps))
            share *= 1 - APART + APART * min(1.0, joined)
        return share


def subject_stems(heading: str, text: str) -> set[str]:
    """The stems that a sentence is likely to be about: its first words, and the name it stands under."""
    name = heading.rsplit(" › ", 1)[-1]
    first = re.findall(r"[A-Za-z]\w+", text)[:7]
    return {
        stem(word.lower()) for word in (*first, *re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name), *re.findall(r"\w+", name))
    }
