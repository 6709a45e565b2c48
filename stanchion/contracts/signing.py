"""Signatures of Kafka commands: Ed25519 over what decides whose command it is and what it says.

The signed bytes are `stanchion-signature-v1`, then, for each of tenant, message id, time and body, its length (8 bytes,
big-endian) and itself: the tenant in UTF-8, the message id as its 36 lower-case characters, the time as `format_time`
writes it (UTC, six digits of a second, Z), the body as the value of the message. With lengths before the parts no two
different messages have the same signed bytes. The signature stands in the header `ce_signature` in base64, the name of
the key in `ce_keyid`. The server keeps public keys only: nothing in a topic or a dead letter lets anybody sign.

A copy of a signed message is the same message, by its id: every command that is applied, a submission as well as a
cancel, stands in the inbox in the transaction that applies it, and a copy changes nothing. Ids are forgotten after
`INBOX_DAYS`; so what was signed more than `SIGNED_DAYS` ago is refused, and no copy outlives the memory of its id.
What was refused was not applied, and is judged anew when it comes again.
The type is not signed: bodies of different commands have no valid reading as each other.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from stanchion.contracts.envelope import Envelope, format_time
from stanchion.errors import NotAllowed, Unprocessable

KEY_ID_HEADER: Final = "ce_keyid"
SIGNATURE_HEADER: Final = "ce_signature"

_DOMAIN = b"stanchion-signature-v1"
_KEY_BYTES = 32


def signed_bytes(tenant: str, message_id: UUID, time: datetime, body: bytes) -> bytes:
    """The bytes that are signed; see the module's text."""
    parts = (tenant.encode(), str(message_id).encode(), format_time(time).encode(), body)
    return _DOMAIN + b"".join(struct.pack(">Q", len(part)) + part for part in parts)


def sign(private_key: bytes, tenant: str, message_id: UUID, time: datetime, body: bytes) -> bytes:
    """The signature (64 bytes) with a raw private key of 32 bytes."""
    return _private(private_key).sign(signed_bytes(tenant, message_id, time, body))


def verify(public_key: bytes, signature: bytes, tenant: str, message_id: UUID, time: datetime, body: bytes) -> None:
    """Raise NotAllowed E-AUTH-04 unless the signature fits, for a raw public key of 32 bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, signed_bytes(tenant, message_id, time, body))
    except (InvalidSignature, ValueError):
        raise NotAllowed("E-AUTH-04", "the signature does not fit the message", where=SIGNATURE_HEADER) from None


def new_key() -> tuple[bytes, bytes]:
    """A new pair: the private key for the sender, the public key for the server (32 bytes each)."""
    private = Ed25519PrivateKey.generate()
    return (
        private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()),
        private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw),
    )


def public_of(private_key: bytes) -> bytes:
    """The public key (32 bytes) that belongs to a private key."""
    return _private(private_key).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def sign_envelope(envelope: Envelope, body: bytes, key_id: str, private_key: bytes) -> Envelope:
    """The same envelope with the headers that carry the signature."""
    signature = sign(private_key, envelope.tenant, envelope.id, envelope.time, body)
    added = {KEY_ID_HEADER: key_id.encode(), SIGNATURE_HEADER: base64.b64encode(signature)}
    return replace(envelope, extensions={**envelope.extensions, **added})


def read_signature(envelope: Envelope) -> tuple[str, bytes]:
    """Key id and signature of a message; raises NotAllowed E-AUTH-01 without them, E-AUTH-04 when they are garbled."""
    try:
        key_id = envelope.extensions[KEY_ID_HEADER].decode("ascii")
        signature = base64.b64decode(envelope.extensions[SIGNATURE_HEADER], validate=True)
    except KeyError:
        raise NotAllowed(
            "E-AUTH-01", "the message is not signed", fix=f"send {KEY_ID_HEADER} and {SIGNATURE_HEADER}"
        ) from None
    except (UnicodeDecodeError, binascii.Error):
        raise NotAllowed("E-AUTH-04", "the signature headers can't be read", where=SIGNATURE_HEADER) from None
    return key_id, signature


def verify_envelope(envelope: Envelope, body: bytes, public_key: bytes) -> None:
    """Raise NotAllowed unless the message carries a signature that fits this key."""
    _, signature = read_signature(envelope)
    verify(public_key, signature, envelope.tenant, envelope.id, envelope.time, body)


def _private(raw: bytes) -> Ed25519PrivateKey:
    if len(raw) != _KEY_BYTES:
        raise Unprocessable("E-AUTH-02", f"a signing key has {_KEY_BYTES} bytes, not {len(raw)}")
    return Ed25519PrivateKey.from_private_bytes(raw)
