"""Which errors are the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion.contracts.fingerprints import MESSAGE_CHARACTERS, fingerprint, normalised, place_of

TRACEBACK = """Traceback (most recent call last):
  File "/srv/app/flows/parse.py", line 88, in price_of
    return item["price"]
  File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode
    obj, end = self.scan_once(s, idx)
KeyError: 'price'
"""


def error(what: str, **more: Any) -> dict[str, Any]:
    return {"code": "E-STEP-27", "what": what, "type": "KeyError"} | more


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("child 17 of 100 took 3.5 s", "child 4 of 99 took 12 s", "child <n> of <n> took <n> s"),
        ("no row 'a b'", "no row 'it\\'s'", "no row …"),
        ('no "x" in "y"', 'no "" in "z"', "no … in …"),
        ("tsk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 is gone", "tsk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C1 is gone", "<id> is gone"),
        (
            "0192f0c1-7a3e-7c44-9d1e-2f6f0b7a1c2d failed",
            "0192f0c1-7a3e-7c44-9d1e-2f6f0b7a1c2e failed",
            "<id> failed",
        ),
        ("object at 0x7f00aa", "object at 0x7f00ab", "object at <hex>"),
        ("hash deadbeef01 differs", "hash 0123456789abcdef differs", "hash <hex> differs"),
        ("since 2026-12-01T10:00:00Z", "since 2026-11-30 09:00", "since <time>"),
        ("GET https://a.example/x?id=1 failed", "GET http://b.example/ failed", "GET <url> failed"),
        ("HTTP 429:\n  slow  down", "HTTP 503: slow down", "HTTP <n>: slow down"),
    ],
)
def test_what_differs_each_time_is_left_out(one: str, other: str, same: str) -> None:
    """Numbers, ids, hashes, addresses, times, quoted texts and blanks."""
    assert normalised(one) == normalised(other) == same


def test_words_stay() -> None:
    """Letters beside digits, and an apostrophe, are words of the author."""
    assert normalised("can't read utf8 of w17's file") == "can't read utf8 of w17's file"
    assert normalised("failed") != normalised("refused")


def test_the_place_is_the_authors_own_line() -> None:
    """The innermost that is not of the standard library or of a package; without one, the innermost."""
    assert place_of(TRACEBACK) == "parse.py:88 in price_of"
    assert place_of('  File "/x/site-packages/httpx/a.py", line 3, in get\n') == "a.py:3 in get"
    assert place_of(None) is None
    assert place_of("no frames here") is None


def test_what_makes_a_group() -> None:
    """Workflow, node, code, type, place and message; not the text that differs, nor the version."""
    one = fingerprint("brief", "parse", error("KeyError: 'price'", traceback=TRACEBACK))
    assert one == fingerprint("brief", "parse", error("KeyError: 'cost'", traceback=TRACEBACK))
    assert (one.message, one.type, one.place) == ("…", "KeyError", "parse.py:88 in price_of")
    others = [
        fingerprint("other", "parse", error("KeyError: 'price'", traceback=TRACEBACK)),
        fingerprint("brief", "fetch", error("KeyError: 'price'", traceback=TRACEBACK)),
        fingerprint("brief", "parse", error("KeyError: 'price'", traceback=TRACEBACK, code="E-STEP-28")),
        fingerprint("brief", "parse", error("KeyError: 'price'")),
        fingerprint("brief", "parse", error("KeyError: 'price' is missing", traceback=TRACEBACK)),
    ]
    assert len({found.group_id for found in (one, *others)}) == 6


def test_a_group_keeps_its_id() -> None:
    """Ids stand in links and notes: another way to make them would lose what people wrote."""
    assert str(fingerprint("brief", "parse", error("x 1")).group_id) == "11104ee3-2127-564c-3d2f-af59319b6678"


@given(st.dictionaries(st.sampled_from(["code", "what", "type", "traceback"]), st.none() | st.integers() | st.text()))
def test_any_error_has_one(found: dict[str, Any]) -> None:
    """Whatever was stored, and the same each time; a message is bounded."""
    made = fingerprint("w", "n", found)
    assert made == fingerprint("w", "n", found)
    assert made.group_id == fingerprint("w", "n", dict(found)).group_id
    assert len(made.message) <= MESSAGE_CHARACTERS
