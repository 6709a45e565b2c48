"""Loading workflows by module or file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from stanchion.errors import Rejected
from stanchion.workflow.registry import load

GOOD = """
from dataclasses import dataclass
from stanchion.workflow import Ctx, Workflow

@dataclass
class Page:
    title: str

brief = Workflow("brief", version=7)
other = Workflow("other")
both = [brief, other]

@brief.step()
def plan(ctx: Ctx, page: Page) -> Page:
    return page

@other.step()
def act(ctx: Ctx) -> None: ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def put(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text))
    return str(file)


class TestFound:
    @pytest.mark.parametrize(
        ("target", "names"),
        [
            ("flows_a", ["brief", "other"]),
            ("flows_a:brief", ["brief"]),
            ("flows_a:both", ["brief", "other"]),
            ("flows_a.py", ["brief", "other"]),
            ("flows.v2.py", ["brief", "other"]),
            ("flows-b.py", ["brief", "other"]),
            ("flows_a.py:other", ["other"]),
            ("./flows_a.py:brief", ["brief"]),
        ],
    )
    def test_a_module_a_file_or_one_of_its_names(self, folder: Path, target: str, names: list[str]) -> None:
        """All workflows of a module in order of definition, or those that are named."""
        for name in ("flows_a.py", "flows.v2.py", "flows-b.py"):
            put(folder, name, GOOD)
        assert [workflow.name for workflow in load(target)] == names

    def test_a_module_of_a_package(self, folder: Path) -> None:
        """With relative imports, by its dotted name and by its path."""
        put(folder, "app/__init__.py", "")
        put(folder, "app/types.py", "from dataclasses import dataclass\n@dataclass\nclass Url:\n    host: str\n")
        put(
            folder,
            "app/flows.py",
            """
            from stanchion.workflow import Ctx, Workflow
            from .types import Url
            wf = Workflow("wf")
            @wf.step()
            def plan(ctx: Ctx, url: Url) -> None: ...
            """,
        )
        (by_name,) = load("app.flows:wf")
        (by_path,) = load(str(folder / "app/flows.py"))
        assert by_name is by_path

    def test_a_file_is_run_once(self, folder: Path) -> None:
        """Two loads give the same objects, and a file beside it can be imported."""
        put(folder, "helper_b.py", "NAME = 'b'\n")
        file = put(
            folder,
            "sub/flows_b.py",
            """
            from helper_c import NAME
            from stanchion.workflow import Ctx, Workflow
            wf = Workflow(NAME)
            @wf.step()
            def plan(ctx: Ctx) -> None: ...
            """,
        )
        put(folder, "sub/helper_c.py", "NAME = 'c'\n")
        assert load(file)[0] is load(file)[0]

    def test_a_file_named_like_a_library_takes_nothing_from_it(self, folder: Path) -> None:
        """json.py of the user is loaded under another name; json stays json."""
        import json

        put(folder, "lib/json.py", GOOD)
        assert [workflow.name for workflow in load("lib/json.py")] == ["brief", "other"]
        assert sys.modules["json"] is json


class TestRefused:
    @pytest.mark.parametrize(
        ("target", "words"),
        [
            ("nowhere", "there is no module nowhere"),
            ("nowhere.at.all:wf", "there is no module nowhere"),
            ("nowhere.py", "there is no file nowhere.py"),
            ("some/where.py:wf", "there is no file some/where.py"),
            ("no-module", "is neither a module nor a file"),
            ("", "is neither a module nor a file"),
            (":wf", "is neither a module nor a file"),
        ],
    )
    def test_what_is_not_there(self, folder: Path, target: str, words: str) -> None:
        """E-LOAD-01 with what was looked for."""
        with pytest.raises(Rejected) as caught:
            load(target)
        assert (caught.value.code, words in str(caught.value)) == ("E-LOAD-01", True), str(caught.value)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("import does_not_exist_x\n", "No module named 'does_not_exist_x'"),
            ("x = 1\n\ny = x / 0\n", "ZeroDivisionError"),
            ("def broken(:\n", "SyntaxError"),
            ("raise SystemExit(3)\n", "SystemExit: 3"),
        ],
    )
    def test_what_breaks_while_it_is_imported(self, folder: Path, text: str, words: str) -> None:
        """E-LOAD-01 with the error and the line of the user's file, by name and by path; a second try is no ghost."""
        put(folder, "flows_d.py", text)
        for target in ("flows_d", "flows_d.py", "flows_d"):
            with pytest.raises(Rejected) as caught:
                load(target)
            assert (caught.value.code, words in str(caught.value)) == ("E-LOAD-01", True), str(caught.value)
            assert "flows_d.py:" in str(caught.value.where)

    @pytest.mark.parametrize(
        ("target", "words"),
        [
            ("flows_e:breif", "did you mean brief?"),
            ("flows_e:Page", "Page of flows_e is no workflow but type"),
            ("flows_e:brief.steps.nope", "flows_e has no brief.steps.nope"),
            ("empty_e", "empty_e holds no workflow"),
            ("empty_e.py", "empty_e.py holds no workflow"),
        ],
    )
    def test_what_is_no_workflow(self, folder: Path, target: str, words: str) -> None:
        """E-LOAD-02, with what is there instead."""
        put(folder, "flows_e.py", GOOD)
        put(folder, "empty_e.py", "x = 1\n")
        with pytest.raises(Rejected) as caught:
            load(target)
        assert (caught.value.code, words in str(caught.value)) == ("E-LOAD-02", True), str(caught.value)

    def test_a_definition_that_can_t_be(self, folder: Path) -> None:
        """The definition's own error comes out, also one that only the whole graph shows."""
        put(folder, "flows_f.py", GOOD.replace("@other.step()", "@other.step(on_demand=True)"))
        with pytest.raises(Rejected) as caught:
            load("flows_f")
        assert caught.value.code == "E-WIRE-10"
        put(folder, "flows_g.py", GOOD.replace("page: Page", "page: bytes"))
        for target in ("flows_g", "flows_g.py"):
            with pytest.raises(Rejected) as caught:
                load(target)
            assert caught.value.code == "E-STEP-17"

    def test_one_version_twice(self, folder: Path) -> None:
        """A worker would not know which of the two to run."""
        put(folder, "flows_h.py", GOOD.replace('Workflow("other")', 'Workflow("brief", version=7)'))
        with pytest.raises(Rejected, match="brief v7 is defined twice"):
            load("flows_h")
