"""What a shell completes: ids of tasks and names of workflows, asked from the API and kept for a moment.

A completion that is slow is worse than none: one short look, kept for `KEPT_SECONDS`, and silence when it fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from stanchion.cli.session import Session

KEPT_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 1.0
_SHOWN: Final = 50


def tasks(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The newest tasks, with what they are."""
    found = _kept("tasks", lambda client: client.page("/v1/tasks", {"limit": _SHOWN}).items)
    items = [CompletionItem(one["task_id"], help=f"{one['workflow']} {one['state']}") for one in found]
    return [one for one in [CompletionItem("@last"), *items] if str(one.value).startswith(typed)]


def workflows(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The names of registered workflows."""
    found = _kept("workflows", lambda client: client.page("/v1/workflows", {"limit": 1_000}).items)
    return [CompletionItem(name) for name in dict.fromkeys(one["name"] for one in found) if name.startswith(typed)]


def _kept(kind: str, look: Callable[[Any], Any]) -> list[dict[str, Any]]:
    from stanchion.cli.connections import Connections, profile_folder
    from stanchion.errors import StanchionError
    from stanchion.sdk.client import Client

    with suppress(StanchionError, OSError, ValueError, KeyError):
        connections = Connections(Session())
        path = profile_folder() / f"completion-{kind}.json"
        if (known := _fresh(path, connections.api_url)) is not None:
            return known
        with Client(connections.api_url, connections.api_key or "", timeout=_LOOK_SECONDS) as client:
            found = [dict(one) for one in look(client)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"url": connections.api_url, "at": time.time(), "items": found}), encoding="utf-8")
        return found
    return []


def _fresh(path: Path, url: str) -> list[dict[str, Any]] | None:
    if not path.is_file():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    if kept["url"] != url or not 0 <= time.time() - kept["at"] < KEPT_SECONDS:
        return None
    items: list[dict[str, Any]] = kept["items"]
    return items
