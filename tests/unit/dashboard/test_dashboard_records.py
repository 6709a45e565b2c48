"""Words and keys as they are shown: those of the glossary, and those that the script knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from services.orchestrator.dashboard.shell import SECTIONS
from services.orchestrator.dashboard.views.records import KEYS, place_of
from stanchion.contracts import ids
from stanchion.contracts.words import WORDS

ROOT = Path(__file__).parents[3]
SCRIPT = (ROOT / "services/orchestrator/dashboard/static/page.js").read_text()


def test_the_words_are_those_of_the_glossary() -> None:
    """Each with the same meaning, in the same order."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", (ROOT / "docs/glossary.md").read_text(), flags=re.M)
    assert rows == list(WORDS.items())


def test_every_single_key_is_in_the_list() -> None:
    """What the script listens to."""
    listed = {part for one in KEYS for part in one.key.split()}
    heard = set(re.findall(r'key === "(.)"', SCRIPT)) - {"g"}
    assert heard <= listed | {"[", "]", "x"}
    assert {"j", "k", "n", "y", "v", "p", "t", "r", "c", "/", "f", "?"} <= heard


def test_no_two_sections_have_one_key() -> None:
    """g and a letter lead to one place."""
    keys = [section.key for section in SECTIONS]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("prefix", ["tsk", "stp", "op", "apr", "wrk", "ded"])
def test_an_id_leads_to_its_page(prefix: str) -> None:
    """Whatever its case."""
    public = ids.public(prefix, ids.new_id())
    assert (place_of(public) or "").endswith("/" + public)
    assert place_of(public.lower()) == place_of(public)


@pytest.mark.parametrize("text", ["", "tsk_", "tsk_x", "hello", "//evil", "zzz_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", "a" * 500])
def test_what_is_no_id_leads_nowhere(text: str) -> None:
    """It is looked for as a text."""
    assert place_of(text) is None
