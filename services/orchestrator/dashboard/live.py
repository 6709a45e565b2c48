"""Pages that stay true: one look for all who watch the same, and to each of them what changed of it.

A stream's event id is the revision of what it has shown. A reader that comes back with one gets what differs from it,
or everything once it is forgotten; a slow reader skips revisions and is never queued for. A page of a run is looked at
again when the run has a new event, which one statement asks for all watched runs; other pages every few seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import orjson
from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from stanchion.authority.pulse import Beat, Pulse
from stanchion.errors import InvariantViolated, StanchionError
from stanchion.runtime.clock import Deadline, monotonic
from stanchion.runtime.http import Closing
from stanchion.runtime.logging import get_logger

from .view import Looked

RETRY_MS: Final = 2_000
HEARTBEAT_SECONDS: Final = 5.0
STREAM_SECONDS: Final = 900.0  # then the reader comes again, and who it is is asked again
MOST_STREAMS: Final = 1_000
LOOKING: Final = 8  # threads, as there are connections: more would wait, and hold what health pages need
MERGED_SECONDS: Final = 0.25  # changes that come together are shown together
PULSE_SECONDS: Final = 0.4
SLOWEST_SECONDS: Final = 10.0  # of a run without events too: workers come and go, times run out
SHARE: Final = 10  # a look takes a tenth of the time at most
KNOWN_REVISIONS: Final = 64
FAILED_SECONDS: Final = 5.0

Look = Callable[[], Looked]

log = get_logger()


class Watch:
    """What several readers watch: looked at again and again while anybody does."""

    def __init__(self, look: Look, hands: CapacityLimiter) -> None:
        self.look = look
        self.hands = hands
        self.readers = 0
        self.latest: Looked | None = None
        self.stirred = asyncio.Event()
        self.changed = asyncio.Condition()
        self.beat: Beat | None = None
        self.trouble: StanchionError | None = None
        self.looking = True
        self.true_at = 0.0
        """When what is shown was known to be so: a page says how old it is, and not when it last heard of us."""
        self._known: OrderedDict[str, dict[str, str]] = OrderedDict()

    async def run(self) -> None:
        """Look, tell, wait; until it is cancelled or nothing changes any more."""
        while True:
            began, self.looking = monotonic(), True
            try:
                await self._take(await run_sync(self.look, limiter=self.hands), began)
            except Exception as error:  # noqa: BLE001 - it is logged, and readers are told
                # whatever it is: a watch that died would leave its readers with what is old, and no sign of it
                self.trouble = _told(error)
                await asyncio.sleep(FAILED_SECONDS)
                continue
            assert self.latest is not None
            self.looking = False
            if self.latest.shown.ended:
                return
            await asyncio.sleep(max(MERGED_SECONDS, (monotonic() - began) * (SHARE - 1)))
            shown = self.latest.shown
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stirred.wait(), SLOWEST_SECONDS if shown.run_id else shown.every)
            self.stirred.clear()

    def difference(self, revision: str) -> dict[str, str]:
        """The regions that somebody who has this revision lacks; all of them when nobody knows it any more."""
        assert self.latest is not None
        had = self._known.get(revision, {})
        return {
            name: html for name, html in self.latest.regions.items() if had.get(name) != self.latest.hashes.get(name)
        }

    async def _take(self, looked: Looked, began: float) -> None:
        async with self.changed:
            self.latest, self.trouble, self.true_at = looked, None, began
            self._known[looked.revision] = looked.hashes
            self._known.move_to_end(looked.revision)
            while len(self._known) > KNOWN_REVISIONS:
                self._known.popitem(last=False)
            self.changed.notify_all()


class Watches:
    """All that is watched in this process. Made and used in the server's event loop."""

    def __init__(self, pulse: Pulse) -> None:
        self.pulse = pulse
        self.streams = 0
        self._hands = CapacityLimiter(LOOKING)
        self._watches: dict[Hashable, tuple[Watch, asyncio.Task[None]]] = {}
        self._beating: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        """Whether this process has all the streams that it may have."""
        return self.streams >= MOST_STREAMS

    async def follow(self, key: Hashable, look: Look, revision: str, closing: Closing) -> AsyncIterator[bytes]:
        """The frames of one reader's stream."""
        self.streams += 1
        watch = self._watch(key, look)
        stopping = asyncio.ensure_future(closing.wait())
        lifetime = Deadline(STREAM_SECONDS)
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            while not lifetime.passed and not stopping.done():
                found = await _next(watch, revision, stopping)
                if found is None:
                    yield _nothing_new(watch, stopping)
                    continue
                yield _frame(watch, found, revision)
                revision = found.revision
                if found.shown.ended:
                    return
        finally:
            stopping.cancel()
            self.streams -= 1
            self._leave(key, watch)

    def _watch(self, key: Hashable, look: Look) -> Watch:
        found = self._watches.get(key)
        if found is None or found[1].done():
            watch = Watch(look, self._hands)
            found = (watch, asyncio.ensure_future(watch.run()))
            self._watches[key] = found
        found[0].readers += 1
        if self._beating is None or self._beating.done():
            self._beating = asyncio.ensure_future(self._beat())
        return found[0]

    def _leave(self, key: Hashable, watch: Watch) -> None:
        watch.readers -= 1
        found = self._watches.get(key)
        if watch.readers == 0 and found is not None and found[0] is watch:
            self._watches.pop(key)[1].cancel()

    async def _beat(self) -> None:
        """Ask for the newest event of all watched runs, and wake those whose run has another one."""
        while self._watches:
            runs: dict[tuple[UUID, UUID], list[Watch]] = {}
            for watch, _ in self._watches.values():
                shown = watch.latest.shown if watch.latest else None
                if shown is not None and shown.run_id is not None and not shown.ended:
                    runs.setdefault((shown.context["tenant_id"], shown.run_id), []).append(watch)
            if runs:
                with suppress(StanchionError):
                    await self._feel(runs)
            await asyncio.sleep(PULSE_SECONDS)

    async def _feel(self, runs: dict[tuple[UUID, UUID], list[Watch]]) -> None:
        asked = monotonic()
        for key, beat in (await run_sync(self.pulse.of, list(runs))).items():
            for watch in runs[key]:
                if watch.beat != beat:
                    watch.beat = beat
                    watch.stirred.set()
                elif not watch.stirred.is_set() and not watch.looking:
                    watch.true_at = asked  # nothing has happened in the run since it was looked at


