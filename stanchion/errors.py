"""Every error that Stanchion raises, in four families named by what the catcher must do.

    StanchionError                 code, what, where, why, fix, details
    ├── Rejected                   the caller's fault: never retry, show it
    │   ├── Unauthenticated        401
    │   ├── NotAllowed             403
    │   ├── NotFound               404
    │   ├── Conflict               409
    │   ├── TooLarge               413
    │   └── Unprocessable          422
    │       └── BadMessage         (contracts.envelope) a message that can't be read: park it, go on
    ├── Unavailable                503  back off and try again
    ├── Superseded                 409  the fence moved on: stop quietly, change nothing
    └── InvariantViolated          500  a bug: crash, so that nobody builds on a broken fact
        └── Unstorable             500  values that the database can't keep: find the one to blame, and go on without it

    LeaseLost (BaseException)      raised inside user code, so that `except Exception` can't eat it

Codes are stable strings; `CODES` says for each what it means and how to get out of it. SQLSTATEs become errors in one
place, `from_sqlstate`. The same code stands in the API, on the command line, in `why` and in the logs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final

__all__ = [
    "CODES",
    "SCHEMA_DIFFERS",
    "CodeInfo",
    "Conflict",
    "InvariantViolated",
    "LeaseLost",
    "NotAllowed",
    "NotFound",
    "Rejected",
    "StanchionError",
    "Superseded",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "Unprocessable",
    "Unstorable",
    "from_sqlstate",
    "problem",
    "register_code",
]


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """What one code means: a title, the HTTP status, the meaning for people, and the usual way out."""

    title: str
    status: int
    meaning: str
    fix: str


CODES: dict[str, CodeInfo] = {}

_CODE = re.compile(r"E-[A-Z]+-[0-9]{2}")


def register_code(code: str, title: str, *, status: int, meaning: str, fix: str) -> str:
    """Add a code to `CODES` and return it; ValueError for a malformed code or a second, different meaning."""
    if not _CODE.fullmatch(code):
        raise ValueError(f"an error code looks like E-NAME-01, not {code!r}")
    info = CodeInfo(title, status, meaning, fix)
    if CODES.setdefault(code, info) != info:
        raise ValueError(f"{code} is registered already, with another meaning: {CODES[code].title!r}")
    return code


class StanchionError(Exception):
    """Root of all errors: a stable `code`, what happened, and, where known, where, why and the fix.

    `details` are small facts for machines (numbers, ids); never payloads, never secrets.
    """

    status: ClassVar[int] = 500

    def __init__(
        self,
        code: str,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        fix: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix
        self.details: dict[str, Any] = details

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from args alone; without this an error of a process-isolated step can't come home.
        return _rebuild, (type(self), dict(vars(self)))

    def __str__(self) -> str:
        lines = [f"{self.code} {self.what}" + (f" ({self.where})" if self.where else "")]
        if self.why:
            lines.append(self.why)
        if self.fix:
            lines.append(f"fix: {self.fix}")
        return "\n".join(lines)

    def problem(self, request_id: str | None = None) -> dict[str, Any]:
        """This error as an RFC 9457 problem object, ready for `application/problem+json`."""
        info = CODES.get(self.code)
        body: dict[str, Any] = {
            "type": f"/docs/errors/{self.code}",
            "title": info.title if info else self.what,
            "status": self.status,
            "detail": self.what,
            "code": self.code,
            "where": self.where,
            "why": self.why,
            "fix": self.fix or (info.fix if info else None),
            "request_id": request_id,
        }
        return {key: value for key, value in body.items() if value is not None}


def _rebuild(kind: type[StanchionError], fields: dict[str, Any]) -> StanchionError:
    # Subclasses may have constructors of their own (BadMessage): fill the fields without calling them.
    error = kind.__new__(kind, fields["what"])
    vars(error).update(fields)
    return error


class Rejected(StanchionError):  # noqa: N818 - families are named by what the catcher does
    """The caller's fault: repeating the same call gives the same answer."""

    status = 400


class Unauthenticated(Rejected):
    """Nobody, or nobody we know, is asking."""

    status = 401


class NotAllowed(Rejected):
    """The caller is known and has no right to this."""

    status = 403


class NotFound(Rejected):
    """No such thing in the caller's tenant."""

    status = 404


class Conflict(Rejected):
    """The thing changed meanwhile, or its state does not allow this."""

    status = 409


class TooLarge(Rejected):
    """Over a stated size."""

    status = 413


class Unprocessable(Rejected):
    """Understood, and wrong in itself."""

    status = 422


class Unavailable(StanchionError):  # noqa: N818 - families are named by what the catcher does
    """Something outside this process does not answer now: back off and try again."""

    status = 503


