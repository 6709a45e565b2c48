"""Feeds event streams: one thread looks for all readers at once; a thousand open pages are not a thousand polls.

A reader is asked for only while it is hungry, so a slow connection holds one page of events and no more. A hint (work
was committed somewhere) makes the next look come at once; without hints it comes after 50 ms, then less often.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Final
from uuid import UUID

from stanchion.authority.events import PAGE_EVENTS, Cursor, Events, Found, Wanted
from stanchion.errors import Unavailable
from stanchion.runtime.clock import monotonic

from .edge import BUSY

SHORTEST_WAIT: Final = 0.05
LONGEST_WAIT: Final = 1.0
SPACING_SECONDS: Final = 0.02  # between two looks, however many hints come


class Reader:
    """One open stream. Made and read in the server's event loop, fed from the feeder's thread."""

    def __init__(self, feed: EventFeed, tenant_id: UUID, task_id: UUID, after: Cursor, until: int | None) -> None:
        self.feed = feed
        self.tenant_id = tenant_id
        self.task_id = task_id
        self.after = after
        self.until = until  # the transaction id up to which to read; None: until the task has ended
        self.hungry = True
        self.found: Found | None = None
        self.at_end = False
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()

    async def next(self, timeout: float) -> Found | None:
        """What there is behind the last page; None when nothing came within `timeout` seconds."""
        self.feed.wake.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ready.wait(), timeout)
        if self.found is None:
            return None
        found, self.found = self.found, None
        self._ready.clear()
        if found.events:
            self.after = found.events[-1]["cursor"]
        self.hungry = True
        return found

    def feed_from(self, found: Found, below: int) -> None:
        """Hand a page over; from the feeder's thread."""
        self.hungry = False
        at_end = found.ended or (self.until is not None and below >= self.until and len(found.events) < PAGE_EVENTS)
        with suppress(RuntimeError):  # the server's loop has ended
            self._loop.call_soon_threadsafe(self._receive, found, at_end)

    def _receive(self, found: Found, at_end: bool) -> None:
        self.found, self.at_end = found, at_end
        self._ready.set()


class EventFeed:
    """The readers of this process; `run_once` is the body of a loop."""

    def __init__(self, events: Events, most: int, wake: threading.Event) -> None:
        self.events = events
        self.most = most
        self.wake = wake
        self._readers: dict[int, Reader] = {}
        self._lock = threading.Lock()
        self._quiet = 0
        self._looked_at = 0.0
        self._due_at = 0.0

    def open(self, tenant_id: UUID, task_id: UUID, after: Cursor, *, until: int | None = None) -> Reader:
        """A new reader; raises Unavailable E-BUSY-01 when this process has all that it may have."""
        with self._lock:
            if len(self._readers) >= self.most:
                raise Unavailable(
                    BUSY, f"{self.most:,} event streams are open here", fix="poll, or try another replica"
                )
            reader = Reader(self, tenant_id, task_id, after, until)
            self._readers[id(reader)] = reader
        self.wake.set()
        return reader

    def close(self, reader: Reader) -> None:
        """The reader is gone."""
        with self._lock:
            self._readers.pop(id(reader), None)

    @property
    def count(self) -> int:
        """How many streams are open."""
        return len(self._readers)

    def run_once(self) -> float:
        """Look once for every hungry reader; the seconds until the next look."""
        now = monotonic()
        if (early := self._looked_at + SPACING_SECONDS - now) > 0:
            return early
        woken = now < self._due_at
        with self._lock:
            hungry = [reader for reader in self._readers.values() if reader.hungry]
        if not hungry:
            return LONGEST_WAIT
        by_tenant: dict[UUID, list[Reader]] = {}
        for reader in hungry:
            by_tenant.setdefault(reader.tenant_id, []).append(reader)
        fed = sum(self._look(tenant_id, readers) for tenant_id, readers in by_tenant.items())
        self._looked_at = monotonic()
        self._quiet = 0 if fed or woken else self._quiet + 1
        wait = min(LONGEST_WAIT, SHORTEST_WAIT * 2.0 ** min(self._quiet, 10))
        self._due_at = self._looked_at + wait
        return wait

    def _look(self, tenant_id: UUID, readers: list[Reader]) -> int:
        glance = self.events.glance(tenant_id, [Wanted(reader.task_id, reader.after) for reader in readers])
        fed = 0
        for reader, found in zip(readers, glance.found, strict=True):
            if found.events or found.ended or reader.until is not None:
                reader.feed_from(found, glance.complete_below)
                fed += bool(found.events)
        return fed
