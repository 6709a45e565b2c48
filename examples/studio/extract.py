"""A document's bytes into blocks: finds it, reads it within limits, decodes it, picks the parser.

Everything that can be wrong with a file ends as `Unreadable` with a reason for the report. Raising anything else here
would fail the child, be retried for nothing and leave the reader without a reason.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import sys
import sysconfig
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import cast

from .blocks import Block, Outline, Unreadable
from .docstrings import parse_source
from .markup import parse_html, parse_markdown
from .plaintext import parse
from .shapes import DocumentRef

MAX_BYTES = 32 * 1024 * 1024
MAX_TEXT = 4 * 1024 * 1024
"""Characters read of one document; what lies behind is left out and the reading says so."""

_MAGIC = {
    b"\x89PNG": "a PNG image", b"\xff\xd8\xff": "a JPEG image", b"GIF8": "a GIF image", b"RIFF": "a media file",
    b"PK\x03\x04": "a ZIP archive or office document (convert it to PDF, HTML or text)",
    b"\xd0\xcf\x11\xe0": "an old office document (convert it to PDF, HTML or text)",
    b"\x1f\x8b": "a gzip archive", b"BZh": "a bzip2 archive", b"\xfd7zXZ": "an xz archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"\x7fELF": "a program", b"MZ": "a program", b"SQLite format 3": "a SQLite database",
    b"\x00asm": "a WebAssembly file",
    b"OggS": "a media file", b"ID3": "a media file", b"\x28\xb5\x2f\xfd": "a zstd archive",
}  # fmt: skip
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_REASONS = {
    errno.ENOENT: "it is no longer there",
    errno.ELOOP: "a symbolic link that leads back to itself",
    errno.EISDIR: "a folder where a file was expected",
    errno.ENAMETOOLONG: "its name is too long for the file system",
    errno.EACCES: "no permission to read it",
    errno.EPERM: "no permission to read it",
}


def extract(document: DocumentRef) -> tuple[list[Block], str]:
    """Returns a document's blocks in reading order, and a note when only a part was read.

    Raises `Unreadable` with the reason when there is nothing to read.
    """
    if document.problem:
        raise Unreadable(document.problem)
    outline = Outline()
    try:
        note = _READERS[document.kind](document, outline)
    except RecursionError as error:
        raise Unreadable("nested too deeply to be read") from error
    if not any(block.kind != "heading" for block in outline.blocks):
        raise Unreadable("no readable text in it")
    return outline.blocks, note


def _package(document: DocumentRef, outline: Outline) -> str:
    text, content_type, summary = package_text(document.where)
    outline.heading(0, f"{document.title}: {summary}" if summary else document.title)
    text, note = _limited(text)
    if "markdown" in content_type or (not content_type and looks_like_markdown(text)):
        parse_markdown(text, outline)
    else:
        parse(text, outline, base=1)
    return note


def package_text(name: str) -> tuple[str, str, str]:
    """Long description, its content type and the summary of an installed distribution."""
    try:
        message = cast(Message, metadata.distribution(name).metadata)
    except metadata.PackageNotFoundError as error:
        raise Unreadable("the package is not installed here") from error
    text = str(message.get_payload() or message["Description"] or "").strip()
    if len(text) < 40 or text == "UNKNOWN":
        raise Unreadable("the package ships no long description")
    return text, str(message["Description-Content-Type"] or "").lower(), str(message["Summary"] or "").strip()


def _topic(document: DocumentRef, outline: Outline) -> str:
    text, note = _limited(topic_text(document.where))
    parse(text, outline, quoted_code=True)
    return note


def topic_text(name: str) -> str:
    """One of the language topics behind Python's `help()`."""
    from pydoc_data.topics import topics  # 0.7 MB of text: only loaded by those who read it

    if name not in topics:
        raise Unreadable("this Python has no such topic")
    return str(topics[name])


def _module(document: DocumentRef, outline: Outline) -> str:
    data = read_bytes(module_path(document.where))
    if len(data) > MAX_TEXT:
        raise Unreadable(f"source of {len(data):,} bytes, more than {MAX_TEXT:,}")
    parse_source(data, document.id.removeprefix("module:"), outline)
    return ""


def module_path(where: str) -> Path:
    """The file behind `distribution:relative/path.py`, or `:relative/path.py` for the standard library."""
    owner, _, relative = where.partition(":")
    if not owner:
        return Path(sysconfig.get_path("stdlib")) / relative
    try:
        return Path(str(metadata.distribution(owner).locate_file(relative)))
    except metadata.PackageNotFoundError as error:
        raise Unreadable("the package is not installed here") from error