class Superseded(StanchionError):  # noqa: N818 - families are named by what the catcher does
    """Another attempt holds the fence: stop quietly; the refused write is on record."""

    status = 409


class InvariantViolated(StanchionError):  # noqa: N818 - families are named by what the catcher does
    """A bug: something that can't be was about to become a fact. The process must end, unless one row is to blame."""

    status = 500


class Unstorable(InvariantViolated):
    """The database can't keep one of the values it was given. Who sent a batch finds the culprit and fails it alone;
    where nobody does, it is a bug as any other."""


class LeaseLost(BaseException):
    """Raised inside user code once its attempt has lost the step; a BaseException, so no `except Exception` eats it."""

    def __init__(self, step: str, *, fence: int | None = None, why: str | None = None) -> None:
        super().__init__(step, fence, why)
        self.step = step
        self.fence = fence
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilt from args alone it would get keyword arguments by position, and the receiving process an error.
        return _rebuild_lost, (self.step, self.fence, self.why)

    def __str__(self) -> str:
        held = f", fence {self.fence}" if self.fence is not None else ""
        return f"E-LEASE-01 the lease on {self.step} is lost{held}" + (f": {self.why}" if self.why else "")


class InDoubt(BaseException):
    """Raised inside user code when nobody knows whether an operation was done: the step waits until it is known.

    A BaseException, so that no `except Exception` takes it for a failure. `delay_ms` is when to ask next, None when only
    a person can tell.
    """

    def __init__(self, error: dict[str, Any], delay_ms: int | None) -> None:
        super().__init__(error, delay_ms)
        self.error = error
        self.delay_ms = delay_ms

    def __str__(self) -> str:
        return f"{self.error.get('code')} {self.error.get('what')}"


def _rebuild_lost(step: str, fence: int | None, why: str | None) -> LeaseLost:
    return LeaseLost(step, fence=fence, why=why)


def problem(error: BaseException, request_id: str | None = None) -> dict[str, Any]:
    """Any exception as an RFC 9457 problem; a foreign one shows nothing of itself (its text may hold secrets)."""
    if isinstance(error, StanchionError):
        return error.problem(request_id)
    return InvariantViolated("E-BUG-01", "an unexpected error happened").problem(request_id)


# --- SQLSTATEs ------------------------------------------------------------------------------------------------------

# ST0xx are raised by our own functions and triggers; their MESSAGE may open with the precise code.
_OURS: dict[str, tuple[type[StanchionError], str]] = {
    "ST001": (InvariantViolated, "E-STATE-01"),
    "ST002": (InvariantViolated, "E-STATE-02"),
    "ST003": (Superseded, "E-LEASE-01"),
    "ST004": (InvariantViolated, "E-STATE-03"),
    "ST005": (InvariantViolated, "E-STATE-04"),
    "ST009": (NotAllowed, "E-AUTH-03"),
    "ST010": (NotFound, "E-FIND-01"),
    "ST011": (Conflict, "E-CONFLICT-01"),
    "ST012": (Unprocessable, "E-DATA-20"),
}

# What passes by itself: exact states first, then whole classes.
_PASSING: dict[str, str] = {
    "40001": "E-DB-03",  # serialization failure: run the transaction again
    "40P01": "E-DB-03",  # deadlock victim: the same
    "55P03": "E-DB-03",  # lock_timeout: somebody holds it longer than we wait
    "25006": "E-DB-04",  # read-only: we still talk to a primary that became a standby
    "25P03": "E-DB-01",  # idle-in-transaction timeout ended the session
    "57014": "E-DB-05",  # statement_timeout
}
_PASSING_CLASSES = {
    "08": "E-DB-01",  # connection
    "53": "E-DB-07",  # out of connections, memory or disk
    "57": "E-DB-01",  # shut down, crashed, starting, dropped
    "58": "E-DB-07",  # the system under PostgreSQL
    "28": "E-DB-08",  # the login is refused; a rotated password comes back
}
# The values do not fit: data exception, integrity constraint, a limit of the server.
_UNSTORABLE = ("22", "23", "54")
# The schema is not the one that this code was built for.
SCHEMA_DIFFERS: Final = "E-DB-02"
_OTHER_CLASSES = dict.fromkeys(("42", "3F", "3D"), SCHEMA_DIFFERS)

_PREFIXED = re.compile(r"(E-[A-Z]+-[0-9]{2})\s+(.*)", re.DOTALL)


