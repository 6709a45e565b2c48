"""How content is handed out: as a file to keep, never as something that a browser runs; whole, or a range of it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers

from stanchion.contracts.artifacts import DEFAULT_MEDIA_TYPE
from stanchion.errors import Rejected, register_code

BAD_RANGE: Final = register_code(
    "E-HTTP-05",
    "range can't be satisfied",
    status=416,
    meaning="The range of bytes begins behind the end of the content.",
    fix="Ask for bytes that are there; the answer says how many there are.",
)

INERT: Final = frozenset(
    {
        "application/json",
        "application/jsonl",
        "application/pdf",
        "application/x-ndjson",
        "application/zip",
        "audio/mpeg",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "text/csv",
        "text/markdown",
        "text/plain",
        "video/mp4",
    }
)
"""Media types that are told as they are; any other might be active, and goes out as bytes that nobody interprets."""

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class BadRange(Rejected):
    """A range that begins behind the end."""

    status = 416


def headers_of(name: str, media_type: str, sha256: bytes) -> dict[str, str]:
    """The headers of a version's content."""
    return {
        "content-type": media_type if media_type.partition(";")[0].strip().lower() in INERT else DEFAULT_MEDIA_TYPE,
        "content-disposition": _disposition(name),
        "content-security-policy": "default-src 'none'; sandbox",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "private, no-cache",
        "accept-ranges": "bytes",
        "etag": etag(sha256),
    }


def etag(sha256: bytes) -> str:
    """The entity tag: the hash of the content."""
    return f'"{sha256.hex()}"'


def is_known(headers: Headers, sha256: bytes) -> bool:
    """Whether the asker has this content already, by If-None-Match."""
    known = [tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(",")]
    return etag(sha256) in known or "*" in known


def range_of(headers: Headers, sha256: bytes, size: int) -> tuple[int, int] | None:
    """The bytes [start, end) that are asked for; None for all of them, also where a range makes no sense to us.

    Raises BadRange E-HTTP-05 for one that begins behind the end.
    """
    text = headers.get("range")
    if text is None or headers.get("if-range", etag(sha256)) != etag(sha256):
        return None
    match = _RANGE.fullmatch(text.replace(" ", ""))
    if match is None or match.group(1) == match.group(2) == "":
        return None  # several ranges, or another unit: all of it is an answer too
    first, last = match.groups()
    if first == "":
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), size if last == "" else min(int(last) + 1, size)
        if last != "" and int(last) < start:
            return None
    if start >= size:
        raise BadRange(BAD_RANGE, f"the content has {size:,} bytes", size=size)
    return start, end


def _disposition(name: str) -> str:
    """As an attachment under the last part of its name; what is not plain ASCII travels encoded (RFC 6266)."""
    last = name.rpartition("/")[2]
    plain = re.sub(r"[^A-Za-z0-9 ._()-]", "_", last)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(last, safe='')}"
