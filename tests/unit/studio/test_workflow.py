"""The workflow's definition and its thin steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from examples.studio import local
from examples.studio.shapes import Report
from examples.studio.workflow import draft, plan, read, review, studio
from stanchion import Artifact
from stanchion.workflow import Results

VERSION = Artifact("art_1", "report", 1, "a" * 64, 12, "text/markdown")


def test_the_graph_is_accepted() -> None:
    """The engine accepts the types and the wiring: plan fans out to read, draft joins nine of ten, people are asked."""
    graph = studio.graph()
    assert [node.name for node in graph] == [
        "aim",
        "plan",
        "read",
        "draft",
        "review",
        "offer",
        "approve",
        "publish",
    ]
    studio.validate_input({"topic": "oak barrels"})
    studio.validate_input({"topic": "oak barrels", "sources": ["@topics", "/tmp"], "channel": "barrels"})


class _Context:
    """Keeps what is written as an artifact."""

    def __init__(self) -> None:
        self.written = ""

    def progress(self, done: float, of: float | None = None, note: str = "") -> None:
        """Nobody watches."""

    def artifact(self, name: str, content: str, *, media_type: str) -> _Context:
        """The upload."""
        self.written = f"{name} {media_type} {content}"
        return self

    def put(self) -> Artifact:
        """The version."""
        return VERSION


def test_the_steps_make_a_report_with_late_and_failed_children(cellar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Called as the engine calls them; a child that failed and one that is late are listed as missing."""
    monkeypatch.delenv("STANCHION_MODEL_URL", raising=False)
    context = cast(Any, _Context())
    tasks = plan(context, topic="oak barrel", sources=[str(cellar)])
    (cellar / "more.md").write_text("# More\n\nAn oak barrel is more.\n")
    tasks = plan(context, topic="oak barrel", sources=[str(cellar)])
    readings = Results.of(
        [read(context, task=task) for task in tasks[:2]],
        failed={2: {"code": "E-X", "message": "worker died"}},
        missing=[3],
    )
    report = review(context, draft=draft(context, tasks=tasks, readings=readings), channel="barrels")
    assert isinstance(report, Report)
    assert context.written == f"report text/markdown {report.markdown}"
    assert report.artifact == VERSION
    assert report.missing == 2
    assert report.citations == report.resolved > 0
    assert "reading it failed: worker died." in report.markdown
    assert "not read when the join opened" in report.markdown


def test_values_travel_through_the_engines_codec(cellar: Path) -> None:
    """What the steps hand on is what the next ones get."""
    context = cast(Any, _Context())
    tasks = plan(context, topic="oak barrel", sources=[str(cellar)])
    reading = read(context, task=tasks[0])
    codec = studio.codec("read")
    assert codec.decode_result(codec.encode_value(reading)) == reading
    assert codec.encode_item(tasks[0], 0)["document"]["id"] == "file:barrels.md"


def test_the_local_driver(cellar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m examples.studio.local` writes the report; a bad source ends with code 2 and a sentence."""
    output = tmp_path / "report.md"
    assert local.main(["--topic", "oak barrel", "--sources", str(cellar), "--output", str(output)]) == 0
    assert output.read_text(encoding="utf-8").startswith("# Oak barrel\n")
    assert local.main(["--topic", "oak barrel", "--sources", str(tmp_path / "gone")]) == 2
    assert "does not exist" in capsys.readouterr().err
