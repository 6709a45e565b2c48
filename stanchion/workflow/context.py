"""The mark by which a step's first parameter is known as its context."""

from __future__ import annotations

from typing import Any, Literal, Protocol

__all__ = ["Ctx", "is_context"]

_NAMES = {"Ctx", "Context"}


class Ctx(Protocol):
    """What a step gets as its first argument; the class with the methods is the SDK's, which carries this mark."""

    @property
    def __stanchion_context__(self) -> Literal[True]:
        """Always True."""
        ...


def is_context(annotation: Any) -> bool:
    """True for a context class, and for its name as text (under TYPE_CHECKING it can't be resolved)."""
    if isinstance(annotation, str):
        return annotation.strip().strip("'\"").rpartition(".")[2] in _NAMES
    return isinstance(annotation, type) and hasattr(annotation, "__stanchion_context__")
