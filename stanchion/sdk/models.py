"""What the clients return: what programs ask for by name, and the whole answer in `data`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

ENDED: Final = frozenset({"completed", "failed", "cancelled", "rejected"})
"""The states in which a task stays."""


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as it stood when it was read; `data` is the answer of the API."""

    id: str
    run_id: str | None
    workflow: str
    version: int | None
    state: str
    data: Mapping[str, Any] = field(repr=False)

    @property
    def ended(self) -> bool:
        """Whether it stays as it is."""
        return self.state in ENDED

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> TaskInfo:
        """From an item of a list, or from the answer for one task."""
        return cls(
            id=str(data.get("task_id") or data.get("id") or ""),
            run_id=data.get("run_id"),
            workflow=str(data.get("workflow") or ""),
            version=data.get("version") if data.get("version") is not None else data.get("workflow_version"),
            state=str(data.get("state") or ""),
            data=data,
        )


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a task; `id` is where a stream resumes after it."""

    id: str
    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list; `next` asks for the part behind it, None at the end."""

    items: tuple[T, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a submission was answered."""

    task_id: str
    run_id: str
    state: str
    duplicate: bool

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Receipt:
        """From the answer of the API, or a reply on Kafka."""
        return cls(str(data["task_id"]), str(data["run_id"]), str(data["state"]), bool(data.get("duplicate", False)))
