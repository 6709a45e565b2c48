"""Where objects lie: the layout that a folder and a bucket share, and the names that are let in.

    sha256/ab/cd/abcd…       an object, whole, named by the SHA-256 of its content
    published/NAME           what `put_if_absent` created
    temporary/RANDOM         an upload that has not ended, or whose process has
    scope-NAME/…             the same three again, for what belongs to NAME alone

The two middle levels spread objects over 65,536 directories, so that none grows past what file systems list well.
"""

from __future__ import annotations

import re
import uuid

from stanchion.contracts import limits
from stanchion.errors import Unprocessable

HASHED = "sha256"
PUBLISHED = "published"
TEMPORARY = "temporary"
SCOPE = "scope-"

_KEY = re.compile(rf"{HASHED}/([0-9a-f]{{2}})/([0-9a-f]{{2}})/(\1\2[0-9a-f]{{60}})")
# No part opens with a dot: that keeps out "..", and names that file systems and tools hide.
_PARTS = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


def object_key(sha256: bytes) -> str:
    """The key of an object; Unprocessable E-OBJ-06 unless `sha256` is 32 bytes."""
    if not isinstance(sha256, bytes) or len(sha256) != 32:
        raise Unprocessable("E-OBJ-06", "the name of an object is the 32 bytes of a SHA-256", where="sha256")
    text = sha256.hex()
    return f"{HASHED}/{text[:2]}/{text[2:4]}/{text}"


def hash_of(key: str) -> bytes | None:
    """The SHA-256 that a key stands for; None for what is no object of ours."""
    match = _KEY.fullmatch(key)
    return bytes.fromhex(match.group(3)) if match else None


def published_key(name: str) -> str:
    """The key of a published name; Unprocessable E-OBJ-06 for a name that could lead elsewhere or is too long."""
    if not is_name(name):
        raise Unprocessable(
            "E-OBJ-06",
            f"{name!r:.80} is no name to publish under",
            where="name",
            why=f"names have at most {limits.NAME_CHARACTERS} characters: letters, digits, '.', '_', '-', and '/' "
            "between parts that do not open with a dot",
            fix="use a name such as reports/2030/summary.pdf",
        )
    return f"{PUBLISHED}/{name}"


def scope_key(scope: str) -> str:
    """Where the objects of a scope lie; Unprocessable E-OBJ-06 for what is not one part of a name."""
    if not is_name(scope) or "/" in scope:
        raise Unprocessable("E-OBJ-06", f"{scope!r:.80} is no scope", where="scope", fix="use an id")
    return f"{SCOPE}{scope}"


def temporary_key() -> str:
    """A key that nobody else uses."""
    return f"{TEMPORARY}/{uuid.uuid4().hex}"


def is_name(name: str) -> bool:
    """Whether `name` is parts of letters, digits, '.', '_', '-' between slashes, and not too long."""
    return isinstance(name, str) and len(name) <= limits.NAME_CHARACTERS and _PARTS.fullmatch(name) is not None
