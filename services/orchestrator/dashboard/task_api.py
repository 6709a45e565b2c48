"""The one door for writes: an action of a page is a request to the task service with the person's own session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx2

from stanchion.contracts.actions import Action
from stanchion.errors import StanchionError, Unavailable, register_code
from stanchion.sdk.faults import from_problem

from .door import Visitor

SECONDS: Final = 20.0

AWAY: Final = register_code(
    "E-PAGE-01",
    "the task service does not answer",
    status=503,
    meaning="Pages are read from the database; whatever changes something goes through the task service.",
    fix="Start it, or set STANCHION_TASK_SERVICE_URL to where it answers.",
)


class TaskApi:
    """Requests to the task service; thread-safe. `url` is None where none was named."""

    def __init__(self, url: str | None) -> None:
        self.url = url
        # one client for all visitors: a cookie that it kept would be sent with the next request of somebody else
        nobodys = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self._client = httpx2.Client(
            base_url=url or "http://127.0.0.1:9", timeout=SECONDS, follow_redirects=False, cookies=nobodys
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def do(self, visitor: Visitor, action: Action, target: str, body: Mapping[str, Any], *, csrf: str) -> Any:
        """Do an action in a visitor's name and return the document of the answer; raises what the task service says.

        `csrf` is what the form showed: the task service holds it against the session.
        """
        sent = dict(body) | ({action.id_field: target} if action.id_field else {})
        headers = visitor.forwarded | ({"x-csrf-token": csrf} if csrf else {})
        return self.send(action.method, path_of(action, target), headers, sent or None)

    def send(self, method: str, path: str, headers: Mapping[str, str], body: Any, seconds: float = SECONDS) -> Any:
        """A request with a JSON body (None: without one), and the document of its answer."""
        answer = self.ask(method, path, headers, body, seconds)
        if answer.is_error:
            raise self.refusal(answer)
        return answer.json() if answer.content else None

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: Any = None, seconds: float = SECONDS
    ) -> httpx2.Response:
        """The answer as it came; raises Unavailable E-PAGE-01 when none did."""
        try:
            return self._client.request(method, path, headers=_sendable(headers), json=body, timeout=seconds)
        except httpx2.TransportError as error:
            raise _away(error) from error

    @staticmethod
    def refusal(answer: httpx2.Response) -> StanchionError:
        """The error that an answer means."""
        try:
            document = answer.json()
        except ValueError:
            document = {}
        where = f"{answer.request.method} {answer.request.url.path}"
        return from_problem(answer.status_code, document if isinstance(document, dict) else {}, where=where)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], seconds: float = SECONDS) -> Iterator[httpx2.Response]:
        """An answer that is read as it comes, with at most `seconds` until its next piece."""
        try:
            with self._client.stream("GET", path, headers=_sendable(headers), timeout=seconds) as answer:
                yield answer
        except httpx2.TransportError as error:
            raise _away(error) from error


def path_of(action: Action, target: str, query: Mapping[str, str] | None = None) -> str:
    """The path of an action's request; a target is data, and never more than one segment."""
    path = action.path.replace("{id}", quote(target, safe=""))
    return f"{path}?{urlencode(query)}" if query else path


def _sendable(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    """Headers as bytes. Browsers send cookies that are no ASCII, and a token of a form may be anything."""
    texts = {name: "".join(c if c.isprintable() else "?" for c in value) for name, value in headers.items()}
    return {name.encode(): text.encode("latin-1", "replace") for name, text in texts.items()}


def _away(error: Exception) -> Unavailable:
    return Unavailable(
        AWAY,
        "the task service does not answer, so nothing was changed",
        why=f"{type(error).__name__}; what runs goes on, and pages still show it",
        fix="try again once it is back: stanchion doctor",
    )
