"""HTTP to the task service with the standard library: kept connections, bounded retries, errors in our families.

A request that is not known to have been done is sent again only when doing it twice is the same as once: reads, and
writes that carry an idempotency key or set something to a value. Thread-safe: every request has a connection to itself.
"""

from __future__ import annotations

import http.client
import json
import select
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from stanchion.errors import StanchionError, Unavailable, Unprocessable
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.clock import Deadline, pause
from stanchion.sdk import faults

CONNECT_SECONDS: Final = 5.0
KEPT_CONNECTIONS: Final = 8
TRIES: Final = 6
_PASSING: Final = frozenset({429, 502, 503, 504})
_RETRY_AFTER_MOST: Final = 30.0

Query = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, and the document (None for an empty body)."""

    status: int
    document: Any


class Transport:
    """Requests to one API. `timeout` bounds one call with all its retries, in seconds."""

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 30.0, agent: str = "stanchion-sdk"
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._place = _address(self.url)
        self._headers = {"Accept": "application/json", "User-Agent": agent}
        if key := (key or "").strip():  # a file or a variable ends with a line break easily
            self._headers["Authorization"] = f"Bearer {_sendable(key)}"
        self._free: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        repeatable: bool | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send a request and return the document of its answer.

        Raises Unavailable E-API-01 when no answer came, and the family of the status otherwise. `repeatable` says that
        doing it twice is doing it once; reads are.
        """
        may_repeat = method == "GET" if repeatable is None else repeatable
        deadline, backoff = Deadline(self.timeout if timeout is None else timeout), Backoff(0.05, 2.0)
        for tries_left in reversed(range(TRIES)):
            try:
                return self._once(method, path, query, body, deadline).document
            except _NotSent as error:
                failure: StanchionError = error.failure
                repeat = True
            except Unavailable as error:
                failure = error
                repeat = may_repeat or error.details.get("status") == http.HTTPStatus.TOO_MANY_REQUESTS
            wait = failure.details.get("retry_after") or backoff.next()
            if not repeat:
                failure.why = f"{failure.why or failure.what}; it may or may not have been done"
                raise failure
            if not tries_left or wait >= deadline.left:
                raise failure
            pause(wait)
        raise AssertionError("the last try returns or raises")

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        idle_seconds: float = 60.0,
    ) -> Iterator[http.client.HTTPResponse]:
        """An open answer to read line by line; its connection is closed at the end.

        Raises what `call` raises. A silence of `idle_seconds` is an OSError in the reader.
        """
        connection = self._connected(Deadline(CONNECT_SECONDS))
        try:
            given = {**self._headers, "Accept": "text/event-stream", **(headers or {})}
            try:
                connection.request("GET", self._target(path, query), headers=given)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(error) from error
            if response.status != http.HTTPStatus.OK:
                raise _refused(response, response.read(), f"GET {path}")
            if connection.sock is not None:
                connection.sock.settimeout(idle_seconds)
            yield response
        finally:
            connection.close()

    def send(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        query: Query | None = None,
        media_type: str,
        size: int | None,
        idle_seconds: float = 120.0,
    ) -> Any:
        """POST a body as it comes, once, and return the document of the answer.

        A refusal may come before all was sent: then it is what is raised. A silence of `idle_seconds` ends it.
        """
        connection = self._connected(Deadline(CONNECT_SECONDS))
        try:
            assert connection.sock is not None
            connection.sock.settimeout(idle_seconds)
            headers = {**self._headers, "Content-Type": media_type}
            headers |= {"Content-Length": str(size)} if size is not None else {"Transfer-Encoding": "chunked"}
            with _cut_short():
                connection.request(
                    "POST", self._target(path, query), body=chunks, headers=headers, encode_chunked=size is None
                )
            response = connection.getresponse()
            raw = response.read()
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()
        if not http.HTTPStatus.OK <= response.status < http.HTTPStatus.MULTIPLE_CHOICES:
            raise _refused(response, raw, f"POST {path}")
        return _document(raw, self.url)

    def close(self) -> None:
        """Close all kept connections."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _once(self, method: str, path: str, query: Query | None, body: Any, deadline: Deadline) -> Answer:
        encoded = None if body is None else _encoded(body)
        headers = dict(self._headers)
        if encoded is not None:
            headers["Content-Type"] = "application/json"
        connection = self._take(deadline)
        try:
            connection.request(method, self._target(path, query), body=encoded, headers=headers)
            response = connection.getresponse()
            raw = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from error
        except BaseException:
            connection.close()
            raise
        self._keep(connection, response)
        if not http.HTTPStatus.OK <= response.status < http.HTTPStatus.MULTIPLE_CHOICES:
            raise _refused(response, raw, f"{method} {path}")
        return Answer(response.status, _document(raw, self.url) if raw else None)

    def _target(self, path: str, query: Query | None) -> str:
        pairs = [(name, _text(value)) for name, value in (query or {}).items() if value is not None and value != ()]
        return self._place.path + quote(path) + (f"?{urlencode(pairs)}" if pairs else "")

    def _take(self, deadline: Deadline) -> http.client.HTTPConnection:
        with self._lock:
            while self._free:
                connection = self._free.pop()
                # A server that closed a kept connection has said so: using it would look like a request that got lost.
                if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                    connection.sock.settimeout(max(deadline.left, 0.05))
                    return connection
                connection.close()
        return self._connected(deadline)

    def _connected(self, deadline: Deadline) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._place.scheme == "https" else http.client.HTTPConnection
        seconds = max(min(CONNECT_SECONDS, deadline.left), 0.05)
        connection = kind(str(self._place.hostname), self._place.port, timeout=seconds)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise _NotSent(self._unreachable(error)) from error
        assert connection.sock is not None
        connection.sock.settimeout(max(deadline.left, 0.05))
        return connection

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        if response.will_close or connection.sock is None:
            connection.close()
            return
        with self._lock:
            if len(self._free) < KEPT_CONNECTIONS:
                self._free.append(connection)
                return
        connection.close()

    def _unreachable(self, error: BaseException) -> Unavailable:
        return Unavailable(
            faults.UNREACHABLE,
            f"the API at {self.url} does not answer",
            why=str(error) or type(error).__name__,
            fix="check the address, and that the task service runs",
        )


@contextmanager
def _cut_short() -> Iterator[None]:
    """A server that refuses a body closes its side while it is sent: its answer is there to be read all the same."""
    with suppress(BrokenPipeError, ConnectionResetError):
        yield


class _NotSent(Unavailable):
    """No connection was made: nothing can have been done."""

    def __init__(self, failure: Unavailable) -> None:
        super().__init__(failure.code, failure.what, why=failure.why, fix=failure.fix)
        self.failure = failure


def _address(url: str) -> SplitResult:
    place = urlsplit(url)
    try:
        fault = place.scheme not in ("http", "https") or not place.hostname or place.port == 0
    except ValueError:
        fault = True
    if fault or place.query or place.fragment or place.username:
        raise Unprocessable(faults.BAD_ADDRESS, f"{url[:200]!a} is no address of an API")
    return place


def _text(value: Any) -> str:
    """A parameter as the API reads it: several values stand in one, separated by commas."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(str(item) for item in value)
    return str(value)