def _file(document: DocumentRef, outline: Outline) -> str:
    path = Path(document.where)
    data = read_bytes(path)
    suffix = path.suffix.lower()
    if not data.strip():
        raise Unreadable("an empty file")
    if b"%PDF-" in data[:1024] or suffix == ".pdf":
        from .pdf import parse_pdf  # the largest of the libraries, for the rarest of the formats

        parse_pdf(data, outline)
        return ""
    text, note = _limited(decode(data, html=suffix in _HTML or _is_html(data)))
    if suffix == ".py":
        parse_source(text, path.stem, outline)
    elif suffix in _HTML or _is_html(data):
        parse_html(text, outline)
    elif suffix in (".md", ".markdown", ".mdx") or (suffix != ".rst" and looks_like_markdown(text)):
        parse_markdown(text, outline)
    else:
        parse(text, outline)
    return note


_READERS = {"package": _package, "topic": _topic, "module": _module, "file": _file}
_HTML = {".html", ".htm", ".xhtml"}


def _is_html(data: bytes) -> bool:
    return (
        re.match(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype html|html)\b", data[:2048], re.I | re.S) is not None
    )


def _limited(text: str) -> tuple[str, str]:
    if len(text) <= MAX_TEXT:
        return text, ""
    return text[:MAX_TEXT], f"only the first {MAX_TEXT:,} of {len(text):,} characters were read"


def read_bytes(path: Path) -> bytes:
    """Reads a regular file of at most 32 MiB; never blocks on a pipe or a device. Raises `Unreadable`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise Unreadable(reason_of(error)) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("not a regular file")
        if status.st_size > MAX_BYTES:
            raise Unreadable(f"{status.st_size:,} bytes, more than the limit of {MAX_BYTES:,}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    except OSError as error:
        raise Unreadable(reason_of(error)) from error
    finally:
        os.close(handle)


def reason_of(error: OSError | ValueError) -> str:
    """Why a file could not be opened or read, in words."""
    code = error.errno if isinstance(error, OSError) else None
    return _REASONS.get(code or 0) or f"it cannot be read ({error.strerror if isinstance(error, OSError) else error})"


def decode(data: bytes, *, html: bool = False) -> str:
    """Bytes as text: by byte order mark, declared charset, UTF-8, UTF-16 without a mark, then Windows-1252.

    Raises `Unreadable` for binary data.
    """
    for magic, name in _MAGIC.items():
        # A text may begin with the letters of a short mark ("MZ", "BZh"): only with other bytes behind is it binary.
        if data.startswith(magic) and not data[:200].isascii():
            raise Unreadable(f"{name}, not a text")
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    declared = _declared(data) if html else ""
    for encoding in filter(None, (declared, "utf-8", _wide(data))):
        try:
            text = data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        if not _binary(text):
            return text
    text = data.decode("cp1252", errors="replace")
    if _binary(text):
        raise Unreadable("binary data, not a text")
    return text


def _declared(data: bytes) -> str:
    match = re.search(rb"""charset\s*=\s*["']?\s*([\w.:-]{2,40})""", data[:2048], re.IGNORECASE)
    return match[1].decode("ascii", "replace") if match else ""


def _wide(data: bytes) -> str:
    """UTF-16 without a byte order mark: most of every second byte is zero."""
    sample = data[:4096]
    if len(sample) < 8:
        return ""
    even, odd = sample[::2].count(0) / len(sample[::2]), sample[1::2].count(0) / len(sample[1::2])
    if odd > 0.6 and even < 0.1:
        return "utf-16-le"
    return "utf-16-be" if even > 0.6 and odd < 0.1 else ""


def _binary(text: str) -> bool:
    sample = text[:20_000]
    strange = sum(1 for char in sample if (char < " " and char not in "\t\n\r\f\x1b\b") or char in "\x7f\ufffd")
    return strange > 0.01 * len(sample)


def looks_like_markdown(text: str) -> bool:
    """Whether a text without a declared type is Markdown: by headings with `#`, fences, links and images."""
    sample = text[:20_000]
    marks = len(re.findall(r"^#{1,6} \S|^```|^~~~|\]\(\S+\)|^\s*[-*] \[[ x]\]", sample, re.MULTILINE))
    other = len(re.findall(r"^\.\. |::$|``[^`]+``|`_", sample, re.MULTILINE))
    return marks > other


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