def _told(error: Exception) -> StanchionError:
    """What readers are told of a look that failed: of a bug only that it is one."""
    if isinstance(error, StanchionError) and not isinstance(error, InvariantViolated):
        log.debug("page.look_failed", code=error.code)
        return error
    log.error("page.look_failed", exc_info=error)
    return InvariantViolated("E-BUG-01", "this page could not be made")


async def _next(watch: Watch, revision: str, stopping: asyncio.Future[Any]) -> Looked | None:
    """What comes after a revision; None when nothing came for a while."""

    async def wait() -> Looked:
        async with watch.changed:
            await watch.changed.wait_for(lambda: watch.latest is not None and watch.latest.revision != revision)
            assert watch.latest is not None
            return watch.latest

    if watch.latest is not None and watch.latest.shown.ended:
        return watch.latest
    waiting = asyncio.ensure_future(wait())
    try:
        await asyncio.wait({waiting, stopping}, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()


def _nothing_new(watch: Watch, stopping: asyncio.Future[Any]) -> bytes:
    """What says that the page is as it was, or that nobody knows."""
    if stopping.done():
        return b"event: goodbye\ndata: {}\n\n"
    if watch.trouble is not None:
        return b"event: trouble\ndata: %s\n\n" % orjson.dumps({"code": watch.trouble.code, "what": watch.trouble.what})
    age = round(monotonic() - watch.true_at, 1) if watch.latest is not None else 0
    return b"event: beat\ndata: %s\n\n" % orjson.dumps({"age": age})


def _frame(watch: Watch, found: Looked, revision: str) -> bytes:
    regions = watch.difference(revision) if watch.latest is found else found.regions
    data = {"regions": regions, "said": found.shown.said, "title": found.shown.title, "ended": found.shown.ended}
    return b"id: %s\nevent: regions\ndata: %s\n\n" % (found.revision.encode(), orjson.dumps(data))


class Squeezed:
    """A stream made small: what a region said before is still known, so that saying nearly the same costs a few bytes."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self.frames = frames

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Each frame, complete and as small as it gets."""
        squeeze = zlib.compressobj(level=1, wbits=31)
        async for frame in self.frames:
            yield squeeze.compress(frame) + squeeze.flush(zlib.Z_SYNC_FLUSH)
        yield squeeze.flush()


def hashed(html: str) -> str:
    """A short hash of what a region shows, but for times in words: those go on by themselves."""
    return hashlib.blake2b(_GOES_ON.sub("", html).encode(), digest_size=9).hexdigest()


_GOES_ON = re.compile(
    r"(?<= title=\")[^\"]*(?=\">[^<]*</time>)|(?<=>)[^<]*(?=</time>)|(?<=data-running>)[^<]*(?=</span>)"
)
