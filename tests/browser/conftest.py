"""Fixtures of the browser's tests: one seeded stack of real processes, one browser, one context for each look and role."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from kit.world import World

if find_spec("playwright") is None:
    pytest.exit("tests/browser needs what `make test-browser` installs; leave it out with --ignore=tests/browser", 4)

from browser_kit import LOOKS, PICTURES, Visit, launch, prepared, sign_in
from browser_seeding import STANDS_STILL, TARGETS, Seeded, seed
from browser_views import VIEWS
from browser_visits import Contexts, Visits
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from stanchion.sdk.client import Client

CACHE = Path(__file__).parents[2] / ".stanchion" / "cache"


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One of each service and two workers."""
    with World(
        tmp_path_factory.mktemp("browser"),
        workers=2,
        slots=70,
        targets=TARGETS,
        replicas={"maintenance": 0},
        service_env=STANDS_STILL,
        kafka=request.config.getoption("--kafka"),
        cache=CACHE,
    ) as world:
        yield world
        if request.session.testsfailed:
            world.close(keep=CACHE.parent / "failed" / f"browser-{os.getpid()}")


@pytest.fixture(scope="session")
def seeded(world: World) -> Iterator[Seeded]:
    """The stack with everything on it that pages show."""
    with Client(world.stack.api_url, world.stack.api_key, timeout=60) as http:
        yield seed(world, http)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, started once."""
    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def contexts(browser: Browser, seeded: Seeded) -> Iterator[Contexts]:
    """`contexts(look, role)`: a window in which somebody of that role has signed in (None: nobody has)."""
    signed_in = {role: sign_in(browser, seeded.url, role) for role in {view.role for view in VIEWS} if role}
    opened: dict[tuple[str, str | None], BrowserContext] = {}

    def context(look: str, role: str | None) -> BrowserContext:
        if (look, role) not in opened:
            state = signed_in[role] if role else None
            opened[look, role] = prepared(browser.new_context(storage_state=state, **LOOKS[look]))
        return opened[look, role]

    yield context
    for one in opened.values():
        one.close()


@pytest.fixture
def visits(contexts: Contexts, seeded: Seeded) -> Iterator[Visits]:
    """Pages for one test; at its end nothing may have been complained of."""
    with ExitStack() as closing:
        made = Visits(contexts, seeded, closing)
        yield made
        for visit in made.opened:
            assert visit.unexpected() == []


@pytest.fixture(scope="module")
def visits_of_module(contexts: Contexts, seeded: Seeded) -> Iterator[Visits]:
    """Pages that several tests of a module look at."""
    with ExitStack() as closing:
        yield Visits(contexts, seeded, closing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure leaves a picture of the page as it was."""
    report = yield
    if report.failed:
        used = item.funcargs.values()
        pages = [one for one in used if isinstance(one, Visit)]
        pages += [visit for one in used if isinstance(one, Visits) for visit in one.opened]
        for number, visit in enumerate(one for one in pages if not one.page.is_closed()):
            path = visit.picture(f"failed {item.name} {number}")
            report.sections.append(("picture", str(path.relative_to(PICTURES.parents[1]))))
    return report
