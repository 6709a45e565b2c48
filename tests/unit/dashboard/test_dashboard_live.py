"""Streams: one look for all who watch, only what differs for each of them, and honest signs when nobody can tell."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from services.orchestrator.dashboard import live
from services.orchestrator.dashboard.live import Squeezed, Watches, hashed
from services.orchestrator.dashboard.view import Looked, Shown, Twin
from stanchion.errors import Unavailable
from stanchion.runtime.http import Closing

TENANT = uuid4()


class Subject:
    """Something that is watched: its regions, how often it was looked at, and whether the next look fails."""

    def __init__(self, *, run_id: UUID | None = None, every: float = 0.01) -> None:
        self.regions = {"head": "<h1>one</h1>", "list": "<p>nothing</p>"}
        self.looks = self.looks_begun = 0
        self.failing = False
        self.ended = False
        self.run_id = run_id
        self.every = every
        self.gate = threading.Event()
        self.gate.set()

    def look(self) -> Looked:
        self.looks_begun += 1
        self.gate.wait(5)
        self.looks += 1
        if self.failing:
            raise Unavailable("E-DB-01", "the database does not answer")
        shown = Shown(
            "x",
            "x",
            tuple(self.regions),
            {"tenant_id": TENANT},
            Twin(""),
            "tasks",
            run_id=self.run_id,
            every=self.every,
        )
        shown.ended = self.ended
        hashes = {name: hashed(html) for name, html in self.regions.items()}
        return Looked(shown, dict(self.regions), hashes, hashed("".join(hashes.values())))


class Beats:
    """The newest events of runs, as they are told."""

    def __init__(self) -> None:
        self.found: dict[tuple[UUID, UUID], tuple[int, int]] = {}
        self.asked: list[list[tuple[UUID, UUID]]] = []

    def of(self, runs: list[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], tuple[int, int]]:
        self.asked.append(list(runs))
        return {run: self.found[run] for run in runs if run in self.found}


class Reader:
    """One who watches."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self.frames = frames

    async def next(self, kind: str = "regions") -> tuple[str, Any]:
        """The id and the data of the next event of a kind."""
        async with asyncio.timeout(10):
            async for frame in self.frames:
                given = dict(line.split(": ", 1) for line in frame.decode().strip().split("\n") if ": " in line)
                if given.get("event") == kind:
                    return given.get("id", ""), json.loads(given["data"])
        raise AssertionError(f"the stream ended without {kind}")

    async def leave(self) -> None:
        await self.frames.aclose()  # type: ignore[attr-defined]  # a generator


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits as short as tests are patient."""
    for name in ("MERGED_SECONDS", "PULSE_SECONDS", "FAILED_SECONDS"):
        monkeypatch.setattr(live, name, 0.005)
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.05)


@pytest.fixture
def beats() -> Beats:
    return Beats()


@pytest.fixture
def watch(beats: Beats) -> Callable[..., Reader]:
    """`watch(subject, revision)`: a reader of it."""
    watches = Watches(beats)  # type: ignore[arg-type]  # what is asked of it is `of`
    closing = Closing()

    def begin(subject: Subject, revision: str = "") -> Reader:
        return Reader(watches.follow(id(subject), subject.look, revision, closing))

    begin.watches = watches  # type: ignore[attr-defined]  # for tests of what is kept
    begin.closing = closing  # type: ignore[attr-defined]
    return begin


@pytest.mark.asyncio
async def test_the_first_event_has_all_regions(watch: Callable[..., Reader]) -> None:
    """For a reader that shows a revision that nobody knows, too."""
    subject = Subject()
    for revision in ("", "unknown"):
        reader = watch(subject, revision)
        _, data = await reader.next()
        assert data["regions"] == subject.regions
        await reader.leave()


@pytest.mark.asyncio
async def test_only_what_differs_is_sent(watch: Callable[..., Reader]) -> None:
    """To whoever is there, and to whoever comes back with the revision that it had."""
    subject = Subject()
    one, other = watch(subject), watch(subject)
    had, _ = await one.next()
    await other.next()
    subject.regions["list"] = "<p>something</p>"
    _, data = await one.next()
    assert data["regions"] == {"list": "<p>something</p>"}
    await one.leave()
    back = watch(subject, had)
    _, data = await back.next()
    assert data["regions"] == {"list": "<p>something</p>"}
    await back.leave()
    await other.leave()


@pytest.mark.asyncio
async def test_watchers_share_looks(watch: Callable[..., Reader]) -> None:
    """Fifty of them cost what one does."""
    subject = Subject(every=60)
    readers = [watch(subject) for _ in range(50)]
    for reader in readers:
        await reader.next()
    assert subject.looks == 1
    for reader in readers:
        await reader.leave()


@pytest.mark.asyncio
async def test_an_event_of_the_run_makes_the_next_look(watch: Callable[..., Reader], beats: Beats) -> None:
    """And all runs are asked for at once."""
    run, other = uuid4(), uuid4()
    subject, second = Subject(run_id=run), Subject(run_id=other)
    one, two = watch(subject), watch(second)
    await one.next()
    await two.next()
    subject.regions["head"] = "<h1>two</h1>"
    beats.found[TENANT, run] = (7, 1)
    _, data = await one.next()
    assert data["regions"] == {"head": "<h1>two</h1>"}
    assert any(set(asked) == {(TENANT, run), (TENANT, other)} for asked in beats.asked)
    await one.leave()
    await two.leave()


@pytest.mark.asyncio
async def test_what_can_not_be_looked_at_is_said(watch: Callable[..., Reader]) -> None:
    """The reader keeps what it has, and gets what is new once it is back."""
    subject = Subject()
    reader = watch(subject)
    await reader.next()
    subject.failing = True
    _, data = await reader.next("trouble")
    assert data == {"code": "E-DB-01", "what": "the database does not answer"}
    subject.regions["list"] = "<p>back</p>"
    subject.failing = False
    _, data = await reader.next()
    assert data["regions"] == {"list": "<p>back</p>"}
    await reader.leave()


@pytest.mark.asyncio
async def test_nothing_new_is_a_sign_of_life(watch: Callable[..., Reader]) -> None:
    """So that a page knows how old it is."""
    reader = watch(Subject())
    await reader.next()
    await reader.next("beat")
    await reader.leave()


@pytest.mark.asyncio
async def test_a_sign_of_life_says_how_old_the_page_is(
    watch: Callable[..., Reader], beats: Beats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when it was last heard of us: a look that hangs makes it older, a run in which nothing happens does not."""
    now = [1_000.0]
    monkeypatch.setattr(live, "monotonic", lambda: now[0])
    still, run = Subject(every=60), uuid4()
    beats.found[TENANT, run] = (7, 1)
    quiet = Subject(run_id=run, every=60)
    hangs, moves = watch(still), watch(quiet)
    await hangs.next()
    await moves.next()
    now[0] += 33
    _, data = await hangs.next("beat")
    assert data["age"] == 33
    asked = len(beats.asked)
    for _ in range(200):
        if len(beats.asked) > asked + 2:
            break
        await moves.next("beat")
    _, data = await moves.next("beat")
    assert data["age"] == 0
    quiet.gate.clear()
    beats.found[TENANT, run] = (8, 1)
    for _ in range(200):
        if quiet.looks_begun > quiet.looks:
            break
        await moves.next("beat")
    now[0] += 44
    _, data = await moves.next("beat")
    assert data["age"] == 44
    quiet.gate.set()
    await hangs.leave()
    await moves.leave()


