"""Messages that could not be handled and were parked, with what can be seen of them, and the way back to their topic."""

from __future__ import annotations

from typing import Final

from stanchion.contracts import ids

from ..view import Asked, Page, Shown, Twin

SHOWN: Final = 50
BYTES_SHOWN: Final = 4_096
HEX_COLUMNS: Final = 16


def show(asked: Asked) -> Shown:
    """The parked messages of the tenant, the newest first."""
    before = asked.chosen_id("before", ids.DEAD_LETTER)
    rows = asked.reads.dead_letters.page(asked.visitor.tenant_id, limit=SHOWN + 1, before=before)
    more = ids.public(ids.DEAD_LETTER, rows[SHOWN - 1]["dead_letter_id"]) if len(rows) > SHOWN else None
    return Shown(
        "letters",
        "Dead letters",
        ("list",),
        {"rows": rows[:SHOWN], "before": before, "next": more},
        Twin("stanchion dead list", "GET /v1/dead-letters"),
        "dead",
        every=5.0,
    )


def letter(asked: Asked) -> Shown:
    """One parked message: where it was, why it was parked, its headers, and its content for those who may see it."""
    letter_id = asked.id("letter_id", ids.DEAD_LETTER)
    found = asked.reads.dead_letters.get(asked.visitor.tenant_id, letter_id)
    ded = ids.public(ids.DEAD_LETTER, letter_id)
    shown = asked.visitor.sees_payloads
    return Shown(
        "letter",
        f"Dead letter {found.code}",
        ("head", "content"),
        {
            "letter": found,
            "ded": ded,
            "key": as_text(found.key) if shown else None,
            "value": as_text(found.value) if shown else None,
            "dump": as_hex(found.value) if shown else [],
            "size": len(found.value or b""),
            "most": BYTES_SHOWN,
        },
        Twin(f"stanchion dead show {ded}", f"GET /v1/dead-letters/{ded}"),
        "dead",
        (("Dead letters", "/dead-letters"),),
        every=5.0,
    )


def as_text(value: bytes | None) -> str:
    """Bytes as text, whatever they are; what is no text shows as signs of replacement."""
    return (value or b"")[:BYTES_SHOWN].decode("utf-8", "replace")


def as_hex(value: bytes | None) -> list[tuple[str, str, str]]:
    """Bytes in rows: the place, sixteen bytes in hex, and the same as characters where they have one."""
    shown = (value or b"")[:BYTES_SHOWN]
    rows = (shown[n : n + HEX_COLUMNS] for n in range(0, len(shown), HEX_COLUMNS))
    return [
        (f"{n * HEX_COLUMNS:06x}", row.hex(" "), "".join(chr(b) if 32 <= b < 127 else "." for b in row))
        for n, row in enumerate(rows)
    ]


PAGES: Final = (
    Page("/dead-letters", show, query=("before",)),
    Page("/dead-letters/{letter_id}", letter),
)
