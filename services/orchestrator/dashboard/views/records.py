"""What stands beside the work: the audit log, the words, the keys, and the way to whatever an id names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from stanchion.authority.audit import AuditFilter
from stanchion.contracts import ids, limits
from stanchion.contracts.filters import Filter, Term
from stanchion.contracts.words import WORDS
from stanchion.errors import Unprocessable

from ..shell import SECTIONS
from ..targets import PLACES
from ..view import Asked, Page, Shown, Twin, query_text

SHOWN: Final = 50
MATCHES: Final = 20


@dataclass(frozen=True, slots=True)
class Key:
    """What a key does."""

    key: str
    does: str


KEYS: Final = (
    Key("/", "find an id or a text"),
    *(Key(f"g {section.key}", f"go to {section.title}") for section in SECTIONS),
    Key("j k", "to the next and the previous row"),
    Key("Enter", "open what has the focus"),
    Key("f", "filter"),
    Key("n N", "to the next and the previous problem"),
    Key("y", "to why it does not move"),
    Key("v", "from a picture to the table that says the same"),
    Key("arrows", "in a graph along its edges, in the cells of a fan-out from cell to cell"),
    Key("+ - Esc", "in the cells of a fan-out: nearer, farther, all of them"),
    Key("r", "retry…, where that can be done"),
    Key("c", "cancel…, where that can be done"),
    Key("a x m", "approve…, reject…, to the comment, at a question"),
    Key("p", "pause what is live, or go on"),
    Key("t", "times in UTC, or in your zone"),
    Key("Esc", "close, or leave a field"),
    Key("?", "this list"),
)
"""Every key; none does harm without asking first, and single ones can be switched off in the menu."""


def audit(asked: Asked) -> Shown:
    """What people and keys did, the newest first."""
    wanted = AuditFilter(asked.text("actor"), asked.text("action"), asked.text("target"))
    before = asked.number("before", 0, 2**63 - 1)
    rows = asked.reads.audit.page(asked.visitor.tenant_id, wanted, limit=SHOWN + 1, before=before)
    more = rows[SHOWN - 1]["audit_id"] if len(rows) > SHOWN else None
    given = {name: getattr(wanted, name) for name in ("actor", "action", "target")}
    return Shown(
        "audit",
        "Audit",
        ("list",),
        {"rows": rows[:SHOWN], "before": before, "next": more, "given": given},
        Twin("stanchion audit list", f"GET /v1/audit?{query_text(**given)}"),
        "audit",
        every=5.0,
    )


def words(_asked: Asked) -> Shown:
    """The glossary."""
    return _still("words", "Words", {"words": WORDS})


def keyboard(_asked: Asked) -> Shown:
    """What the keys do."""
    return _still("keyboard", "Keyboard", {"keys": KEYS})


def find(asked: Asked) -> Shown:
    """Whatever an id names, and tasks whose goal, key or id has a text."""
    text = (asked.text("q", limits.NAME_CHARACTERS) or "").strip()
    return _still("find", f"Find {text}", {"text": text, "place": place_of(text), "rows": _matches(asked, text)})


def place_of(text: str) -> str | None:
    """The page of what an id names; None for what is no id."""
    prefix = text.partition("_")[0].lower()
    if prefix not in PLACES or "_" not in text:
        return None
    try:
        return PLACES[prefix] + ids.public(prefix, ids.parse(text, prefix))
    except Unprocessable:
        return None


def _matches(asked: Asked, text: str) -> list[dict[str, Any]]:
    if not text or place_of(text):
        return []
    search, tenant_id = asked.reads.search, asked.visitor.tenant_id
    wanted = Filter((Term("", (text,)),)).settled(asked.visitor.name, search.now(tenant_id))
    return search.page(tenant_id, wanted, limit=MATCHES, since=search.since(tenant_id, wanted)).items


def _still(folder: str, title: str, context: dict[str, Any]) -> Shown:
    return Shown(folder, title, ("list",), context, Twin(""), "home", (("Home", "/"),), ended=True)


PAGES: Final = (
    Page("/audit", audit, "audit.read", ("actor", "action", "target", "before")),
    Page("/words", words),
    Page("/keyboard", keyboard),
    Page("/find", find, query=("q",)),
)
