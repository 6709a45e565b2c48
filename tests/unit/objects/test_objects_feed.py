"""The feed between who writes and who reads: bounded, ordered, and nobody waits for somebody who has left."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion.objects.feed import HELD_CHUNKS, Cut, Feed, cut_to


@given(chunks=st.lists(st.binary(min_size=1, max_size=20), max_size=50))
def test_what_is_written_is_read(chunks: list[bytes]) -> None:
    """All of it, in order, across two threads."""
    feed = Feed()

    def write() -> None:
        for chunk in chunks:
            feed.wait(chunk)
        feed.end()

    writer = threading.Thread(target=write)
    writer.start()
    assert list(feed) == chunks
    writer.join(10)


def test_a_writer_does_not_run_ahead() -> None:
    """A few chunks are held; then there is no room until one was read, and who waits for room is told."""
    told: list[int] = []
    feed = Feed(lambda: told.append(1))
    assert all(feed.offer(b"x") for _ in range(HELD_CHUNKS))
    assert not feed.offer(b"y")
    assert next(feed) == b"x"
    assert told == [1]
    assert feed.offer(b"y")


def test_a_reader_that_left_holds_nobody_up() -> None:
    """What is written then goes nowhere, and a writer that waits goes on."""
    feed = Feed()
    for _ in range(HELD_CHUNKS):
        feed.offer(b"x")
    writer = threading.Thread(target=lambda: feed.wait(b"y"))
    writer.start()
    feed.close()
    writer.join(10)
    assert not writer.is_alive()
    assert feed.closed
    assert feed.offer(b"z")


def test_a_writer_that_gives_up_is_no_end() -> None:
    """The reader gets an error, also with chunks still to be read: what is half there must not pass for whole."""
    feed = Feed()
    feed.offer(b"x")
    feed.cut(ValueError("gone"))
    with pytest.raises(Cut) as raised:
        next(feed)
    assert isinstance(raised.value.__cause__, ValueError)


@given(data=st.binary(max_size=100), size=st.integers(1, 30))
def test_pieces_make_the_whole(data: bytes, size: int) -> None:
    """None is larger than asked for."""
    pieces = list(cut_to(data, size))
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= size for piece in pieces)
