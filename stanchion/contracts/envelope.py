"""The envelope of every message: CloudEvents 1.0, Kafka protocol binding, binary mode.

Headers: `ce_id`, `ce_type`, `ce_source`, `ce_time`, `ce_specversion`, `ce_tenant`, and, where there is one,
`ce_correlationid`, `ce_causationid`, `ce_sequence`, `ce_schemaversion`, W3C `traceparent`; `content-type` is JSON. The
value is the JSON payload. Readers ignore headers they don't know, and refuse a message whose required headers are
missing, doubled or badly encoded: such a message is parked, and its partition goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from stanchion.contracts import limits
from stanchion.contracts.ids import new_id
from stanchion.errors import Unprocessable

SPEC_VERSION: Final = "1.0"
CONTENT_TYPE: Final = "application/json"

Headers = list[tuple[str, bytes]]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_SEQUENCE_MAX = 2**63 - 1
_JSON_TYPES = re.compile(r"(?:application/json|application/[\w.+-]+\+json|text/json)\s*(?:;.*)?", re.IGNORECASE)


class BadMessage(Unprocessable):
    """A message that can't be read as what it claims to be: it goes to the dead letters with this reason."""

    def __init__(
        self, reason: str, *, code: str = "E-MSG-01", where: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(code, reason, where=where, fix=fix)

    @property
    def reason(self) -> str:
        """One sentence for people."""
        return self.what


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who says what to whom, when, and because of what. Times are UTC; `sequence` is the run's event number."""

    id: UUID
    type: str
    source: str
    time: datetime
    tenant: str
    correlation_id: UUID | None = None
    causation_id: UUID | None = None
    sequence: int | None = None
    traceparent: str | None = None
    schema_version: int = 1
    extensions: dict[str, bytes] = field(
        default_factory=dict, hash=False
    )  # further `ce_` headers as they came, signatures too

    @classmethod
    def new(
        cls,
        type: str,
        source: str,
        tenant: str,
        *,
        cause: Envelope | None = None,
        sequence: int | None = None,
        schema_version: int = 1,
        time: datetime | None = None,
    ) -> Envelope:
        """A new message; with `cause` it belongs to the same conversation and says which message led to it."""
        return cls(
            id=new_id(),
            type=type,
            source=source,
            time=time or datetime.now(UTC),  # when it was written; decides nothing
            tenant=tenant,
            correlation_id=(cause.correlation_id or cause.id) if cause else None,
            causation_id=cause.id if cause else None,
            sequence=sequence,
            traceparent=cause.traceparent if cause else None,
            schema_version=schema_version,
        )

    def to_headers(self) -> Headers:
        """The Kafka headers of this message."""
        named: list[tuple[str, str | None]] = [
            ("ce_specversion", SPEC_VERSION),
            ("ce_id", str(self.id)),
            ("ce_type", self.type),
            ("ce_source", self.source),
            ("ce_time", format_time(self.time)),
            ("ce_tenant", self.tenant),
            ("ce_correlationid", str(self.correlation_id) if self.correlation_id else None),
            ("ce_causationid", str(self.causation_id) if self.causation_id else None),
            ("ce_sequence", str(self.sequence) if self.sequence is not None else None),
            ("ce_schemaversion", str(self.schema_version)),
            ("traceparent", self.traceparent),
            ("content-type", CONTENT_TYPE),
        ]
        headers = [(name, text.encode()) for name, text in named if text is not None]
        return headers + list(self.extensions.items())

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str, bytes | None]]) -> Envelope:
        """Read an envelope; raises BadMessage naming the header that is missing, doubled or badly encoded."""
        read = _Reader(headers)
        version = read.text("ce_specversion")
        if version != SPEC_VERSION:
            raise BadMessage(f"ce_specversion is {version!a}, not {SPEC_VERSION}", where="ce_specversion")
        content = read.optional("content-type")
        if content is not None and not _JSON_TYPES.fullmatch(content):
            raise BadMessage(f"content-type is {content!a}, not {CONTENT_TYPE}", where="content-type")
        trace = read.optional("traceparent", broken_is_absent=True)
        return cls(
            id=read.uuid("ce_id"),
            type=read.text("ce_type", limits.NAME_CHARACTERS),
            source=read.text("ce_source", limits.NAME_CHARACTERS),
            time=read.time("ce_time"),
            tenant=read.text("ce_tenant", limits.TENANT_CHARACTERS),
            correlation_id=read.optional_uuid("ce_correlationid"),
            causation_id=read.optional_uuid("ce_causationid"),
            sequence=read.integer("ce_sequence"),
            # W3C: whoever can't read a traceparent starts a new trace; it is never a reason to refuse a message.
            traceparent=trace if trace and _TRACEPARENT.fullmatch(trace) else None,
            schema_version=read.integer("ce_schemaversion", least=1) or 1,
            extensions=read.rest(),
        )


