"""Saved views of the task list: a filter and an order under a name, of one's own or shared in the tenant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import or_, select

from stanchion.contracts import limits
from stanchion.contracts.filters import parse
from stanchion.contracts.ids import new_id
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Unavailable, Unprocessable, register_code

from .queries import rows_of
from .rows import Row, missing
from .task_search import ORDERS

TOO_MANY = register_code(
    "E-VIEW-01",
    "too many saved views",
    status=503,
    meaning=f"A tenant has at most {limits.VIEWS} of them.",
    fix="Remove one: stanchion view list.",
)
TAKEN = register_code(
    "E-VIEW-02",
    "name of a built-in view",
    status=422,
    meaning="The views that everybody has keep their names.",
    fix="Choose another name.",
)


@dataclass(frozen=True, slots=True)
class View:
    """A view that everybody has."""

    name: str
    query: str
    order: str = "newest"


BUILT_IN: Final = (
    View("Problems", "state:failed ended:<7d"),
    View("Waiting for people", "state:awaiting_approval", "oldest"),
    View("Mine", "by:me"),
    View("Slowest now", "is:open", "oldest"),
    View("Not moving", "is:open", "still"),
)

_VIEW = tables.saved_view.c


class SavedViews:
    """Read under any login that lists tasks, changed under the task service's."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def all(self, tenant_id: UUID, owner: str) -> list[Row]:
        """One's own and those that others share, by name."""
        names = ("view_id", "owner", "name", "query", "order", "shared", "created_at", "updated_at")
        found = select(*(_VIEW[name] for name in names)).where(
            _VIEW.tenant_id == tenant_id, or_(_VIEW.owner == owner, _VIEW.shared)
        )
        with self.database.tenant(tenant_id) as connection:
            return rows_of(connection, found.order_by(_VIEW.name, _VIEW.view_id).limit(limits.VIEWS))

    def save(self, tenant_id: UUID, owner: str, name: str, query: str, *, order: str, shared: bool) -> UUID:
        """Keep a view; one's own of this name is changed. Raises Unprocessable for a filter that can't be read."""
        if any(name.casefold() == known.name.casefold() for known in BUILT_IN):
            raise Unprocessable(TAKEN, f"{name!a} is a view that everybody has", where="$.name")
        if order not in ORDERS:
            raise Unprocessable(
                "E-DATA-15", f"there is no order {order[:40]!a}", where="$.order", fix=", ".join(ORDERS)
            )
        text = str(parse(query, "$.query"))
        rows = self.database.call(
            "maintain",
            "SELECT stanchion.save_view(%s, %s, %s, %s, %s, %s, %s)",
            (tenant_id, new_id(), owner, name, text, order, shared),
        )
        if rows[0][0] is None:
            raise Unavailable(TOO_MANY, f"there are {limits.VIEWS} saved views", fix="stanchion view list")
        view_id: UUID = rows[0][0]
        return view_id

    def remove(self, tenant_id: UUID, view_id: UUID, *, actor: str, any_shared: bool = False) -> None:
        """Remove one's own, or with `any_shared` also a shared one of somebody else; raises NotFound."""
        rows = self.database.call(
            "maintain", "SELECT stanchion.remove_view(%s, %s, %s, %s)", (tenant_id, view_id, actor, any_shared)
        )
        if not rows[0][0]:
            raise missing("saved view")
