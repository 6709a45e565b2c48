"""Signatures: what is signed can't be changed, and a server can't sign."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from stanchion.contracts import signing
from stanchion.contracts.envelope import Envelope
from stanchion.contracts.ids import new_id
from stanchion.errors import NotAllowed, Unprocessable

PRIVATE = bytes(range(32))
PUBLIC = signing.public_of(PRIVATE)
BODY = b'{"workflow":"brief"}'
MESSAGE = Envelope(
    id=UUID("018f0000-0000-7000-8000-000000000001"),
    type="SubmitTask",
    source="/cli",
    time=datetime(2030, 1, 31, 12, tzinfo=UTC),
    tenant="acme",
)
SIGNED = signing.sign_envelope(MESSAGE, BODY, "web-1", PRIVATE)


def test_a_signed_message_verifies_after_its_trip_through_headers() -> None:
    """What the server reads is what the sender signed."""
    read = Envelope.from_headers(SIGNED.to_headers())
    assert signing.read_signature(read)[0] == "web-1"
    signing.verify_envelope(read, BODY, PUBLIC)


def test_the_form_is_fixed() -> None:
    """A sender in another language can rely on it: same key and message, same signature, for ever."""
    assert signing.signed_bytes("é", MESSAGE.id, MESSAGE.time, b"x") == (
        b"stanchion-signature-v1"
        b"\x00\x00\x00\x00\x00\x00\x00\x02\xc3\xa9"
        b"\x00\x00\x00\x00\x00\x00\x00\x24018f0000-0000-7000-8000-000000000001"
        b"\x00\x00\x00\x00\x00\x00\x00\x1b2030-01-31T12:00:00.000000Z"
        b"\x00\x00\x00\x00\x00\x00\x00\x01x"
    )
    assert signing.sign(PRIVATE, "acme", MESSAGE.id, MESSAGE.time, BODY).hex() == (
        "fe0f2f036234268d62760fa73b94b410a2e35575e2225cf1ca3698416ba0bf077718d9ce308faf5491e05bc186215aaffb3aabcbe129ec337a40cc866b5f830b"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "other"},
        {"id": new_id()},
        {"time": MESSAGE.time + timedelta(microseconds=1)},
    ],
)
def test_a_changed_envelope_is_refused(change: dict[str, Any]) -> None:
    """Tenant, id and time are signed."""
    with pytest.raises(NotAllowed) as caught:
        signing.verify_envelope(replace(SIGNED, **change), BODY, PUBLIC)
    assert caught.value.code == "E-AUTH-04"


@pytest.mark.parametrize("body", [b"", BODY + b" ", BODY[:-1], b'{"workflow":"other"}'])
def test_a_changed_body_is_refused(body: bytes) -> None:
    """To the byte."""
    with pytest.raises(NotAllowed):
        signing.verify_envelope(SIGNED, body, PUBLIC)


def test_bytes_can_not_move_between_the_parts() -> None:
    """Lengths before parts: ("ab", "c") is not ("a", "bc")."""
    one = signing.sign(PRIVATE, "ab", MESSAGE.id, MESSAGE.time, b"c")
    with pytest.raises(NotAllowed):
        signing.verify(PUBLIC, one, "a", MESSAGE.id, MESSAGE.time, b"bc")


def test_another_key_does_not_fit() -> None:
    """A message signed under an old key is refused once that key is gone."""
    _, other = signing.new_key()
    with pytest.raises(NotAllowed):
        signing.verify_envelope(SIGNED, BODY, other)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "E-AUTH-01"),
        ({"ce_keyid": b"web-1"}, "E-AUTH-01"),
        ({"ce_signature": b"x"}, "E-AUTH-01"),
        ({"ce_keyid": b"\xff", "ce_signature": b"aaaa"}, "E-AUTH-04"),
        ({"ce_keyid": b"web-1", "ce_signature": b"not base64!"}, "E-AUTH-04"),
        ({"ce_keyid": b"web-1", "ce_signature": b"\xff"}, "E-AUTH-04"),
        ({"ce_keyid": b"web-1", "ce_signature": b"YWJj"}, "E-AUTH-04"),
        ({"ce_keyid": b"web-1", "ce_signature": b""}, "E-AUTH-04"),
    ],
)
def test_missing_and_garbled_signatures_are_told_apart(headers: dict[str, bytes], code: str) -> None:
    """Not signed is one thing, badly signed another; neither is a crash."""
    with pytest.raises(NotAllowed) as caught:
        signing.verify_envelope(replace(MESSAGE, extensions=headers), BODY, PUBLIC)
    assert caught.value.code == code


@pytest.mark.parametrize("key", [b"", b"x" * 31, b"x" * 33])
def test_a_public_key_of_the_wrong_size_never_fits(key: bytes) -> None:
    """A damaged row in the key table refuses, it does not crash the intake."""
    with pytest.raises(NotAllowed):
        signing.verify_envelope(SIGNED, BODY, key)


def test_a_private_key_of_the_wrong_size_is_named() -> None:
    """The sender learns what is wrong with its key, not the key."""
    with pytest.raises(Unprocessable, match="32 bytes, not 5"):
        signing.sign(b"12345", "acme", MESSAGE.id, MESSAGE.time, BODY)
