"""What the clients raise beyond the four families: how a task ended, and that waiting took too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stanchion.errors import (
    Conflict,
    NotAllowed,
    NotFound,
    Rejected,
    StanchionError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unprocessable,
    register_code,
)

UNREACHABLE: Final = register_code(
    "E-API-01",
    "API can't be reached",
    status=503,
    meaning="The task service does not answer at this address, or the connection broke.",
    fix="Check the address, and that the task service runs.",
)
UNREADABLE: Final = register_code(
    "E-API-02",
    "answer can't be read",
    status=502,
    meaning="Something answered that is not the task service, or is one of another release.",
    fix="Check the address.",
)
BAD_ADDRESS: Final = register_code(
    "E-API-03",
    "bad address",
    status=422,
    meaning="The address of the API is not an http or https URL.",
    fix="e.g. http://127.0.0.1:8080",
)
BAD_KEY: Final = register_code(
    "E-API-04",
    "bad key",
    status=422,
    meaning="What is given as the API key can't be one: keys are plain printable text.",
    fix="Look for a line break or a letter with an accent in it; see STANCHION_API_KEY.",
)
WAITED: Final = register_code(
    "E-WAIT-01",
    "timed out waiting",
    status=504,
    meaning="What was waited for did not come in time; it goes on.",
    fix="Wait again, or longer.",
)
TASK_FAILED: Final = register_code(
    "E-TASK-20", "task failed", status=422, meaning="The task ended without a result.", fix="See its steps, or `why`."
)
TASK_CANCELLED: Final = register_code(
    "E-TASK-21", "task was cancelled", status=422, meaning="Somebody ended the task.", fix="Use task retry to run it."
)


class WaitTimeout(StanchionError, TimeoutError):  # noqa: N818 - the families are named without "Error" too
    """Waited as long as was asked; what was waited for goes on."""

    status = 504


class TaskFailed(StanchionError):  # noqa: N818 - the same
    """The task ended without a result; `task_id` says which."""

    status = 422

    def __init__(self, code: str, what: str, *, task_id: str, **given: Any) -> None:
        super().__init__(code, what, **given)
        self.task_id = task_id


class TaskCancelled(TaskFailed):
    """The task was cancelled."""


class TaskRejected(TaskFailed):
    """Somebody said no to what the task asked, and it ended with that."""


_FAMILIES: Final[dict[int, type[StanchionError]]] = {
    401: Unauthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Unprocessable,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def from_problem(status: int, problem: Mapping[str, Any], *, where: str) -> StanchionError:
    """The error that an RFC 9457 answer means, in the family of its status."""
    family = _FAMILIES.get(status) or (Rejected if 400 <= status < 500 else StanchionError)

    def text(name: str) -> str | None:
        value = problem.get(name)
        return value if isinstance(value, str) and value else None

    code = text("code") or ("E-BUG-01" if status >= 500 else UNREADABLE)
    what = text("detail") or text("title") or f"the API answered {status}"
    details = {"status": status, "request_id": text("request_id"), "request": where}
    return family(code, what, where=text("where"), why=text("why"), fix=text("fix"), **details)
