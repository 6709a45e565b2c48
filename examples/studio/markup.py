"""Markdown and HTML into blocks: the text that a reader sees, without badges, navigation and scripts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable

from bs4 import BeautifulSoup, MarkupResemblesLocatorWarning, XMLParsedAsHTMLWarning
from bs4.element import NavigableString, PreformattedString, Tag
from markdown_it import MarkdownIt
from markdown_it.token import Token

from .blocks import Outline, clean_code

_PARSER = MarkdownIt("commonmark", {"html": True, "maxNesting": 40}).enable("table")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LONGEST_LINE = 4_000
_LONGEST_PARAGRAPH = 8_000


def parse_markdown(text: str, outline: Outline) -> None:
    """Reads Markdown; HTML blocks inside it are read as HTML, images and bare links dropped."""
    tokens = _PARSER.parse(_bounded(_COMMENT.sub("", _FRONT_MATTER.sub("", text))))
    kind, level, position = "text", 0, 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token.type == "heading_open":
            kind, level = "heading", int(token.tag[1])
        elif token.type == "list_item_open":
            kind = "item"
        elif token.type in ("heading_close", "list_item_close"):
            kind = "text"
        elif token.type == "inline":
            _inline_block(token, kind, level, outline)
        elif token.type in ("fence", "code_block"):
            outline.add("code", clean_code(token.content))
        elif token.type == "html_block":
            parse_html(token.content, outline, fragment=True)
        elif token.type == "table_open":
            position = _table(tokens, position, outline)


def _bounded(text: str) -> str:
    """Cuts lines and paragraphs that no person wrote: unclosed marks cost a parser the square of a paragraph's length."""
    if len(text) < _LONGEST_PARAGRAPH:
        return text
    lines: list[str] = []
    size = 0
    for line in re.sub(r"\[{8,}", "[", text).split("\n"):
        for start in range(0, max(1, len(line)), _LONGEST_LINE):
            piece = line[start : start + _LONGEST_LINE]
            size = size + len(piece) + 1 if piece.strip() else 0
            if size > _LONGEST_PARAGRAPH:
                lines.append("")
                size = len(piece)
            lines.append(piece)
    return "\n".join(lines)


def _inline_block(token: Token, kind: str, level: int, outline: Outline) -> None:
    text, linked = inline_text(token.children or [])
    if kind == "heading":
        outline.heading(level, text)
    elif not _only_links(text, linked):
        outline.add(kind, text)


def inline_text(children: Iterable[Token]) -> tuple[str, int]:
    """The visible text of inline tokens, and how many of its characters are link text."""
    parts: list[str] = []
    linked = depth = 0
    for child in children:
        if child.type == "link_open":
            depth += 1
        elif child.type == "link_close":
            depth -= 1
        elif child.type == "text":
            parts.append(child.content)
            linked += len(child.content) if depth > 0 else 0
        elif child.type == "code_inline":
            parts.append(f"`{child.content.strip()}`")
        elif child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
    return re.sub(r"\[!\w+\]", "", "".join(parts)), linked


def _only_links(text: str, linked: int) -> bool:
    """Whether a paragraph is navigation: nearly all of it is link text and it is no sentence."""
    letters = len(text.strip())
    return letters == 0 or (linked > 0.8 * letters and not re.search(r"[.!?:]\s*$", text.strip()))


def _table(tokens: list[Token], position: int, outline: Outline) -> int:
    """Keeps a table apart as one block of `cell | cell` lines; returns the position behind it."""
    rows: list[list[str]] = []
    while position < len(tokens) and tokens[position].type != "table_close":
        token = tokens[position]
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            rows[-1].append(inline_text(token.children or [])[0].strip())
        position += 1
    outline.add("table", "\n".join(" | ".join(row) for row in rows if any(row)))
    return position + 1