def from_sqlstate(
    sqlstate: str | None, message: str, detail: str | None = None, hint: str | None = None
) -> StanchionError:
    """The error that a database answer means; `None` as state means that no answer came: `Unavailable`.

    `message` may open with a code ("E-IDEM-01 this key was used ..."); `detail` becomes why, `hint` the fix.
    """
    state = sqlstate or ""
    if state in _OURS:
        kind, code = _OURS[state]
        what = message
        if match := _PREFIXED.match(message):
            code, what = match.group(1), match.group(2)
        return kind(code, what.strip(), why=detail, fix=hint, sqlstate=state)
    if state == "0A000" and "cached plan" in message:  # a migration ran under a prepared statement
        return Unavailable("E-DB-06", message.strip(), sqlstate=state)
    passing = _PASSING.get(state) or _PASSING_CLASSES.get(state[:2]) or ("E-DB-01" if not state else None)
    if passing:
        return Unavailable(passing, message.strip() or "the database does not answer", fix=hint, sqlstate=state or None)
    # DETAIL of a constraint violation shows the row, which may hold a secret: it is not carried on.
    if state[:2] in _UNSTORABLE:
        return Unstorable("E-DB-11", message.strip(), fix=hint, sqlstate=state)
    return InvariantViolated(_OTHER_CLASSES.get(state[:2], "E-DB-09"), message.strip(), fix=hint, sqlstate=state)


# --- the codes ------------------------------------------------------------------------------------------------------

