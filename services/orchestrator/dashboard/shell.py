"""What stands around every page: where one can go, what needs people, and how the page looks to this visitor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select
from starlette.requests import Request

from stanchion.contracts.actions import ACTIONS
from stanchion.db import tables
from stanchion.errors import StanchionError

from .door import Visitor
from .reads import Reads
from .remembered import Remembered

LOOK_COOKIE: Final = "stanchion_look"
DONE_COOKIE: Final = "stanchion_done"
"""What was just done, for the page that comes next."""
COUNTED: Final = 1_000
CHOICES: Final = {
    "theme": ("system", "light", "dark"),
    "zone": ("utc", "local"),
    "density": ("cosy", "compact"),
    "keys": ("on", "off"),
}
"""How pages can look; the first is what they look like to whoever said nothing."""


@dataclass(frozen=True, slots=True)
class Section:
    """A place in the bar. `key` is what is typed after g."""

    name: str
    title: str
    path: str
    key: str
    problem: str = ""
    right: str = "task.read"


SECTIONS: Final = (
    Section("home", "Home", "/", "h"),
    Section("tasks", "Tasks", "/tasks", "t"),
    Section("approvals", "Approvals", "/approvals", "a", "approvals"),
    Section("operations", "Operations", "/operations", "o", "operations"),
    Section("workers", "Workers", "/workers", "w", right="worker.read"),
    Section("pipeline", "Outbox & lag", "/pipeline", "l", right="worker.read"),
    Section("dead", "Dead letters", "/dead-letters", "d", "dead"),
    Section("records", "Records", "/artifacts", "r"),
)


@dataclass(frozen=True, slots=True)
class Taste:
    """How somebody wants pages to look; kept in a cookie that the server reads, so that nothing flashes."""

    theme: str = "system"
    zone: str = "utc"
    density: str = "cosy"
    keys: str = "on"

    @classmethod
    def of(cls, request: Request) -> Taste:
        """The taste of a request; what is not known counts as not said."""
        said = dict(part.split(":", 1) for part in request.cookies.get(LOOK_COOKIE, "").split(".") if ":" in part)
        taste = cls()
        for name, value in said.items():
            taste = taste.with_(name, value) if name in CHOICES else taste
        return taste

    def with_(self, name: str, value: str) -> Taste:
        """With one of them changed; a value that is not known changes nothing."""
        known = value if value in CHOICES[name] else getattr(self, name)
        return replace(self, **{name: known})

    @property
    def cookie(self) -> str:
        """As the cookie keeps it."""
        return ".".join(f"{name}:{getattr(self, name)}" for name in self.__slots__)


class Shell:
    """The bar's numbers: problems, never totals; a moment old, and the same look for a whole tenant."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self._counts: Remembered[dict[str, int]] = Remembered(2.0, 200)

    def around(self, request: Request, visitor: Visitor) -> dict[str, Any]:
        """What the frame of every page shows."""
        return {
            "visitor": visitor,
            "taste": Taste.of(request),
            "sections": [section for section in SECTIONS if visitor.may(section.right)],
            "problems": self.problems(visitor),
            "done": ACTIONS.get(request.cookies.get(DONE_COOKIE, "").partition("/")[0]),
            "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        }

    def problems(self, visitor: Visitor) -> dict[str, int]:
        """How many of each kind need people; empty when nobody can tell: the bar must not blank a page."""
        try:
            return self._counts.get(visitor.tenant_id, lambda: self._count(visitor.tenant_id))
        except StanchionError:
            return {}

    def _count(self, tenant_id: UUID) -> dict[str, int]:
        operation, approval, letter = tables.operation.c, tables.approval.c, tables.dead_letter.c
        kinds = {
            "approvals": select(approval.approval_id).where(approval.state == "requested"),
            "dead": select(letter.dead_letter_id).where(letter.redriven_at.is_(None)),
            "operations": select(operation.operation_id).where(operation.state == "unknown"),
        }
        with self.reads.database.tenant(tenant_id) as connection:
            return {name: len(connection.execute(kind.limit(COUNTED)).all()) for name, kind in kinds.items()}
