"""The store in a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.stores import FUTURE, MIB, PAST, Stand, StoreSuite, bytes_of, in_chunks

from stanchion.errors import Conflict, NotFound, Unavailable
from stanchion.objects import open_store
from stanchion.objects.names import object_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def stand(folder: Path) -> Iterator[Stand]:
    def damage(sha256: bytes, data: bytes) -> None:
        (folder / object_key(sha256)).write_bytes(data)

    with open_store(folder.as_uri()) as store:
        yield Stand(folder.as_uri(), store, damage)


class TestFolder(StoreSuite):
    """All that a store must do."""


def test_nobody_else_sees_anything(stand: Stand, folder: Path) -> None:
    """Files are 0600 and directories 0700, whatever the umask says."""
    before = os.umask(0)
    try:
        stand.store.put([b"x"], most_bytes=1)
        stand.store.put_if_absent("a/b/c", [b"x"])
    finally:
        os.umask(before)
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_content_is_on_disk_before_it_has_its_name(stand: Stand, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced, then moved, then the directory is synced; before that each new directory, from above."""
    seen: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        seen.append("sync " + os.path.relpath(Path(f"/proc/self/fd/{descriptor}").readlink(), folder))
        fsync(descriptor)

    def moved(path: Path, target: Path) -> Any:
        seen.append("move " + os.path.relpath(target, folder))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", moved)
    final = Path(object_key(stand.store.put([b"x"], most_bytes=1).sha256))
    seen = ["sync temporary/*" if one.startswith("sync temporary/") else one for one in seen]
    above = [f"sync {path}" for path in reversed(list(final.parent.parents))]
    assert seen == ["sync .", "sync temporary/*", *above, f"move {final}", f"sync {final.parent}"]


def test_an_upload_that_goes_on_is_not_swept(stand: Stand, folder: Path) -> None:
    """Its file was written to last a moment ago; one that is swept all the same fails, and shows nothing."""

    def source(older_than: Any) -> Iterator[bytes]:
        yield from in_chunks(bytes_of(3 * MIB))
        stand.store.sweep_temporary(older_than)
        yield b"end"

    assert stand.store.put(source(PAST), most_bytes=4 * MIB)
    with pytest.raises(Unavailable) as failed:
        stand.store.put(source(FUTURE), most_bytes=4 * MIB)
    assert failed.value.code == "E-OBJ-04"
    assert len(list(stand.store.list(FUTURE))) == 1
    assert stand.is_clean()


def test_a_full_disk_is_no_ones_fault(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes: Unavailable, and nothing stays."""

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable) as failed:
            stand.store.put([b"x"], most_bytes=1)
    assert failed.value.code == "E-OBJ-04"
    assert list(stand.store.list(FUTURE)) == []
    assert stand.is_clean()


def test_a_cut_while_it_is_read_is_told(stand: Stand, folder: Path) -> None:
    """A reader that can't give all it said raises, and never ends early in silence."""
    data = bytes_of(3 * MIB)
    named = stand.store.put([data], most_bytes=len(data)).sha256
    reader = stand.store.open(named)
    next(reader)
    os.truncate(folder / object_key(named), 2 * MIB)
    with pytest.raises(Unavailable) as failed:
        list(reader)
    assert failed.value.code == "E-OBJ-04"


def test_what_is_no_object_is_passed_over(stand: Stand, folder: Path) -> None:
    """Stray files in the folder are neither listed nor swept."""
    named = stand.store.put([b"x"], most_bytes=1).sha256
    (folder / "sha256" / "notes.txt").write_text("x")
    (folder / object_key(named)).with_name("core").write_text("x")
    (folder / object_key(named)).with_name("ab" * 32).write_text("x")
    assert [one.sha256 for one in stand.store.list(FUTURE)] == [named]
    assert stand.is_clean()


def test_a_link_in_the_place_of_an_object_is_not_followed(stand: Stand, folder: Path, tmp_path: Path) -> None:
    """Nothing outside the folder is read through it."""
    named = stand.store.put([b"x"], most_bytes=1).sha256
    path = folder / object_key(named)
    path.unlink()
    (tmp_path / "secret").write_text("secret")
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(Unavailable):
        stand.store.open(named)


def test_a_name_is_a_file_or_a_folder(stand: Stand) -> None:
    """In a folder one published name can't be the beginning of another; that is said, both ways round."""
    assert stand.store.put_if_absent("a/b", [b"x"])
    for name in ("a", "a/b/c", "a/b/c/d"):
        with pytest.raises(Conflict) as refused:
            stand.store.put_if_absent(name, [b"x"])
        assert refused.value.code == "E-OBJ-09"
        with pytest.raises(NotFound):
            stand.store.open_published(name)
    assert stand.is_clean()


def test_a_folder_that_is_gone_is_no_empty_store(stand: Stand, folder: Path, tmp_path: Path) -> None:
    """A mount that fell off must not look as if all objects had been deleted."""
    named = stand.store.put([b"x"], most_bytes=1).sha256
    folder.rename(tmp_path / "elsewhere")
    for attempt in (stand.store.stat, stand.store.open):
        with pytest.raises(Unavailable):
            attempt(named)
    with pytest.raises(Unavailable):
        stand.store.put([b"x"], most_bytes=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_missing_rights_are_said(stand: Stand, folder: Path) -> None:
    """A folder of somebody else is refused with what to look at."""
    folder.chmod(0o500)
    try:
        with pytest.raises(Unavailable) as refused:
            stand.store.put([b"x"], most_bytes=1)
    finally:
        folder.chmod(0o700)
    assert refused.value.code == "E-OBJ-05"
