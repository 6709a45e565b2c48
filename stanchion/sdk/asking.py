"""How the database is asked on behalf of an attempt: at once, or with patience while it is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Ask", "at_once"]

T = TypeVar("T")


class Ask(Protocol):
    """How the database is asked: at once, or with patience while it is away."""

    def __call__(self, call: Callable[[], T], /) -> T:
        """What `call` returns."""
        ...


def at_once(call: Callable[[], T], /) -> T:
    """Ask once; Unavailable is the caller's."""
    return call()
