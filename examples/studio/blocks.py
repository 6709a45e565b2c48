"""Blocks: what every format is turned into before passages are cut from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


class Unreadable(Exception):  # noqa: N818 - a finding about a document, not an error of the program
    """A document that gives no text; the message is the reason that the report prints, as one clause."""


@dataclass
class Block:
    """A heading, paragraph, list item, code block or table, with the headings above it.

    `kind` is one of `heading`, `text`, `item`, `code`, `table`; `noise` marks parts that describe the project rather
    than its subject: badges, sponsors, change logs, how to install.
    """

    kind: str
    text: str
    path: tuple[str, ...] = ()
    noise: bool = False


@dataclass
class Outline:
    """Collects blocks in reading order and keeps track of the headings that they stand under."""

    blocks: list[Block] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)

    def heading(self, level: int, text: str) -> None:
        text = tidy(text)
        if not text:
            return
        while self.headings and self.headings[-1][0] >= level:
            self.headings.pop()
        self.headings.append((level, text))
        self.blocks.append(Block("heading", text, self.path(), self.noisy()))

    def add(self, kind: str, text: str) -> None:
        text = text.strip("\n").rstrip() if kind in ("code", "table") else tidy(text)
        if text:
            self.blocks.append(Block(kind, text, self.path(), self.noisy()))

    def path(self) -> tuple[str, ...]:
        return tuple(text for _, text in self.headings)

    def noisy(self) -> bool:
        return any(noise_heading(text) for _, text in self.headings)


_SPACES = re.compile(r"[ \t\r\n\f\v\u00a0\u2028\u2029]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\u200b-\u200f\u202a-\u202e\u2060-\u2069\ud800-\udfff]")


def tidy(text: str) -> str:
    """The text on one line, without control characters (they could hide or reorder words in the report)."""
    return _SPACES.sub(" ", _CONTROL.sub("", text)).strip()


def clean_code(text: str) -> str:
    """Code with its line breaks, without control characters and trailing blanks."""
    lines = (_CONTROL.sub("", line.expandtabs(4)).rstrip() for line in text.replace("\r\n", "\n").split("\n"))
    return "\n".join(lines).strip("\n")


_NOISE_HEADING = re.compile(
    r"""\b(
        sponsors?|backers?|donat\w+|funding|credits?|licen[sc]es?|licensing|copyright|authors?|maintainers?
      | contribut\w+|acknowledge?ments?|thanks|change\s?logs?|changes|release\s(notes?|history|information)|releases
      | what'?s\snew|history|news|install\w*|requirements?|dependencies|prerequisites|project\slinks?|links|badges?
      | table\sof\scontents|contents|opinions|testimonials|who\suses|used\sby|users|enterprise|support(ed)?\s(us|python
      \w*|versions?|platforms?)|getting\s(help|support)|get\shelp|community|code\sof\sconduct|citations?|citing|cite
      | security\s(policy|contact)|reporting\s(bugs|issues)|bugs?|how\sto\scontribute|running\s(the\s)?tests
      | development|developing|building\s(from\ssource)?|roadmap|status|download\w*|talk\sto\sus|get\sin\stouch
      | migrat\w+\sto\s\S*\d|footnotes?|translations?|benchmarks?|miscellaneous\sinfo
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_VERSION_HEADING = re.compile(
    r"^\W*(version|release|v)?\s*\[?v?\d+\.\d+(\.\w+)*\]?\b|^\W*\d{4}-\d\d-\d\d|^unreleased$", re.IGNORECASE
)


def noise_heading(text: str) -> bool:
    """Whether a heading opens a part about the project (releases, sponsors, installing) and not about its subject."""
    if _VERSION_HEADING.match(text):
        return True
    return len(text) <= 60 and len(text.split()) <= 5 and _NOISE_HEADING.search(text) is not None