# code | status | title | meaning | fix
_TABLE = """
E-DATA-01 | 422 | not JSON | The text is not one JSON value. | Send one JSON value, in UTF-8.
E-DATA-02 | 422 | not UTF-8 | The bytes are not UTF-8 text. | Encode as UTF-8.
E-DATA-03 | 422 | NUL character | A text holds U+0000, which PostgreSQL can't store. | Remove it, or send the bytes as base64.
E-DATA-04 | 422 | lone surrogate | A text holds half of a surrogate pair: it is no Unicode text. | Decode the source with its real encoding, or send base64.
E-DATA-05 | 422 | not a finite number | NaN, Infinity, or a number too large for a double. | Send null or a text.
E-DATA-06 | 422 | integer too large | An integer outside ±(2^53-1) would be rounded by many readers. | Send it as a text.
E-DATA-07 | 422 | duplicate key | An object names one key twice; readers would disagree on its value. | Send each key once.
E-DATA-08 | 422 | too deep | Arrays and objects are nested deeper than the limit. | Flatten the value.
E-DATA-09 | 422 | not a JSON type | A Python value has no JSON form of its own. | Convert it: int(), float(), str(), list().
E-DATA-10 | 422 | key is not a text | A dict key is not a str. | Use text keys.
E-DATA-11 | 422 | malformed id | An id is neither prefix_ + 26 characters nor a UUID. | Copy the id as it was shown.
E-DATA-12 | 422 | bad idempotency key | A key must have 1 to 200 characters, not all blank, none of them a control character. | Use a key such as order-42.
E-DATA-13 | 422 | bad time | A time has no zone, or lies outside the years 1970 to 9999. | Send RFC 3339 with an offset, e.g. 2030-01-31T12:00:00Z.
E-DATA-14 | 422 | bad queue name | Queue names are [a-z0-9-], 1 to 64 characters. | Rename the queue.
E-DATA-15 | 422 | bad field | A field is missing, unknown, or of the wrong kind. | See the API reference for this message.
E-DATA-16 | 422 | too many values | One payload holds more values than the limit. | Store it as an artifact and pass the reference.
E-DATA-20 | 422 | refused by a rule | A database rule refuses the values. | See `why`.
E-SIZE-01 | 413 | too large | Something is larger than its stated limit. | Make it smaller, or pass it by reference.
E-IDEM-01 | 422 | key used for another payload | The idempotency key belongs to a task with another payload. | Use a new key, or send the same payload.
E-AUTH-01 | 401 | not signed in | No valid key or session came with the request. | Send an API key, or sign in.
E-AUTH-02 | 401 | unknown or revoked key | The key is unknown, expired or revoked. | Create a new key.
E-AUTH-03 | 403 | not allowed | The key or role has no right to this. | Ask for a key with the scope that is named.
E-AUTH-04 | 403 | bad signature | The signature of a Kafka command does not match its content. | Sign with the key that is registered under this key id.
E-AUTH-05 | 403 | tenant not allowed | This tenant may not send commands here. | Add the tenant to the configured list.
E-AUTH-06 | 403 | signature out of time | A signed command is too old, or of the future; an old one could be a replay. | Sign it anew; set the clock of the sender.
E-FIND-01 | 404 | not found | There is no such thing in this tenant. | Check the id and the tenant.
E-CONFLICT-01 | 409 | conflict | The state of the thing does not allow this, or it changed meanwhile. | Read it again and decide anew.
E-LEASE-01 | 409 | lease lost | The write came with a fence that is not the current one; it was refused and recorded. | Use a longer lease, and keep blocking code off the event loop.
E-LEASE-02 | 409 | lease about to end | The worker stopped its attempt before its lease could run out unrenewed. | Check the link between worker and database.
E-STATE-01 | 500 | illegal transition | Code tried a transition that the state machine does not have. | Report this as a bug.
E-STATE-02 | 500 | impossible shape | A row would have had columns that its state forbids. | Report this as a bug.
E-STATE-03 | 500 | immutable | Code tried to change what never changes. | Report this as a bug.
E-STATE-04 | 500 | not covered | Code tried to grant, use or go round an approval without what it needs. | Report this as a bug.
E-TASK-01 | 422 | unknown workflow | No workflow of this name and version is registered. | Start a worker that has it, or check the name.
E-TASK-02 | 422 | bad input | The input does not fit the workflow's parameters. | See `where` and the workflow's input.
E-TASK-03 | 422 | deadline has passed | The deadline of a task lies in the past. | Send a later deadline.
E-TASK-04 | 422 | too many children | A fan-out is wider than the limit. | Batch the items, or nest the fan-out.
E-TASK-05 | 409 | task has ended | What has ended stays ended. | Use task retry: it makes a new run.
E-TASK-06 | 409 | step can't be reopened | Only failed steps of a live run whose barrier still holds can be reopened. | Use task retry after the run has ended.
E-STEP-01 | 422 | step failed | The code of a step raised an error that is not retried. | See `why`.
E-STEP-02 | 422 | worker lost | The worker of a step vanished more often than its retries allow. | See the attempts of the step.
E-STEP-03 | 422 | step timed out | A step took longer than its timeout. | Give it more time, or make it shorter.
E-STEP-04 | 422 | result is not JSON | The result of a step can't be stored. | Return plain JSON values.
E-MSG-01 | 422 | unreadable message | The envelope of a message is missing a part or is badly encoded. | Send the CloudEvents headers of the message reference.
E-MSG-02 | 422 | unknown message type | No message of this type belongs on this topic. | Check ce_type and the topic.
E-DB-01 | 503 | database away | The database does not answer or ended the session. | Wait; check the server if it lasts.
E-DB-02 | 500 | schema does not fit | The database lacks something that this version needs, or refuses the right to it. | stanchion db migrate
E-DB-03 | 503 | transaction lost a race | Two transactions met; this one must run again. | Nothing: it is retried.
E-DB-04 | 503 | database is read-only | The server has become a standby. | Point the connection at the primary.
E-DB-05 | 503 | statement too slow | A statement ran into its time limit. | Look for locks and load.
E-DB-06 | 503 | prepared plan outdated | A migration ran under an open connection. | Nothing: the connection is renewed.
E-DB-07 | 503 | database out of resources | No connections, memory or disk space are left. | Raise the limit, or free space.
E-DB-08 | 503 | login refused | The database refuses this login. | Check STANCHION_DATABASE_URL.
E-DB-09 | 500 | refused by the database | A statement broke a rule that no caller should break. | Report this as a bug.
E-DB-10 | 503 | no connection free | Every connection that this process keeps to the database is in use. | Ask again in a moment; raise the pool size if it lasts.
E-DB-11 | 500 | value can't be stored | The database refuses a value: for its content, its size, or a rule that it breaks. | Look at the value that is named; report it as a bug if it is a plain one.
E-NET-01 | 503 | broker away | Kafka does not answer. | Check STANCHION_KAFKA_BOOTSTRAP and the broker.
E-NET-02 | 503 | topic missing | A Kafka topic does not exist. | stanchion doctor creates or names it.
E-NET-03 | 413 | message over the broker's limit | Kafka refuses a message of this size. | Raise max.message.bytes, or pass the content by reference.
E-NET-04 | 503 | message not delivered | Kafka did not acknowledge a message in time. | Nothing: it is sent again.
E-NET-05 | 503 | port in use | The HTTP port is taken. | Choose another port, or 0 for a free one.
E-NET-06 | 403 | broker refuses | Kafka refuses the right to a topic or group. | Grant the rights of the topic reference.
E-CONF-01 | 422 | bad setting | A setting has a value that is not allowed. | See `stanchion serve NAME --print-settings`.
E-CONF-02 | 422 | settings contradict | Two settings do not fit together. | Change one of the two named.
E-CONF-03 | 422 | unknown failpoint | STANCHION_FAILPOINTS names a failpoint or action that does not exist. | Check the name against the list.
E-CONF-04 | 422 | unknown service | There is no service of this name. | Use one of the names that are listed.
E-BUG-01 | 500 | unexpected error | Something went wrong that has no code of its own. | Report this, with the request id.
"""  # noqa: E501 - one code, one line: a table that is wrapped can't be scanned


def _register_table() -> None:
    for line in _TABLE.strip().splitlines():
        code, status, title, meaning, fix = (part.strip() for part in line.split(" | "))
        register_code(code, title, status=int(status), meaning=meaning, fix=fix)


_register_table()
