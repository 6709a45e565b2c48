"""The objects behind `ctx.artifact`: how content is cut, and what misuse is told."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stanchion.contracts.artifacts import check_media_type, check_name
from stanchion.errors import Unprocessable
from stanchion.objects.feed import Feed
from stanchion.sdk.artifact_streams import ArtifactUpload
from stanchion.sdk.artifacts import Source, source_of
from stanchion.workflow.artifact import Artifact
from stanchion.workflow.carrier import carrier


class Door:
    """Keeps what it is given in memory; a class of the test, not of a server."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, bytes, str]] = []

    def put(self, name: str, source: Source, media_type: str, made_from: Any = ()) -> Artifact:
        data = b"".join(source.chunks())
        self.kept.append((name, data, media_type))
        return Artifact("art_0", name, len(self.kept), "", len(data), media_type)


def upload(door: Door, content: Any = None) -> ArtifactUpload:
    return ArtifactUpload(door, "x", content, "text/plain", ())  # type: ignore[arg-type]  # the one method that is used


@given(pieces=st.lists(st.binary(max_size=3_000_000), max_size=4))
def test_what_is_written_arrives_whole(pieces: list[bytes]) -> None:
    """However it was cut, in a plain step and in an async one."""
    door = Door()
    with upload(door) as out:
        for piece in pieces:
            out.write(piece)

    async def write() -> Artifact:
        async with upload(door) as out:
            for piece in pieces:
                await out.write(piece)
        return out.artifact

    assert asyncio.run(write()).size == out.artifact.size == len(b"".join(pieces))
    assert [data for _, data, _ in door.kept] == [b"".join(pieces)] * 2


def test_what_is_never_written_is_warned_of() -> None:
    """A forgotten await would lose an artifact without a word."""

    def forget() -> None:
        upload(Door(), b"x")
        gc.collect()

    with pytest.warns(RuntimeWarning, match="never written"):
        forget()


@pytest.mark.filterwarnings("ignore:the artifact")
def test_misuse_is_told() -> None:
    """Content given twice or not at all, something that is no content, and an artifact before its end."""
    with pytest.raises(TypeError, match="use `with`"):
        upload(Door()).put()
    with pytest.raises(TypeError, match="was given"):
        upload(Door(), b"x").__enter__()
    with pytest.raises(TypeError, match="no content"):
        source_of(7)  # type: ignore[arg-type]  # that is the point
    with upload(Door()) as out, pytest.raises(RuntimeError, match="has ended"):
        _ = out.artifact


def test_an_error_of_the_store_reaches_the_writer() -> None:
    """In `write`, or at the latest at the end."""

    class Full(Door):
        def put(self, name: str, source: Source, media_type: str, made_from: Any = ()) -> Artifact:
            feed: Any = source.chunks()
            assert isinstance(feed, Feed)
            next(feed)
            raise OSError("full")

    def write_in_a_thread() -> None:
        with upload(Full()) as out:
            for _ in range(100):
                out.write(b"x" * 1_000_000)

    with pytest.raises(OSError, match="full"):
        write_in_a_thread()

    async def write() -> None:
        async with upload(Full()) as out:
            for _ in range(100):
                await out.write(b"x" * 1_000_000)

    with pytest.raises(OSError, match="full"):
        asyncio.run(write())


@given(name=st.text(max_size=300))
@example(name="a\u1680b")  # a blank of another script is printed like one of ours, and is another name
def test_any_text_is_a_name_or_is_refused(name: str) -> None:
    """What passes can be shown and saved: nothing hidden in it, no part that leads elsewhere."""
    try:
        check_name(name)
    except Unprocessable:
        return
    assert name.isprintable()
    assert 1 <= len(name) <= 200
    assert not {"", ".", ".."} & set(name.split("/"))


@given(text=st.text(max_size=60))
def test_any_text_is_a_media_type_or_is_refused(text: str) -> None:
    """What passes can stand in a header."""
    try:
        check_media_type(text)
    except Unprocessable:
        return
    assert text.isascii()
    assert text.isprintable()


def test_a_reference_is_a_value() -> None:
    """To JSON and back, alone and inside of others."""
    one = Artifact("art_0", "x", 1, "ab", 7, "text/plain")
    kind = carrier(dict[str, list[Artifact]])
    assert kind.take_in(kind.write_out({"a": [one]})) == {"a": [one]}
