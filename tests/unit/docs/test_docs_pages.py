"""The pages keep to their form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_kit import CHECKOUT, name_of, pages, sources

README = CHECKOUT / "README.md"
DECISIONS = CHECKOUT / "docs" / "decisions"


def test_the_readme_comes_to_the_point() -> None:
    """Fewer than 120 words stand before the first command, and the promises follow."""
    text = README.read_text(encoding="utf-8")
    before = text.partition("```")[0]
    words = re.findall(r"[A-Za-z][\w'-]*", re.sub(r"<[^>]*>|\[[^\]]*\]\([^)]*\)|[#*_|]", " ", before))
    assert 0 < len(words) < 120
    assert text.index("```") < text.index("## What is promised") < text.index("## What is not promised")


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("0*.md")), ids=name_of)
def test_a_decision_has_its_parts(page: Path) -> None:
    """Context, decision, consequences, and what keeps it; listed in the index."""
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences", "What keeps it"]
    assert f"({page.name})" in (DECISIONS / "README.md").read_text(encoding="utf-8")


def test_internals_tell_how_a_service_fails() -> None:
    """Each page has its authority, a diagram, the time that a lease is trusted, and the failures."""
    found = sorted((CHECKOUT / "docs" / "internals").glob("*.md"))
    assert [page.stem for page in found] == ["orchestrator", "outbox-relay", "task-service", "workers"]
    for page in found:
        text = page.read_text(encoding="utf-8")
        assert "## What the database is authoritative for" in text, page.name
        assert "```mermaid\nstateDiagram-v2" in text, page.name
        assert "## What happens when" in text, page.name
        for failure in ("killed", "frozen", "PostgreSQL crash", "Valkey", "emptied", "cut"):
            assert failure in text, f"{page.name} does not say what happens: {failure}"


def test_the_overview_has_one_diagram() -> None:
    """One picture of the whole, not several of its parts."""
    text = (CHECKOUT / "docs/concepts/overview.md").read_text(encoding="utf-8")
    assert text.count("```mermaid") == 1


def test_the_glossary_is_in_order() -> None:
    """A reader looks a word up by its first letter, and finds it once."""
    text = (CHECKOUT / "docs/glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| \*\*([^*]+)\*\*", text, re.MULTILINE)
    assert len(words) > 40
    assert words == sorted(set(words), key=str.lower)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_opens_with_its_title(page: Path) -> None:
    """One first-level heading, at the top."""
    text = page.read_text(encoding="utf-8")
    outside = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^# ", outside, re.MULTILINE)) == 1


def test_one_clock_decides() -> None:
    """Decision 0009: no function and no default reads the time but through `stanchion.clock()`."""
    found = []
    for path in sources(".sql"):
        text = re.sub(r"--[^\n]*", "", path.read_text(encoding="utf-8"))
        # v_began is where a function measures how long it took itself.
        text = re.sub(r"v_began timestamptz := clock_timestamp\(\)|clock_timestamp\(\) - v_began", "", text)
        text = re.sub(r"CREATE FUNCTION (stanchion\.)?clock\(\)[^;]*;", "", text)
        if re.search(
            r"\bnow\(\)|\bcurrent_(timestamp|time|date)\b|\b\w+_timestamp\(\)|\blocaltime", text, re.IGNORECASE
        ):
            found.append(name_of(path))
    assert not found
