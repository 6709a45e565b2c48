"""The parts of `stanchion dev` that need no server: whose code is watched, what of a log is shown, who gets which
environment."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stanchion.cli.code_watcher import CodeWatcher
from stanchion.cli.launches import LOGINS, Surroundings, WorkerOptions, import_path, launch_command, service_url
from stanchion.cli.log_tailer import LogTailer, shown
from stanchion.embedded import Endpoints

ENDPOINTS = Endpoints("postgresql://stanchion@127.0.0.1:1/stanchion", "127.0.0.1:2", "redis://127.0.0.1:3/0")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "reports.py").write_text("")
    package = tmp_path / "pack" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("raise RuntimeError('it is only looked at')")
    (package / "flow.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    "target",
    ["reports.py", "reports.py:brief", "reports", "pack.inner.flow:brief", "pack.inner", "pack", "pack/inner/flow.py"],
)
def test_the_file_of_a_target_is_watched_without_importing(project: Path, target: str) -> None:
    """Code that is broken right now is watched all the same, with the packages that it stands in."""
    watcher = CodeWatcher([target], project)
    name = target.partition(":")[0].removesuffix(".py").replace(".", "/")
    file = project / f"{name}.py"
    (file if file.is_file() else project / name / "__init__.py").write_text("x = 1  # changed")
    assert len(watcher.changed()) == 1
    assert watcher.changed() == []


def test_an_unknown_target_is_watched_nowhere(project: Path) -> None:
    """The worker says what is wrong with it."""
    assert CodeWatcher(["no_such_package_here", "nowhere.py"], project).changed() == []


def test_only_what_a_target_imports_counts(project: Path) -> None:
    """Directly or through others, absolute or relative, inside a function too; not its neighbours."""
    inner = project / "pack" / "inner"
    (inner / "flow.py").write_text("import json\nfrom . import near\nfrom .deep.down import thing\nimport far\n")
    (inner / "near.py").write_text("def f():\n    from ..above import x\n")
    (inner / "deep").mkdir()
    for path in (inner / "deep" / "down.py", project / "pack" / "above.py", project / "far.py"):
        path.write_text("")
    for path in (inner / "other.py", project / "pack" / "tests.py", project / "json.py"):
        path.write_text("")
    watcher = CodeWatcher(["pack.inner.flow"], project)
    for path in (inner / "other.py", project / "pack" / "tests.py", project / "reports.py", project / "new.py"):
        path.write_text("x = 1")
    assert watcher.changed() == []
    for path in (inner / "near.py", inner / "deep" / "down.py", project / "pack" / "above.py", project / "far.py"):
        path.write_text(path.read_text() + "\ny = 1")
        assert watcher.changed() == [path.resolve()]
    (inner / "deep" / "down.py").unlink()
    assert [path.name for path in watcher.changed()] == ["down.py"]


def test_broken_code_keeps_what_it_imported(project: Path) -> None:
    """Mending the file next to it restarts workers too; a new import counts from the look that sees it."""
    (project / "far.py").write_text("")
    (project / "reports.py").write_text("import far, later")
    watcher = CodeWatcher(["reports.py"], project)
    (project / "reports.py").write_text("import far, later\nbroken(")
    assert [path.name for path in watcher.changed()] == ["reports.py"]
    (project / "far.py").write_text("x = 1")
    (project / "later.py").write_text("")
    assert [path.name for path in watcher.changed()] == ["far.py", "later.py"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"event":"service.ready","level":"info"}', None),
        (b'{"event":"bus.broker_away","level":"warning","time":"t","why":"x"}', "warning: bus.broker_away why=x"),
        (
            b'{"event":"loop.error","level":"error","exception":"Tr\\nValueError: no"}',
            "error: loop.error ValueError: no",
        ),
        (b"a step prints this", "| a step prints this"),
        (b"[1, 2]", "| [1, 2]"),
        (b"  ", None),
        (b"\xff", "| \ufffd"),
    ],
)
def test_of_a_log_a_person_sees_what_is_loud(line: bytes, text: str | None) -> None:
    """Warnings and errors in one line each, and whatever is no log line: prints of steps, tracebacks of a start."""
    assert shown(line) == text


def test_a_log_is_followed_from_its_end_through_rotation(tmp_path: Path) -> None:
    """What was there before is old news; half a line waits for its rest; a rotated file starts again; a flood is cut."""
    said: list[str] = []
    log = tmp_path / "worker-1.log"
    log.write_text("old\n")
    tailer = LogTailer(tmp_path, said.append)
    tailer.start()
    tailer.stop()
    assert said == []
    with log.open("a") as file:
        file.write("one\ntw")
        file.flush()
        tailer.look()
        file.write("o\n")
    tailer.look()
    assert said == ["worker-1 | one", "worker-1 | two"]
    log.write_text("new\n")
    tailer.look()
    assert said[2:] == ["worker-1 | new"]
    with log.open("a") as file:
        file.write("x\n" * 50)
    tailer.look()
    assert len(said) == 3 + 20 + 1
    assert "30 more lines" in said[-1]


def surroundings(**more: object) -> Surroundings:
    return Surroundings(ENDPOINTS, Path("/run"), 10.0, **more)  # type: ignore[arg-type]  # typed by its callers


def test_each_service_has_its_own_login() -> None:
    """Nobody gets the administrator's address."""
    urls = {kind: surroundings().environment(kind, f"{kind}-1", 7, {})["STANCHION_DATABASE_URL"] for kind in LOGINS}
    assert len(set(urls.values())) == len(LOGINS)
    assert urls["worker"] == "postgresql://stanchion_worker@127.0.0.1:1/stanchion"


