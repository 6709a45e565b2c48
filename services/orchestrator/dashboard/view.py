"""What a view is: a function from a question to what is shown. Page, live stream and twin lines all come of its answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from stanchion.contracts import ids, limits
from stanchion.errors import Unprocessable

from .door import Visitor
from .reads import Reads
from .task_api import TaskApi


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: who asks, what stands in the path and in the query, and where to look."""

    visitor: Visitor
    reads: Reads
    path: Mapping[str, str]
    query: Mapping[str, str]
    api: TaskApi
    """Where content is read, in the visitor's name: the database has none."""

    def id(self, name: str, prefix: str) -> UUID:
        """An id of the path; raises NotFound or Unprocessable for what is none."""
        return ids.parse(self.path[name], prefix)

    def chosen_id(self, name: str, prefix: str) -> UUID | None:
        """An id of the query, if it is there."""
        text = self.query.get(name)
        return None if text is None else ids.parse(text, prefix)

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """A word of the query, if it is there; raises Unprocessable E-DATA-15."""
        text = self.query.get(name)
        if text is not None and text not in allowed:
            raise Unprocessable("E-DATA-15", f"{text[:40]!a} is no {name}", where=f"query.{name}")
        return text

    def text(self, name: str, most: int = limits.NAME_CHARACTERS) -> str | None:
        """A short text of the query; raises Unprocessable E-DATA-15."""
        text = self.query.get(name) or None
        if text is not None and (len(text) > most or not text.isprintable()):
            raise Unprocessable("E-DATA-15", f"this is no {name}", where=f"query.{name}")
        return text

    def number(self, name: str, least: int, most: int) -> int | None:
        """A whole number of the query; raises Unprocessable E-DATA-15."""
        text = self.query.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.lstrip("-").isdigit() and len(text) < 20 and least <= int(text) <= most):
            raise Unprocessable("E-DATA-15", f"{text[:20]!a} is no {name}", where=f"query.{name}")
        return int(text)

    def link(self, **changes: str | None) -> str:
        """The query with some parameters changed (None: left out), as it stands in a link."""
        return query_text(**(dict(self.query) | changes))


@dataclass(frozen=True, slots=True)
class Twin:
    """The same on the command line and in the API."""

    command: str
    request: str = ""


@dataclass(slots=True)
class Shown:
    """An answer. `folder` has `page.html` and one template for each region that is kept up to date.

    `run_id` names the run whose events say that something changed; without one it is looked at every `every` seconds.
    """

    folder: str
    title: str
    regions: tuple[str, ...]
    context: dict[str, Any]
    twin: Twin
    section: str
    crumbs: tuple[tuple[str, str], ...] = ()
    run_id: UUID | None = None
    every: float = 2.0
    ended: bool = False
    still: bool = False
    """It is not of the kind that changes while somebody looks at it: with `ended`, no stream, and nothing has ended."""
    raw: dict[str, str] = field(default_factory=dict)
    """What a script of the page draws, in pieces that change each by itself; it stands in the stream beside the regions."""
    said: str = ""
    """One sentence on how it stands, for those who don't see the page."""


class Elsewhere(Exception):  # noqa: N818 - no error: the way to another page
    """What a view raises where another page has the answer; `path` is one of this site."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


View = Callable[[Asked], Shown]


@dataclass(frozen=True, slots=True)
class Page:
    """Where a view is, what right it needs, and which parameters it knows."""

    path: str
    view: View
    right: str = "task.read"
    query: tuple[str, ...] = ()
    personal: bool = False
    """It differs from person to person, so that looks at it are not shared."""

    def shared_as(self, visitor: Visitor, path: Mapping[str, str], query: Mapping[str, str]) -> Hashable:
        """Who sees the same sees it of one look."""
        whose = visitor.name if self.personal else None
        return (self.path, visitor.tenant_id, visitor.scopes, whose, tuple(path.items()), tuple(sorted(query.items())))


@dataclass(frozen=True, slots=True)
class Looked:
    """A view as it was at one moment: what is shown, and its regions as HTML."""

    shown: Shown
    regions: dict[str, str]
    hashes: dict[str, str] = field(default_factory=dict)
    revision: str = ""


def query_text(**given: Any) -> str:
    """A query, without what is empty."""
    return urlencode({name: value for name, value in given.items() if value not in (None, "")})
