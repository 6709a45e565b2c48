"""How webhooks are signed, for whoever sends and whoever receives them.

    Stanchion-Signature: t=1767225600,v1=5257a869...

`v1` is the HMAC-SHA-256, in hex, of the time, a dot and the body as it came, under the secret of the webhook. A receiver
compares in constant time and refuses what is older than a few minutes, so that a copy of a call is of no use later.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final
from uuid import UUID

from stanchion.errors import NotAllowed, register_code

SIGNATURE_HEADER: Final = "Stanchion-Signature"
EVENT_ID_HEADER: Final = "Stanchion-Event-Id"
EVENT_TYPE_HEADER: Final = "Stanchion-Event-Type"
TRY_HEADER: Final = "Stanchion-Try"

SECRET_PREFIX: Final = "whs_"  # noqa: S105 - how a secret begins, which is none
TOLERANCE_SECONDS: Final = 300

BAD_SIGNATURE: Final = register_code(
    "E-HOOK-01",
    "webhook is not signed right",
    status=403,
    meaning="The signature does not fit the body, or its time is too far from now.",
    fix="Check the secret of the webhook, and the clock; sign over the body as it came, byte for byte.",
)

_HEADER = re.compile(r"t=([0-9]{1,12}),\s*v1=([0-9a-f]{64})")


def secret_of(master: bytes, webhook_id: UUID) -> str:
    """The secret of a webhook: derived from the master key and its id, so that it is kept nowhere."""
    made = hmac.digest(master, b"stanchion webhook" + webhook_id.bytes, hashlib.sha256)
    return SECRET_PREFIX + base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def sign(secret: str, body: bytes, at: int) -> str:
    """The value of the signature header for a body that is sent at a time, in seconds since 1970."""
    return f"t={at},v1={_digest(secret, body, at)}"


def verify(secret: str, header: str, body: bytes, now: int, *, tolerance_seconds: int = TOLERANCE_SECONDS) -> None:
    """Raise NotAllowed E-HOOK-01 unless the header signs this body, at about this time."""
    match = _HEADER.fullmatch(header.strip())
    if match is None:
        raise NotAllowed(BAD_SIGNATURE, "the header has not the form t=...,v1=...", where=SIGNATURE_HEADER)
    at = int(match[1])
    if not hmac.compare_digest(match[2], _digest(secret, body, at)):
        raise NotAllowed(BAD_SIGNATURE, "the signature does not fit the body", where=SIGNATURE_HEADER)
    if abs(now - at) > tolerance_seconds:
        raise NotAllowed(BAD_SIGNATURE, "it was signed too long ago, or in the future", where=SIGNATURE_HEADER)


def _digest(secret: str, body: bytes, at: int) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
