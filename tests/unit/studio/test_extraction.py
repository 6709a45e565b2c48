"""Text out of Markdown, HTML, reStructuredText, docstrings and PDF."""

from __future__ import annotations

from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from examples.studio.blocks import Block, Outline, Unreadable
from examples.studio.docstrings import parse_source
from examples.studio.extract import decode, extract, looks_like_markdown
from examples.studio.markup import parse_html, parse_markdown
from examples.studio.passages import split
from examples.studio.plaintext import parse
from examples.studio.shapes import DocumentRef


def texts(outline: Outline, *kinds: str) -> list[str]:
    return [block.text for block in outline.blocks if block.kind in (kinds or ("text", "item"))]


def only(outline: Outline, text: str) -> Block:
    return next(block for block in outline.blocks if text in block.text)


def test_markdown_gives_what_a_reader_sees() -> None:
    """Badges, comments and link targets go; code and tables are kept apart; lists give items."""
    outline = Outline()
    parse_markdown(
        "# Title\n\n[![b](u)](v) ![c](w)\n\n<!-- hidden -->\n"
        "See *the* [manual](http://x) of `run()`.\n\n- one thing\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nrun()\n```\n\n<p align='center'><img src='x'><b>Bold</b> words.</p>\n",
        outline,
    )
    assert texts(outline, "text") == ["See the manual of `run()`.", "Bold words."]
    assert texts(outline, "item") == ["one thing"]
    assert texts(outline, "code") == ["run()"]
    assert texts(outline, "table") == ["a | b\n1 | 2"]
    assert only(outline, "See the").path == ("Title",)


def test_parts_about_the_project_are_marked_as_noise() -> None:
    """Sponsors, change logs and installing must not answer questions about the subject."""
    outline = Outline()
    parse_markdown(
        "# Tool\n\nIt works.\n\n## Installation\n\npip it.\n\n## v2.1 (2024-01-01)\n\n### Fixed\n\nA bug.\n", outline
    )
    assert [block.noise for block in outline.blocks if block.kind == "text"] == [False, True, True]


def test_html_leaves_out_furniture() -> None:
    """Navigation, scripts, footers and hidden parts are not text; paragraphs, lists and code are."""
    outline = Outline()
    parse_html(
        "<body><nav>menu</nav><div class='sidebar'>side</div><article><h2>Use<a class=headerlink>¶</a></h2>"
        "<p>Call <code>go()</code> first.<br>Then wait.</p><ul><li>quickly</li></ul><pre>go()\n</pre>"
        "<p hidden>secret</p><script>evil()</script><custom-box><p>Boxed.</p></custom-box></article>"
        "<footer>foot</footer></body>",
        outline,
    )
    assert texts(outline) == ["Call `go()` first. Then wait.", "quickly", "Boxed."]
    assert texts(outline, "code") == ["go()"]
    assert only(outline, "Call").path == ("Use",)


def test_a_page_nested_thousands_deep_is_read() -> None:
    """Depth must not exhaust the stack."""
    outline = Outline()
    parse_html("<div>" * 3_000 + "<p>Deep down.</p>" + "</div>" * 3_000, outline)
    assert texts(outline) == ["Deep down."]


def test_restructured_text() -> None:
    """Headings, roles, literals, directives, literal blocks, field lists and notes come out as plain blocks."""
    outline = Outline()
    parse(
        "Pool\n====\n\nUse :meth:`~a.Pool.get` or ``put``, see `docs <http://x>`_.\n\n"
        ".. image:: x.png\n   :alt: badge\n\n.. note:: Keep it small.\n\n"
        ".. code-block:: python\n   :caption: x\n\n   pool.get()\n\nAs here::\n\n   pool.put()\n\n"
        ":param size: How many.\n   At most ten.\n:type size: int\n",
        outline,
    )
    assert texts(outline, "text") == ["Use `get` or `put`, see docs.", "Keep it small.", "As here:"]
    assert texts(outline, "code") == ["pool.get()", "pool.put()"]
    assert texts(outline, "item") == ["`size`: How many. At most ten."]


def test_parameters_of_docstrings_keep_their_descriptions() -> None:
    """Google's and numpy's styles both give one item a parameter, and prose behind them is prose again."""
    outline = Outline()
    parse(
        "Does it.\n\nArgs:\n    size (int): How many, in\n        litres. Default: 5.\n"
        "    name (str): Its name.\n\nMore.\n",
        outline,
    )
    assert texts(outline, "item") == ["`size` (int): How many, in litres. Default: 5.", "`name` (str): Its name."]
    assert only(outline, "More.").path == ()
    outline = Outline()
    parse("Parameters\n----------\nsize : int\n    How many.\n", outline)
    assert texts(outline, "item") == ["`size` (int): How many."]


@pytest.mark.parametrize(
    "text", ["", "::", "====", "====\n====\n====", ".. \n", "- \n-\n", ">>>", "  x:\n y::\n  z", ":a:\n:b c"]
)
def test_half_markup_is_survived(text: str) -> None:
    """The line parser moves on whatever it meets."""
    outline = Outline()
    parse(text, outline)
    assert isinstance(outline.blocks, list)


