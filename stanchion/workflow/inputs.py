"""The input of a step as it is stored: its own, or what was given later beside what it had before."""

from __future__ import annotations

from typing import Any, Final

from .anatomy import opens_scope
from .graph import Node

GIVEN: Final = "$given"
"""In the input of a step: what Again carried back to it, or what a person gave it, beside the input that it had before."""


def is_wrapped(node: Node, round_: int, value: Any) -> bool:
    """Whether it is such an input. A child's item may look like one: in its first round it never is."""
    return (round_ > 0 or not opens_scope(node)) and isinstance(value, dict) and GIVEN in value


def original(node: Node, round_: int, value: Any) -> Any:
    """The input before anything was given."""
    return value.get("input") if is_wrapped(node, round_, value) else value
