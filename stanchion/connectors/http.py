"""Effects over HTTP: a request with a key, and a look-up by that key.

What an answer means is decided here once, for all operations of a host:

- it never left (the connection was refused, the host guard is shut), or the answer is in `not_done`: NotSent
- 2xx: done, the receipt is the answer
- 4xx that can't be a matter of time or of somebody else: Refused
- everything else, among it every 5xx and every answer that did not come: nobody knows
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import httpx2

from stanchion.contracts import limits, payload
from stanchion.errors import StanchionError, Unavailable
from stanchion.workflow.durations import Duration
from stanchion.workflow.operation import AnyOperation, Call, NotSent, Operation, Reach, Refused

from .host_guard import HostGuard, wait_of

__all__ = ["Http", "HttpReceipt"]

HttpReceipt = dict[str, Any]
"""`status`, `body` (JSON, or text), and `id`: the request's id as the other side named it, where it did."""

UNDECIDED: Final = frozenset({408, 409, 421, 423, 425})
"""4xx that say nothing final: the first request may be under way, or another one in its place."""
REQUEST_IDS: Final = ("request-id", "x-request-id", "x-correlation-id")
ANSWER_BYTES: Final = limits.INLINE_BYTES // 2
NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: at most `ANSWER_BYTES` of it and one more, by which a longer one is known."""

    request: str
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace").replace("\x00", "\ufffd")


class Http:
    """A host and its habits.

    `key_header` carries the key of the operation; `deadline_header` the time after which the request is not to be
    executed, in RFC 3339, where an operation declares `lands_within`. `not_done` are the states by which the host says
    that it did nothing yet (429 by default; add 503 only when the host itself sends it, and not a proxy before it).
    `headers` may be a function, called for each request: secrets then live as long as that, and are never stored.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        key_header: str = "Idempotency-Key",
        deadline_header: str | None = None,
        not_done: Collection[int] = (429,),
        guard: HostGuard | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.headers = headers
        self.key_header = key_header
        self.deadline_header = deadline_header
        self.not_done = frozenset(not_done)
        self.guard = guard or HostGuard(self.base_url)
        self._lock = threading.Lock()
        self._made: httpx2.Client | None = None

    def operation(
        self,
        kind: str,
        method: str,
        path: str | Callable[[Any], str],
        *,
        body: Callable[[Any], Any] | None = None,
        lookup: str | Callable[[Any], str] | None = None,
        found: Callable[[HttpReceipt], bool] | None = None,
        undo: AnyOperation | None = None,
        keeps_key: Duration | None = None,
        lands_within: Duration | None = None,
        timeout: Duration = "30s",
        reach: Reach | None = None,
        unsafe_no_check: str | None = None,
        needs_approval: bool = False,
        cost: Mapping[str, float] | None = None,
    ) -> Operation[Any, HttpReceipt]:
        """An operation of this host; its payload is any JSON value, and is what is sent unless `body` makes it.

        `path` and `lookup` are templates: `{key}` is the key, `{name}` a field of the payload; or functions of the
        payload. `lookup` is read with GET: 404 means "not found", 2xx "done", unless `found` says no; anything else
        settles nothing.
        """
        assert method.upper() not in ("GET", "HEAD", "OPTIONS"), "an operation has an effect"

        def do(call: Call, value: Any) -> HttpReceipt:
            sent = value if body is None else body(value)
            return self._done(self._request(method, _filled(path, call, value), call, sent))

        def check(call: Call, value: Any) -> HttpReceipt | None:
            assert lookup is not None
            answer = self._request("GET", _filled(lookup, call, value), call, None)
            if answer.status == httpx2.codes.NOT_FOUND:
                return None
            if not answer.is_success:
                raise Unavailable("E-OP-10", f"the look-up says {answer.status}")
            receipt = _receipt(answer)
            return receipt if found is None or found(receipt) else None

        return Operation(
            kind,
            do=do,
            check=None if lookup is None else check,
            undo=undo,
            keeps_key=keeps_key,
            lands_within=lands_within,
            timeout=timeout,
            reach=reach,
            unsafe_no_check=unsafe_no_check,
            needs_approval=needs_approval,
            cost=cost,
        )

    def _request(self, method: str, path: str, call: Call, body: Any) -> Answer:
        self.guard.enter()
        headers = {self.key_header: call.key, **(self.headers() if callable(self.headers) else self.headers or {})}
        if self.deadline_header is not None and call.deadline is not None:
            headers[self.deadline_header] = _rfc3339(call.deadline)
        content = None if body is None else payload.dumps(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            with self._client().stream(method, path, headers=headers, content=content, timeout=call.timeout) as raw:
                answer = Answer(f"{method} {raw.request.url.path}", raw.status_code, raw.headers, _read(raw))
        except NOT_SENT as error:
            self.guard.failed()
            raise NotSent(f"{method} {self.base_url}: {type(error).__name__}: {error}") from error
        except httpx2.TransportError:
            self.guard.failed()
            raise
        self.guard.answered(answer.status, answer.headers.get("retry-after"))
        return answer

    def _done(self, answer: Answer) -> HttpReceipt:
        if answer.is_success:
            return _receipt(answer)
        what = f"{answer.request} says {answer.status}: {answer.text[:200]}"
        if answer.status in self.not_done:
            raise NotSent(what, wait_seconds=wait_of(answer.headers.get("retry-after")))
        if 400 <= answer.status < 500 and answer.status not in UNDECIDED:
            raise Refused(what)
        raise Unavailable("E-OP-10", what)

    def _client(self) -> httpx2.Client:
        """One for all threads, which keeps connections. No redirect is followed: where a request with an effect goes is
        not for an answer to decide."""
        with self._lock:
            if self._made is None:
                self._made = httpx2.Client(base_url=self.base_url, follow_redirects=False)
            return self._made

    def close(self) -> None:
        """Close its connections; it opens new ones when it is used again."""
        with self._lock:
            if self._made is not None:
                self._made.close()
            self._made = None


def _filled(template: str | Callable[[Any], str], call: Call, value: Any) -> str:
    if callable(template):
        return template(value)
    fields = value if isinstance(value, dict) else {}
    quoted = {name: quote(str(field), safe="") for name, field in fields.items()} | {"key": quote(call.key, safe="")}
    try:
        for part in template.partition("?")[0].split("/"):
            if "{" in part and part.format_map(quoted) in ("", ".", ".."):
                # nothing has left: a client would fold it away, and reach another address
                raise Refused(f"{template} can't be filled", why=f"{part} would be a step up, or nothing")
    except KeyError as error:
        raise Refused(f"{template} can't be filled", why=f"the payload has no {error}") from None
    return template.format_map(quoted)


def _read(answer: httpx2.Response) -> bytes:
    content = b""
    for chunk in answer.iter_bytes():
        content += chunk
        if len(content) > ANSWER_BYTES:
            break
    return content[: ANSWER_BYTES + 1]


def _receipt(answer: Answer) -> HttpReceipt:
    request_id = next((answer.headers[name] for name in REQUEST_IDS if name in answer.headers), None)
    receipt: HttpReceipt = {"status": answer.status, "body": _body(answer), "id": request_id}
    if "location" in answer.headers:
        receipt["location"] = answer.headers["location"]
    return receipt


def _body(answer: Answer) -> Any:
    if len(answer.content) > ANSWER_BYTES:
        return {"cut": True, "text": answer.text[:1_000]}
    if not answer.content:
        return None
    try:
        return payload.parse(answer.content)
    except StanchionError:  # it is no JSON that can be kept; the effect was had, so it is kept as text
        return answer.text[:10_000]


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
