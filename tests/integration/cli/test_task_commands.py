"""Tasks by command line, against running services."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from cli_kit import PATIENCE, Shell, Start


def submitted(shell: Shell, *words: str) -> str:
    answer = shell("task", "submit", *words)
    assert answer.code == 0, answer.err
    return answer.id


def test_a_task_is_submitted_awaited_and_read(shell: Shell) -> None:
    """The first minute of everybody: submit, wait, show, result, all by @last."""
    task_id = submitted(shell, "squares", "n:=4")
    assert shell("task", "wait", "@last", "--timeout", "60").code == 0
    assert shell("task", "result", "@last").out == "14\n"
    shown = shell("task", "show", "@last")
    assert "completed" in shown.out
    assert "4/4" in shown.out
    document = shell("task", "show", "@last", "--json").document
    assert (document["v"], document["task_id"], document["state"]) == (1, task_id, "completed")


def test_waiting_while_submitting_gives_the_exit_code(shell: Shell, tmp_path: Path) -> None:
    """--wait ends as the task ends; stdout holds the document alone."""
    answer = shell("task", "submit", "squares", "n:=2", "--wait", "--json")
    assert (answer.code, answer.document["state"], answer.document["duplicate"]) == (0, "completed", False)
    failed = shell("task", "submit", "failing", f"mended={tmp_path / 'never'}", "--wait", "--json")
    assert (failed.code, failed.document["state"]) == (10, "failed")
    assert failed.document["reason"]["code"]


def test_both_doors_give_the_same_task_for_the_same_key(shell: Shell) -> None:
    """HTTP and Kafka, one key, one task; another input under it is a conflict."""
    first = submitted(shell, "squares", "n:=3", "--key", "both-doors")
    again = shell("task", "submit", "squares", "n:=3", "--key", "both-doors", "--via", "kafka", "--json")
    assert again.code == 0, again.err
    assert (again.document["task_id"], again.document["duplicate"]) == (first, True)
    for door in ("http", "kafka"):
        other = shell("task", "submit", "squares", "n:=4", "--key", "both-doors", "--via", door)
        assert (other.code, "E-IDEM-01" in other.err) == (5, True)


def test_over_kafka_a_task_runs_to_its_end(shell: Shell) -> None:
    """Submitted on a topic, answered by correlation id, and worked on."""
    answer = shell("task", "submit", "squares", "n:=3", "--via", "kafka", "--wait", "--json")
    assert (answer.code, answer.document["via"], answer.document["state"]) == (0, "kafka", "completed")


def test_a_budget_by_either_door(shell: Shell) -> None:
    """Given with the task, shown with what was spent, and enlarged by a retry."""
    budget = ("--budget", "tokens=1000", "--budget", "usd=0.50")
    for door in ("http", "kafka"):
        answer = shell("task", "submit", "thrifty", "tokens:=400", *budget, "--via", door, "--wait")
        assert answer.code == 0, answer.err
        shown = shell("task", "show", "@last").out
        assert "budget: 400 of 1,000 tokens spent\n" in shown
        assert "budget: 0 of 0.5 usd spent" in shown
    over = shell("task", "submit", "thrifty", "tokens:=1400", *budget, "--wait")
    assert (over.code, "E-BUD-02" in over.out) == (10, True)
    assert "budget: 1,400 of 1,000 tokens spent, overspent" in shell("task", "show", "@last").out
    assert "--budget UNIT=NUMBER" in shell("why", "@last").out
    refused = shell("task", "retry", "@last")
    assert (refused.code, "E-BUD-02" in refused.err) == (5, True)
    assert shell("task", "retry", "@last", "--budget", "tokens=5000").code == 0
    assert shell("task", "wait", "@last", "--timeout", "60").code == 0
    assert "budget: 2,800 of 5,000 tokens spent" in shell("task", "show", "@last").out


def test_what_is_no_budget_is_bad_usage(shell: Shell) -> None:
    """Told before anything is sent."""
    for odd in ("tokens", "tokens=", "tokens=-1", "Tokens=1", "tokens=many", "tokens=0"):
        answer = shell("task", "submit", "thrifty", "tokens:=1", "--budget", odd)
        assert (answer.code, "error[E-BUD-03]" in answer.err, answer.out) == (2, True, ""), odd


def test_what_can_not_be_submitted_is_bad_usage(shell: Shell) -> None:
    """An unknown workflow and a wrong input, by either door: code, fix, exit code 2."""
    for words in (["nothing", "n:=1"], ["squares", "m:=1"]):
        for door in ("http", "kafka"):
            answer = shell("task", "submit", *words, "--via", door)
            assert answer.code == 2
            assert "error[E-TASK-0" in answer.err
            assert "fix:" in answer.err
            assert answer.out == ""


def test_tasks_are_listed_by_state_tag_and_workflow(shell: Shell) -> None:
    """Newest first; ids alone for shells; a page of any size."""
    made = [submitted(shell, "squares", "n:=1", "--tag", "listed") for _ in range(3)]
    assert shell("task", "wait", *made, "--timeout", "60").code == 0
    listed = shell("task", "list", "--tag", "listed", "--state", "completed,failed", "--quiet")
    assert listed.out.split() == made[::-1]
    assert len(shell("task", "list", "--tag", "listed", "--limit", "2", "--json").document["items"]) == 2
    lines = shell("task", "list", "--tag", "listed", "--jsonl").out.splitlines()
    assert {json.loads(line)["v"] for line in lines} == {1}
    nothing = shell("task", "list", "--workflow", "nothing")
    assert (nothing.code, "no tasks fit" in nothing.err) == (0, True)
    assert shell("task", "list", "--state", "asleep").code == 2


def test_ids_may_be_cut_short(shell: Shell) -> None:
    """As far as they stay unique, in any case; too short, unknown or of another kind is an error with a fix."""
    task_id = submitted(shell, "squares", "n:=1")
    for text in (task_id[:-2], task_id[:-2].lower(), task_id.removeprefix("tsk_")[:-1]):
        answer = shell("task", "show", text, "-q")
        assert answer.id == task_id, answer.err
    assert shell("task", "show", "tsk_0").code == 2
    assert shell("task", "show", "tsk_00000000").code == 3
    assert shell("task", "show", "stp_01ABCDEF").code == 2
    assert shell("task", "show", "tsk_" + "0" * 26).code == 3
    submitted(shell, "squares", "n:=1")
    several = shell("task", "show", task_id[:8])
    assert (several.code, "several" in several.err) == (2, True)


def test_a_task_is_cancelled(shell: Shell, tmp_path: Path) -> None:
    """Without --yes nothing happens; with it the task ends as cancelled, and waiting says so by its code."""
    task_id = submitted(shell, "gated", f"gate={tmp_path / 'gate'}")
    assert shell("task", "cancel", task_id).code == 2
    assert shell("task", "cancel", task_id, "--dry-run").code == 0
    assert shell("task", "show", task_id, "--json").document["state"] in ("accepted", "running")
    assert shell("task", "cancel", task_id, "--yes", "--reason", "test").code == 0
    (tmp_path / "gate").touch()
    waited = shell("task", "wait", task_id, "--timeout", "60")
    assert (waited.code, "cancelled" in waited.out) == (11, True)
    late = shell("task", "cancel", submitted_and_done(shell), "--yes")
    assert (late.code, "E-TASK-05" in late.err) == (5, True)


def submitted_and_done(shell: Shell) -> str:
    answer = shell("task", "submit", "squares", "n:=1", "--wait", "--json")
    assert answer.code == 0
    return str(answer.document["task_id"])


def test_many_are_cancelled_by_a_filter(shell: Shell, tmp_path: Path) -> None:
    """The count is checked beforehand; when some can't be cancelled the code says partly."""
    made = [submitted(shell, "gated", f"gate={tmp_path / 'gate'}", "--tag", "bulk") for _ in range(2)]
    wrong = shell("task", "cancel", "--filter", "tag:bulk", "--yes", "--expect-count", "3")
    assert wrong.code == 5
    done = submitted_and_done(shell)
    partly = shell("task", "cancel", done, *made, "--yes")
    assert (partly.code, "E-TASK-05" in partly.err) == (8, True)
    (tmp_path / "gate").touch()
    assert shell("task", "wait", *made, "--timeout", "60").code == 11


