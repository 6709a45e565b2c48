"""What RQ may read from Redis, and nothing else: whoever can write there must not be able to run code here.

RQ imports the function that an entry names and, by its default, unpickles the arguments. Ours are JSON only, name no
function but a constant, and every other field of an entry (callbacks, webhooks, dependencies, retries, meta, results)
is never looked at. What does not have that form is logged, removed, and taken for absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID

from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq.timeouts import BaseDeathPenalty

from stanchion.contracts import limits
from stanchion.runtime.logging import get_logger
from stanchion.runtime.redaction import redact_text

FUNCTION: Final = "stanchion.maintenance"
"""What every entry names. It is no path to import: the worker knows what to call."""

QUEUED_SECONDS: Final = 900  # an entry that nobody takes; its job is offered again before
RESULT_SECONDS: Final = 0  # an entry goes once it is done: the job's row has the result, and the id is free again
FAILURE_SECONDS: Final = 3_600
DATA_BYTES: Final = 4_096  # compressed; ours have some 150

_FIELDS: Final = frozenset(
    {b"data", b"origin", b"status", b"created_at", b"enqueued_at", b"started_at", b"ended_at", b"last_heartbeat"}
)

log = get_logger()


class Perform(Protocol):
    """What is called for an entry."""

    def __call__(self, kind: str, key: str, tenant: str, fence: int) -> dict[str, Any]:
        """Do the job; returns a few facts for the queue's own record."""


class Unguarded(ValueError):  # noqa: N818 - it says what the entry is
    """An entry that is not one of ours."""


class GuardedJob(Job):
    """An entry of the queue. `bound(perform)` makes the class that a worker uses."""

    perform_with: ClassVar[Perform | None] = None

    @classmethod
    def bound(cls, perform: Perform) -> type[GuardedJob]:
        """A class whose entries call `perform`."""
        return type("BoundJob", (cls,), {"perform_with": staticmethod(perform)})

    @property
    def func(self) -> Perform:
        """The only function that there is."""
        assert self.perform_with is not None, "only a worker's own class performs"
        return self.perform_with

    def restore(self, raw_data: Mapping[Any, Any]) -> None:
        """Take over what Redis has of this entry, if it is one of ours; else raise NoSuchJobError."""
        try:
            known = {key: value for key, value in dict(raw_data).items() if key in _FIELDS}
            _check_size(known.get(b"data", b""))
            super().restore(known)
            _check(bytes(self.data))
        except NoSuchJobError:
            raise
        except Exception as error:  # noqa: BLE001 - anything may stand in Redis
            self._refuse(error)
        # How long things stay is ours to say: an entry that says "for ever" would fill the memory.
        self.timeout = -1
        self.ttl = QUEUED_SECONDS
        self.result_ttl = RESULT_SECONDS
        self.failure_ttl = FAILURE_SECONDS

    def _refuse(self, error: Exception) -> None:
        why = str(error) if isinstance(error, Unguarded) else f"it can't be read ({type(error).__name__})"
        log.warning("maintenance.entry_refused", entry=ascii(self.id)[:200], why=why)
        self.connection.delete(self.key)
        raise NoSuchJobError("refused")

    def _handle_failure(self, exc_string: str, *args: Any, **kwargs: Any) -> None:
        """Keep the end of a traceback: whole ones have filled Redis."""
        cut = redact_text(exc_string[-limits.ERROR_CHARACTERS :])
        super()._handle_failure(cut, *args, **kwargs)


class NoDeathPenalty(BaseDeathPenalty):
    """RQ's time limits need the main thread's signals. A job's parts are bounded by the database's statement timeout,
    and a job by its lease; an exception thrown into a driver's call would break more than it ends."""

    def setup_death_penalty(self) -> None:
        """Nothing."""

    def cancel_death_penalty(self) -> None:
        """Nothing."""


def _check_size(data: bytes) -> None:
    """Raise Unguarded for data that would be unpacked into far more than ours have."""
    if len(data) > DATA_BYTES:
        raise Unguarded(f"its data have more than {DATA_BYTES:,} bytes")


def _check(data: bytes) -> None:
    """Raise Unguarded unless the data are those of one of our entries."""
    call = json.loads(data.decode("utf-8"))
    if not isinstance(call, list) or len(call) != 4 or call[0] != FUNCTION or call[1] is not None or call[3] != {}:
        raise Unguarded("it calls something else")
    arguments = call[2]
    if not isinstance(arguments, list) or [type(a) for a in arguments] != [str, str, str, int]:
        raise Unguarded("its arguments are not ours")
    if any(len(text) > limits.NAME_CHARACTERS for text in arguments[:3]):
        raise Unguarded("its arguments are too long")
    UUID(arguments[2])