@pytest.mark.parametrize("unit", [" ", "[", "`a ``b ", "a. ", "A (b. ", "e.g. A ", ":a", "*a **b ", "<", "|a "])
def test_hostile_text_is_read_in_linear_time(unit: str) -> None:
    """Unclosed marks without end took minutes once; they are cut into pieces that no pattern can choke on."""
    text = "# x\n\n" + unit * (100_000 // len(unit)) + "x"
    for parser in (parse, parse_markdown):
        outline = Outline()
        parser(text, outline)
        assert split(outline.blocks)


def test_source_is_parsed_and_never_run() -> None:
    """Public docstrings come with qualified names; private names, overloads and code stay out."""
    outline = Outline()
    parse_source(
        '"""A module about oak barrels."""\nraise SystemExit("ran")\n'
        'class Barrel:\n    """A wooden container for wine."""\n'
        '    size: int = 5\n    """How many litres go into it."""\n'
        '    def open(self, tool):\n        """Remove the bung."""\n'
        '    def close(self):\n        """Put the bung in."""\n'
        '    def _hidden(self):\n        """Not for users at all."""\n',
        "wine.barrels",
        outline,
    )
    assert only(outline, "A wooden").path == ("wine.barrels", "wine.barrels.Barrel")
    assert only(outline, "How many litres").path[-1] == "Barrel.size"
    assert only(outline, "Remove the bung").text == "`open(tool)`: Remove the bung. `close()`: Put the bung in."
    assert "Not for users" not in " ".join(texts(outline))


def test_broken_source_has_a_reason() -> None:
    """What this Python cannot parse is unreadable, not an error."""
    with pytest.raises(Unreadable, match="not valid Python"):
        parse_source("def f(:", "x", Outline())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("Fäßchen".encode(), "Fäßchen"),
        ("Fäßchen".encode("latin-1") + b" of oak", "Fäßchen of oak"),
        ("\ufeffbarrel".encode(), "barrel"),
        ("barrel of wine".encode("utf-16"), "barrel of wine"),
        ("barrel of wine".encode("utf-16-le"), "barrel of wine"),
        ("barrel of wine".encode("utf-16-be"), "barrel of wine"),
        ("barrel".encode("utf-32"), "barrel"),
    ],
)
def test_encodings_are_found_out(data: bytes, expected: str) -> None:
    """A text file says what it says whatever it was saved as."""
    assert decode(data) == expected


def test_a_declared_charset_counts_in_html() -> None:
    """What a page declares is tried first; a charset that does not exist is passed over."""
    assert "Ñ" in decode('<meta charset="cp850">Ñ'.encode("cp850"), html=True)
    assert "barrel" in decode(b'<meta charset="no-such">barrel', html=True)


def test_markdown_is_told_from_restructured_text() -> None:
    """Texts without a declared type are read as what they look like."""
    assert looks_like_markdown("# Title\n\n[a](b)\n")
    assert not looks_like_markdown("Title\n=====\n\n.. note:: x\n\n``a``\n")


def pdf(path: Path, *pages: str, password: str = "") -> Path:
    """Writes a PDF with a line of text on each page."""
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(500, 500)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 400 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = stream
    if password:
        writer.encrypt(password)
    writer.write(path)
    return path


def file(path: Path) -> DocumentRef:
    return DocumentRef(f"file:{path.name}", "file", path.name, str(path))


def test_pdf_text_comes_with_its_page(tmp_path: Path) -> None:
    """A citation in a PDF names the page."""
    blocks, _ = extract(file(pdf(tmp_path / "a.pdf", "An oak barrel holds wine.", "It leaks when it is dry.")))
    assert [(block.path[0], block.text) for block in blocks if block.kind == "text"] == [
        ("page 1", "An oak barrel holds wine."),
        ("page 2", "It leaks when it is dry."),
    ]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(b"%PDF-1.7 rubbish"), "broken PDF"),
        (lambda path: pdf(path, "x", password="secret"), "encrypted PDF"),
        (lambda path: pdf(path, ""), "without text"),
        (lambda path: path.symlink_to(path), "leads back to itself"),
        (lambda path: path.symlink_to(path.parent / "gone"), "no longer there"),
        (lambda path: path.mkdir(), "not a regular file"),
    ],
)
def test_bad_files_have_a_reason(tmp_path: Path, make: object, reason: str) -> None:
    """Each kind of bad file says what is wrong with it."""
    path = tmp_path / "bad.pdf"
    make(path)  # type: ignore[operator]
    with pytest.raises(Unreadable, match=reason):
        extract(file(path))


def test_binary_pipes_and_huge_files_have_a_reason(tmp_path: Path) -> None:
    """Nothing blocks on a pipe, nothing reads a huge file, nothing prints an image."""
    import os

    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\xff\x00" * 50)
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge.txt").open("wb") as huge:
        huge.truncate(40 * 1024 * 1024)
    for name, reason in {
        "x.bin": "binary",
        "x.png": "PNG",
        "pipe": "regular file",
        "huge.txt": "more than the limit",
    }.items():
        with pytest.raises(Unreadable, match=reason):
            extract(file(tmp_path / name))


def test_a_short_magic_word_at_the_start_of_a_text_is_text() -> None:
    """Only bytes behind it make a file binary, not two letters that some format begins with, too."""
    assert decode(b"MZ is a fine title for a text about barrels") == "MZ is a fine title for a text about barrels"