def test_a_paused_task_starts_nothing_new(shell: Shell, tmp_path: Path) -> None:
    """What runs goes on; after resume the rest does."""
    task_id = submitted(shell, "gated", f"gate={tmp_path / 'gate'}")
    assert shell("task", "pause", task_id, "--json").document["paused"] is True
    assert "paused" in shell("task", "show", task_id).out
    assert "W-PAUSED" in shell("why", task_id).out
    (tmp_path / "gate").touch()
    timed_out = shell("task", "wait", task_id, "--timeout", "0.5")
    assert timed_out.code == 7
    assert shell("task", "resume", task_id).code == 0
    assert shell("task", "wait", task_id, "--timeout", "60").code == 0
    assert shell("task", "result", task_id).out == f"report\n{tmp_path / 'gate'}\n"


def test_a_result_is_there_only_at_the_end(shell: Shell, tmp_path: Path) -> None:
    """Before it is a conflict, of a failed task the code of a failed task; --wait waits."""
    task_id = submitted(shell, "gated", f"gate={tmp_path / 'gate'}")
    early = shell("task", "result", task_id)
    assert (early.code, "E-TASK-07" in early.err) == (5, True)
    (tmp_path / "gate").touch()
    assert shell("task", "result", task_id, "--wait").code == 0


