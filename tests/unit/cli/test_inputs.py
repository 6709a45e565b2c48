"""The input of a task as words on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from stanchion.cli.inputs import parse
from stanchion.errors import Unprocessable


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["topic=cats"], {"topic": "cats"}),
        (["topic="], {"topic": ""}),
        (["n=5"], {"n": "5"}),
        (["n:=5"], {"n": 5}),
        (["x:=null", "y:=true", "z:=[1,2]"], {"x": None, "y": True, "z": [1, 2]}),
        (["url=http://host/?a=b&c:=d"], {"url": "http://host/?a=b&c:=d"}),
        (["text=line one\nline two"], {"text": "line one\nline two"}),
        (['text:="@home"'], {"text": "@home"}),
        (['{"topic": "dogs", "n": 1}', "topic=cats"], {"topic": "cats", "n": 1}),
    ],
)
def test_words_become_an_object(words: list[str], expected: object) -> None:
    """A text after =, JSON after :=, and nothing is guessed: n=5 stays a text."""
    assert parse(words) == expected


def test_files_and_standard_input_are_read(tmp_path: Path) -> None:
    """@file gives an object, name=@file a text, name:=@file JSON, - an object; later words win."""
    whole = tmp_path / "whole.json"
    whole.write_text('{"topic": "dogs", "n": 1}')
    letter = tmp_path / "letter.txt"
    letter.write_text("dear cat")
    words = [f"@{whole}", "topic=cats", f"body=@{letter}", f"more:=@{whole}", "-"]
    assert parse(words, lambda: '{"n": 2}') == {
        "topic": "cats",
        "n": 2,
        "body": "dear cat",
        "more": {"topic": "dogs", "n": 1},
    }


@pytest.mark.parametrize(
    "words", [["cats"], ["1x=2"], ["a-b=c"], ["n:=abc"], ["n:=NaN"], ["@"], ["a=1", "a=2"], ["x=@nowhere.txt"], ["x:="]]
)
def test_what_is_no_input_is_refused(words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each refusal is the caller's fault (exit code 2) and says which word."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unprocessable):
        parse(words)


def test_json_that_is_no_object_is_refused_as_the_whole(tmp_path: Path) -> None:
    """An input is an object: a list in a file is not taken for one."""
    path = tmp_path / "list.json"
    path.write_text("[1]")
    with pytest.raises(Unprocessable, match="no JSON object"):
        parse([f"@{path}"])


def test_what_is_no_utf_8_is_told() -> None:
    """Bytes of another encoding come as what can't be written back."""
    with pytest.raises(Unprocessable, match="E-CLI-01"):
        parse(["-"], lambda: '{"topic": "caf\udce9"}')
    with pytest.raises(Unprocessable, match="E-CLI-01"):
        parse(['topic:="caf\udce9"'])
