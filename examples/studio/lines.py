"""Lines of a text and what their indentation says."""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST_LINE = 2_000


@dataclass
class Lines:
    """The text as lines, with a position that only moves forward: the parser cannot loop for ever."""

    lines: list[str]
    at: int = 0

    def peek(self, ahead: int = 0) -> str | None:
        index = self.at + ahead
        return self.lines[index] if index < len(self.lines) else None

    def skip_blank(self) -> None:
        while self.at < len(self.lines) and not self.lines[self.at].strip():
            self.at += 1

    def block(self, indent: int) -> list[str]:
        """Takes the lines that are blank or indented deeper than `indent`."""
        taken: list[str] = []
        while (line := self.peek()) is not None and (not line.strip() or indent_of(line) > indent):
            taken.append(line)
            self.at += 1
        return taken


def lines_of(line: str) -> list[str]:
    """A line of the text; one that no person wrote is cut into several."""
    line = line.expandtabs(8).rstrip()
    if len(line) <= _LONGEST_LINE:
        return [line]
    line = " ".join(line.split())
    return [line[start : start + _LONGEST_LINE].strip() for start in range(0, len(line), _LONGEST_LINE)]


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def dedent(lines: list[str]) -> str:
    margin = min((indent_of(line) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines)
