"""Every view in the looks that break pages: a phone, 400 % zoom, forced colours with no movement, and without scripts."""

from __future__ import annotations

import pytest
from browser_kit import ZOOMED
from browser_views import VIEWS, View
from browser_visits import Visits

every_view = pytest.mark.parametrize("view", VIEWS, ids=str)


@every_view
def test_it_fits_a_phone_and_stands_a_zoom_of_400_percent(view: View, visits: Visits) -> None:
    """At 320 px only boxes scroll sideways, and targets are large enough; nor does it need more height than is left of
    a window of 1280 by 1024 px."""
    visit = visits(view, "narrow")
    assert visit.probe("tooWide") == []
    assert visit.probe("tooSmall") == []
    visit.picture(f"{view.name} narrow")
    visit.page.set_viewport_size(ZOOMED)
    assert visit.probe("tooWide") == []


@every_view
def test_forced_colours_and_no_movement(view: View, visits: Visits) -> None:
    """Each state keeps its shape, in a colour that differs from the ground, beside its word; nothing moves."""
    visit = visits(view, "forced")
    assert visit.page.evaluate("matchMedia('(forced-colors: active) and (prefers-reduced-motion: reduce)').matches")
    assert visit.probe("unseen") == []
    assert visit.probe("wordless") == []
    assert visit.probe("moving") == []


@every_view
def test_it_works_without_scripts(view: View, visits: Visits) -> None:
    """The page comes complete from the server, with ways to go on from it."""
    visit = visits(view, "plain")
    found = visit.probe("content")
    assert found["h1"]
    assert found["characters"] > 20
    assert found["ways"] > 0
    assert visit.page.locator("main table, main form, main .empty, main p").count() > 0
