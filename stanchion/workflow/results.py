"""What a join hands out: a lazy sequence of its children's results, read in pages, so that 100,000 fit in no memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, overload

from stanchion.contracts import limits

__all__ = ["FailedChild", "ListReader", "ResultReader", "ResultRow", "Results"]

T_co = TypeVar("T_co", covariant=True)
V = TypeVar("V")
_PAGE: Final = limits.PAGE_ROWS_MAX


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One child as the store has it: its number (from 0), state, JSON value if it succeeded, error if it failed."""

    idx: int
    state: str
    value: Any = None
    error: Any = None


@dataclass(frozen=True, slots=True)
class FailedChild:
    """A failed child: its number (from 0) in the fan-out and its error as stored."""

    idx: int
    error: Any


class ResultReader(Protocol):
    """Where Results reads from. The set of rows must not change while it is read: what a barrier took in is fixed."""

    def counts(self) -> Mapping[str, int]:
        """How many children in each state, and `expected`: how many there are in all."""
        ...

    def page(self, after_idx: int, limit: int) -> Sequence[ResultRow]:
        """At most `limit` rows with idx > `after_idx` (first page: -1), by idx; empty at the end."""
        ...


class ListReader:
    """Rows that are in memory already: for tests of a step's function."""

    def __init__(self, rows: Iterable[ResultRow], expected: int | None = None) -> None:
        self.rows = sorted(rows, key=lambda row: row.idx)
        self.expected = (self.rows[-1].idx + 1 if self.rows else 0) if expected is None else expected

    def counts(self) -> Mapping[str, int]:
        """How many rows in each state, and `expected`."""
        found = {"expected": self.expected}
        for row in self.rows:
            found[row.state] = found.get(row.state, 0) + 1
        return found

    def page(self, after_idx: int, limit: int) -> Sequence[ResultRow]:
        """At most `limit` rows behind `after_idx`."""
        start = bisect_right(self.rows, after_idx, key=lambda row: row.idx)
        return self.rows[start : start + limit]


def _as_it_is(value: Any, idx: int) -> Any:  # noqa: ARG001 - the signature of a decoder
    return value


class Results(Sequence[T_co], Generic[T_co]):
    """The values of the children that succeeded, in the order of their items; `len` counts these.

    `failed` and `missing` name the others (`missing`: cancelled, skipped, or not there when the join opened), `total`
    counts all. `indexed()` gives each value with the number of its item. Values are read in pages of 1,000 and not
    kept: iterating takes constant memory, and each iteration reads again.
    """

    def __init__(self, reader: ResultReader, decode: Callable[[Any, int], T_co] = _as_it_is) -> None:
        self._reader = reader
        self._decode = decode
        self._counts: Mapping[str, int] | None = None
        # (values before this page, idx before this page): where a page starts, so that an index need not read all.
        self._starts: list[tuple[int, int]] = [(0, -1)]
        self._page: tuple[int, list[ResultRow]] | None = None

    @staticmethod
    def of(values: Iterable[V], *, failed: Mapping[int, Any] | None = None, missing: Iterable[int] = ()) -> Results[V]:
        """Results made by hand, for calling a step's function in a test: `values` take the numbers left free."""
        errors = dict(failed or {})
        taken = set(errors) | set(missing)
        rows = [ResultRow(idx, "failed", error=error) for idx, error in errors.items()]
        idx = 0
        for value in values:
            while idx in taken:
                idx += 1
            rows.append(ResultRow(idx, "succeeded", value))
            idx += 1
        return Results(ListReader(rows, max(idx, max(taken, default=-1) + 1)))

    def _count(self, state: str) -> int:
        if self._counts is None:
            self._counts = dict(self._reader.counts())
        return self._counts.get(state, 0)

    @property
    def total(self) -> int:
        """How many children the fan-out has, whatever became of them."""
        return self._count("expected")

    @property
    def complete(self) -> bool:
        """True when every child succeeded: nothing in `failed` or `missing`."""
        return len(self) == self.total

    @property
    def ok(self) -> Sequence[T_co]:
        """The values: the same as iterating over this."""
        return self

    @property
    def failed(self) -> list[FailedChild]:
        """Number and error of each failed child; reads all pages if there is one."""
        if not self._count("failed"):
            return []
        return [FailedChild(row.idx, row.error) for row in self._rows() if row.state == "failed"]

    @property
    def missing(self) -> list[int]:
        """The numbers of the children that neither succeeded nor failed; reads all pages if there is one."""
        if len(self) + self._count("failed") >= self.total:
            return []
        there = bytearray(self.total)
        for row in self._rows():
            if row.state in ("succeeded", "failed") and row.idx < len(there):
                there[row.idx] = 1
        return [idx for idx, found in enumerate(there) if not found]

    def indexed(self) -> Iterator[tuple[int, T_co]]:
        """Each value with the number of its item, so that it can be put beside the list that was fanned out."""
        for row in self._rows():
            if row.state == "succeeded":
                yield row.idx, self._decode(row.value, row.idx)

    def _rows(self) -> Iterator[ResultRow]:
        after = -1
        while page := self._reader.page(after, _PAGE):
            yield from page
            after = page[-1].idx
            if len(page) < _PAGE:
                return

    def __len__(self) -> int:
        return self._count("succeeded")

    def __iter__(self) -> Iterator[T_co]:
        for _, value in self.indexed():
            yield value

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"result {index} of {len(self)}")
        number, rows = self._find(position)
        row = rows[position - number]
        return self._decode(row.value, row.idx)

    def _find(self, position: int) -> tuple[int, list[ResultRow]]:
        """The page with the value at `position`: how many values stand before it, and its succeeded rows."""
        if self._page is not None and self._page[0] <= position < self._page[0] + len(self._page[1]):
            return self._page
        at = bisect_right(self._starts, position, key=lambda start: start[0]) - 1
        while True:
            before, after = self._starts[at]
            page = self._reader.page(after, _PAGE)
            values = [row for row in page if row.state == "succeeded"]
            if page and at + 1 == len(self._starts):
                self._starts.append((before + len(values), page[-1].idx))
            if position < before + len(values):
                self._page = (before, values)
                return self._page
            if not page:
                raise IndexError(f"result {position} is gone")
            at += 1

    def __repr__(self) -> str:
        return f"<Results {len(self)} of {self.total}, {self._count('failed')} failed>"
