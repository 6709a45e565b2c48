"""The reference to one version of an artifact, as it travels between steps and stands in results."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Artifact"]


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version of an artifact: where its content is, and what it must be. Its content never changes.

    `id` is the version (`art_…`), `number` counts the versions of a name in its task from 1, `sha256` is in hex, `size`
    in bytes. A step returns it, or takes it as an argument, like any other value; `ctx.open` reads the content.
    """

    id: str
    name: str
    number: int
    sha256: str
    size: int
    media_type: str
