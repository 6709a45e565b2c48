"""A stored error in one line."""

from __future__ import annotations

from stanchion.contracts.failures import LINE_CHARACTERS, cause_of, told

RAISED = {"code": "E-STEP-27", "what": "ValueError: no\n  such   city", "type": "ValueError", "traceback": "..."}
FAILED = {"code": "E-STEP-21", "what": "step boom failed", "why": "it failed once", "error": RAISED}


def test_the_cause_stands_behind_what_it_caused() -> None:
    """Type and text of what the code raised, in one line, without its traceback."""
    assert told(FAILED) == "E-STEP-21; step boom failed; it failed once; E-STEP-27; ValueError: no such city"
    assert cause_of(FAILED) == "E-STEP-27; ValueError: no such city"
    assert told({**FAILED, "by": "key:ana"}, "by").split("; ")[3] == "by key:ana"[3:]


def test_a_long_text_leaves_room_for_the_cause() -> None:
    """Each part is cut, and the whole."""
    line = told({"code": "E-STEP-21", "what": "x" * 1_000, "error": {**RAISED, "what": "ValueError: " + "y" * 5_000}})
    assert "ValueError: yyy" in line
    assert line.endswith("…")
    assert len(line) <= LINE_CHARACTERS


def test_what_is_no_error_says_nothing() -> None:
    """Neither does a chain without an end take long."""
    assert told(None) == told("text") == told({}) == cause_of({"error": "text"}) == ""
    endless: dict[str, object] = {"code": "E-X-01"}
    endless["error"] = endless
    assert told(endless).count("E-X-01") == 4
