"""Filters, jobs in bulk, saved views and groups of errors by command line, on a running stack."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cli_kit import PATIENCE, Shell

from stanchion.cli import selecting
from stanchion.contracts.ids import new_id

Eventually = Callable[..., object]


@pytest.fixture
def tag() -> str:
    """A tag that only this test uses: all tests share a stack."""
    return f"t{new_id().hex}"


def failed(shell: Shell, tag: str, count: int) -> list[str]:
    """Tasks that have failed."""
    made = [shell("task", "submit", "failing", "mended=/nowhere", "--tag", tag, "--quiet").id for _ in range(count)]
    assert shell("task", "wait", *made).code == 10
    return made


def test_tasks_are_listed_by_a_filter(shell: Shell, tag: str) -> None:
    """The same language as everywhere; a mistake is said with its column."""
    made = failed(shell, tag, 2)
    listed = shell("task", "list", "--filter", f"tag:{tag} state:failed ended:<1h -workflow:other", "--json").document
    assert [task["task_id"] for task in listed["items"]] == made[::-1]
    assert shell("task", "list", "--filter", f"tag:{tag} is:open", "--json").document["items"] == []
    wrong = shell("task", "list", "--filter", "tag:x state:dead")
    assert wrong.code != 0
    assert "column 13" in wrong.err
    assert "did you mean failed" in wrong.err


def test_a_job_is_planned_started_followed_and_listed(shell: Shell, tag: str, eventually: Eventually) -> None:
    """A dry run says what it would be about; the job retries them, and its end is told."""
    made = failed(shell, tag, 3)
    wanted = ("job", "start", f"tag:{tag} state:failed", "--action", "task.retry", "--reason", "again")
    plan = shell(*wanted, "--dry-run")
    assert (plan.code, plan.out) == (0, "")
    assert "task.retry of 3 tasks" in plan.err
    assert all(task in plan.err for task in made)
    assert shell(*wanted, "--expect-count", "2", "--yes").code == 5
    job = shell(*wanted, "--expect-count", "3", "--yes", "--quiet").id
    assert job.startswith("job_")
    assert shell("job", "watch", job).code == 0
    shown = shell("job", "show", job, "--json").document
    assert (shown["state"], shown["done"], shown["skipped"]) == ("done", 3, 0)
    assert job in [one["job_id"] for one in shell("job", "list", "--json").document["items"]]
    assert shell("job", "stop", job, "--json").document["state"] == "done"
    assert {shell("task", "show", task, "--json").document["runs"][0]["number"] for task in made} == {2}


def test_many_become_a_job(shell: Shell, tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a number that is done from here, the maintenance worker does it; a retry with a budget is refused then."""
    monkeypatch.setattr(selecting, "AT_ONCE", 1)
    failed(shell, tag, 2)
    text = f"tag:{tag} state:failed"
    assert shell("task", "retry", "--filter", text, "--budget", "usd=1", "--yes").code == 2
    job = shell("task", "retry", "--filter", text, "--reason", "again", "--yes", "--json").document
    assert (job["action"], job["count"]) == ("task.retry", {"number": 2, "exact": True})
    assert shell("job", "watch", job["job_id"]).code == 0
    assert shell("task", "pause", "--filter", "tag:x colour:red").code != 0


def test_views_are_saved_and_removed(shell: Shell) -> None:
    """By name; the built-in ones are there for everybody."""
    assert shell("view", "save", "Night runs", "--query", "tag:nightly  is:open", "--order", "still").code == 0
    views = {view["name"]: view for view in shell("view", "list", "--json").document["items"]}
    assert (views["Night runs"]["query"], views["Night runs"]["order"]) == ("tag:nightly is:open", "still")
    assert views["Not moving"]["built_in"]
    assert shell("view", "rm", "Night runs").code == 0
    assert shell("view", "rm", "Night runs").code == 3


def test_errors_are_grouped_and_marked(shell: Shell, tag: str, eventually: Eventually) -> None:
    """Of one task at once; of the tenant once the maintenance worker has been there."""
    (task,) = failed(shell, tag, 1)
    (own,) = shell("error", "list", "--task", task, "--json").document["items"]

    def kept() -> bool:
        found = shell("error", "list", "--json").document["items"]
        return own["error_id"] in [group["error_id"] for group in found]

    eventually(kept, PATIENCE)
    shown = shell("error", "show", own["error_id"])
    assert shown.code == 0
    assert task in shown.out or "failed attempts" in shown.out
    marked = shell("error", "mark", own["error_id"], "--known", "--note", "seen", "--json").document
    assert (marked["known"], marked["note"]) == (True, "seen")
    unknown = shell("error", "list", "--unknown", "--json").document["items"]
    assert own["error_id"] not in [group["error_id"] for group in unknown]