@pytest.mark.asyncio
async def test_what_has_ended_is_not_looked_at_any_more(watch: Callable[..., Reader]) -> None:
    """The stream says so, and ends."""
    subject = Subject()
    subject.ended = True
    reader = watch(subject)
    _, data = await reader.next()
    assert data["ended"] is True
    assert [frame async for frame in reader.frames] == []
    assert subject.looks == 1


@pytest.mark.asyncio
async def test_a_reader_that_leaves_is_forgotten(watch: Callable[..., Reader]) -> None:
    """With the last one the looking ends."""
    subject = Subject()
    one, two = watch(subject), watch(subject)
    await one.next()
    await two.next()
    watches = watch.watches  # type: ignore[attr-defined]  # see the fixture
    assert watches.streams == 2
    await one.leave()
    await two.leave()
    assert watches.streams == 0
    looks = subject.looks
    await asyncio.sleep(0)
    assert subject.looks - looks <= 1
    assert not watches._watches


@pytest.mark.asyncio
async def test_readers_are_told_when_the_server_stops(watch: Callable[..., Reader]) -> None:
    """They come again elsewhere."""
    reader = watch(Subject(every=60))
    await reader.next()
    watch.closing.set()  # type: ignore[attr-defined]  # see the fixture
    await reader.next("goodbye")
    assert [frame async for frame in reader.frames] == []


@pytest.mark.asyncio
async def test_a_slow_reader_misses_what_is_over(watch: Callable[..., Reader]) -> None:
    """It gets the newest, and nothing is kept for it meanwhile."""
    subject = Subject()
    slow, quick = watch(subject), watch(subject)
    await slow.next()
    await quick.next()
    for number in range(5):
        subject.regions["list"] = f"<p>{number}</p>"
        await quick.next()
    _, data = await slow.next()
    assert data["regions"] == {"list": "<p>4</p>"}
    await slow.leave()
    await quick.leave()


@pytest.mark.asyncio
async def test_saying_nearly_the_same_again_costs_little() -> None:
    """Each frame can be read as it comes, and a region that changed a little is a few bytes."""
    region = "".join(f"<tr><td>{number * 7919 % 10_007}</td></tr>" for number in range(1_000))

    async def frames() -> AsyncIterator[bytes]:
        yield region.encode()
        yield region.replace("<td>0</td>", "<td>x</td>").encode()

    sent = [frame async for frame in Squeezed(frames())]
    reading = zlib.decompressobj(wbits=31)
    assert reading.decompress(sent[0]).decode() == region
    assert "x" in reading.decompress(sent[1]).decode()
    assert len(sent[1]) < len(sent[0]) / 5
    assert gzip.decompress(b"".join(sent)).decode().startswith(region)


def test_times_in_words_are_no_change() -> None:
    """They go on by themselves; what they are of is one."""
    shown = '<time datetime="{0}" data-ago title="{1}">{1}</time><span data-since="{0}" data-running>{1}</span>'
    assert hashed(shown.format("2026", "3 s ago")) == hashed(shown.format("2026", "9 s ago"))
    assert hashed(shown.format("2026", "3 s ago")) != hashed(shown.format("2027", "3 s ago"))
