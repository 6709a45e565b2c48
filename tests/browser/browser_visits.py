"""Opening views: by name of the look, as who looks, through any address."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from browser_kit import Visit, visiting
from browser_seeding import Seeded
from browser_views import View
from playwright.sync_api import BrowserContext

Contexts = Callable[[str, str | None], BrowserContext]


class Visits:
    """`visits(view, look)`: a page of its own, at `home` (default: the orchestrator itself), with a `clock` that
    the test moves; all are closed at the end."""

    def __init__(self, contexts: Contexts, seeded: Seeded, closing: ExitStack) -> None:
        self.contexts = contexts
        self.seeded = seeded
        self.closing = closing
        self.opened: list[Visit] = []

    def __call__(self, view: View, look: str = "light", *, home: str | None = None, clock: bool = False) -> Visit:
        visit = self.closing.enter_context(visiting(self.contexts(look, view.role), home or self.seeded.url))
        self.opened.append(visit)
        if clock:
            visit.page.clock.install()
        visit.go(view.path(self.seeded), view.status)
        return visit if look == "plain" else visit.settled()
