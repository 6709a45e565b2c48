"""Ids: UUIDv7 inside, prefix and Crockford base32 outside."""

from __future__ import annotations

import os
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion.contracts import ids
from stanchion.errors import Unprocessable


class TestNewId:
    def test_is_a_version_7_uuid_of_the_standard_library(self) -> None:
        """psycopg and pydantic know the standard library's type."""
        made = ids.new_id()
        assert type(made) is UUID
        assert made.version == 7

    def test_sorts_by_birth(self) -> None:
        """Indexes grow at one end."""
        made = [ids.new_id() for _ in range(2_000)]
        assert made == sorted(made)

    def test_a_forked_child_makes_ids_of_its_own(self) -> None:
        """A child must not go on with its parent's random numbers."""
        reader, writer = os.pipe()
        ids.new_id()
        if (child := os.fork()) == 0:
            os.write(writer, b"".join(ids.new_id().bytes for _ in range(50)))
            os._exit(0)
        os.close(writer)
        of_parent = {ids.new_id() for _ in range(50)}
        os.waitpid(child, 0)
        raw = os.read(reader, 800)
        os.close(reader)
        of_child = {UUID(bytes=raw[at : at + 16]) for at in range(0, 800, 16)}
        assert len(of_child | of_parent) == 100
        # Equal random bits with other times would be as bad: the last 62 bits are all random.
        assert len({one.int & (2**62 - 1) for one in of_child | of_parent}) == 100


class TestPublicForm:
    @given(st.uuids())
    def test_comes_back(self, value: UUID) -> None:
        """Every UUID survives its public form, in either case, and its bare form."""
        shown = ids.public(ids.TASK, value)
        assert len(shown) == len("tsk_") + 26
        assert ids.parse(shown, ids.TASK) == value
        assert ids.parse(shown.lower(), ids.TASK) == value
        assert ids.parse(str(value), ids.TASK) == value

    @given(st.uuids(), st.uuids())
    def test_sorts_as_the_ids_do(self, one: UUID, other: UUID) -> None:
        """A list sorted by public id is sorted by birth."""
        assert (ids.public("tsk", one) < ids.public("tsk", other)) == (one.int < other.int)

    def test_lookalikes_are_read_as_digits(self) -> None:
        """An id read aloud may come back with I, L or O."""
        value = UUID(int=1 << 5)
        shown = ids.public(ids.RUN, value)
        assert shown.endswith("010")
        assert ids.parse(shown[:-3] + "OIo", ids.RUN) == value
        assert ids.parse(shown[:-3] + "olO", ids.RUN) == value

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "tsk_",
            "tsk",
            "_" * 30,
            "tsk_" + "U" * 26,
            "tsk_8" + "0" * 25,
            "tsk_" + "0" * 25,
            "tsk_" + "0" * 27,
            "tsk_" + "0" * 25 + "ſ",
            "tsk_" + "0" * 26 + "\n",
            "0" * 32,
            "{00000000-0000-0000-0000-000000000000}",
            "urn:uuid:00000000-0000-0000-0000-000000000000",
            "00000000-0000-0000-0000-000000000000\n",
            "x" * 100_000,
            "\x00",
        ],
    )
    def test_anything_else_is_refused_by_name(self, text: str) -> None:
        """A clean refusal with a short text, never a crash."""
        with pytest.raises(Unprocessable) as caught:
            ids.parse(text, ids.TASK)
        assert caught.value.code == "E-DATA-11"
        assert len(str(caught.value)) < 400

    def test_an_id_of_another_kind_is_named_as_such(self) -> None:
        """Whoever pastes a run id for a task id learns that."""
        with pytest.raises(Unprocessable, match="another kind"):
            ids.parse(ids.public(ids.RUN, ids.new_id()), ids.TASK)
