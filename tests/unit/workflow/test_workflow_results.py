"""Results: a lazy sequence over the children of a join."""

import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion.workflow import FailedChild, ListReader, ResultRow, Results


class Counter:
    """A reader that makes its rows when they are asked for, and counts the pages."""

    def __init__(self, size: int, failing: int = 0) -> None:
        self.size = size
        self.failing = failing  # every so many-th child failed
        self.pages: list[tuple[int, int]] = []
        self.counted = 0

    def _state(self, idx: int) -> str:
        return "failed" if self.failing and idx % self.failing == 0 else "succeeded"

    def counts(self) -> Mapping[str, int]:
        self.counted += 1
        failed = sum(self._state(idx) == "failed" for idx in range(self.size)) if self.failing else 0
        return {"expected": self.size, "succeeded": self.size - failed, "failed": failed}

    def page(self, after_idx: int, limit: int) -> Sequence[ResultRow]:
        self.pages.append((after_idx, limit))
        upto = min(after_idx + 1 + limit, self.size)
        return [ResultRow(idx, self._state(idx), {"text": "x" * 500 + str(idx)}) for idx in range(after_idx + 1, upto)]


class TestSequence:
    def test_it_reads_in_pages_of_a_thousand(self) -> None:
        """Iterating asks for one page after the other, and for the counts at most once."""
        reader = Counter(2500)
        results: Results[Any] = Results(reader)
        assert len(results) == 2500
        assert sum(1 for _ in results) == 2500
        assert reader.pages == [(-1, 1000), (999, 1000), (1999, 1000)]
        assert (len(results), results.total, reader.counted) == (2500, 2500, 1)

    def test_making_one_reads_nothing(self) -> None:
        """A step that ignores its results pays nothing."""
        reader = Counter(10)
        repr_free: Results[Any] = Results(reader)
        assert (reader.pages, reader.counted) == ([], 0)
        assert repr(repr_free) == "<Results 10 of 10, 0 failed>"

    def test_iterating_a_hundred_thousand_takes_constant_memory(self) -> None:
        """Pages are let go as soon as they are read."""
        results: Results[Any] = Results(Counter(100_000))
        tracemalloc.start()
        try:
            total = sum(len(value["text"]) for value in results)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert total > 50_000_000
        assert peak < 4_000_000

    def test_indexing_reads_only_the_page_it_needs(self) -> None:
        """A page that was passed is found again without reading from the start."""
        reader = Counter(5000)
        results = Results(reader, lambda value, idx: idx)
        assert results[4200] == 4200
        assert len(reader.pages) == 5
        assert [results[index] for index in (4300, 4201, -1)] == [4300, 4201, 4999]
        assert len(reader.pages) == 5
        assert results[1500] == 1500
        assert reader.pages[5:] == [(999, 1000)]

    def test_indexing_skips_failed_children(self) -> None:
        """Index and iteration agree, whatever failed in between."""
        results = Results(Counter(3000, failing=3), lambda value, idx: idx)
        values = list(results)
        assert len(values) == len(results) == 2000
        assert [results[index] for index in (0, 1, 2, 999, 1000, 1999, -2000)] == [
            values[index] for index in (0, 1, 2, 999, 1000, 1999, 0)
        ]
        assert results[10:20:3] == values[10:20:3]
        assert results[::-1][:3] == values[::-1][:3]
        assert (values[7] in results, -1 in results, results.index(values[7])) == (True, False, 7)
        for index in (2000, -2001):
            with pytest.raises(IndexError):
                results[index]

    def test_values_keep_the_number_of_their_item(self) -> None:
        """With failures, position and item number differ; indexed() has both."""
        assert list(Results(Counter(6, failing=2), lambda value, idx: -idx).indexed()) == [(1, -1), (3, -3), (5, -5)]

    def test_an_empty_fan_out(self) -> None:
        """Nothing in it, and it is complete."""
        results: Results[int] = Results.of([])
        assert (len(results), list(results), results.complete, bool(results)) == (0, [], True, False)
        with pytest.raises(IndexError):
            results[0]


class TestPartial:
    def test_failed_and_missing_are_named(self) -> None:
        """Errors with their number; missing are those that neither succeeded nor failed, also without a row."""
        rows = [
            ResultRow(0, "succeeded", "a"),
            ResultRow(1, "failed", error={"code": "E-STEP-01"}),
            ResultRow(2, "cancelled"),
            ResultRow(4, "succeeded", "b"),
        ]
        results: Results[str] = Results(ListReader(rows, expected=6))
        assert list(results.ok) == list(results) == ["a", "b"]
        assert results.failed == [FailedChild(1, {"code": "E-STEP-01"})]
        assert results.missing == [2, 3, 5]
        assert (results.total, results.complete) == (6, False)

    def test_a_complete_one_reads_no_page_to_say_so(self) -> None:
        """Counts are enough to know that nothing failed or is missing."""
        reader = Counter(10)
        results: Results[Any] = Results(reader)
        assert (results.failed, results.missing, results.complete, reader.pages) == ([], [], True, [])

    @given(st.lists(st.sampled_from(["succeeded", "failed", "cancelled", "skipped", None]), max_size=40))
    def test_every_child_is_in_exactly_one_place(self, states: list[str | None]) -> None:
        """ok, failed and missing together are all children, once each."""
        rows = [ResultRow(idx, state, idx) for idx, state in enumerate(states) if state]
        results: Results[int] = Results(ListReader(rows, expected=len(states)))
        ok, failed = [idx for idx, _ in results.indexed()], [child.idx for child in results.failed]
        assert sorted([*ok, *failed, *results.missing]) == list(range(len(states)))
        assert [results[index] for index in range(len(results))] == list(results)


class TestOf:
    def test_it_is_made_by_hand_for_a_test(self) -> None:
        """Values take the numbers that failed and missing ones leave free."""
        results = Results.of(["a", "b", "c"], failed={1: "boom"}, missing=[3])
        assert list(results.indexed()) == [(0, "a"), (2, "b"), (4, "c")]
        assert (results.failed, results.missing, results.total) == ([FailedChild(1, "boom")], [3], 5)
