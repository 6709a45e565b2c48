"""Running blocking actions side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def run_together(actions: Sequence[Callable[[], None]], abort: threading.Event | None = None) -> None:
    """Run the actions in threads, return when all have ended, and raise the first failure.

    `abort` is set at the first failure, and on Ctrl-C in the calling thread: actions that look at it can give up early.
    No thread outlives the call, so that whoever cleans up afterwards finds everything that was started.
    """
    failures: list[BaseException] = []

    def guarded(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001  # raised again by the thread that waits
            failures.append(error)
            if abort is not None:
                abort.set()

    threads = [threading.Thread(target=guarded, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        if abort is not None:
            abort.set()
            for thread in threads:
                thread.join()
        raise
    if failures:
        raise failures[0]
