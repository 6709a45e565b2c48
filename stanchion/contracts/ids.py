"""Ids: UUIDv7 inside, `prefix_` and 26 characters of Crockford base32 outside.

A UUIDv7 opens with its time in milliseconds, so ids sort by birth and indexes grow at one end. The public form sorts
the same way, names its kind, and survives being read aloud: no I, L, O or U, case does not matter.
"""

from __future__ import annotations

import os
import re
from typing import Final
from uuid import UUID

import uuid_utils

from stanchion.errors import Unprocessable

TASK: Final = "tsk"
RUN: Final = "run"
STEP: Final = "stp"
ATTEMPT: Final = "att"
OPERATION: Final = "op"
APPROVAL: Final = "apr"
ARTIFACT: Final = "art"
THREAD: Final = "thr"
WORKER: Final = "wrk"
KEY: Final = "key"
EVENT: Final = "evt"
DEAD_LETTER: Final = "ded"
CHECKPOINT: Final = "ckp"
WORKSPACE: Final = "wsp"
PERSON: Final = "usr"
SESSION: Final = "ses"
WEBHOOK: Final = "whk"
DELIVERY: Final = "dlv"
JOB: Final = "job"
VIEW: Final = "viw"
ERROR: Final = "err"

PREFIXES: Final = frozenset(
    {
        TASK,
        RUN,
        STEP,
        ATTEMPT,
        OPERATION,
        APPROVAL,
        ARTIFACT,
        THREAD,
        WORKER,
        KEY,
        EVENT,
        DEAD_LETTER,
        CHECKPOINT,
        WORKSPACE,
        PERSON,
        SESSION,
        WEBHOOK,
        DELIVERY,
        JOB,
        VIEW,
        ERROR,
    }
)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)  # 10 bits at a time: half the steps
_BODY = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_LOOKALIKES = str.maketrans("ILO", "110")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_SHIFTS = tuple(range(120, -1, -10))

# A forked child would go on with its parent's random numbers and mint the same ids.
os.register_at_fork(after_in_child=uuid_utils.reseed_rng)


def new_id() -> UUID:
    """A new UUIDv7, as the standard library's UUID."""
    return UUID(int=uuid_utils.uuid7().int)


def public(prefix: str, value: UUID) -> str:
    """The public form of an id: the prefix, an underscore and 26 characters of Crockford base32."""
    number = value.int
    return prefix + "_" + "".join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS])


def parse(text: str, prefix: str) -> UUID:
    """The UUID that `text` stands for: `prefix_` and 26 characters, or a bare UUID with hyphens.

    Raises Unprocessable E-DATA-11; an id of another kind is named as such.
    """
    if _UUID.fullmatch(text):
        return UUID(text)
    found, underscore, body = text.partition("_")
    body = body.upper().translate(_LOOKALIKES) if text.isascii() else ""  # upper() turns some other letters into ASCII
    if underscore and found.lower() == prefix and _BODY.fullmatch(body):
        number = 0
        for character in body:
            number = number << 5 | _VALUES[character]
        return UUID(int=number)
    raise Unprocessable(
        "E-DATA-11",
        f"{_shown(text)} is not an id of the form {prefix}_ + 26 characters, nor a UUID",
        why=f"it is an id of another kind ({found.lower()}_)" if found.lower() in PREFIXES - {prefix} else None,
        fix="copy the id as it was shown",
    )


def _shown(text: str) -> str:
    # Foreign text goes into an error: short, printable, and quoted.
    return ascii(text if len(text) <= 40 else text[:37] + "...")
