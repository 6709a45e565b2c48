"""A request, read: what it wants, and on which terms."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from fastapi import Request

from . import times
from .answers import Answer, Refusal, problem
from .shapes import canonical, digest

_KEY: Final = re.compile(r"[!-~]{1,255}")
_VERSION: Final = re.compile(r'"?(\d{1,15})"?', re.ASCII)


@dataclass(frozen=True, slots=True)
class Order:
    """`payload` is canonical, and empty when the request only looks. `deadline` is in seconds since the epoch."""

    request_id: str
    method: str
    path: str
    channel: str | None = None
    key: str | None = None
    publication_id: str | None = None
    payload: str = ""
    deadline: float | None = None
    version: int | None = None

    @property
    def payload_hash(self) -> str | None:
        """What two requests with the same key must agree on."""
        return digest(self.payload) if self.payload else None

    def dump(self) -> str:
        """As text, for a request that is still on its way."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Order:
        """The order that `dump` wrote."""
        return cls(**json.loads(text))


def read_work(
    request: Request, payload: Mapping[str, Any], *, channel: str | None = None, publication_id: str | None = None
) -> Order:
    """The order of a request that does work; raises Refusal for a header that can't be read."""
    return Order(
        new_request_id(),
        request.method,
        request.url.path,
        channel=channel,
        key=_key(request),
        publication_id=publication_id,
        payload=canonical(payload),
        deadline=_deadline(request),
        version=_version(request),
    )


def read_look(
    request: Request, *, channel: str | None = None, key: str | None = None, publication_id: str | None = None
) -> Order:
    """The order of a request that changes nothing."""
    return Order(
        new_request_id(), request.method, request.url.path, channel=channel, key=key, publication_id=publication_id
    )


def new_request_id() -> str:
    """A name for one request, not for one attempt at the same work."""
    return f"req_{uuid.uuid4().hex}"


def _key(request: Request) -> str | None:
    value = _single(request, "Idempotency-Key")
    if value is not None and not _KEY.fullmatch(value):
        raise Refusal(_bad_header("Idempotency-Key", "it has 1 to 255 visible ASCII characters and no blanks"))
    return value


def _deadline(request: Request) -> float | None:
    value = _single(request, "Request-Deadline")
    if value is None:
        return None
    try:
        return times.parse(value)
    except ValueError:
        raise Refusal(_bad_header("Request-Deadline", "it is an RFC 3339 time with an offset")) from None


def _version(request: Request) -> int | None:
    value = _single(request, "If-Match")
    if value is None:
        return None
    found = _VERSION.fullmatch(value)
    if found is None:
        raise Refusal(_bad_header("If-Match", "it is the version of the channel, a whole number"))
    return int(found[1])


def _single(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:  # taking one of two keys would be a guess at which work is meant
        raise Refusal(_bad_header(name, "it is there more than once"))
    return values[0] if values else None


def _bad_header(name: str, why: str) -> Answer:
    return problem(400, "bad_header", f"the header {name} can't be read: {why}", header=name)
