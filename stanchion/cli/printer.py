"""Data on stdout: one document, or many as a table, as JSON, as lines of JSON, as ids, or in a given format."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stanchion.cli.ink import for_people, styled, visible
from stanchion.cli.session import VERSION, Session
from stanchion.errors import Unprocessable

Row = Mapping[str, Any]

_LEAST_CELL: Final = 8
_ONE_LINE: Final = {ord(character): " " for character in "\r\n\t"}
_COLORS: Final = {
    "succeeded": "green",
    "completed": "green",
    "released": "green",
    "ok": "green",
    "running": "cyan",
    "leased": "cyan",
    "failed": "red",
    "failing": "red",
    "dead": "red",
    "cancelled": "yellow",
    "cancelling": "yellow",
    "paused": "yellow",
    "awaiting_approval": "yellow",
    "rejected": "yellow",
    "retry_wait": "yellow",
    "warning": "yellow",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its head, and how to get its text out of an item."""

    name: str
    text: Callable[[Row], object]
    right: bool = False
    optional: bool = False  # shown only when --columns names it


def field(name: str, key: str | None = None, *, right: bool = False, optional: bool = False) -> Column:
    """A column that shows a field as it is."""
    wanted = key or name
    return Column(name, lambda row: row.get(wanted), right, optional)


class Printer:
    """Writes what a command found."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._out = sys.stdout
        self._color = session.colored(sys.stdout)

    def document(
        self, data: Mapping[str, Any], text: Callable[[], Iterable[str]] | str | None = None, *, ident: str = "id"
    ) -> None:
        """One thing: as JSON, as its id, in the caller's format, or as `text`, or the lines that it gives."""
        session = self.session
        if session.jsonl:
            self._line(_dumps({"v": VERSION, **data}))
        elif session.json:
            self._line(_dumps({"v": VERSION, **data}, indent=2))
        elif session.format is not None:
            self._line(_formatted(session.format, data))
        elif session.quiet:
            if data.get(ident) is not None:
                self._line(str(data[ident]))
        else:
            for line in [text] if isinstance(text, str) else text() if text is not None else _pairs(data):
                self.line(line)

    def result(self, data: Mapping[str, Any], value: str, *, ident: str = "id") -> None:
        """What somebody's own code made: to a pipe or a file as it is, on a terminal with nothing in it that acts."""
        if self.session.machine or self.session.quiet or self.session.format is not None:
            self.document(data, ident=ident)
        else:
            self._line(value)

    def line(self, text: str) -> None:
        """A line that a person reads."""
        self._out.write(for_people(text) + "\n")

    def listing(
        self,
        items: Iterable[Row],
        columns: Sequence[Column],
        *,
        ident: str = "id",
        more: Mapping[str, Any] | None = None,
    ) -> int:
        """Many things; how many there were. `more` stands beside `items` in the JSON document."""
        session = self.session
        if session.json and not session.jsonl:
            found = [dict(item) for item in items]
            self._line(_dumps({"v": VERSION, "items": found, **(more or {})}, indent=2))
            return len(found)
        count = 0
        if session.jsonl or session.format is not None or session.quiet:
            for item in items:
                count += 1
                self._line(self._plain(item, ident))
            return count
        rows = list(items)
        if not columns:
            return len(rows)
        self._table(rows, self._chosen(columns))
        return len(rows)

    def event(self, data: Row, text: str) -> None:
        """One of a stream: a line at once, whatever the mode."""
        if self.session.machine:
            self._line(_dumps({"v": VERSION, **data}))
        elif self.session.format is not None:
            self._line(_formatted(self.session.format, data))
        else:
            self.line(text)
        self._out.flush()

    def state(self, word: str) -> str:
        """A state in its colour; the word is always there."""
        color = _COLORS.get(word)
        return styled(word, fg=color) if self._color and color else word

    def bold(self, text: str) -> str:
        """Text that stands out, on a terminal."""
        return styled(text, bold=True) if self._color else text

    def dim(self, text: str) -> str:
        """Text that stands back, on a terminal."""
        return styled(text, dim=True) if self._color else text

    def _plain(self, item: Row, ident: str) -> str:
        if self.session.jsonl:
            return _dumps({"v": VERSION, **item})
        if self.session.format is not None:
            return _formatted(self.session.format, item)
        return str(item.get(ident, ""))

    def _chosen(self, columns: Sequence[Column]) -> list[Column]:
        if self.session.columns is None:
            return [column for column in columns if not column.optional]
        known = {column.name: column for column in columns}
        chosen = []
        for name in filter(None, (part.strip() for part in self.session.columns.split(","))):
            if name not in known:
                raise Unprocessable("E-CLI-01", f"there is no column {name[:60]!a}", fix=f"one of {', '.join(known)}")
            chosen.append(known[name])
        return chosen

    def _table(self, rows: Sequence[Row], columns: Sequence[Column]) -> None:
        cells = [[_cell(column.text(row)) for column in columns] for row in rows]
        heads = [column.name.upper() for column in columns]
        shown = cells if self.session.no_headers else [heads, *cells]
        widths = [max((len(line[index]) for line in shown), default=0) for index in range(len(columns))]
        if self._out.isatty() and not self.session.no_trunc:
            widths = _fitted(widths, shutil.get_terminal_size().columns)
        for number, line in enumerate(shown):
            head = number == 0 and not self.session.no_headers
            self.line(self._row(line, widths, columns, head=head))

    def _row(self, line: Sequence[str], widths: Sequence[int], columns: Sequence[Column], *, head: bool) -> str:
        parts = []
        for index, (text, width, column) in enumerate(zip(line, widths, columns, strict=True)):
            cut = text if len(text) <= width else f"{text[: width - 1]}{'.' if self.session.ascii else '…'}"
            last = index == len(columns) - 1 and not column.right
            padded = cut if last else cut.rjust(width) if column.right else cut.ljust(width)
            if head:
                padded = self.bold(padded)
            elif self._color and (color := _COLORS.get(text)):
                padded = styled(padded, fg=color)
            parts.append(padded)
        return "  ".join(parts).rstrip()

    def _line(self, text: str) -> None:
        # JSON stays JSON of the same value when a character in it is written out.
        self._out.write((visible(text) if self._out.isatty() else text) + "\n")


