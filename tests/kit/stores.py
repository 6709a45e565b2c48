"""What every store of objects must do: a suite that the tests of each store inherit."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stanchion.errors import InvariantViolated, NotFound, StanchionError, TooLarge, Unprocessable
from stanchion.objects import ObjectStore, Stored

MIB = 1024 * 1024
PAST = datetime(2001, 1, 1, tzinfo=UTC)
FUTURE = datetime(2101, 1, 1, tzinfo=UTC)
PROGRAM = Path(__file__).with_name("store_process.py")
SIZES = (0, 1, 1000, 8 * MIB, 8 * MIB + 1, 20 * MIB)
HOSTILE = (
    "", ".", "..", "../x", "x/..", "x/../y", "/x", "x/", "x//y", "./x", ".hidden", "x/.y", "x y", "x\0y", "x\ny",
    "x\\y", "ä", "x?y", "x%2e", "~", "x" * 201,
)  # fmt: skip


@dataclass
class Stand:
    """A store under test: its URL, the store, and a way to damage what it holds (replaces the bytes of an object)."""

    url: str
    store: ObjectStore
    damage: Callable[[bytes, bytes], None]

    def is_clean(self) -> bool:
        """No upload has left anything behind."""
        return self.store.sweep_temporary(FUTURE) == 0


def bytes_of(size: int, seed: int = 0) -> bytes:
    block = hashlib.sha256(str(seed).encode()).digest()
    return (block * (size // 32 + 1))[:size]


def in_chunks(data: bytes, size: int = 700_000) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def raising(size: int, error: BaseException) -> Iterator[bytes]:
    yield from in_chunks(bytes_of(size))
    raise error


def whole(reader: Iterator[bytes]) -> bytes:
    return b"".join(reader)


def run(url: str, mib: int, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), url, str(mib), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROGRAM.parents[2],
    )


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """Run all in threads that start together; their results, in order."""
    results: list[Any] = [None] * len(works)
    gate = threading.Barrier(len(works))

    def work(number: int) -> None:
        gate.wait(30)
        results[number] = works[number]()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=30)


class StoreSuite:
    @pytest.mark.parametrize("announced", [False, True])
    @pytest.mark.parametrize("size", SIZES)
    def test_what_is_put_is_there(self, stand: Stand, size: int, announced: bool) -> None:
        """An object has the name of its content, and comes back byte for byte; nothing else stays."""
        data = bytes_of(size)
        named = hashlib.sha256(data).digest()
        expected = {"expected_sha256": named, "expected_size": size} if announced else {}
        assert stand.store.stat(named) is None
        stored = stand.store.put(in_chunks(data), most_bytes=size, **expected)
        assert stored == Stored(named, size)
        assert stand.store.stat(named) == size
        with stand.store.open(named) as reader:
            assert reader.size == size
            assert whole(reader) == data
        assert stand.store.verify(named) == stored
        assert stand.is_clean()

    def test_any_chunks_make_the_same_object(self, stand: Stand) -> None:
        """Empty chunks, one huge chunk and other buffers than bytes are all the same to a store."""
        data = bytes_of(20 * MIB)
        first = stand.store.put([data], most_bytes=len(data))
        second = stand.store.put([b"", data[:1], b"", memoryview(data)[1:], b""], most_bytes=len(data))
        assert first == second
        assert stand.store.verify(first.sha256) == first

    def test_putting_again_changes_nothing(self, stand: Stand) -> None:
        """A repetition gives the same answer, for small and large objects."""
        for size in (100, 9 * MIB):
            data = bytes_of(size)
            assert len({stand.store.put(in_chunks(data), most_bytes=size) for _ in range(3)}) == 1
        assert len(list(stand.store.list(FUTURE))) == 2
        assert stand.is_clean()

    def test_threads_put_the_same_at_once(self, stand: Stand) -> None:
        """All of them get the same answer, and one whole object is there."""
        data = bytes_of(9 * MIB)
        answers = at_once([lambda: stand.store.put(in_chunks(data), most_bytes=len(data))] * 6)
        assert set(answers) == {Stored(hashlib.sha256(data).digest(), len(data))}
        assert [found.sha256 for found in stand.store.list(FUTURE)] == [answers[0].sha256]
        assert stand.store.verify(answers[0].sha256) == answers[0]
        assert stand.is_clean()

    def test_processes_put_the_same_at_once(self, stand: Stand) -> None:
        """Neither disturbs the other."""
        processes = [run(stand.url, 20, "whole") for _ in range(2)]
        answers = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
        assert answers[0]["sha256"] == answers[1]["sha256"]
        assert len(list(stand.store.list(FUTURE))) == 1
        assert stand.is_clean()

    def test_memory_does_not_grow_with_the_object(self, stand: Stand) -> None:
        """150 MiB are put and read in less than half of that."""
        process = run(stand.url, 150, "whole")
        answer = json.loads(process.communicate(timeout=300)[0])
        assert answer["size"] == 150 * MIB
        assert answer["grown_mib"] < 75
        assert stand.is_clean()

    @pytest.mark.parametrize("error", [RuntimeError("source"), OSError(28, "source"), KeyboardInterrupt()])
    @pytest.mark.parametrize("size", [0, 1000, 20 * MIB])
    def test_a_source_that_raises_leaves_nothing(self, stand: Stand, size: int, error: BaseException) -> None:
        """Its own error comes out as it is, and nothing was stored."""
        with pytest.raises(type(error)) as raised:
            stand.store.put(raising(size, error), most_bytes=100 * MIB)
        assert raised.value is error
        with pytest.raises(type(error)):
            stand.store.put_if_absent("name", raising(size, error))
        assert list(stand.store.list(FUTURE)) == []
        assert stand.is_clean()
        assert stand.store.put_if_absent("name", [b"now"])

    @pytest.mark.parametrize("size", [1000, 20 * MIB])
    def test_the_limit_is_kept(self, stand: Stand, size: int) -> None:
        """One byte too many stops the upload before the rest is read, and names the limit."""
        for attempt in (
            lambda: stand.store.put(in_chunks(bytes_of(size)), most_bytes=size - 1),
            lambda: stand.store.put_if_absent("name", in_chunks(bytes_of(size)), most_bytes=size - 1),
            lambda: stand.store.put(raising(0, AssertionError("read")), expected_size=size, most_bytes=size - 1),
        ):
            with pytest.raises(TooLarge) as refused:
                attempt()
            assert refused.value.code == "E-SIZE-01"
            assert refused.value.details["limit"] == size - 1
        assert list(stand.store.list(FUTURE)) == []
        assert stand.is_clean()

    @pytest.mark.parametrize("size", [1000, 20 * MIB])
    def test_what_was_announced_must_come(self, stand: Stand, size: int) -> None:
        """Another hash or another size than expected stores nothing."""
        data = bytes_of(size)
        for expected in (
            {"expected_sha256": bytes(32)},
            {"expected_size": size - 1},
            {"expected_size": size + 1},
            {"expected_sha256": hashlib.sha256(data).digest(), "expected_size": size + 1},
        ):
            with pytest.raises(Unprocessable) as refused:
                stand.store.put(in_chunks(data), most_bytes=size + 1, **expected)
            assert refused.value.code == "E-OBJ-02"
        assert list(stand.store.list(FUTURE)) == []
        assert stand.is_clean()

    @pytest.mark.parametrize("size", [1000, 3 * MIB])
    def test_ranges_are_cut_like_slices(self, stand: Stand, size: int) -> None:
        """start= and end= mean what they mean for bytes."""
        data = bytes_of(size)
        named = stand.store.put([data], most_bytes=size).sha256
        stand.store.put_if_absent("name", [data])
        edges = (0, 1, 999, size - 1, size, size + 1)
        for start in edges:
            for end in (*(edge for edge in edges if edge >= start), None):
                for reader in (
                    stand.store.open(named, start=start, end=end),
                    stand.store.open_published("name", start=start, end=end),
                ):
                    assert reader.size == len(data[start:end])
                    assert whole(reader) == data[start:end]
        for start, end in ((-1, None), (5, 4)):
            with pytest.raises(ValueError, match="range"):
                stand.store.open(named, start=start, end=end)

    def test_a_reader_can_be_left(self, stand: Stand) -> None:
        """A reader that is closed early, or never read, gives its connection back."""
        named = stand.store.put([bytes_of(9 * MIB)], most_bytes=9 * MIB).sha256
        for _ in range(40):
            with stand.store.open(named) as reader:
                assert next(reader)
            stand.store.open(named).close()
        assert stand.store.verify(named)

    @pytest.mark.parametrize("size", [1000, 9 * MIB])
    def test_damage_is_found(self, stand: Stand, size: int) -> None:
        """Verifying, and reading to the end, tell an object that is not what its name says; putting it again mends it."""
        data = bytes_of(size)
        stored = stand.store.put([data], most_bytes=size)
        for damaged in (data[:-1] + b"\0", data[:-1], data + b"\0", b""):
            stand.damage(stored.sha256, damaged)
            with pytest.raises(InvariantViolated) as found:
                stand.store.verify(stored.sha256)
            assert found.value.code == "E-OBJ-03"
            read = []
            with pytest.raises(InvariantViolated), stand.store.open_verified(stored.sha256) as reader:
                read.extend(reader)
            assert whole(iter(read)) == damaged
        assert stand.store.put([data], most_bytes=size) == stored
        assert stand.store.verify(stored.sha256) == stored

    def test_what_is_not_there_is_said_at_once(self, stand: Stand) -> None:
        """Opening fails, not the first read; deleting does not fail."""
        missing = bytes_of(32)
        for attempt in (stand.store.open, stand.store.verify, stand.store.open_verified):
            with pytest.raises(NotFound) as found:
                attempt(missing)
            assert found.value.code == "E-OBJ-01"
        with pytest.raises(NotFound):
            stand.store.open_published("missing")
        stand.store.delete(missing)
        named = stand.store.put([b"x"], most_bytes=1).sha256
        stand.store.delete(named)
        stand.store.delete(named)
        assert stand.store.stat(named) is None

    def test_objects_are_listed(self, stand: Stand) -> None:
        """In the order of their hashes, with size and age; also while they are deleted."""
        put = [stand.store.put([bytes_of(size, seed=size)], most_bytes=100) for size in range(1, 12)]
        stand.store.put_if_absent("name", [b"no object"])
        found = list(stand.store.list(FUTURE))
        assert [(one.sha256, one.size) for one in found] == sorted(put)
        now = datetime.now(UTC)
        assert all(abs((now - one.modified).total_seconds()) < 300 for one in found)
        assert list(stand.store.list(PAST)) == []
        for one in stand.store.list(FUTURE):
            stand.store.delete(one.sha256)
        assert list(stand.store.list(FUTURE)) == []

    def test_a_listing_goes_on_behind_a_hash(self, stand: Stand) -> None:
        """However it is cut, each object comes once, in order."""
        stored = sorted(stand.store.put([bytes([n])], most_bytes=1).sha256 for n in range(20))
        for cut in (0, 7, 19):
            behind = [one.sha256 for one in stand.store.list(FUTURE, stored[cut])]
            assert behind == stored[cut + 1 :]

    def test_a_scope_sees_nothing_of_another(self, stand: Stand) -> None:
        """The same content in two of them is two objects, and what one deletes the other keeps."""
        one, two = stand.store.within("one"), stand.store.within("two")
        sha256 = one.put([b"secret"], most_bytes=10).sha256
        assert two.stat(sha256) is None
        assert stand.store.stat(sha256) is None
        assert list(two.list(FUTURE)) == []
        two.put([b"secret"], most_bytes=10)
        one.delete(sha256)
        assert whole(two.open(sha256)) == b"secret"
        one.close()
        assert two.verify(sha256).size == 6

    @pytest.mark.parametrize("scope", ["", "..", "a/b", "a\0", ".hidden", "a" * 300])
    def test_a_scope_is_one_part_of_a_name(self, stand: Stand, scope: str) -> None:
        """What could lead elsewhere is refused."""
        with pytest.raises(Unprocessable, match="E-OBJ-06"):
            stand.store.within(scope)

    def test_times_need_a_zone(self, stand: Stand) -> None:
        """A naive time would be compared with whatever zone the machine has."""
        naive = datetime(2030, 1, 1)  # noqa: DTZ001 - what is refused
        for attempt in (lambda: list(stand.store.list(naive)), lambda: stand.store.sweep_temporary(naive)):
            with pytest.raises(ValueError, match="zone"):
                attempt()

    @pytest.mark.parametrize("size", [10, 9 * MIB])
    def test_a_name_is_published_once(self, stand: Stand, size: int) -> None:
        """Of several callers exactly one creates the name, and its content stays."""
        contents = [bytes_of(size, seed) for seed in range(4)]
        created = at_once(
            [lambda data=data: stand.store.put_if_absent("reports/2030.pdf", in_chunks(data)) for data in contents]
        )
        assert sorted(created) == [False, False, False, True]
        assert whole(stand.store.open_published("reports/2030.pdf")) == contents[created.index(True)]
        assert not stand.store.put_if_absent("reports/2030.pdf", [b"another"])
        assert stand.store.put_if_absent("reports/2031.pdf", [b"another"])
        assert stand.is_clean()

    def test_what_is_published_is_told_and_taken_back(self, stand: Stand) -> None:
        """Its hash is that of what stands there; removing is harmless to repeat, and the name is free again."""
        assert stand.store.published("a/b") is None
        stand.store.remove_published("a/b")
        assert stand.store.put_if_absent("a/b", [b"one"])
        assert stand.store.published("a/b") == Stored(hashlib.sha256(b"one").digest(), 3)
        for _ in range(2):
            stand.store.remove_published("a/b")
            assert stand.store.published("a/b") is None
        assert stand.store.put_if_absent("a/b", [b"another"])
        assert stand.store.published("a/b") == Stored(hashlib.sha256(b"another").digest(), 7)

    @pytest.mark.parametrize("name", HOSTILE, ids=repr)
    def test_hostile_names_are_refused(self, stand: Stand, name: str) -> None:
        """No name leads out of the store, or to what it keeps for itself."""
        publish = stand.store.put_if_absent
        for attempt in (
            stand.store.open_published,
            stand.store.published,
            stand.store.remove_published,
            lambda name: publish(name, [b"x"]),
        ):
            with pytest.raises(Unprocessable) as refused:
                attempt(name)
            assert refused.value.code == "E-OBJ-06"

    @pytest.mark.parametrize("name", [b"", bytes(31), bytes(33), "ab" * 32, "../../etc/passwd", None], ids=repr)
    def test_a_hash_is_32_bytes(self, stand: Stand, name: Any) -> None:
        """Anything else is refused by every call, before the store is asked."""
        for attempt in (stand.store.open, stand.store.stat, stand.store.delete, stand.store.verify):
            with pytest.raises(Unprocessable):
                attempt(name)
        if name is not None:
            with pytest.raises(Unprocessable):
                stand.store.put([b"x"], expected_sha256=name, most_bytes=1)

    @pytest.mark.parametrize("mib", [0, 5, 20])
    def test_a_killed_upload_shows_nothing(self, stand: Stand, mib: int) -> None:
        """kill -9 in the middle of a put: no object is there, the rest is swept, and the content can be put."""
        process = run(stand.url, mib, "stuck")
        assert process.stdout is not None
        assert process.stdout.readline() == "stuck\n"
        kill(process)
        assert list(stand.store.list(FUTURE)) == []
        assert stand.store.sweep_temporary(PAST) == 0
        swept = stand.store.sweep_temporary(FUTURE)
        assert swept == 1 if mib == 20 else swept <= 1
        assert stand.is_clean()

    @pytest.mark.parametrize("mib", [1, 9])
    @pytest.mark.parametrize("puts", [0, 1, 2, 3])
    def test_kills_at_any_moment_lose_nothing(self, stand: Stand, mib: int, puts: int) -> None:
        """kill -9 somewhere in a row of puts: what was answered is there, and all that is there is whole."""
        process = run(stand.url, mib, "loop")
        assert process.stdout is not None
        answered = {bytes.fromhex(process.stdout.readline()) for _ in range(puts)}
        process.kill()
        answered |= {bytes.fromhex(line) for line in process.communicate(timeout=30)[0].splitlines() if len(line) == 64}
        found = {one.sha256: one.size for one in stand.store.list(FUTURE)}
        assert answered <= found.keys()
        assert set(found.values()) <= {mib * MIB}
        assert all(stand.store.verify(sha256) for sha256 in found)
        stand.store.sweep_temporary(FUTURE)
        assert stand.is_clean()

    def test_errors_have_codes(self, stand: Stand) -> None:
        """What a store raises is ours, and shows what to do."""
        with pytest.raises(StanchionError) as raised:
            stand.store.open(bytes(32))
        assert raised.value.problem()["fix"]
