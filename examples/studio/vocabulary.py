"""What the sources say about a topic's words: how rare they are, how else they are written, what goes with them.

Measured on a sample of the raw texts, since the plan must stand before the documents have been read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .ranking import rarity, with_pairs
from .shapes import Term
from .thesaurus import neighbours
from .words import STOP, tokens, word_stem

PREFIXES = ("re", "dis", "un", "pre", "auto", "multi", "sub", "non")
_URL = re.compile(r"https?://\S+|<[^>]{1,200}>|!\[[^\]]*\]\([^)]*\)")
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*[-*] )")
_TOP = 60
_ASSOCIATED = 8


@dataclass
class Sample:
    """Paragraphs of the sources as sets of stems, with the document that each comes from."""

    paragraphs: list[set[str]] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, owner: str, text: str, pairs: Sequence[str]) -> None:
        for paragraph in _PARAGRAPH.split(_URL.sub(" ", text)):
            stems = set(with_pairs(tokens(paragraph), pairs))
            if len(stems) >= 4:
                self.paragraphs.append(stems)
                self.owners.append(owner)
                self.raw.append(paragraph)
                self.counts.update(stems)

    def idf(self, stem: str) -> float:
        return round(rarity(self.counts[stem], len(self.paragraphs)), 3) if self.counts[stem] else 0.0


def topic_pairs(words: Sequence[str]) -> list[str]:
    """The stems of neighbouring words of the topic, as one token each."""
    stems = [word_stem(word) for word in words]
    return [f"{a} {b}" for a, b in pairwise(stems) if a != b]


def topic_terms(words: Sequence[str], sample: Sample) -> list[Term]:
    """The stems that speak about the topic: its words, their other spellings, neighbouring pairs, what goes with them.

    A word's own stem weighs 1; spellings (`postgres`, `contextvar`, `reconnect`) 0.7 to 0.9 and words of like meaning
    0.5, and cover the word to that part. Pairs cover an index of their own behind the words': that of the gap between
    the two. Associated words only add to the score.
    """
    stems = [word_stem(word) for word in words]
    terms = {stem: Term(stem, 1.0, sample.idf(stem), [index]) for index, stem in enumerate(stems)}
    for stem, (weight, covers) in _spellings(words, stems, sample).items():
        terms.setdefault(stem, Term(stem, weight, sample.idf(stem), covers))
    for index, stem in enumerate(stems):
        for other in neighbours(stem):
            if sample.counts[other]:
                terms.setdefault(other, Term(other, 0.5, sample.idf(other), [index]))
    for index, pair in enumerate(pairwise(stems)):
        together = " ".join(pair)
        if sample.counts[together]:
            terms.setdefault(together, Term(together, 0.6, sample.idf(together), [len(stems) + index]))
    for stem in associated(list(terms.values()), sample):
        terms.setdefault(stem, Term(stem, 0.2, sample.idf(stem)))
    return list(terms.values())


def _spellings(words: Sequence[str], stems: list[str], sample: Sample) -> dict[str, tuple[float, list[int]]]:
    found: dict[str, tuple[float, list[int]]] = {}
    plain = [re.sub(r"\W", "", word.lower()) for word in words]
    for token in sample.counts:
        if token in stems or len(token) < 4 or not token.isalpha():
            continue
        for index, stem in enumerate(stems):
            if len(stem) >= 4 and any(token == prefix + stem for prefix in PREFIXES):
                found[token] = (0.8, [index])
            elif index + 1 < len(stems) and _compound(token, plain[index], plain[index + 1], stems[index + 1]):
                found[token] = (0.9, [index, index + 1, len(stems) + index])
            elif _abbreviation(token, plain[index], stem) and _together(token, stems, sample):
                found[token] = (0.7, [index])
    return found


def _compound(token: str, first: str, second: str, second_stem: str) -> bool:
    """`contextvar` for `context variables`, `connectionpool` for `connection pools`, `asyncgen`, `structlog`."""
    shared = 0
    while shared < min(len(token), len(first)) and token[shared] == first[shared]:
        shared += 1
    for length in range(shared, 3, -1):
        rest = token[length:].removeprefix("s")
        if len(rest) >= 3 and (second.startswith(rest) or rest.startswith(second_stem)):
            return True
    return False


def _abbreviation(token: str, word: str, stem: str) -> bool:
    """`postgres` for `postgresql`, `config` for `configuration`."""
    return token != stem and word.startswith(token) and len(token) >= max(4, len(word) * 0.4) and token not in STOP


def _together(token: str, stems: list[str], sample: Sample) -> bool:
    """Whether a shorter spelling keeps company with the word itself or the topic's other words, as `post` does not."""
    company = set(stems)
    with_token = [paragraph for paragraph in sample.paragraphs if token in paragraph]
    if not with_token:
        return False
    share = sum(1 for paragraph in with_token if paragraph & company) / len(with_token)
    base = sum(1 for paragraph in sample.paragraphs if paragraph & company) / (len(sample.paragraphs) or 1)
    return share > 2 * base and share > 0.15


def associated(terms: Iterable[Term], sample: Sample, limit: int = _ASSOCIATED) -> list[str]:
    """Stems that stand in the paragraphs about the topic far more often than elsewhere, in several documents."""
    own = {term.stem: term for term in terms}
    scored = []
    for row, paragraph in enumerate(sample.paragraphs):
        matched = [own[stem] for stem in paragraph & own.keys()]
        covered = {word for term in matched for word in term.covers}
        if len(covered) >= 2 or (covered and sum(1 for term in own.values() if len(term.covers) == 1) == 1):
            scored.append((sum(term.weight * term.idf for term in matched) / (10 + len(paragraph)) ** 0.3, row))
    top = [row for _, row in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:_TOP]]
    counts = Counter(stem for row in top for stem in sample.paragraphs[row])
    documents: dict[str, set[str]] = defaultdict(set)
    for row in top:
        for stem in sample.paragraphs[row]:
            documents[stem].add(sample.owners[row])
    total = len(sample.paragraphs)
    strengths = []
    for stem, count in counts.items():
        usual = sample.counts[stem] / total
        plain = stem.isalpha() and len(stem) > 3 and stem not in own
        if plain and count >= 3 and len(documents[stem]) >= 3 and usual < 0.08:
            share = count / len(top)
            strengths.append((share * rarity(sample.counts[stem], total) * min(3.0, share / usual / 5), stem))
    return [stem for _, stem in sorted(strengths, key=lambda pair: (-pair[0], pair[1]))[:limit]]