_KNOWN = frozenset(
    {
        "ce_specversion",
        "ce_id",
        "ce_type",
        "ce_source",
        "ce_time",
        "ce_tenant",
        "ce_correlationid",
        "ce_causationid",
        "ce_sequence",
        "ce_schemaversion",
        "traceparent",
        "content-type",
    }
)


class _Reader:
    """Headers by name; a known one that comes twice is refused, since two readers could believe different ones."""

    def __init__(self, headers: Iterable[tuple[str, bytes | None]]) -> None:
        self.values: dict[str, bytes] = {}
        self.doubled: set[str] = set()
        for name, value in headers:
            if value is None:
                continue
            if name in self.values:
                self.doubled.add(name)
            self.values[name] = value

    def optional(self, name: str, most: int = limits.HEADER_BYTES, *, broken_is_absent: bool = False) -> str | None:
        raw = self.values.get(name)
        if raw is None:
            return None
        fault = None
        text = ""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            fault = "is not UTF-8"
        if name in self.doubled:
            fault = "comes twice"
        elif len(text) > most:
            fault = f"has {len(text):,} characters; the limit is {most:,}"
        elif _CONTROL.search(text):
            fault = "holds a control character"
        if fault is None:
            return text
        if broken_is_absent:
            return None
        raise BadMessage(f"header {name} {fault}", where=name)

    def text(self, name: str, most: int = limits.HEADER_BYTES) -> str:
        text = self.optional(name, most)
        if text is None:
            raise BadMessage(f"header {name} is missing", where=name, fix="send the CloudEvents headers")
        if not text.strip():
            raise BadMessage(f"header {name} is blank", where=name)
        return text

    def optional_uuid(self, name: str) -> UUID | None:
        text = self.optional(name)
        if text is None:
            return None
        if not _UUID.fullmatch(text):
            raise BadMessage(f"header {name} is not a UUID", where=name)
        return UUID(text)

    def uuid(self, name: str) -> UUID:
        self.text(name)
        value = self.optional_uuid(name)
        assert value is not None
        return value

    def time(self, name: str) -> datetime:
        text = self.text(name)
        try:
            return parse_time(text, name)
        except Unprocessable as error:
            raise BadMessage(f"header {name}: {error.what}", where=name) from None

    def integer(self, name: str, least: int = 0) -> int | None:
        text = self.optional(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 19 and least <= int(text) <= _SEQUENCE_MAX):
            raise BadMessage(f"header {name} is not an integer from {least} up", where=name)
        return int(text)

    def rest(self) -> dict[str, bytes]:
        return {name: raw for name, raw in self.values.items() if name.startswith("ce_") and name not in _KNOWN}


def parse_time(value: object, where: str) -> datetime:
    """The moment in UTC that an RFC 3339 text names; raises Unprocessable E-DATA-13."""
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        try:
            return check_time(datetime.fromisoformat(value.upper()), where)
        except ValueError:  # the 31st of June, or a leap second
            pass
    raise _bad_time("not an RFC 3339 time with an offset", where)


def check_time(moment: datetime, where: str) -> datetime:
    """The moment in UTC; raises Unprocessable E-DATA-13 without a zone or outside the years 1970 to 9999."""
    fault = None
    if moment.tzinfo is None or moment.utcoffset() is None:
        fault = "a time without a zone"
    else:
        try:
            moment = moment.astimezone(UTC)
            if not limits.YEAR_MIN <= moment.year <= limits.YEAR_MAX:
                fault = "a time outside the allowed years"
        except OverflowError:
            fault = "a time outside the allowed years"
    if fault is None:
        return moment
    raise _bad_time(fault, where)


def _bad_time(what: str, where: str) -> Unprocessable:
    return Unprocessable(
        "E-DATA-13",
        what,
        where=where,
        why=f"times have an offset and lie in the years {limits.YEAR_MIN} to {limits.YEAR_MAX}",
        fix="send RFC 3339 with an offset, e.g. 2030-01-31T12:00:00Z",
    )


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds, `2030-01-31T12:00:00.000000Z`: one text for a moment, so it can be signed."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