_DROP = (
    "script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form", "button", "select",
    "iframe", "object", "svg", "canvas", "video", "audio", "picture", "img", "head", "dialog", "menu",
)  # fmt: skip
_DROP_ROLE = {"navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar", "dialog"}
_DROP_CLASS = re.compile(r"\b(nav(bar)?|menu|sidebar|breadcrumbs?|footer|toc|cookie|advert|headerlink|social)\b", re.I)
_BLOCKS = {
    "p", "li", "dt", "dd", "pre", "table", "blockquote", "div", "section", "article", "main", "ul", "ol", "dl", "body",
    "h1", "h2", "h3", "h4", "h5", "h6", "details", "summary", "figure", "figcaption", "html", "td", "th", "tr",
}  # fmt: skip


_TEXT_BLOCKS = ("p", "li", "dd", "dt", "blockquote", "figcaption", "summary")


def parse_html(text: str, outline: Outline, *, fragment: bool = False) -> None:
    """Reads HTML: the `main` or `article` part when the page has one, without navigation, scripts and forms."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MarkupResemblesLocatorWarning)
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        soup = BeautifulSoup(text, "html.parser")
    for tag in soup.find_all(_DROP):
        if not (fragment and tag.name in ("header", "head")):
            tag.decompose()
    for tag in soup.find_all(_is_furniture):
        if not tag.decomposed:
            tag.decompose()
    root: Tag = soup if fragment else soup.find("main") or soup.find("article") or soup.body or soup
    _walk(root, outline)


def _is_furniture(tag: Tag) -> bool:
    if tag.name in ("body", "main", "article", "html"):
        return False
    classes = " ".join(tag.get_attribute_list("class") or []) if tag.has_attr("class") else ""
    return (
        str(tag.get("role", "")) in _DROP_ROLE
        or bool(_DROP_CLASS.search(f"{classes} {tag.get('id', '')}"))
        or tag.has_attr("hidden")
        or str(tag.get("aria-hidden", "")) == "true"
    )


def _walk(root: Tag, outline: Outline) -> None:
    """Visits the tree with a stack of its own: pages nested a thousand deep exist and must not exhaust Python's."""
    loose: list[str] = []

    def flush() -> None:
        joined = "".join(loose)
        loose.clear()
        outline.add("text", joined)

    stack: list[Tag | NavigableString | None] = [root]
    while stack:
        node = stack.pop()
        if node is None:
            flush()
        elif isinstance(node, PreformattedString):
            continue  # comments, doctypes, processing instructions
        elif isinstance(node, NavigableString):
            loose.append(str(node))
        elif _leaf(node, outline, flush):
            continue
        elif node.name in _BLOCKS or node.find(list(_BLOCKS)) is not None:
            flush()
            stack.append(None)
            stack.extend(reversed([child for child in node.children if isinstance(child, Tag | NavigableString)]))
        else:
            loose.append(_inline_html(node))
    flush()


def _leaf(node: Tag, outline: Outline, flush: Callable[[], None]) -> bool:
    """Handles an element whose whole content makes one block; says whether it did."""
    name = node.name
    if name == "pre":
        kind, text = "code", clean_code(node.get_text())
    elif name == "table":
        rows = ([cell.get_text(" ", strip=True) for cell in row.find_all(["td", "th"])] for row in node.find_all("tr"))
        kind, text = "table", "\n".join(" | ".join(row) for row in rows if any(row))
    elif re.fullmatch("h[1-6]", name):
        kind, text = "heading", _inline_html(node)
    elif name in _TEXT_BLOCKS and node.find(list(_BLOCKS)) is None:
        kind, text = "item" if name in ("li", "dt") else "text", _inline_html(node)
    else:
        return False
    flush()
    links = sum(len(link.get_text()) for link in node.find_all("a"))
    if kind == "heading":
        outline.heading(int(name[1]), text.replace("¶", ""))
    elif kind in ("code", "table") or not _only_links(text, links):
        outline.add(kind, text)
    return True


def _inline_html(node: Tag) -> str:
    parts: list[str] = []
    for child in node.descendants:
        if isinstance(child, NavigableString) and not isinstance(child, PreformattedString):
            code = (
                child.parent is not None and child.parent.name in ("code", "kbd", "samp", "tt") and str(child).strip()
            )
            parts.append(f"`{child.strip()}`" if code else str(child))
        elif isinstance(child, Tag) and child.name == "br":
            parts.append(" ")
    return "".join(parts)
