"""Which documents a listing gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.studio.extract import extract
from examples.studio.modules import relevant_modules
from examples.studio.sources import SourceError, list_documents


def ids(*sources: object) -> list[str]:
    return [document.id for document in list_documents([str(source) for source in sources], ["oak"])]


def test_a_folder_gives_its_files_by_path(cellar: Path) -> None:
    """Ids are stable: the path below the folder, in order; hidden and dependency folders are passed over."""
    for hidden in (".git", "node_modules", "__pycache__"):
        (cellar / hidden).mkdir()
        (cellar / hidden / "x.md").write_text("no")
    assert ids(cellar) == ["file:barrels.md", "file:trains.txt", "file:pages/cellars.html"]


def test_a_single_file_is_a_source(cellar: Path) -> None:
    """A file is named by its name."""
    assert ids(cellar / "barrels.md") == ["file:barrels.md"]


def test_two_folders_do_not_collide(cellar: Path, tmp_path: Path) -> None:
    """With several folders ids begin with the folder's name, and equal ones get a number."""
    other = tmp_path / "else" / "cellar"
    other.mkdir(parents=True)
    (other / "barrels.md").write_text("# x")
    listed = ids(cellar, other, cellar)
    assert "file:cellar/barrels.md" in listed
    assert "file:cellar/barrels.md~2" in listed
    assert len(listed) == len(set(listed)) == 4


def test_links_are_followed_once_and_never_out(cellar: Path, tmp_path: Path) -> None:
    """A loop ends, a link out of the folder is not followed, and both have a reason."""
    (cellar / "again").symlink_to(cellar)
    (cellar / "self").symlink_to(cellar / "self")
    (tmp_path / "secret.txt").write_text("secret")
    (cellar / "out.txt").symlink_to(tmp_path / "secret.txt")
    (cellar / "alias.md").symlink_to(cellar / "barrels.md")
    problems = {d.id: d.problem for d in list_documents([str(cellar)], []) if d.problem}
    assert problems == {
        "file:again": "a symbolic link that leads back to a folder already listed",
        "file:self": "a symbolic link that leads back to itself",
        "file:out.txt": "a symbolic link that leads outside the source folder",
    }


def test_a_name_that_is_no_text_has_a_reason(cellar: Path) -> None:
    """Task inputs are JSON: a name of odd bytes cannot travel, and must not break the listing."""
    (Path(os.fsdecode(os.fsencode(cellar) + b"/bad\xff.txt"))).write_text("x")
    document = next(d for d in list_documents([str(cellar)], []) if d.problem)
    assert "UTF-8" in document.problem
    assert document.id.encode("utf-8")


def test_wrong_sources_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is not there, unknown, empty or not allowed is the requester's mistake."""
    (tmp_path / "empty").mkdir()
    for source, reason in (
        (tmp_path / "gone", "does not exist"),
        ("@wiki", "unknown"),
        (tmp_path / "empty", "no files"),
    ):
        with pytest.raises(SourceError, match=reason):
            list_documents([str(source)], [])
    monkeypatch.setenv("STANCHION_STUDIO_ROOTS", str(tmp_path / "empty"))
    with pytest.raises(SourceError, match="STANCHION_STUDIO_ROOTS"):
        list_documents([str(tmp_path)], [])


def test_packages_and_topics_are_documents_with_licence() -> None:
    """What is installed is listed once each, by normalised name, with version and licence, and can be read."""
    documents = {d.id: d for d in list_documents(["@packages", "@topics"], [])}
    assert len(documents) > 100
    pytest_ = documents["pkg:pytest"]
    assert (pytest_.title, pytest_.licence) == ("pytest", "MIT")
    assert pytest_.version
    assert extract(pytest_)[0]
    assert documents["topic:lambda"].title == "Python reference: Lambdas"
    assert extract(documents["topic:lambda"])[0]


def test_modules_are_those_that_speak_about_the_topic() -> None:
    """Modules are found by their docstrings and names, none private, not more than ten of one package."""
    found = relevant_modules(["consumer", "group", "rebalancing", "Kafka"])
    names = [document.id for document in found]
    assert "module:kafka.coordinator.consumer" in names
    assert len(names) <= 50
    assert not any(part.startswith("_") for name in names for part in name.removeprefix("module:").split("."))
    assert relevant_modules([]) == []