def test_a_real_server_with_a_password_gets_it_for_every_login() -> None:
    """A stack on somebody's PostgreSQL uses one password, the one that it was given."""
    assert (
        service_url("postgresql://root:p%40ss@db/x", "stanchion_worker") == "postgresql://stanchion_worker:p%40ss@db/x"
    )


def test_what_was_given_for_one_service_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell's addresses and failpoints of another installation are left behind, other settings are not."""
    for name in ("DATABASE_URL", "ADMIN_DATABASE_URL", "API_KEY", "FAILPOINTS", "HTTP_PORT"):
        monkeypatch.setenv(f"STANCHION_{name}", "foreign")
    monkeypatch.setenv("STANCHION_MODEL_URL", "http://model")
    made = surroundings(
        env={"STANCHION_LOG_LEVEL": "debug", "A": "all"}, worker=WorkerOptions(("a.py", "b"), 4, 2.5, ("q",))
    ).environment("worker", "worker-2", 77, {"A": "own", "STANCHION_FAILPOINTS": "x=kill"})
    assert made["A"] == "own"
    assert made["STANCHION_FAILPOINTS"] == "x=kill"
    assert made["STANCHION_MODEL_URL"] == "http://model"
    assert made["STANCHION_TARGETS"] == "a.py,b"
    assert (made["STANCHION_SLOTS"], made["STANCHION_LEASE_SECONDS"], made["STANCHION_QUEUES"]) == ("4", "2.5", "q")
    assert (made["STANCHION_HTTP_PORT"], made["STANCHION_INSTANCE"]) == ("77", "worker-2")
    assert not {name for name, value in made.items() if value == "foreign"}
    assert "STANCHION_TARGETS" not in surroundings().environment("orchestrator", "orchestrator-1", 7, {})


def test_services_start_beside_a_package_of_the_same_name(tmp_path: Path) -> None:
    """A user's own folder `services` is not taken for ours, in whichever folder the stack is started."""
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    command = launch_command("outbox-relay", "--print-settings")
    environ = {**os.environ, **import_path(os.environ)}
    environ |= {"STANCHION_DATABASE_URL": "postgresql://x@y/z", "STANCHION_KAFKA_BOOTSTRAP": "h:1"}
    import subprocess

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert 'kafka_bootstrap = "h:1"' in done.stdout
    assert command[:2] == [sys.executable, "-P"]


def test_the_notes_of_a_stack_open_for_their_owner_only(tmp_path: Path) -> None:
    """The key opens the stack to whoever reads it."""
    from stanchion.cli.stack_notes import StackNotes

    notes = StackNotes(tmp_path)
    assert notes.key() is None
    notes.keep_key("stn_x")
    assert notes.key() == "stn_x"
    assert (tmp_path / "dev-key").stat().st_mode & 0o777 == 0o600
    assert notes.last_port() is None
    (tmp_path / "last-port").write_text(json.dumps(7001))
    assert notes.last_port() == 7001


def test_the_notes_are_written_by_many_at_once(tmp_path: Path) -> None:
    """Whoever starts, ends or supervises a service writes them, in a thread of its own; nothing comes behind the end."""
    from stanchion.cli.stack import Stack

    stack = Stack(tmp_path, endpoints=ENDPOINTS)
    stack._owner = os.getpid()
    with ThreadPoolExecutor(8) as pool:
        for told in [pool.submit(stack.publish) for _ in range(400)]:
            told.result()
    assert json.loads((tmp_path / "endpoints.json").read_text())["pid"] == os.getpid()
    stack._workspace.closing.set()
    stack._notes.remove_endpoints()
    stack.publish()
    assert list(tmp_path.glob("endpoints*")) == []
