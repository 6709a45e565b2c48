"""The API of one invocation: a client, ids that may be cut short, and the memory of what was submitted last."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import click

from stanchion.cli.connections import Connections, profile_folder
from stanchion.cli.session import Session
from stanchion.contracts import ids
from stanchion.errors import NotFound, Unprocessable
from stanchion.sdk.client import Client

LAST: Final = "@last"
_REMEMBERED: Final = 50
_BODY: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{0,25}")
_SHORTEST: Final = 4
_ID_LENGTH: Final = 26
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Api:
    """Connects on first use."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.connections = Connections(session)
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The client of this invocation."""
        if self._client is None:
            url, key = self.connections.api_url, self.connections.api_key
            self._client = Client(url, key or "", timeout=self.session.timeout, agent="stanchion-cli")
            if (context := click.get_current_context(silent=True)) is not None:
                context.call_on_close(self._client.close)
        return self._client

    # -- ids --

    def task_id(self, text: str) -> str:
        """A task's id from what a person typed: the whole, its beginning, or `@last`.

        Raises NotFound E-FIND-01, and Unprocessable E-CLI-01 for a beginning that fits several.
        """
        if text == LAST:
            return self.last()
        if is_whole(text, ids.TASK):
            return text
        body = self._beginning(text, ids.TASK)
        # Newest first, from behind the highest id that fits: a cursor names what was seen before the page.
        highest = ids.parse(f"{ids.TASK}_{body.ljust(_ID_LENGTH, 'Z')}", ids.TASK)
        after = UUID(int=min(highest.int + 1, 2**128 - 1))
        page = self.client.list(limit=2, cursor=ids.public(ids.TASK, after))
        return self._only(text, [info.id for info in page.items if info.id.upper().startswith(f"TSK_{body}")])

    def find(self, text: str, prefix: str, items: Callable[[], Iterable[Any]], key: str) -> str:
        """An id of another kind, from a listing; the whole is taken as it is."""
        if is_whole(text, prefix):
            return text
        body = self._beginning(text, prefix)
        found = [str(item[key]) for item in items()]
        return self._only(text, [one for one in found if one.upper().startswith(f"{prefix.upper()}_{body}")])

    def task_ids(self, texts: Sequence[str]) -> list[str]:
        """Several tasks, each once, in the order given."""
        return list(dict.fromkeys(self.task_id(text) for text in texts))

    def any_id(self, text: str) -> str:
        """An id of any kind; only a task's may be cut short."""
        kind = text.partition("_")[0].lower()
        return text if kind in ids.PREFIXES - {ids.TASK} or kind == "bar" else self.task_id(text)

    # -- the last one --

    def last(self) -> str:
        """The task that was submitted last to this API; raises NotFound E-FIND-01."""
        found = _read_last().get(self.connections.api_url)
        if found is None:
            raise NotFound("E-FIND-01", "nothing was submitted from here yet", where=LAST, fix="stanchion task list")
        return found

    def remember(self, task_id: str) -> None:
        """Keep the id for `@last`; a folder that can't be written only costs that."""
        known = _read_last()
        known.pop(self.connections.api_url, None)
        known[self.connections.api_url] = task_id
        kept = dict(list(known.items())[-_REMEMBERED:])
        with suppress(OSError):
            path = _last_path()
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".new")
            draft.write_text(json.dumps(kept), encoding="utf-8")
            draft.replace(path)

    def _beginning(self, text: str, prefix: str) -> str:
        kind, underscore, body = text.partition("_")
        if underscore and kind.lower() != prefix:
            raise Unprocessable(
                "E-DATA-11", f"{text[:40]!a} is no id of the kind {prefix}_", fix="copy the id as shown"
            )
        body = (body if underscore else kind).upper().translate(str.maketrans("ILO", "110"))
        if not _BODY.fullmatch(body) or len(body) < _SHORTEST:
            raise Unprocessable(
                "E-DATA-11",
                f"{text[:40]!a} is neither an id nor the beginning of one",
                why=f"a beginning has {_SHORTEST} characters or more, without {prefix}_",
                fix="copy the id as shown, or use @last",
            )
        return body

    def _only(self, text: str, found: list[str]) -> str:
        if not found:
            raise NotFound("E-FIND-01", f"nothing begins with {text[:40]!a}", fix="stanchion task list")
        if len(found) > 1:
            raise Unprocessable(
                "E-CLI-01", f"several ids begin with {text[:40]!a}", why=", ".join(found[:3]), fix="type more of it"
            )
        return found[0]


def is_whole(text: str, prefix: str) -> bool:
    """Whether a text is an id in full."""
    kind, _, body = text.partition("_")
    return bool(_UUID.fullmatch(text)) or (kind.lower() == prefix and len(body) == _ID_LENGTH)


def _last_path() -> Path:
    return profile_folder() / "last.json"


def _read_last() -> dict[str, str]:
    try:
        found = json.loads(_last_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(url): task_id for url, task_id in found.items() if isinstance(task_id, str)}
