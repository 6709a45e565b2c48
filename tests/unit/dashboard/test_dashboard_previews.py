"""Previews of content, and what differs between two texts."""

from __future__ import annotations

import pytest

from services.orchestrator.dashboard import previews


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n rest", "image/png"),
        (b"\xff\xd8\xff\xe1", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"RIFF1234WEBP", "image/webp"),
        (b"RIFF1234WAVE", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b"<?xml version='1.0'?><svg/>", None),
        (b"BM bitmap", None),
        (b" GIF89a", None),
        (b"", None),
    ],
)
def test_images_are_told_by_their_bytes(content: bytes, kind: str | None) -> None:
    """Four kinds; a drawing is a document that runs, and none of them."""
    assert previews.image_type(content) == kind


@pytest.mark.parametrize("content", [b"a\x00b", b"\xff\xfe", b"\xc3\x28", b"PK\x03\x04\xff"])
def test_what_is_no_text_is_not_shown(content: bytes) -> None:
    """It is downloaded."""
    assert previews.preview("x.txt", "text/plain", content, len(content)).kind == "none"


def test_a_character_that_was_cut_is_left_out() -> None:
    """And only where the content goes on."""
    assert previews.text_of("aé".encode()[:2], whole=False) == "a"
    assert previews.text_of("aé".encode()[:2], whole=True) is None


@pytest.mark.parametrize("text", ["[" * 3_000, '{"a":', "nul", "1" * 5_000, "[" + "[1]," * 90_000 + "1]"])
def test_json_that_is_none_or_too_much_is_shown_as_it_is(text: str) -> None:
    """Never an error, never more than a page can take."""
    shown = previews.preview("x.json", "application/json", text.encode(), len(text.encode()))
    assert shown.kind == "json"
    assert len(shown.text) <= previews.LAID_OUT


def test_deep_json_does_not_grow_without_end() -> None:
    """Blanks before a line are bounded, however deep it stands."""
    text = "[" * 500 + ",".join("1" for _ in range(50_000)) + "]" * 500
    assert len(previews.preview("x.json", "application/json", text.encode(), len(text)).text) <= previews.LAID_OUT


def test_a_table_is_bounded_on_all_sides() -> None:
    """Rows, columns, and the length of a cell."""
    text = ("x" * 1_000 + ",") * 60 + "\n"
    shown = previews.preview("x.csv", "text/csv", text.encode(), len(text))
    assert (len(shown.head), max(map(len, shown.head))) == (previews.CELLS, previews.CELL_CHARACTERS)
    assert shown.notes == ("The first 50 columns.",)
    huge = '"' + "x" * 200_000 + '"\n'
    assert previews.preview("x.csv", "text/csv", huge.encode(), len(huge)).kind == "text"


def test_texts_that_differ_throughout_are_not_compared() -> None:
    """Matching thousands of lines takes minutes; a change in the middle of a long text takes none."""
    lines = [f"line {n}" for n in range(20_000)]
    old, new = "\n".join(lines).encode(), "\n".join([*lines[:9_000], "new", *lines[9_001:]]).encode()
    found = previews.difference(old, new, (len(old), len(new)))
    assert ("+", "new") in found.lines
    other = "\n".join(reversed(lines)).encode()
    assert "too many lines" in previews.difference(old, other, (len(old), len(other))).why


def test_a_difference_is_bounded() -> None:
    """So many lines, each so long."""
    old, new = b"", "\n".join("x" * 5_000 for _ in range(3_000)).encode()
    found = previews.difference(old, new, (0, len(new)))
    assert len(found.lines) == previews.DIFFERING
    assert max(len(line) for _, line in found.lines) < 5_000
    assert found.notes
