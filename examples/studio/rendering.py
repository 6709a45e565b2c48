"""The report as Markdown. Quoted text is data: nothing in a source may become markup of the report."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .shapes import Citation, Draft, Missing, Section, Statement

_LISTED = 12
"""So many documents are named for each reason; the rest is counted."""


def render(draft: Draft, *, verdict: str = "") -> str:
    """The whole report: title, sections, sources, what is missing, method; `verdict` is the review's sentence."""
    by_number = {citation.number: citation for citation in draft.citations}
    parts = [f"# {escape(title_of(draft.topic))}", f"*{escape(draft.coverage)}*"]
    for section in draft.sections:
        parts += _section(section, by_number)
    written = any(statement.kind == "prose" for section in draft.sections for statement in section.statements)
    parts += ["## Sources", "\n".join(_source(citation, quote=written) for citation in draft.citations) or "None."]
    parts += ["## What is missing", _missing(draft)]
    parts += ["## Method", "\n\n".join(escape(text) for text in (draft.method, verdict) if text)]
    return "\n\n".join(parts) + "\n"


def title_of(topic: str) -> str:
    return topic[:1].upper() + topic[1:]


def _section(section: Section, by_number: dict[int, Citation]) -> list[str]:
    parts = [f"## {escape(section.heading)}"]
    if section.question:
        parts.append(f"*{escape(section.question)}*")
    bullets = [_statement(statement, by_number) for statement in section.statements]
    code = [bullet for statement, bullet in zip(section.statements, bullets, strict=True) if statement.kind == "code"]
    text = [bullet for statement, bullet in zip(section.statements, bullets, strict=True) if statement.kind != "code"]
    glue = " " if any(statement.kind == "prose" for statement in section.statements) else "\n"
    parts += [*([glue.join(text)] if text else []), *code]
    if section.remark:
        parts.append(escape(section.remark))
    return parts


def _statement(statement: Statement, by_number: dict[int, Citation]) -> str:
    marks = "".join(f"[{number}]" for number in statement.citations)
    citation = by_number.get(statement.citations[0]) if statement.citations else None
    if statement.kind == "code":
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", statement.text)), default=0))
        lead = f"From {label(citation)} {marks}:\n\n" if citation else ""
        return f"{lead}{fence}\n{statement.text}\n{fence}"
    if statement.kind == "prose" or citation is None:
        return f"{escape(statement.text)} {marks}"
    return f"- **{label(citation)}:** {escape(statement.text)} {marks}"


def label(citation: Citation) -> str:
    """Who says it, in a few words: the innermost heading and the document."""
    document = citation.document
    parts = [part for part in citation.heading.split(" › ") if part]
    if document.kind == "module":
        return _module_label(document.id.removeprefix("module:"), parts)
    title = document.title.removeprefix("Python reference: ")
    last = parts[-1] if parts else ""
    inner = "" if last.startswith(title) or last in ("Parameters", "Arguments") else last
    return escape(_shortened(f"{title} › {inner}" if inner else title))


def _module_label(module: str, parts: list[str]) -> str:
    """`name` in `module`, with the heading inside the docstring when there is one that says something."""
    names = [part for part in parts if re.fullmatch(r"[\w.]+\.[\w.]+", part)]
    inner = [part for part in parts if part not in names and part != module and not _PLAIN_HEADING.match(part)]
    name = names[-1].removeprefix(f"{module}.") if names else module
    shown = f"`{module}`" if name == module else f"`{name}` in `{module}`"
    return f"{shown} › {escape(_shortened(inner[-1]))}" if inner else shown


def _shortened(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:89].rstrip()}…"


_PLAIN_HEADING = re.compile(
    r"^(keyword |other )?(arg(ument)?s|parameters|options|attributes|raises|returns?|notes?|examples?)$", re.IGNORECASE
)


def _source(citation: Citation, *, quote: bool) -> str:
    """A citation's place; with what it says when the text above is not the quotation itself."""
    document = citation.document
    version = f" {document.version}" if document.version and document.kind != "file" else ""
    licence = f" ({document.licence})" if document.licence else ""
    under = f", under “{citation.heading.rsplit(' › ', 1)[-1]}”" if citation.heading else ""
    said = f": “{escape(citation.quote[:300])}”" if quote and "\n" not in citation.quote else ""
    where = f"`{_plain(document.id)}`, passage {citation.passage}"
    title = document.title.partition(": ")[0] if document.kind == "module" else document.title
    return f"{citation.number}. {escape(title + version + licence)} — {where}{escape(under)}{said}"


def _missing(draft: Draft) -> str:
    lines = [f"- {escape(note)}" for note in draft.notes]
    reasons: dict[str, list[Missing]] = {}
    for missing in draft.missing:
        reasons.setdefault(missing.reason, []).append(missing)
    for reason, group in sorted(reasons.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        names = ", ".join(f"`{_plain(missing.document)}`" for missing in group[:_LISTED])
        more = f" and {len(group) - _LISTED:,} more" if len(group) > _LISTED else ""
        lines.append(f"- {names}{more}: {escape(reason)}.")
    return "\n".join(lines) or "Nothing: every document was read and every question has evidence."


def _plain(text: str) -> str:
    return re.sub(r"[`\n]", "'", text)


_SPAN = re.compile(r"(`+)(?:(?!`).|(?!\1)`)+?\1(?!`)")


def escape(text: str) -> str:
    """Text as Markdown that shows it unchanged: code spans stay, everything that would be markup is disarmed."""
    parts: list[str] = []
    position = 0
    for match in _SPAN.finditer(text):
        parts += [_disarm(text[position : match.start()]), match[0]]
        position = match.end()
    parts.append(_disarm(text[position:]))
    return "".join(parts)


def _disarm(text: str) -> str:
    text = text.replace("&", "&amp;") if re.search(r"&#?\w+;", text) else text
    text = text.replace("<", "&lt;").replace("`", "\\`").replace("|", "\\|")
    text = re.sub(r"([\[\]])", r"\\\1", text)
    text = re.sub(r"\*", r"\\*", text)
    text = re.sub(r"(?<!\w)_+[A-Za-z]\w*|\b\w+_(?!\w)", r"`\g<0>`", text)  # names with underscores at an end
    text = re.sub(r"(?<![\w`])_(?![A-Za-z])", r"\\_", text)
    text = re.sub(r"\b(https?|ftp|javascript|data|file)(:)", r"\1\\\2", text) if "javascript:" in text.lower() else text
    return re.sub(r"^(#{1,6}\s|[-+]\s|\d+\.\s|>|~~~)", r"\\\1", text)


def numbers_in_use(sections: Sequence[Section]) -> set[int]:
    return {number for section in sections for statement in section.statements for number in statement.citations}
