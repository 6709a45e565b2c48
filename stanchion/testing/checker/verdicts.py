"""What a check may say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from .facts import Facts


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that can't have happened: the rule that it breaks, the row, and the facts."""

    check: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.check}: {self.where}: {self.what}"


Said: TypeAlias = tuple[str, str]
"""Where and what; the judge adds the name of the check."""
Check: TypeAlias = Callable[[Facts], Iterator[Said]]
