"""Data on stdout, in every form."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from stanchion.cli.errors_text import tell
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.errors import NotFound, Unprocessable

ITEMS = [{"id": "a", "state": "running", "n": 1}, {"id": "b", "state": "failed", "n": 20}]
COLUMNS = [field("id"), field("state"), field("n", right=True), field("more", optional=True)]


def printed(capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    Printer(Session(**options)).listing(ITEMS, COLUMNS)
    return capsys.readouterr().out


def test_a_table_is_plain_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Aligned columns with heads, no escape sequences, numbers to the right."""
    assert printed(capsys) == "ID  STATE     N\na   running   1\nb   failed   20\n"
    assert printed(capsys, no_headers=True) == "a  running   1\nb  failed   20\n"


def test_json_carries_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One document with `v` and `items`; as lines, each with `v`."""
    assert json.loads(printed(capsys, json=True)) == {"v": 1, "items": ITEMS}
    lines = printed(capsys, jsonl=True).splitlines()
    assert [json.loads(line) for line in lines] == [{"v": 1, **item} for item in ITEMS]


def test_ids_and_formats_are_for_shells(capsys: pytest.CaptureFixture[str]) -> None:
    """--quiet prints ids only; --format a text with fields in it."""
    assert printed(capsys, quiet=True) == "a\nb\n"
    assert printed(capsys, format="{id}={n}") == "a=1\nb=20\n"
    with pytest.raises(Unprocessable, match="no field nothing"):
        printed(capsys, format="{nothing}")


def test_columns_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """--columns shows exactly those, in that order; an unknown one is an error that names the known ones."""
    assert printed(capsys, columns="n,id") == " N  ID\n 1  a\n20  b\n"
    with pytest.raises(Unprocessable) as refused:
        printed(capsys, columns="nope")
    assert "more" in (refused.value.fix or "")


def test_foreign_text_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """What acts on a terminal or turns the writing around is written out, a line feed is a space, in lists too."""
    Printer(Session()).listing([{"id": "a\x1b[2Jb\nc", "tags": ["\u202egpj", "\x9b1A"]}], [field("id"), field("tags")])
    assert capsys.readouterr().out == "ID             TAGS\na\\u001b[2Jb c  \\u202egpj, \\u009b1A\n"


def test_lines_for_people_are_harmless_with_colour_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Our own colour comes through, nothing else; not even colour that is out of somebody's data."""
    printer = Printer(Session(color="always"))
    printer.document({}, lambda: [printer.bold("a\x1b[31mb"), "bell\x07 \x1b[1mc"])
    assert capsys.readouterr().out == "\x1b[1ma\\u001b[31mb\x1b[0m\nbell\\u0007 \\u001b[1mc\n"
    say(Session(), "x\u2066y\x1b]0;z\x07")
    tell(NotFound("E-FIND-01", "no \x1b[2Jsuch", why="\u202ething"), Session(color="never"))
    told = capsys.readouterr().err
    assert told.startswith("x\\u2066y\\u001b]0;z\\u0007\nerror[E-FIND-01] no \\u001b[2Jsuch\n  cause: \\u202ething\n")


def test_what_a_program_reads_is_exact(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON and results go to a pipe as they are; on a terminal the same value is written without what acts."""
    data = {"id": "\u202e\x1b\U000e0041\u200dé"}
    Printer(Session(json=True)).document(data)
    out = capsys.readouterr().out
    assert "\u202e" in out
    assert json.loads(out) == {"v": 1, **data}
    Printer(Session()).result({}, "raw \x1b[1m\u202e")
    assert capsys.readouterr().out == "raw \x1b[1m\u202e\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Printer(Session(json=True)).document(data)
    out = capsys.readouterr().out
    assert out.isascii() is False
    assert not {"\u202e", "\x1b", "\U000e0041"} & set(out)
    assert json.loads(out) == {"v": 1, **data}
    Printer(Session()).result({}, "raw \x1b[1m\u202e")
    assert capsys.readouterr().out == "raw \\u001b[1m\\u202e\n"


def test_one_thing_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    """As text for people, as JSON for programs, as its id for shells."""
    for options, expected in (({}, "hello\n"), ({"quiet": True}, "x\n"), ({"jsonl": True}, '{"v": 1, "id": "x"}\n')):
        Printer(Session(**options)).document({"id": "x"}, "hello")
        assert capsys.readouterr().out == expected


def test_nothing_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    """What is missing is visible; truth values and lists are words."""
    row = {"a": None, "b": True, "c": [], "d": ["x", "y"]}
    Printer(Session(no_headers=True)).listing([row], [Column(name, lambda r, n=name: r[n]) for name in row])  # type: ignore[misc]  # a default binds the loop variable
    assert capsys.readouterr().out == "-  yes  -  x, y\n"
