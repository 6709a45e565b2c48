"""What people do on pages, with the mouse, with keys, and without scripts."""

from __future__ import annotations

import pytest
from browser_kit import Visit
from browser_seeding import Seeded
from browser_views import View, at, task
from browser_visits import Visits
from playwright.sync_api import expect

PAUSED = "SELECT paused_at IS NOT NULL FROM stanchion.run WHERE task_id = %s"


@pytest.fixture
def dozing(seeded: Seeded) -> str:
    """A task that runs until the stack ends."""
    seeded.submit("to act on", "dozing", {"name": "to act on"})
    seeded.reached("to act on", "doze", "running")
    return "to act on"


def test_the_skip_link_leads_to_the_content(visits: Visits) -> None:
    """The first Tab shows it, and what comes behind it is in the content."""
    visit = visits(View("tasks", at("/tasks")))
    visit.page.keyboard.press("Tab")
    first = visit.probe("focused")
    assert first["skip"]
    assert first["drawn"], "it is not visible while it has the focus"
    visit.page.keyboard.press("Enter")
    visit.page.keyboard.press("Tab")
    assert visit.probe("focused")["inMain"]


def press(visit: Visit, name: str) -> None:
    """The button of the dialog or page that is open."""
    visit.page.locator("form").get_by_role("button", name=name, exact=True).click()


def test_an_action_opens_over_the_page_and_gives_the_focus_back(dozing: str, seeded: Seeded, visits: Visits) -> None:
    """Escape changes nothing and leads back to the button; the same by Enter does it, once."""
    visit = visits(View("task", task(dozing)))
    button = visit.page.get_by_role("link", name="Pause")
    button.focus()
    visit.page.keyboard.press("Enter")
    expect(visit.page.get_by_role("dialog", name="Pause")).to_be_visible()
    assert visit.page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    visit.page.keyboard.press("Escape")
    expect(visit.page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()
    assert seeded.world.sql(PAUSED, seeded.uuid(dozing)) == [False]
    button.click()
    expect(visit.page.get_by_role("dialog", name="Pause")).to_be_visible()
    press(visit, "Pause")
    expect(visit.page.get_by_role("status").filter(has_text="Done: pause")).to_be_visible()
    expect(visit.page.locator("#r-head").get_by_role("link", name="Resume")).to_be_visible()
    assert seeded.world.sql(PAUSED, seeded.uuid(dozing)) == [True]


def test_an_action_works_without_scripts(dozing: str, seeded: Seeded, visits: Visits) -> None:
    """By a link and a form: the page says what it does before, and the next one that it was done."""
    visit = visits(View("task", task(dozing)), "plain")
    visit.page.get_by_role("link", name="Pause").click()
    expect(visit.page.locator("h1")).to_have_text("Pause: dozing")
    press(visit, "Pause")
    expect(visit.page.locator("main")).to_contain_text("Done: pause")
    assert seeded.world.sql(PAUSED, seeded.uuid(dozing)) == [True]


def test_a_page_shows_what_happens(dozing: str, seeded: Seeded, visits: Visits) -> None:
    """The step's end appears by itself, on the same page."""
    visit = visits(View("task", task(dozing)))
    visit.page.evaluate("window.same = true")
    seeded.open_up(dozing)
    expect(visit.page.locator("#r-nodes tr", has_text="doze").first).to_contain_text("succeeded")
    assert visit.page.evaluate("window.same")
