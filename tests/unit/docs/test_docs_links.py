"""Links between pages lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_kit import CHECKOUT, anchors, links, name_of, pages

OUTSIDE = ("http://", "https://", "mailto:")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_of_a_page_resolve(page: Path) -> None:
    """Every link inside the project names a file that exists, and a heading in it when it says `#`."""
    broken = [f"line {line}: {target}" for line, target in links(page) if not _resolves(page, target)]
    assert not broken, f"{name_of(page)}: {broken}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    """Nobody has to know that a page exists in order to find it."""
    reached: set[Path] = set()
    todo = [CHECKOUT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = (target.partition("#")[0] for _, target in links(page) if not target.startswith(OUTSIDE))
        todo += [(page.parent / target).resolve() for target in targets if target]
    lost = [name_of(page) for page in pages() if page.is_relative_to(CHECKOUT / "docs") and page not in reached]
    assert not lost


def _resolves(page: Path, target: str) -> bool:
    if target.startswith(OUTSIDE):
        return True
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists() or not path.is_relative_to(CHECKOUT):
        return False
    return not anchor or anchor in anchors(path)
