"""What the press answers: a status with a body. A refusal is an answer too, so that its outcome commits with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

PROBLEM: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Answer:
    """`outcome` is the word that the list of requests has for it; of a problem, its code."""

    status: int
    outcome: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"


def problem(status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: object) -> Answer:
    """A problem as of RFC 9457, with a stable code."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "code": code, "detail": detail}
    return Answer(status, code, body | more, headers or {}, PROBLEM)


class Refusal(Exception):  # noqa: N818 - it is no error of ours: the request can't be read
    """Raised while a request is read, when it can't be taken for what it should be."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body["detail"])
        self.answer = answer
