"""A visit: one page in one look, and everything that the browser complains of while it is open."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request, Response

PICTURES: Final = Path(__file__).parents[2] / ".stanchion" / "browser"
PATIENCE_MS: Final = 30_000
SCRIPTS: Final = Path(__file__).with_name("probes.js")

ARGUMENTS: Final = (
    "--no-sandbox",  # a sandbox needs rights that a container does not give
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # whatever a page names, nothing leaves this machine
)

Options = dict[str, Any]
WIDE: Final[Options] = {"viewport": {"width": 1400, "height": 900}}
PHONE: Final[Options] = {"viewport": {"width": 320, "height": 800}}
ZOOMED: Final[Any] = {"width": 320, "height": 256}
"""What is left of a window of 1280 by 1024 px at 400 %, in the pixels of the page."""
LOOKS: Final[dict[str, Options]] = {
    "light": WIDE | {"color_scheme": "light"},
    "dark": WIDE | {"color_scheme": "dark"},
    "narrow": PHONE | {"color_scheme": "light"},
    "forced": WIDE | {"forced_colors": "active", "reduced_motion": "reduce"},
    "plain": WIDE | {"java_script_enabled": False},
}
"""What a page must stand, by name: options of a browser context."""


def chromium() -> str:
    """The browser's program: STANCHION_CHROMIUM, or the one on PATH."""
    found = os.environ.get("STANCHION_CHROMIUM") or shutil.which("chromium")
    if not found or not os.access(found, os.X_OK):
        pytest.exit(f"there is no browser at {found!r}: run `make test-browser`, which installs Chromium", returncode=4)
    return found


def launch(playwright: Playwright) -> Browser:
    """Start it, without a window."""
    return playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))


@dataclass
class Visit:
    """A page that somebody has opened. `complaints` fills by itself; `close()` must find none that are not allowed."""

    page: Page
    home: str
    complaints: list[str] = field(default_factory=list)
    answer: Response | None = None
    allowed: str = r"(?!)"

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"an error of a script: {error}"))
        self.page.on("dialog", self._asked)
        self.page.on("request", self._requested)

    def go(self, path: str, status: int = 200) -> Visit:
        """Open a path; an answer of another status than this one is a complaint."""
        if status != 200:
            self.allowed = rf"Failed to load resource: .*\b{status}\b"  # the browser reports each page of an error
        self.answer = self.page.goto(self.home + path, wait_until="load")
        assert self.answer is not None
        if self.answer.status != status:
            self.complaints.append(f"{path} answered {self.answer.status}, not {status}")
        return self

    def probe(self, name: str, *given: Any) -> Any:
        """What one of the functions in probes.js finds on the page."""
        source = SCRIPTS.read_text(encoding="utf-8")
        return self.page.evaluate(f"(given) => {{ {source}\n return {name}(...given); }}", list(given))

    def settled(self) -> Visit:
        """Wait until the page has its stream, if it has one: what comes first may still change it."""
        if self.page.locator("body[data-stream]").count():
            self.page.wait_for_function("document.getElementById('age')?.textContent.match(/Live|Ended/)")
        return self

    def picture(self, name: str) -> Path:
        """A picture of the whole page, for people to look at."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.png"
        self.page.screenshot(path=path, full_page=True, animations="allow", timeout=PATIENCE_MS)
        return path

    def unexpected(self) -> list[str]:
        """Everything that was complained of so far and is not allowed."""
        return [one for one in self.complaints if not re.search(self.allowed, one)]

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console {message.type}: {message.text} ({message.location.get('url')})")

    def _asked(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.home).netloc and not request.url.startswith("data:"):
            self.complaints.append(f"a request to {request.url}")


NOTE_POLICY: Final = """
window.stoppedByPolicy = [];
addEventListener("securitypolicyviolation", (event) => {
  window.stoppedByPolicy.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


def prepared(context: BrowserContext) -> BrowserContext:
    """A context whose pages note what the content policy stops."""
    context.add_init_script(NOTE_POLICY)
    return context


@contextmanager
def visiting(context: BrowserContext, home: str) -> Iterator[Visit]:
    """A page of its own, closed at the end."""
    page = context.new_page()
    try:
        yield Visit(page, home)
    finally:
        page.close()


def sign_in(browser: Browser, home: str, role: str) -> Any:
    """Sign in as people do, by the form; what the browser then keeps."""
    with prepared(browser.new_context(**LOOKS["light"])) as context, visiting(context, home) as visit:
        visit.go("/sign-in?return_to=%2Ftasks")
        visit.page.get_by_label("Name", exact=True).fill(f"the-{role}")
        visit.page.get_by_label("Role, if the name is new").select_option(role)
        visit.page.get_by_role("button", name="Sign in").click()
        visit.page.wait_for_url(f"{home}/tasks")
        assert visit.unexpected() == []
        return context.storage_state()
