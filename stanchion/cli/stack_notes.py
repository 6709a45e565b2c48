"""What a stack writes under its root for tools that look from outside: `endpoints.json` and `dev-key`."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from stanchion.cli.stack import Stack

ENDPOINTS_NAME: Final = "endpoints.json"
KEY_NAME: Final = "dev-key"
_PORT_NAME: Final = "last-port"


class StackNotes:
    """The files of one root. Both are readable by their owner only: they open the stack to whoever reads them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.writing = threading.RLock()
        """Whoever starts, ends or supervises a service writes the notes, in a thread of its own: one at a time, so that the
        last one to look is the last one to write."""

    def publish(self, stack: Stack) -> None:
        """Write `endpoints.json`: where everything answers, and every service with its process and log."""
        services = stack.services
        document: dict[str, Any] = {
            "v": 1,
            "pid": os.getpid(),
            "tenant": stack.tenant,
            "api_url": _url(stack, "task-service"),
            "page_url": _url(stack, "orchestrator"),
            **stack.endpoints.as_dict(),
            "objects_url": stack.objects_url,
            "services": [
                {
                    "name": service.name,
                    "kind": service.kind,
                    "pid": service.pid,
                    "url": service.url,
                    "log": str(service.log_path),
                }
                for service in services
                if service.record is not None
            ],
        }
        self._write(ENDPOINTS_NAME, json.dumps(document, indent=2) + "\n")
        if document["api_url"]:
            self._write(_PORT_NAME, str(urlsplit(document["api_url"]).port))

    def remove_endpoints(self) -> None:
        """Nothing answers any more."""
        (self._root / ENDPOINTS_NAME).unlink(missing_ok=True)

    def last_port(self) -> int | None:
        """The API's port of the last time, so that bookmarks and shells stay right."""
        try:
            return int((self._root / _PORT_NAME).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def key(self) -> str | None:
        """The key of the last time."""
        try:
            return (self._root / KEY_NAME).read_text(encoding="ascii").strip() or None
        except OSError:
            return None

    def keep_key(self, key: str) -> None:
        """Write the key down."""
        self._write(KEY_NAME, key + "\n")

    def remove_all(self) -> None:
        """Remove what a stack made under its root; what embedded servers made is theirs to remove."""
        for name in (ENDPOINTS_NAME, KEY_NAME, _PORT_NAME):
            (self._root / name).unlink(missing_ok=True)
        for folder in ("run", "logs", "objects"):
            shutil.rmtree(self._root / folder, ignore_errors=True)

    def _write(self, name: str, text: str) -> None:
        draft = self._root / f"{name}.new"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(self._root / name)  # a reader never sees half a file


def _url(stack: Stack, kind: str) -> str | None:
    return next((service.url for service in stack.services if service.kind == kind and service.record), None)
