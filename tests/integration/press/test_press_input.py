"""Bad input gets a problem with a code, and does nothing; hostile texts stay text on the page."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import pytest
from kit.press import Press, code_of, payload

BAD_FIELDS: list[tuple[str, Any]] = [
    ("channel", "No Such"),
    ("channel", ""),
    ("channel", "c\n"),
    ("channel", "c" * 65),
    ("channel", None),
    ("channel", 7),
    ("title", ""),
    ("title", "t" * 301),
    ("title", "a\x00b"),
    ("title", "a\nb"),
    ("title", ["a"]),
    ("body", 7),
    ("body", "b" * 200_001),
    ("artifact", None),
    ("artifact", {"sha256": "a" * 64}),
    ("artifact", {"sha256": "A" * 64, "version": 1}),
    ("artifact", {"sha256": "a" * 64, "version": 1.5}),
    ("artifact", {"sha256": "a" * 64, "version": True}),
    ("artifact", {"sha256": "a" * 64, "version": -1}),
    ("artifact", {"sha256": "a" * 64, "version": 2**53}),
    ("artifact", {"sha256": "a" * 64, "version": ""}),
    ("artifact", {"sha256": "a" * 64, "version": 1, "url": "x"}),
    ("titel", "On stars"),
]


@pytest.mark.parametrize(("name", "value"), BAD_FIELDS)
def test_a_field_that_is_wrong_is_refused(press: Press, name: str, value: Any) -> None:
    """400 with the place of what is wrong; nothing is published."""
    before = press.done()
    refused = press.web.post("/publications", json=payload("fields") | {name: value})
    assert refused.status_code == 400
    assert code_of(refused) == "bad_input"
    assert any(name in one["where"] for one in refused.json()["errors"])
    assert press.done() == before


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"channel": "c", "title": "\\ud800"}', b"[" * 100_000, b"NaN"],
    ids=["empty", "half", "list", "null", "bytes", "surrogate", "deep", "nan"],
)
def test_a_body_that_is_no_payload_is_refused(press: Press, body: bytes) -> None:
    """400, whatever it is."""
    refused = press.web.post("/publications", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 400
    assert code_of(refused) == "bad_input"


def test_a_body_must_say_that_it_is_json(press: Press) -> None:
    """A form of a foreign page can't publish."""
    refused = press.web.post("/publications", content=b"{}", headers={"Content-Type": "text/plain"})
    assert refused.status_code == 400


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(press: Press, chunked: bool) -> None:
    """413, with its length told or not."""
    large = b" " * 1_100_000
    content: Any = iter([large]) if chunked else large
    refused = press.web.post("/publications", content=content, headers={"Content-Type": "application/json"})
    assert refused.status_code == 413
    assert code_of(refused) == "too_large"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Idempotency-Key", ""),
        ("Idempotency-Key", "a b"),
        ("Idempotency-Key", "k" * 256),
        ("Idempotency-Key", b"k\xe9"),
        ("Request-Deadline", ""),
        ("Request-Deadline", "soon"),
        ("Request-Deadline", "2030-01-01"),
        ("Request-Deadline", "2030-01-01T00:00:00"),
        ("Request-Deadline", "2030-13-01T00:00:00Z"),
        ("Request-Deadline", "1767225600"),
        ("If-Match", ""),
        ("If-Match", "*"),
        ("If-Match", "-1"),
        ("If-Match", "one"),
    ],
)
def test_a_header_that_is_wrong_is_refused(press: Press, channel: str, header: str, value: Any) -> None:
    """400: a key or a deadline that is not understood must not count as none."""
    refused = press.publish(channel, headers={header: value})
    assert refused.status_code == 400
    assert code_of(refused) == "bad_header"
    assert refused.json()["header"] == header
    assert press.done(channel=channel) == 0


def test_two_keys_are_refused(press: Press, channel: str) -> None:
    """Neither of them is a guess."""
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    refused = press.web.post("/publications", json=payload(channel), headers=headers)
    assert code_of(refused) == "bad_header"


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"kind": "explode"},
        {"kind": "refuse", "times": 0},
        {"kind": "refuse", "times": 10_001},
        {"kind": "refuse", "times": True},
        {"kind": "delay"},
        {"kind": "late"},
        {"kind": "delay", "seconds": -1},
        {"kind": "delay", "seconds": 1e9},
        {"kind": "drop_reply", "seconds": 1},
        {"kind": "late", "seconds": 1, "match": {"method": "GET"}},
        {"kind": "refuse", "match": {"method": "PUT"}},
        {"kind": "refuse", "match": {"topic": "x"}},
    ],
)
def test_a_fault_that_can_not_be_is_refused(press: Press, wish: dict[str, Any]) -> None:
    """400, and no fault is there."""
    refused = press.web.post("/faults", json=wish)
    assert refused.status_code == 400
    assert code_of(refused) == "bad_input"
    assert press.get("/faults")["items"] == []


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "unknown_address"),
        ("PUT", "/publications", 405, "method_not_allowed"),
        ("GET", "/channels/No%20Such", 400, "bad_input"),
        ("GET", "/publications?limit=0", 400, "bad_input"),
        ("GET", "/executions?key=a%20b", 400, "bad_input"),
        ("GET", "/docs", 404, "unknown_address"),
    ],
)
def test_an_address_that_is_wrong_is_refused(press: Press, method: str, path: str, status: int, code: str) -> None:
    """4xx with a code."""
    refused = press.web.request(method, path)
    assert refused.status_code == status
    assert code_of(refused) == code


def test_it_listens_on_the_loopback_alone(press: Press) -> None:
    """On no other address of this machine, 127.0.0.2 included."""
    where = urlsplit(press.url)
    assert where.hostname == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", where.port or 0), timeout=5)


# -- the page --

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>",
    "</td></table><h1>gone</h1>",
    "javascript:alert(1)",
    "{{ 7 * 7 }} ${7*7} &lt;b&gt;",
    "\u202egnp.exe",
]


TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "table", "tr", "th", "td", "bdi", "p"}


class _Read(HTMLParser):
    """The page, taken apart."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.texts: list[str] = []

    @classmethod
    def of(cls, press: Press) -> _Read:
        made = cls()
        made.feed(press.web.get("/").text)
        made.close()
        return made

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_hostile_titles_stay_text(press: Press, channel: str) -> None:
    """Each is there as it was given, and makes no tag and no attribute."""
    for number, title in enumerate(HOSTILE):
        artifact = {"sha256": "a" * 64, "version": title, "uri": title}
        press.publish(channel, f"<b>{number}</b>", title=title, body=title, artifact=artifact)
    page = _Read.of(press)
    assert set(HOSTILE) <= set(page.texts)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert {name for _, attributes in page.tags for name, _ in attributes} <= {"lang", "charset", "class"}


def test_the_page_runs_nothing(press: Press) -> None:
    """The policy forbids everything but the page's own style, which is the one that it names."""
    answer = press.web.get("/")
    policy = answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    style = re.search(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert style is not None
    assert base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode() in policy


def test_what_was_retracted_is_shown_as_such(press: Press, channel: str) -> None:
    """The row stays, and is marked."""
    one = press.publish(channel).json()
    press.web.delete(one["url"])
    row = next(line for line in press.web.get("/").text.splitlines() if one["id"] in line)
    assert row.startswith('<tr class="retracted">')
