"""Plain text and reStructuredText, as people write it in README files, docstrings and language references.

A line parser that knows the shapes that matter (underlined headings, lists, literal blocks, directives, field lists,
tables) and treats everything else as paragraphs: half-right markup must never lose a document.
"""

from __future__ import annotations

import re

from .blocks import Outline, clean_code
from .inline import inline
from .lines import Lines, dedent, indent_of, lines_of

_UNDERLINE = re.compile(r"^([=\-~^\"'`*+#.:_<>])\1{2,}\s*$")
_DIRECTIVE = re.compile(r"^\.\.\s+(?:\|[^|]+\|\s+)?([A-Za-z][\w:+.-]*)::\s*(.*)$")
_COMMENT = re.compile(r"^\.\.(\s|$)|^__\s+\S")
_ITEM = re.compile(r"^(?:[*+•‣–-]|\(?\d{1,2}[.)]|#\.|\(?[a-z][)])\s+(?=\S)")
_FIELD = re.compile(r"^:(\w+)((?:\s+[^:`]*)?):(?:\s+(.*))?$")
_EPYDOC = re.compile(r"^@(param|type|return|raise|rtype)\w*\b\s*([^:]*):\s*(.*)$")
_TABLE = re.compile(r"^[+|].*[+|]$|^[=+-]{2,}(\s+[=+-]{2,})+$|^\+[-=+]+\+$")
_LINE_BLOCK = re.compile(r"^\|\s+")
_GRAMMAR = re.compile(r"^\s*\w+\s+::=\s")
_SECTION = re.compile(
    r"^(arg(ument)?s|keyword arg(ument)?s|kwargs|param(eter)?s|other parameters|options|attributes|returns?|yields?"
    r"|raises|notes?|warnings?|important|tip|caution|examples?|usage|see also|references|methods)\s*:$",
    re.IGNORECASE,
)
_UNNAMED = re.compile(r"^(notes?|warnings?|important|tip|caution|see also|usage)\b", re.IGNORECASE)
_PARAMETERS = re.compile(
    r"^(keyword |other )?(arg(ument)?s|kwargs|param(eter)?s|options|attributes|raises)\b", re.IGNORECASE
)
_TEXT_HEADING = re.compile(r"^-\[ (.+) \]-$")
_PROSE = {"note", "warning", "tip", "hint", "important", "caution", "danger", "attention", "seealso", "admonition"}
_CODE = {"code", "code-block", "sourcecode", "testcode", "ipython", "doctest", "parsed-literal", "prompt", "literal"}
_MAX_LINES = 60_000
_LONGEST_PARAGRAPH = 8_000
"""Patterns meet no more than this at once: some need the square of its length for text made to hurt them."""


def parse(text: str, outline: Outline, *, base: int = 1, quoted_code: bool = False) -> None:
    """Reads `text` into `outline`, headings starting at level `base`.

    `quoted_code` turns `"name"` into a code span, as Python's topics write literals in double quotes.
    """
    lines = [piece for line in text.split("\n")[:_MAX_LINES] for piece in lines_of(line)]
    state = _Parser(Lines(lines), outline, base, quoted_code)
    while state.source.peek() is not None:
        state.step()


