"""Words and keys as they are shown: those of the glossary, and those that the scripts know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from services.orchestrator.dashboard.keyboard import KEYS
from services.orchestrator.dashboard.shell import SECTIONS
from services.orchestrator.dashboard.views.help import as_filter
from stanchion.authority.audit import kept_as
from stanchion.contracts import filters, ids
from stanchion.contracts.words import WORDS

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "services/orchestrator/dashboard/static"
LISTED = {key for one in KEYS for key in one.keys}
BROWSERS_OWN = {"Enter"}  # a link that has the focus is opened by the browser itself


def test_the_words_are_those_of_the_glossary() -> None:
    """Each with the same meaning, in the same order."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", (ROOT / "docs/glossary.md").read_text(), flags=re.M)
    assert rows == list(WORDS.items())


def test_every_key_of_the_scripts_is_listed_and_no_other() -> None:
    """Each that a script compares with, and each letter behind g."""
    known = {f"g {section.key}" for section in SECTIONS}
    for script in STATIC.glob("*.js"):
        text = script.read_text(encoding="utf-8")
        known |= set(re.findall(r'(?:event\.key|\bkey) === "([^"]+)"', text)) - {"g"}
        for table in re.findall(r"const (?:KEYS|moves) = \{([^}]*)\}", text):
            known |= set(re.findall(r"(\w+):", table))
    arrows = {key for key in LISTED if key.startswith("Arrow")}
    assert known | arrows | BROWSERS_OWN == LISTED


def test_letters_behind_g_are_each_of_one_place() -> None:
    """Or the first one would hide the second."""
    letters = [section.key for section in SECTIONS]
    assert len(set(letters)) == len(letters)


@pytest.mark.parametrize(
    "text", ["hello", "rate limit", 'a "quoted" one', "nonsense:", "-x", "<script>", "a,b", "x" * 150]
)
def test_any_text_can_be_looked_for(text: str) -> None:
    """As one word of the filter language, whatever stands in it."""
    (term,) = filters.parse(as_filter(text)).terms
    assert (term.name, term.values, term.negated) == ("", (text,), False)


def test_a_target_is_looked_for_as_the_log_has_it() -> None:
    """Ids without their prefix, names as they are."""
    value = ids.new_id()
    assert kept_as(ids.public(ids.TASK, value)) == kept_as(str(value)) == str(value)
    assert [kept_as(name) for name in ("editors", "tsk_x", "key_note")] == ["editors", "tsk_x", "key_note"]
