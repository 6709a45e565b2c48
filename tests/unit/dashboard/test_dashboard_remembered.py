"""Looks that are kept for a moment: one at a time for each key, and no more of them than a number."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from services.orchestrator.dashboard import remembered
from services.orchestrator.dashboard.remembered import Remembered


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hand:
    made = Hand()
    monkeypatch.setattr(remembered, "monotonic", made)
    return made


def counted(looks: list[int], clock: Hand | None = None, takes: float = 0.0) -> Callable[[], int]:
    """A look that counts itself, and takes a while by the clock."""

    def look() -> int:
        looks.append(len(looks))
        if clock is not None:
            clock.now += takes
        return looks[-1]

    return look


def test_it_is_kept_for_a_moment(clock: Hand) -> None:
    """Whoever asks within it gets what was found; afterwards it is looked again."""
    kept, looks = Remembered[int](2.0, 10), list[int]()
    assert [kept.get("k", counted(looks)) for _ in range(3)] == [0, 0, 0]
    clock.now += 2.1
    assert kept.get("k", counted(looks)) == 1


def test_what_is_dear_is_kept_longer(clock: Hand) -> None:
    """Looking takes a tenth of the time at most, and what was found is never older than ten moments."""
    kept, looks = Remembered[int](2.0, 10), list[int]()
    kept.get("k", counted(looks, clock, takes=1.0))
    clock.now += 9.9
    assert kept.get("k", counted(looks)) == 0
    clock.now += 0.2
    assert kept.get("k", counted(looks, clock, takes=1_000.0)) == 1
    clock.now += 20.1
    assert kept.get("k", counted(looks)) == 2


def test_keys_know_nothing_of_each_other(clock: Hand) -> None:
    """One tenant never gets what was found for another one."""
    kept = Remembered[str](2.0, 10)
    assert [kept.get(key, lambda key=key: key) for key in ("a", "b", "a")] == ["a", "b", "a"]  # type: ignore[misc]


def test_only_so_many_are_kept(clock: Hand) -> None:
    """The oldest goes first."""
    kept, looks = Remembered[int](60.0, 2), list[int]()
    for key in ("a", "b", "c"):
        kept.get(key, counted(looks))
    assert kept.get("c", counted(looks)) == 2
    assert kept.get("a", counted(looks)) == 3
    assert len(kept._known) == 2


def test_a_look_that_fails_is_not_kept(clock: Hand) -> None:
    """The next one looks again, and nothing of it stays."""
    kept = Remembered[int](60.0, 2)
    with pytest.raises(ZeroDivisionError):
        kept.get("k", lambda: 1 // 0)
    assert kept.get("k", lambda: 5) == 5
    assert not kept._looking


def test_all_who_ask_at_once_look_once() -> None:
    """Twenty of them wait for the one that looks."""
    kept, looks, found = Remembered[int](60.0, 10), list[int](), list[int]()
    began, go = threading.Event(), threading.Event()

    def slow() -> int:
        began.set()
        assert go.wait(10)
        return counted(looks)()

    threads = [threading.Thread(target=lambda: found.append(kept.get("k", slow))) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert began.wait(10)
    go.set()
    for thread in threads:
        thread.join(10)
    assert (found, looks) == ([0] * 20, [0])