def say(session: Session, text: str) -> None:
    """Talk: a line on stderr, unless --quiet."""
    if not session.quiet:
        sys.stderr.write(for_people(text) + "\n")
        sys.stderr.flush()


def _dumps(data: Mapping[str, Any], indent: int | None = None) -> str:
    return json.dumps(data, indent=indent, ensure_ascii=False, default=str)


def _formatted(template: str, data: Row) -> str:
    try:
        return template.replace("\\n", "\n").replace("\\t", "\t").format_map(_Missing(data))
    except (ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise Unprocessable(
            "E-CLI-01", f"--format can't be used: {error}", fix="e.g. --format '{id} {state}'"
        ) from None


class _Missing(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        raise KeyError(f"there is no field {key}; there are {', '.join(self)}")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(str(item) for item in value) or "-" if isinstance(value, list | tuple) else str(value)
    # A row is one line; and its width is that of what will be seen.
    return visible(text.translate(_ONE_LINE))


def _pairs(data: Mapping[str, Any]) -> Iterable[str]:
    width = max((len(name) for name in data), default=0)
    for name, value in data.items():
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else _cell(value)
        yield f"{name.ljust(width)}  {shown}"


def _fitted(widths: list[int], room: int) -> list[int]:
    """Widths that fit into the terminal: the widest column gives way first."""
    fitted = list(widths)
    while sum(fitted) + 2 * (len(fitted) - 1) > room and max(fitted, default=0) > _LEAST_CELL:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted
