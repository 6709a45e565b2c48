"""Tokens of sessions that the command line has opened, one for each API, in a file of the user's own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def login_file(folder: Path) -> Path:
    """Where they are kept."""
    return folder / "logins.json"


def token_for(folder: Path, url: str) -> str | None:
    """The token of the session at an API, or None."""
    return _read(folder).get(url.rstrip("/"))


def keep_token(folder: Path, url: str, token: str | None) -> None:
    """Keep a token, or (None) forget the one that is kept; the file is its owner's alone."""
    known = _read(folder)
    known.pop(url.rstrip("/"), None)
    if token is not None:
        known[url.rstrip("/")] = token
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = login_file(folder)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(known, file)
    draft.replace(path)


def _read(folder: Path) -> dict[str, str]:
    try:
        found = json.loads(login_file(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, Mapping):
        return {}
    return {str(url): token for url, token in found.items() if isinstance(token, str)}
