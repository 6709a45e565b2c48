"""Passages and sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.studio.blocks import Block
from examples.studio.passages import LONGEST, MAX_PASSAGES, digest, sentences, split


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Use e.g. Redis, i.e. A store. Then go.", ["Use e.g. Redis, i.e. A store.", "Then go."]),
        ("It needs Python 3.11. Older ones fail.", ["It needs Python 3.11.", "Older ones fail."]),
        ("Call `a. B` now. `next()` follows.", ["Call `a. B` now.", "`next()` follows."]),
        ("It (see below. There) ends. Yes.", ["It (see below. There) ends.", "Yes."]),
        ("Read it. It is good.", ["Read it.", "It is good."]),
        ("no end", ["no end"]),
        ("", []),
    ],
)
def test_sentences_end_where_they_end(text: str, expected: list[str]) -> None:
    """Abbreviations, versions, brackets and code do not end a sentence."""
    assert sentences(text) == expected


def test_passages_are_numbered_and_keep_their_kind() -> None:
    """Prose, code and tables never share a passage; the heading comes along; the first prose leads."""
    blocks = [
        Block("heading", "T", ("T",)),
        Block("text", "A first sentence.", ("T",)),
        Block("code", "x = 1", ("T",)),
        Block("text", "A second one.", ("T",)),
    ]
    passages = split(blocks)
    assert [(p.number, p.kind, p.heading, p.lead) for p in passages] == [
        (1, "text", "T", True),
        (2, "code", "T", False),
        (3, "text", "T", False),
    ]
    assert passages[0].digest == digest("A first sentence.")


def test_a_list_stays_with_the_sentence_that_announces_it() -> None:
    """`There are three:` says nothing without its three."""
    blocks = [Block("text", "There are two:"), Block("item", "the first"), Block("item", "the second.")]
    assert [p.text for p in split(blocks)] == ["There are two: the first; the second."]


def test_repeated_text_is_noise() -> None:
    """Inherited docstrings repeat; only the first counts."""
    passages = split([Block("text", "Return the size of it.")] * 2)
    assert [p.noise for p in passages] == [False, True]


def test_text_without_an_end_is_cut() -> None:
    """A megabyte without a full stop must not become one passage, and a huge document not a million."""
    assert max(len(p.text) for p in split([Block("text", "x" * 100_000)])) <= 2 * LONGEST
    assert (
        len(split([Block("text", f"Sentence {n} is here." + "y" * 800) for n in range(MAX_PASSAGES + 10)]))
        == MAX_PASSAGES
    )


@given(st.text(max_size=3_000))
def test_cutting_loses_no_word(text: str) -> None:
    """Whatever the text, its passages hold the same words in the same order."""
    joined = " ".join(p.text for p in split([Block("text", " ".join(text.split()))]))
    assert "".join(joined.split()) == "".join(text.split())
