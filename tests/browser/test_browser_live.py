"""Pages that stay true: through a cut network, a silent one, and in many tabs at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from browser_kit import Visit
from browser_seeding import Seeded
from browser_views import View, task
from browser_visits import Visits
from kit.proxy import TcpProxy
from kit.world import PATIENCE
from playwright.sync_api import expect

LIVE: Final = re.compile(r"^Live \d+ s$")
STALE: Final = re.compile(r"^Stale .*reconnecting$")
TABS: Final = 8
OTHER_SIDE_IS_AWAY: Final = r"ERR_(CONNECTION_|EMPTY_RESPONSE|INCOMPLETE_|NETWORK_|SOCKET_)"

Eventually = Callable[..., Any]


@pytest.fixture
def proxy(seeded: Seeded) -> Iterator[TcpProxy]:
    """A way to the pages that can be cut."""
    target = urlsplit(seeded.url)
    assert target.hostname
    assert target.port
    with TcpProxy((target.hostname, target.port)) as made:
        yield made


@pytest.fixture
def moving(request: pytest.FixtureRequest, seeded: Seeded) -> str:
    """A task of two steps, each of which goes on until it is opened."""
    name = re.sub(r"\W+", "-", request.node.name)
    seeded.submit(name, "dozing", {"name": name})
    seeded.reached(name, "doze", "running")
    return name


def age_of(visit: Visit) -> Any:
    """Where the page says how old it is."""
    return visit.page.locator("#age")


def row_of(visit: Visit, node: str) -> Any:
    """The row of a node in the table beside the graph."""
    return visit.page.locator("#r-nodes tbody tr").filter(has=visit.page.get_by_role("rowheader", name=node))


@pytest.mark.parametrize("how", ["cut", "swallow"])
def test_a_page_that_hears_nothing_says_so_and_comes_back_right(
    how: str, moving: str, seeded: Seeded, visits: Visits, proxy: TcpProxy, eventually: Eventually
) -> None:
    """After 20 s it is stale, after 60 s it says since when; what it shows stays, and is right once the way is back."""
    visit = visits(View("task", task(moving)), home=f"http://127.0.0.1:{proxy.port}", clock=True)
    visit.allowed = OTHER_SIDE_IS_AWAY
    visit.page.evaluate("window.same = true")
    expect(age_of(visit)).to_have_text(LIVE)
    expect(row_of(visit, "doze")).to_contain_text("running")

    getattr(proxy, how)()
    seeded.open_up(moving)
    seeded.reached(moving, "wake", "running")
    visit.page.clock.run_for(22_000)
    expect(age_of(visit)).to_have_text(STALE)
    expect(row_of(visit, "doze")).to_contain_text("running")
    expect(visit.page.locator("#stale")).to_be_hidden()
    visit.page.clock.run_for(45_000)
    expect(visit.page.locator("#stale")).to_contain_text("tasks keep running")

    proxy.heal()

    def live() -> bool:
        visit.page.clock.run_for(1_000)  # a stream that was refused is tried again by a timer of the page
        return bool(LIVE.match(age_of(visit).text_content() or ""))

    eventually(live, PATIENCE)
    expect(row_of(visit, "doze")).to_contain_text("succeeded")
    expect(row_of(visit, "wake")).to_contain_text("running")
    expect(visit.page.locator("#stale")).to_be_hidden()
    assert visit.page.evaluate("window.same"), "the page was loaded anew"


def test_a_paused_page_stands_still(moving: str, seeded: Seeded, visits: Visits) -> None:
    """The key p stops all movement and starts it again; what was missed is there at once."""
    visit = visits(View("task", task(moving)))
    visit.page.keyboard.press("p")
    expect(age_of(visit)).to_have_text("Paused")
    seeded.open_up(moving)
    seeded.reached(moving, "wake", "running")
    expect(row_of(visit, "doze")).to_contain_text("running")
    visit.page.keyboard.press("p")
    expect(age_of(visit)).to_have_text(LIVE)
    expect(row_of(visit, "doze")).to_contain_text("succeeded")


def turn(visit: Visit, *, hidden: bool) -> None:
    """Say that the tab went behind another one, or came before it: without windows a browser never says so itself."""
    visit.page.evaluate(
        """(hidden) => { Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange")); }""",
        hidden,
    )


def test_many_tabs_of_a_live_page(moving: str, seeded: Seeded, visits: Visits) -> None:
    """Over HTTP/1.1 a browser has six connections to a host: tabs that nobody sees give theirs back, so that the ninth
    request is answered at once; each tab is right again when somebody looks at it."""
    tabs: list[Visit] = []
    for _ in range(TABS):
        tabs.append(visits(View("task", task(moving))))
        expect(age_of(tabs[-1])).to_have_text(LIVE)
        turn(tabs[-1], hidden=True)
    turn(tabs[-1], hidden=False)
    answer = "fetch('/tasks', { signal: AbortSignal.timeout(5000) }).then((answer) => answer.status)"
    assert tabs[-1].page.evaluate(answer) == 200

    seeded.open_up(moving)
    expect(row_of(tabs[-1], "doze")).to_contain_text("succeeded")
    for before, tab in zip([tabs[-1], *tabs], tabs, strict=False):
        turn(before, hidden=True)
        turn(tab, hidden=False)
        expect(row_of(tab, "doze")).to_contain_text("succeeded")
        expect(age_of(tab)).to_have_text(LIVE)
