"""Event streams (text/event-stream) as they come over the wire: the standard's own rules, without a library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream; `id` is the last one that was sent, with which a reader resumes."""

    id: str
    type: str
    data: str


def frames(lines: Iterable[bytes]) -> Iterator[Frame]:
    """The events in a stream of lines. One that the stream breaks off in the middle is not an event."""
    last, kind, data = "", "", list[str]()
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if data:
                yield Frame(last, kind or "message", "\n".join(data))
            kind, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id" and "\0" not in value:
            last = value
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)
