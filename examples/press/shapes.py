"""The bodies that the press takes."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StringConstraints, model_validator

MOST_SECONDS: Final = 86_400
MOST_TIMES: Final = 10_000
SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every reader of JSON reads as the same number."""


def _without_controls(value: str) -> str:
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise ValueError("it has a control character")
    return value


Channel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Key = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,255}$")]
Line = Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(_without_controls)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Version = (
    Annotated[StrictInt, Field(ge=0, le=SAFE_INTEGER)]
    | Annotated[str, StringConstraints(strict=True, min_length=1, max_length=100)]
)


class Shape(BaseModel):
    """Nothing is taken that is not known: a misspelt field must not be a publication without it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Artifact(Shape):
    """What is published, by its content."""

    sha256: Sha256
    version: Version
    uri: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] | None = None


class Publication(Shape):
    """The payload of a publication. A field that is null is the same payload as one that is not there."""

    channel: Channel
    title: Line
    body: Annotated[str, StringConstraints(max_length=200_000)] | None = None
    artifact: Artifact


class FaultKind(StrEnum):
    """What can be made to go wrong; the README says what each does."""

    DROP_REPLY = "drop_reply"
    REFUSE = "refuse"
    ERROR_AFTER = "error_after"
    DELAY = "delay"
    LATE = "late"
    FORGET_KEYS = "forget_keys"
    BAD_ANSWER = "bad_answer"
    RATE_LIMIT = "rate_limit"


NEED_SECONDS: Final = frozenset({FaultKind.DELAY, FaultKind.LATE})
MAY_HAVE_SECONDS: Final = NEED_SECONDS | {FaultKind.REFUSE, FaultKind.RATE_LIMIT}


class Match(Shape):
    """Which requests a fault is for. Without a method: those that do work; a look-up only when GET is said."""

    channel: Channel | None = None
    key: Key | None = None
    method: Literal["POST", "DELETE", "GET"] | None = None


class FaultWish(Shape):
    """A fault, and how often it happens."""

    kind: FaultKind
    times: Annotated[StrictInt, Field(ge=1, le=MOST_TIMES)] = 1
    seconds: Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)] | None = None
    match: Match = Match()

    @model_validator(mode="after")
    def _seconds_belong_to_the_kind(self) -> FaultWish:
        if self.kind in NEED_SECONDS and self.seconds is None:
            raise ValueError(f"{self.kind} needs seconds")
        if self.kind not in MAY_HAVE_SECONDS and self.seconds is not None:
            raise ValueError(f"{self.kind} has no seconds")
        if self.kind is FaultKind.LATE and self.match.method == "GET":
            raise ValueError("a look-up can't be late: it does nothing that could still happen")
        return self


def canonical(payload: Mapping[str, Any]) -> str:
    """The one text of a payload: keys in order, no blanks, integers only. The same as RFC 8785 for what is taken here."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    """SHA-256 of a canonical text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