class _Parser:
    def __init__(self, source: Lines, outline: Outline, base: int, quoted_code: bool) -> None:
        self.source = source
        self.outline = outline
        self.base = base
        self.quoted_code = quoted_code
        self.styles: list[str] = []

    def step(self) -> None:
        """Reads one block; always moves on by a line at least."""
        self.source.skip_blank()
        line = self.source.peek()
        if line is None:
            return
        if self._heading(line) or self._markup(line) or self._code(line) or self._parameter(line):
            return
        if _ITEM.match(line.lstrip()):
            self._item(line)
            return
        self._paragraph(line)

    def _heading(self, line: str) -> bool:
        below = self.source.peek(1)
        overlined = _UNDERLINE.match(line) and below and self.source.peek(2) == line
        if overlined and below:
            self._open(line[0] * 2, below)
            self.source.at += 3
            return True
        if below and _UNDERLINE.match(below) and len(below) >= len(line.strip()) - 2 and indent_of(below) <= 1:
            self._open(below.strip()[0], line)
            self.source.at += 2
            return True
        if _UNDERLINE.match(line):
            self.source.at += 1
            return True
        if match := _TEXT_HEADING.match(line.strip()):
            self.outline.heading(self.base, match[1])
            self.source.at += 1
            return True
        if _SECTION.match(line.strip()):
            return self._section(line)
        return False

    def _section(self, line: str) -> bool:
        """`Args:`, `Note:` and their like with an indented body, which ends where the indentation does."""
        start, indent = self.source.at, indent_of(line)
        self.source.at += 1
        body = self.source.block(indent)
        if not any(row.strip() for row in body):
            self.source.at = start
            return False
        headings = list(self.outline.headings)
        if not _UNNAMED.match(line.strip()):
            self.outline.heading(self.base + 6, line.strip().rstrip(":"))
        parse(dedent(body), self.outline, base=self.base + 7, quoted_code=self.quoted_code)
        self.outline.headings = headings
        return True

    def _open(self, style: str, text: str) -> None:
        if style not in self.styles:
            self.styles.append(style)
        self.outline.heading(self.base + self.styles.index(style), inline(text))

    def _markup(self, line: str) -> bool:
        """Directives, comments, targets, field lists, tables and grammar rules."""
        stripped, indent = line.strip(), indent_of(line)
        if match := _DIRECTIVE.match(stripped):
            self.source.at += 1
            self._directive(match[1].lower(), match[2], self.source.block(indent))
            return True
        if _COMMENT.match(stripped):
            self.source.at += 1
            self.source.block(indent)
            return True
        if match := _FIELD.match(stripped) or _EPYDOC.match(stripped):
            self.source.at += 1
            self._field(match[1].lower(), match[2].strip(), match[3] or "", indent)
            return True
        if _TABLE.match(stripped):
            rows = []
            while (row := self.source.peek()) is not None and row.strip():
                rows.append(row)
                self.source.at += 1
            self.outline.add("table", "\n".join(rows))
            return True
        return False

    def _directive(self, name: str, rest: str, body: list[str]) -> None:
        content = [line for line in body if not re.match(r"^\s*:[\w-]+:", line)]
        if name in _CODE:
            self.outline.add("code", clean_code(dedent(content)))
        elif name in _PROSE:
            parse("\n".join([rest, "", dedent(content)]), self.outline, base=self.base + 7)

    def _field(self, name: str, argument: str, rest: str, indent: int) -> None:
        body = " ".join([rest, *(line.strip() for line in self.source.block(indent))])
        if name in ("param", "parameter", "arg", "argument", "keyword", "kwarg", "ivar", "attribute") and argument:
            self.outline.add("item", f"`{argument.rsplit(maxsplit=1)[-1]}`: {self._inline(body)}")
        elif name in ("raise", "raises", "except") and argument:
            self.outline.add("item", f"Raises `{argument}`: {self._inline(body)}")
        elif name in ("return", "returns"):
            self.outline.add("item", f"Returns: {self._inline(body)}")

    def _code(self, line: str) -> bool:
        indent = indent_of(line)
        if line.lstrip().startswith(">>>"):
            taken = []
            while (row := self.source.peek()) is not None and row.strip():
                taken.append(row)
                self.source.at += 1
            self.outline.add("code", clean_code(dedent(taken)))
            return True
        if _GRAMMAR.match(line):
            self.source.at += 1
            self.outline.add("table", "\n".join([line, *self.source.block(indent)]))
            return True
        previous = self.outline.blocks[-1] if self.outline.blocks else None
        opened = previous is not None and previous.kind in ("text", "item") and previous.text.endswith(":")
        if indent >= 2 and opened and not _ITEM.match(line.lstrip()) and looks_like_code(line):
            self.outline.add("code", clean_code(dedent(self.source.block(indent - 1))))
            return True
        return False

    def _item(self, line: str) -> None:
        indent = indent_of(line)
        match = _ITEM.match(line.lstrip())
        parts = [line.lstrip()[match.end() if match else 0 :]]
        self.source.at += 1
        while (row := self.source.peek()) is not None and row.strip() and _room(parts):
            if indent_of(row) < indent or _ITEM.match(row.lstrip()):
                break
            parts.append(row.strip())
            self.source.at += 1
        self._emit("item", parts)

    def _paragraph(self, line: str) -> None:
        parts = [line.strip()]
        indent = indent_of(line)
        self.source.at += 1
        while (row := self.source.peek()) is not None and row.strip() and _room(parts):
            if _ITEM.match(row.lstrip()) or _FIELD.match(row.strip()) or _COMMENT.match(row.strip()):
                break
            if parts[-1].endswith("::") or _UNDERLINE.match(row) or row.lstrip().startswith(">>>"):
                break
            if indent_of(row) < indent or (
                parts[-1].endswith(":") and indent_of(row) > indent and looks_like_code(row)
            ):
                break
            parts.append(row.strip())
            self.source.at += 1
        self._emit("text", parts)

    def _parameter(self, line: str) -> bool:
        """`name (type): description` and numpy's `name : type`, with the lines below that are indented deeper."""
        match = _PARAMETER.match(line.strip())
        if not match:
            return False
        listed = bool(self.outline.headings) and _PARAMETERS.match(self.outline.headings[-1][1])
        if not listed and not match["kind"]:
            return False
        indent = indent_of(line)
        self.source.at += 1
        first, below = match["text"] or "", self._described(indent)
        kind = match["kind"] or ""
        if below and " : " in line:  # numpy's style has the type where others begin to describe
            kind, first = first, ""
        body = [first, *below]
        kind = f" ({kind.strip()})" if kind else ""
        self._emit("item", [f"`{match['name']}`{kind}: ", *body])
        return True

    def _described(self, indent: int) -> list[str]:
        """The first paragraph of a description: the indented lines up to a blank one or a list."""
        taken: list[str] = []
        while (row := self.source.peek()) is not None and row.strip() and indent_of(row) > indent:
            if _ITEM.match(row.lstrip()):
                break
            taken.append(row.strip())
            self.source.at += 1
        return taken

    def _emit(self, kind: str, parts: list[str]) -> None:
        text = " ".join(_LINE_BLOCK.sub("", part) for part in parts)
        literal = text.endswith("::")
        text = self._inline(text)
        if text not in (":", "::"):
            self.outline.add(kind, f"{text[:-2].rstrip()}:" if text.endswith("::") else text)
        if literal:
            self.source.skip_blank()
            following = self.source.peek()
            if following is not None and indent_of(following) >= 1:
                self.outline.add("code", clean_code(dedent(self.source.block(indent_of(following) - 1))))

    def _inline(self, text: str) -> str:
        text = inline(text)
        return _QUOTED.sub(r"`\1`", text) if self.quoted_code else text


_QUOTED = re.compile(r'(?<![\w`])"([^"`\n]{1,60}?)"(?!\w)')
_PARAMETER = re.compile(
    r"^`{0,2}(?P<name>\*{0,2}[A-Za-z_][\w.]*)`{0,2}(?:\s*\((?P<kind>[^()]*(?:\([^()]*\)[^()]*)*)\)\s*:|\s*:)(?:\s+(?P<text>.*))?$"
)
_CODE_LINE = re.compile(
    r"[(){}\[\]=<>;]|^\s*(>>>|\$|def |class |import |from |async |await |return|with |for |if )|::="
)


def _room(parts: list[str]) -> bool:
    return len(parts) < 500 and sum(map(len, parts)) < _LONGEST_PARAGRAPH


def looks_like_code(line: str) -> bool:
    return bool(_CODE_LINE.search(line)) or not re.search(r"[a-z]{3,} [a-z]{2,} [a-z]{2,}", line)
