"""When colour and movement go to a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from stanchion.cli.region import Region, cut
from stanchion.cli.session import Session


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_colour_goes_to_terminals_only() -> None:
    """A file or a pipe gets plain text."""
    assert Session().colored(Terminal())
    assert not Session().colored(io.StringIO())


def test_no_color_and_dumb_terminals_are_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR with any content, and TERM=dumb."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Session().colored(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not Session().colored(Terminal())


def test_colour_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag wins over everything; CLICOLOR_FORCE over the missing terminal."""
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert Session().colored(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Session().colored(io.StringIO())
    assert Session(color="always").colored(io.StringIO())
    assert not Session(color="never").colored(Terminal())


def test_progress_moves_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is redrawn for pipes, for programs, or for whoever asked for quiet."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert Session().lively
    assert not Session(quiet=True).lively
    assert not Session(json=True).lively
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not Session().lively


def test_a_region_is_drawn_over_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second picture takes the place of the first; a line above it stays; the end takes it away."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "20")
    region = Region(lively=True)
    region.draw(["one", "two"])
    region.draw(["one", "three"])
    region.draw(["one", "three"])
    region.above("said")
    region.draw(["one"])
    region.clear()
    assert sys.stderr.getvalue() == (  # type: ignore[attr-defined]  # it is the terminal above
        "one\ntwo\n\x1b[2F\x1b[Jone\nthree\n\x1b[2F\x1b[Jsaid\none\n\x1b[1F\x1b[J"
    )


def test_without_a_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """Bars in a log file help nobody."""
    region = Region(lively=False)
    region.draw(["one"])
    region.clear()
    assert capsys.readouterr().err == ""


def test_lines_are_cut_by_what_is_seen() -> None:
    """Escape sequences take no room, and the last one resets the colour."""
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", 4) == "abc"
    assert cut("\x1b[31mabcdef\x1b[0m", 6) == "\x1b[31mabcdef\x1b[0m"
    assert cut("\x1b[31mabcdef\x1b[0m", 4) == "\x1b[31mabc\x1b[0m\x1b[0m"
