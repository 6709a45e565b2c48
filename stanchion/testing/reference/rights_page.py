"""rights.md: what a key may do, and the roles that bundle rights."""

from __future__ import annotations

from stanchion.authority.keys import ROLES, SCOPES

from .markdown import code, page, table

_INTRO = """
A key of the HTTP API belongs to one tenant and has rights. A role is a bundle of them for the moment when the key is
made: the key stores the rights, so that a changed bundle changes no key. A person has a role, and the rights that it
holds at the moment, maybe with `payload.read` beside it. A signing key for Kafka commands has rights of the same names.
"""


def rights_page() -> str:
    """The page of rights and roles."""
    roles = list(ROLES)
    rows = [
        (code(scope), meaning, *("yes" if scope in ROLES[role] else "" for role in roles))
        for scope, meaning in SCOPES.items()
    ]
    return page("Rights", _INTRO, table(("right", "allows to", *roles), rows))
