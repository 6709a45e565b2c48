"""Every view, open once for many questions: form, accessibility, targets, headers, picture, silence, keyboard. What a
theme may change is asked in light and dark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import axe_playwright_python
import pytest
from browser_kit import Visit
from browser_seeding import Seeded
from browser_views import VIEWS, View
from browser_visits import Visits
from starlette.routing import compile_path

from services.orchestrator.dashboard.views import PAGES

AXE: Final = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def opened(*looks: str) -> pytest.MarkDecorator:
    """For every view in these looks. Tests of the same one share its page."""
    seen = [pytest.param((view, look), id=f"{view.name}, {look}") for view in VIEWS for look in looks]
    return pytest.mark.parametrize("seen", seen, indirect=True, scope="module")


in_both = opened("light", "dark")
in_light = opened("light")


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, visits_of_module: Visits) -> Any:
    """One view in one look, opened once for all tests of this module."""
    view, look = request.param
    visit = visits_of_module(view, look)
    yield visit
    visit.page.close()


def test_every_page_has_a_view(seeded: Seeded) -> None:
    """A page of the dashboard that nobody looks at here would be held to nothing."""
    paths = [view.path(seeded).partition("?")[0] for view in VIEWS]
    for page in PAGES:
        pattern = compile_path(page.path)[0]
        assert any(pattern.match(path) for path in paths), f"{page.path} has no line in tests/browser/browser_views.py"


@in_light
def test_it_has_the_form_of_a_page(seen: Visit) -> None:
    """One heading of the first level, a title, a language, and each landmark once."""
    found = seen.probe("form")
    assert found.pop("title").endswith(" · Stanchion")
    assert found == {"h1": 1, "lang": "en", "banner": 1, "main": 1, "footer": 1}


@in_both
def test_it_breaks_no_rule_of_accessibility(seen: Visit) -> None:
    """WCAG 2.2 AA and good practice, as far as a program can tell."""
    seen.page.evaluate(AXE)
    options = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
    result = seen.page.evaluate("(options) => axe.run(document, options)", options)
    found = [
        (rule["id"], rule["help"], [node["html"][:150] for node in rule["nodes"][:5]]) for rule in result["violations"]
    ]
    assert not found, json.dumps(found, indent=1, ensure_ascii=False)
    assert len(result["passes"]) > 10, "the rules were not applied"


@in_light
def test_targets_are_large_enough(seen: Visit) -> None:
    """24 by 24 px, or as much room around."""
    assert seen.probe("tooSmall") == []


@in_light
def test_it_fits_a_wide_window(seen: Visit) -> None:
    """Only boxes scroll sideways, never the page."""
    assert seen.probe("tooWide") == []


@in_light
def test_the_content_policy_is_strict(seen: Visit) -> None:
    """Nothing but what this site serves, nothing inline, no frame, and no page wanted more than that."""
    assert seen.answer is not None
    headers = seen.answer.headers
    directives = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert directives["default-src"] in ("'self'", "'none'")
    assert directives["frame-ancestors"] == "'none'"
    assert not re.search(r"unsafe|\*|https?:|data:", headers["content-security-policy"])
    assert headers["x-content-type-options"] == "nosniff"
    assert seen.probe("injected") == []
    assert seen.page.evaluate("window.stoppedByPolicy") == []


@in_both
def test_a_picture_is_kept(seen: Visit, request: pytest.FixtureRequest) -> None:
    """For people: whether a page is clear, no rule can tell."""
    view, look = request.node.callspec.params["seen"]
    assert seen.picture(f"{view.name} {look}").stat().st_size > 5_000


@in_both
def test_nothing_was_complained_of(seen: Visit) -> None:
    """No error or warning of the browser, no dialog, and no request to anybody else."""
    assert seen.unexpected() == []


@in_light
def test_the_keyboard_reaches_everything(seen: Visit) -> None:
    """Tab comes to whatever can be used, and what has the focus shows it. It comes last: a page that waits for keys
    is another one afterwards."""
    for _ in range(seen.probe("listen") + 5):
        seen.page.keyboard.press("Tab")
    assert seen.probe("unreached") == []
    assert seen.probe("unmarked") == []


@pytest.mark.parametrize("view", [view for view in VIEWS if view.texts], ids=str)
def test_what_is_hostile_stays_a_text(view: View, visits: Visits) -> None:
    """It stands there as it was given, and nothing of it became an element, an expression or a direction."""
    visit = visits(view)
    text = visit.page.locator("main").text_content()
    assert text is not None
    assert [given for given in view.texts if given not in text] == []
    assert visit.probe("injected") == []
    assert visit.probe("unisolated") == []
