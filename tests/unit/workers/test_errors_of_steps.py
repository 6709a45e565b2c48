"""Errors of user code are told and judged, whatever they do when they are looked at."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from services.workers.executor import described
from stanchion.errors import Rejected, Unavailable
from stanchion.workflow import Ctx, Workflow


class MuteError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NotedError(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise KeyboardInterrupt


class FalseError(Exception):
    @property
    def __class__(self) -> Any:
        raise SystemExit(3)

    @__class__.setter
    def __class__(self, _kind: Any) -> None:
        raise SystemExit(3)


class Renamed(type):
    @property
    def __name__(cls) -> Any:
        raise SystemExit(3)


class NamelessError(Exception, metaclass=Renamed):
    pass


class MuteRejected(Rejected):
    def __init__(self) -> None:
        super().__init__("E-MINE-01", MuteError())  # type: ignore[arg-type]


class Picky(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        raise SystemExit(3)


class PickyError(Exception, metaclass=Picky):
    pass


def nested(levels: int) -> BaseException:
    error: Exception = ValueError("bad")
    for _ in range(levels):
        error = ExceptionGroup("group", [error])
    return error


def chained(length: int) -> BaseException:
    error = ValueError("bad")
    for _ in range(length):
        after = ValueError("bad")
        after.__cause__ = error
        error = after
    return error


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (MuteError, "MuteError"),
        (NotedError, "NotedError"),
        (FalseError, "FalseError"),
        (NamelessError, "NamelessError"),
        (MuteRejected, "MuteRejected"),
        (lambda: nested(3_000), "ExceptionGroup"),
        (lambda: chained(5_000), "ValueError"),
    ],
    ids=["mute", "noted", "false", "nameless", "rejected", "nested", "chained"],
)
def test_any_error_can_be_told(make: Callable[[], BaseException], name: str) -> None:
    """By its type, and with as much of it as can be had; it is never raised again by that."""
    told = described(make())
    assert told["code"] == "E-STEP-27"
    assert told["what"].startswith(f"{name}: ")
    assert told["type"] == name


def test_any_error_can_be_judged() -> None:
    """One whose class can't say what belongs to it may be tried again: the step's attempts end that."""
    wf = Workflow("judged")

    @wf.step(retry_on=(PickyError,))
    def only(ctx: Ctx) -> int:
        return 1

    assert only.retryable(ValueError("bad")) is True
    assert only.retryable(SystemExit(3)) is False


@pytest.mark.parametrize(
    ("asked", "shown"),
    [(5, 5), (0.5, 0.5), (math.inf, 3_600), (10**400, 3_600), (math.nan, None), (-1.0, None), ("5", None)],
)
def test_an_asked_wait_is_bounded(asked: object, shown: object) -> None:
    """A host, or whoever raises the error, may ask for any time; the next attempt comes within an hour of its own delay."""
    assert described(Unavailable("E-OP-09", "not done", wait_seconds=asked)).get("wait_seconds") == shown
