"""An outside system for tests: it remembers keys (or not), and does to each request what it was told to."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any

from stanchion.workflow.operation import Call, NotSent, Operation, Refused


class Outside:
    """`script` holds what happens to the next requests; without one they are done and answered.

    done: done, answered. lost: done, the answer is lost. never: not done, the answer is lost. not_sent: certainly not
    done. refused: refused for good. late: done only when `land()` is called. hang: done, never answered.
    """

    def __init__(self, *, knows_keys: bool = True) -> None:
        self.knows_keys = knows_keys
        self.script: deque[str] = deque()
        self.executed: list[tuple[str, Any]] = []
        self.requests = 0
        self.checks = 0
        self.blind = False  # look-ups fail
        self._late: list[tuple[str, Any]] = []
        self._lock = threading.Lock()

    def execute(self, key: str, payload: Any) -> dict[str, Any]:
        with self._lock:
            if not (self.knows_keys and self.times(key)):
                self.executed.append((key, payload))
            return {"id": f"pub-{key[-6:]}"}

    def times(self, key: str) -> int:
        """How often the effect of a key was had."""
        return sum(1 for k, _ in self.executed if k == key)

    def land(self) -> None:
        """Let late requests land."""
        for key, payload in self._late:
            self.execute(key, payload)
        self._late = []

    async def do(self, call: Call, payload: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        match self.script.popleft() if self.script else "done":
            case "done":
                return self.execute(call.key, payload)
            case "lost":
                self.execute(call.key, payload)
                raise ConnectionResetError("the answer is lost")
            case "never":
                raise ConnectionResetError("the request is lost")
            case "not_sent":
                raise NotSent("connection refused")
            case "refused":
                raise Refused("no such channel")
            case "late":
                self._late.append((call.key, payload))
                raise TimeoutError
            case "hang":
                self.execute(call.key, payload)
                await asyncio.sleep(3_600)
        raise AssertionError("unknown word in the script")

    async def check(self, call: Call, payload: dict[str, Any]) -> dict[str, Any] | None:
        self.checks += 1
        if self.blind:
            raise ConnectionRefusedError("look-up is away")
        return {"id": f"pub-{call.key[-6:]}"} if self.times(call.key) else None

    def operation(self, kind: str = "press.publish", **options: Any) -> Operation[dict[str, Any], dict[str, Any]]:
        """Its declaration."""
        given = {"check": self.check, "keeps_key": "1d" if self.knows_keys else None} | options
        return Operation(kind, do=self.do, **given)
