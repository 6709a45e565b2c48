"""The events of a task as an iterator that survives broken connections and replaced servers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from stanchion.errors import Unavailable
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.clock import Deadline, pause
from stanchion.sdk import faults, sse
from stanchion.sdk.models import Event
from stanchion.sdk.transport import Transport

IDLE_SECONDS: Final = 60.0
"""A stream that is silent for so long is asked for again: the server says something every few seconds."""


def read_events(
    transport: Transport,
    task_id: str,
    *,
    after: str | None,
    follow: bool,
    ended: Callable[[], bool],
    left: Callable[[], float] = lambda: IDLE_SECONDS,
) -> Iterator[Event]:
    """Events in order, each once: a stream that breaks is asked for again behind the last event that came.

    `left` says for how many seconds they are still wanted: at 0 this ends, with the next line or without one.
    """
    path = f"/v1/tasks/{task_id}/events"
    last, patience = after, _Patience(transport.timeout)
    while (idle := min(left(), IDLE_SECONDS)) > 0:
        headers = {"Last-Event-ID": last} if last else {}
        try:
            with transport.stream(path, query={"follow": follow}, headers=headers, idle_seconds=idle) as response:
                for frame in sse.frames(patience.heard(response, left)):
                    last = frame.id or last
                    yield _event(frame)
        except Unavailable as error:
            failure: Exception = error
        except (OSError, http.client.HTTPException) as error:
            failure = Unavailable(faults.UNREACHABLE, f"the events of {task_id} broke off", why=str(error))
        else:
            if not follow:
                return
            if left() <= 0:
                return
            # The server has ended the stream: all was sent, or it is stopping and what came since is still to be read.
            follow = not ended()
            failure = Unavailable(faults.UNREACHABLE, f"the events of {task_id} ended before the task did")
            if not follow:
                continue
        patience.wait(failure)


class _Patience:
    """How long to try again: it runs out after `seconds` in which not one line came."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._backoff = Backoff(0.1, 2.0)
        self._deadline: Deadline | None = None

    def heard(self, lines: Iterable[bytes], left: Callable[[], float]) -> Iterator[bytes]:
        for line in lines:
            if left() <= 0:
                return
            self._deadline = None
            self._backoff.reset()
            yield line

    def wait(self, failure: Exception) -> None:
        if self._deadline is None:
            self._deadline = Deadline(self._seconds)
        if self._deadline.passed:
            raise failure
        pause(self._backoff.next())


def _event(frame: sse.Frame) -> Event:
    try:
        data = json.loads(frame.data)
    except ValueError:
        data = {"text": frame.data}
    return Event(frame.id, frame.type, data if isinstance(data, dict) else {"value": data})
