"""Presence: what this worker serves and how busy it is, for people; and whether somebody asked it to drain."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Literal

from stanchion.authority.leases import Leases
from stanchion.runtime.clock import utc_now

from .durations import Durations
from .foreman import Foreman


class Presence:
    """`run_once` reports once; `on_drain` is called when the database says so."""

    def __init__(
        self,
        leases: Leases,
        foreman: Foreman,
        durations: Durations,
        name: str,
        slots: int,
        on_drain: Callable[[], None],
    ) -> None:
        self.leases = leases
        self.foreman = foreman
        self.durations = durations
        self.name = name
        self.slots = slots
        self.on_drain = on_drain
        self._gone = False

    def run_once(self) -> None:
        """Report, and pass on how long steps took."""
        if self._gone:
            return
        takes_on = not self.foreman.draining and self.foreman.slots.check() is None
        if self.report("active" if takes_on else "draining") and not self.foreman.draining:
            self.on_drain()
        if means := self.durations.take_fresh():
            self.leases.note_durations(means)

    def report(self, state: Literal["active", "draining", "gone"]) -> bool:
        """Say how it is; True when it is asked to drain. Nothing is said after `gone`."""
        self._gone = self._gone or state == "gone"
        return self.leases.seen(
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            slots=self.slots,
            running=len(self.foreman.held),
            state=state,
            clock=utc_now(),
        )
