"""Exit codes: a script can tell a failed command from a failed task, and both from a refusal."""

from __future__ import annotations

from typing import Final

from stanchion.errors import (
    Conflict,
    NotAllowed,
    NotFound,
    Rejected,
    StanchionError,
    Superseded,
    Unauthenticated,
    Unavailable,
    register_code,
)

DONE: Final = 0
FAILED: Final = 1
BAD_USAGE: Final = 2
NOT_FOUND: Final = 3
NOT_ALLOWED: Final = 4
CONFLICT: Final = 5
UNREACHABLE: Final = 6
TIMED_OUT: Final = 7
PARTLY_DONE: Final = 8
TASK_FAILED: Final = 10
TASK_CANCELLED: Final = 11
TASK_NEEDS_A_PERSON: Final = 12
RESULT_UNKNOWN: Final = 13
TASK_REJECTED: Final = 14
INTERRUPTED: Final = 130

EXIT_CODES: Final[dict[int, str]] = {
    DONE: "done",
    FAILED: "failed in our code",
    BAD_USAGE: "bad usage: the command or its input can't be right",
    NOT_FOUND: "not found",
    NOT_ALLOWED: "not allowed",
    CONFLICT: "conflict: it changed meanwhile, or its state does not allow this",
    UNREACHABLE: "a server can't be reached",
    TIMED_OUT: "timed out waiting; what was waited for goes on",
    PARTLY_DONE: "partly done: some of several could not be done",
    TASK_FAILED: "the task failed",
    TASK_CANCELLED: "the task was cancelled",
    TASK_NEEDS_A_PERSON: "the task waits for a person",
    RESULT_UNKNOWN: "the result is unknown",
    TASK_REJECTED: "the task was rejected: somebody said no to what it asked",
    INTERRUPTED: "interrupted",
}
"""Every exit code of `stanchion`, with its meaning."""

USAGE = register_code(
    "E-CLI-01",
    "bad usage",
    status=422,
    meaning="The command line names something that does not exist, or lacks something.",
    fix="See --help of the command.",
)
NO_SERVER = register_code(
    "E-CLI-03",
    "no server named",
    status=503,
    meaning="No flag, variable, file or running development stack says where the API is.",
    fix="Start `stanchion dev`, or set STANCHION_API_URL and STANCHION_API_KEY.",
)


_BY_FAMILY: Final[tuple[tuple[type[StanchionError], int], ...]] = (
    (NotFound, NOT_FOUND),
    (Unauthenticated, NOT_ALLOWED),
    (NotAllowed, NOT_ALLOWED),
    (Conflict, CONFLICT),
    (Superseded, CONFLICT),
    (Unavailable, UNREACHABLE),
    (Rejected, BAD_USAGE),
)

_OF_TASK: Final = {
    "completed": DONE,
    "failed": TASK_FAILED,
    "cancelled": TASK_CANCELLED,
    "unknown": RESULT_UNKNOWN,
    "rejected": TASK_REJECTED,
}


def of_error(error: BaseException) -> int:
    """The exit code that an error ends a command with."""
    if isinstance(error, StanchionError) and error.code == "E-IDEM-01":
        return CONFLICT  # 422 over HTTP, but for a script it is a conflict with what is there
    if isinstance(error, StanchionError) and isinstance(error, TimeoutError):
        return TIMED_OUT
    return next((code for family, code in _BY_FAMILY if isinstance(error, family)), FAILED)


def of_task(state: str) -> int:
    """The exit code of waiting for a task that has ended in `state`."""
    return _OF_TASK.get(state, FAILED)