def _document(raw: bytes, url: str) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        text = raw[:200].decode("utf-8", "replace")
        raise StanchionError(
            faults.UNREADABLE, f"what answers at {url} is not the task service", why=f"it sent {text!a}"
        ) from None


def _sendable(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise Unprocessable(
            faults.BAD_KEY, "the API key has characters that no key has", why="it is not shown here, since it is secret"
        )
    return key


def _encoded(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise Unprocessable(
            "E-DATA-15", f"what is to be sent is no JSON: {error}", fix="use texts, finite numbers, lists and objects"
        ) from None


def _refused(response: http.client.HTTPResponse, raw: bytes, where: str) -> StanchionError:
    if response.status < http.HTTPStatus.BAD_REQUEST:  # a redirect: something in between wants it elsewhere
        return StanchionError(
            faults.UNREADABLE,
            f"what answers there is not the task service: it says {response.status}",
            where=where,
            why=f"it names {response.headers.get('Location', 'no other place')[:200]}",
            fix="use the address that the API has itself, https if that is what it speaks",
        )
    try:
        problem = json.loads(raw)
    except ValueError:
        problem = None  # a proxy in between speaks HTML
    error = faults.from_problem(response.status, problem if isinstance(problem, Mapping) else {}, where=where)
    if response.status in _PASSING:
        with suppress(TypeError, ValueError):
            error.details["retry_after"] = min(float(response.headers.get("Retry-After", "")), _RETRY_AFTER_MOST)
    return error