def test_a_failed_task_is_retried(shell: Shell, tmp_path: Path) -> None:
    """A new run of the same task, once what was wrong is mended."""
    task_id = submitted(shell, "failing", f"mended={tmp_path / 'mended'}")
    assert shell("task", "wait", task_id, "--timeout", "60").code == 10
    assert shell("task", "result", task_id).code == 10
    (tmp_path / "mended").touch()
    assert shell("task", "retry", task_id).code == 0
    assert shell("task", "wait", task_id, "--timeout", "60").code == 0
    assert len(shell("task", "show", task_id, "--json").document["runs"]) == 2


def test_a_held_join_is_a_persons_matter(shell: Shell, tmp_path: Path) -> None:
    """Waiting ends with its own code and says what to type; reopening what failed lets the task end."""
    task_id = submitted(shell, "held", "n:=3", f"mended={tmp_path / 'mended'}")
    waited = shell("task", "wait", task_id, "--timeout", "60")
    assert (waited.code, f"stanchion task reopen {task_id}" in waited.err) == (12, True)
    asked = shell("task", "result", task_id, "--wait")
    assert (asked.code, f"stanchion task reopen {task_id}" in asked.err) == (12, True)
    steps = json.loads(shell("task", "steps", task_id, "--json").out)
    well = [
        step["step_id"]
        for step in (steps["items"] if isinstance(steps, dict) else steps)
        if step["state"] == "succeeded"
    ]
    assert shell("task", "reopen", task_id, *well[:1], "--reason", "not failed", "--yes").code == 5
    why = shell("why", task_id, "--json").document
    (held,) = [reason for reason in why["reasons"] if reason["code"] == "W-HELD"]
    assert [action["name"] for action in held["actions"]] == ["task.reopen", "barrier.open"]
    assert {one["kind"] for one in held["evidence"]} == {"barrier", "step"}
    assert why["unchecked"] == []
    told = shell("why", task_id).out
    assert "will not change by itself\n            next: Nothing, until somebody acts.\n" in told
    assert f"fix: {held['fix'][0]}\n" in told
    assert f" or: {held['fix'][1]}\n" in told
    failed = shell("task", "steps", task_id, "--state", "failed", "--json").document["items"]
    assert len(failed) == 1
    shown = shell("step", "show", failed[0]["step_id"])
    assert "the first one fails until it is mended" in shown.out
    (tmp_path / "mended").touch()
    assert shell("task", "reopen", task_id, "--reason", "mended", "--yes").code == 0
    assert shell("task", "wait", task_id, "--timeout", "60").code == 0
    assert shell("task", "result", task_id).out == "3\n"


def test_a_held_join_is_opened_without_what_failed(shell: Shell, tmp_path: Path) -> None:
    """With a reason, after a question."""
    task_id = submitted(shell, "held", "n:=3", f"mended={tmp_path / 'never'}")
    assert shell("task", "wait", task_id, "--timeout", "60").code == 12
    nodes = shell("task", "show", task_id, "--json").document["nodes"]
    barrier = next(node["barrier"]["barrier_id"] for node in nodes if node["name"] == "gather")
    assert shell("task", "open-barrier", barrier, "--reason", "x").code == 2
    assert shell("task", "open-barrier", barrier, "--reason", "x", "--yes").code == 0
    assert shell("task", "result", task_id, "--wait").out == "2\n"


def test_events_come_as_lines(shell: Shell) -> None:
    """watch --jsonl prints each event, then the end, and ends with the task's code."""
    task_id = submitted(shell, "squares", "n:=2")
    watched = shell("task", "watch", task_id, "--jsonl")
    lines = [json.loads(line) for line in watched.out.splitlines()]
    assert watched.code == 0
    assert lines[0]["type"] == "TaskAccepted"
    assert [line["type"] for line in lines].count("BarrierReleased") >= 1
    assert (lines[-1]["type"], lines[-1]["data"]["state"]) == ("end", "completed")
    ids = [line["id"] for line in lines[:-1]]
    assert len(set(ids)) == len(ids)


def test_ctrl_c_detaches_and_the_task_goes_on(shell: Shell, start: Start, tmp_path: Path) -> None:
    """Exit code 130, a word about it, and the task unharmed."""
    task_id = submitted(shell, "gated", f"gate={tmp_path / 'gate'}")
    watching = start("task", "watch", task_id, "--jsonl")
    assert watching.stdout is not None
    assert "TaskAccepted" in watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=PATIENCE)
    assert (watching.returncode, "detached" in err) == (130, True)
    (tmp_path / "gate").touch()
    assert shell("task", "wait", task_id, "--timeout", "60").code == 0
