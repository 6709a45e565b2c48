"""What is asked before something that can't be undone, and which tasks it is about."""

from __future__ import annotations

import io
import sys

import click
import pytest

from stanchion.cli.api import Api
from stanchion.cli.confirming import Consent
from stanchion.cli.selecting import chosen
from stanchion.cli.session import Session
from stanchion.errors import Conflict, Unprocessable

SESSION = Session()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_anybody_to_ask_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that forgot --yes gets exit code 2, not a default answer."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(Unprocessable) as refused:
        Consent(yes=False, dry_run=False, expect_count=None).obtain(SESSION, "cancel 3 tasks", 3)
    assert refused.value.fix == "add --yes"


def test_a_person_is_asked_with_the_place(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The question says what, how many and where; no is an end."""
    consent = Consent(yes=False, dry_run=False, expect_count=None)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert consent.obtain(SESSION, "cancel 3 tasks", 3, where="http://prod")
    assert "cancel 3 tasks (http://prod). Continue? [y/N]" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    with pytest.raises(click.Abort):
        consent.obtain(SESSION, "cancel 3 tasks", 3)


def test_a_dry_run_says_and_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    """Also together with --yes."""
    assert not Consent(yes=True, dry_run=True, expect_count=None).obtain(SESSION, "cancel 3 tasks", 3)
    assert "not done" in capsys.readouterr().err


def test_a_wrong_count_refuses() -> None:
    """--expect-count guards a filter that fits more than was thought."""
    consent = Consent(yes=True, dry_run=False, expect_count=3)
    assert consent.obtain(SESSION, "x", 3)
    with pytest.raises(Conflict):
        consent.obtain(SESSION, "x", 4)


def test_an_act_is_about_names_or_a_filter() -> None:
    """Neither or both is refused before anything is asked, and so is a filter that can't be read, or that is empty."""
    for texts, text, code in (
        ([], None, "E-CLI-01"),
        (["@last"], "state:running", "E-CLI-01"),
        ([], " ", "E-FILTER-04"),
        ([], "colour:red", "E-FILTER-01"),
        ([], "state:", "E-FILTER-03"),
    ):
        with pytest.raises(Unprocessable) as caught:
            chosen(Api(SESSION), texts, text)
        assert caught.value.code == code
