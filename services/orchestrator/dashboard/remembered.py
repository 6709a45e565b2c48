"""Answers that are a moment old: watchers must not cost a query each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from stanchion.runtime.clock import monotonic

T = TypeVar("T")


class Shared(Generic[T]):
    """One look for all who ask at the same time; nobody gets one that began before they asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[Hashable, _Turn[T]] = {}

    def get(self, key: Hashable, look: Callable[[], T]) -> T:
        """The answer for `key`, from `look` or from somebody's who began to look meanwhile."""
        asked = monotonic()
        with self._lock:
            turn = self._turns.setdefault(key, _Turn())
            turn.waiting += 1
        try:
            with turn.lock:
                if turn.answer is not None and turn.began >= asked:
                    return turn.answer
                turn.began = monotonic()
                turn.answer = look()
                return turn.answer
        finally:
            with self._lock:
                turn.waiting -= 1
                if not turn.waiting:
                    self._turns.pop(key, None)


class _Turn(Generic[T]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting = 0
        self.began = 0.0
        self.answer: T | None = None


class Remembered(Generic[T]):
    """One look at a time for each key; a look that is dear is kept for longer, so that it takes a tenth of a core at most."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds = seconds
        self.most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._looking: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, look: Callable[[], T]) -> T:
        """The answer for `key`, from `look` when there is none that is young enough."""
        with self._lock:
            turn = self._looking.setdefault(key, threading.Lock())
        try:
            with turn:
                with self._lock:
                    found = self._known.get(key)
                if found is not None and found[0] > monotonic():
                    return found[1]
                began = monotonic()
                answer = look()
                now = monotonic()
                keep = max(self.seconds, min((now - began) * 10, self.seconds * 10))
                with self._lock:
                    self._known[key] = (now + keep, answer)
                    self._known.move_to_end(key)
                    while len(self._known) > self.most:
                        self._known.popitem(last=False)
                return answer
        finally:
            with self._lock:
                if not turn.locked():
                    self._looking.pop(key, None)
