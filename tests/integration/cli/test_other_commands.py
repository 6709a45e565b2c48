"""Workers, workflows, dead letters, keys, the database, and what holds, by command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_kit import FLOWS, PATIENCE, Shell, Start

from stanchion.bus.messages import Message
from stanchion.bus.producer import Producer
from stanchion.cli.main import run
from stanchion.cli.stack import Stack
from stanchion.contracts import ids
from stanchion.contracts.envelope import Envelope
from stanchion.contracts.topics import TASK_SERVICE_COMMANDS
from stanchion.runtime.kafka_settings import KafkaSettings

Eventually = Callable[..., object]


def test_doctor_finds_all_well(shell: Shell) -> None:
    """On a whole stack every look is good, and the exit code says so."""
    answer = shell("doctor", "--json")
    states = {one["check"]: one["state"] for one in answer.document["items"]}
    assert answer.code == 0, answer.out
    assert set(states) >= {"python", "api", "key", "workers", "database", "kafka", "redis", "outbox"}
    assert set(states.values()) <= {"ok", "warning"}


def test_doctor_names_what_is_wrong(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API that is not there is a failing line with a fix, and the other looks go on."""
    answer = shell("doctor", "--api-url", "http://127.0.0.1:9", "--json")
    found = {one["check"]: one for one in answer.document["items"]}
    assert answer.code == 1
    assert found["api"]["state"] == "failing"
    assert found["api"]["fix"]
    assert found["database"]["state"] == "ok"


def test_workers_are_listed_added_and_drained(shell: Shell, start: Start, stack: Stack, eventually: Eventually) -> None:
    """`worker run` finds the servers of the stack around it; drained, it ends by itself with code 0."""
    known = {one["worker_id"] for one in shell("worker", "list", "--json").document["items"]}
    assert known
    worker = start("worker", "run", str(FLOWS), "--slots", "2")

    def mine() -> list[str]:
        listed = shell("worker", "list", "--state", "active", "--json").document["items"]
        return [one["worker_id"] for one in listed if one["worker_id"] not in known and one["pid"] == worker.pid]

    worker_id = eventually(mine, PATIENCE)[0]  # type: ignore[index]  # a list once it is true
    assert shell("worker", "drain", worker_id).code == 0
    worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0
    assert shell("worker", "drain", "nobody").code == 3


def test_workflows_are_listed_shown_and_checked(shell: Shell, tmp_path: Path) -> None:
    """What is registered, its graph, and files that are not registered yet."""
    assert "squares" in shell("workflow", "list", "-q").out.split()
    shown = shell("workflow", "show", "squares")
    assert "all of square" in shown.out
    assert shell("workflow", "show", "squares", "--json").document["graph"]["nodes"]
    assert shell("workflow", "show", "nothing").code == 3
    assert shell("workflow", "check", str(FLOWS)).code == 0
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import nothing_of_this_name\n")
    checked = shell("workflow", "check", str(wrong), str(FLOWS))
    assert (checked.code, "E-LOAD-01" in checked.err) == (1, True)
    assert "squares" in checked.out


def test_a_message_that_was_parked_is_found_and_sent_again(shell: Shell, stack: Stack, eventually: Eventually) -> None:
    """By its code; hostile content reaches no terminal; sending it again parks it again, which the list shows."""
    producer = Producer(KafkaSettings.dev(stack.endpoints.kafka_bootstrap))
    envelope = Envelope.new("SubmitTask", "test", stack.tenant)
    producer.send(Message(TASK_SERVICE_COMMANDS, b"k", envelope.to_headers(), b"\x1b[2Jrubbish"))
    producer.stop()

    def letters() -> list[dict[str, str]]:
        found: list[dict[str, str]] = shell("dead", "list", "--code", "E-DATA-01", "--json").document["items"]
        return found

    letter_id = eventually(letters, PATIENCE)[0]["dead_letter_id"]  # type: ignore[index]  # a list once it is true
    shown = shell("dead", "show", letter_id)
    assert "\\u001b[2Jrubbish" in shown.out
    assert "\x1b" not in shown.out
    assert shell("dead", "redrive", letter_id).code == 2
    assert shell("dead", "redrive", letter_id, "--dry-run").code == 0
    assert shell("dead", "redrive", letter_id, "--yes").code == 0
    assert shell("dead", "redrive", letter_id, "--yes").code == 5
    eventually(lambda: [one for one in letters() if one["dead_letter_id"] != letter_id], PATIENCE)


def test_keys_are_made_used_and_revoked(shell: Shell) -> None:
    """A key opens what its rights say and nothing else, until it is revoked; its secret is shown once."""
    made = shell("key", "create", "reader", "--scope", "task.read")
    assert made.code == 0
    secret = made.id
    assert shell("task", "list", "--api-key", secret).code == 0
    refused = shell("task", "submit", "squares", "n:=1", "--api-key", secret)
    assert (refused.code, "E-AUTH-03" in refused.err) == (4, True)
    assert secret not in shell("key", "list", "--json").out
    assert shell("key", "create", "reader", "--scope", "task.read").code == 5
    assert shell("key", "revoke", "reader", "--yes").code == 0
    assert shell("key", "create", "nothing").code == 2


def test_an_unknown_key_is_not_allowed(shell: Shell) -> None:
    """Exit code 4, with the fix."""
    answer = shell("task", "list", "--api-key", "stn_wrong")
    assert (answer.code, "error[E-AUTH-02]" in answer.err) == (4, True)


def test_a_first_key_is_made_in_the_database(shell: Shell, stack: Stack) -> None:
    """Before there is any key: by the administrator, for a tenant of its own, which sees nothing of others."""
    url = stack.endpoints.database_url
    made = shell("key", "create", "first", "--role", "admin", "--tenant", "acme", "--database", url)
    assert made.code == 0, made.err
    assert shell("task", "submit", "squares", "n:=1").code == 0
    listed = shell("task", "list", "--api-key", made.id, "--json")
    assert (listed.code, listed.document["items"]) == (0, [])


def test_a_signing_key_is_registered_and_signs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its private half is printed here and kept nowhere; with it commands over Kafka carry a signature."""
    made = shell("key", "create", "loader", "--signing", "--json")
    assert made.code == 0, made.err
    monkeypatch.setenv("STANCHION_SIGNING_KEY_ID", "loader")
    monkeypatch.setenv("STANCHION_SIGNING_KEY", made.document["private_key"])
    assert shell("task", "submit", "squares", "n:=1", "--via", "kafka").code == 0


def test_settings_are_shown_without_secrets(shell: Shell, stack: Stack) -> None:
    """Where each is from; the key stays hidden."""
    answer = shell("config", "view", "--json")
    found = {one["setting"]: one for one in answer.document["items"]}
    assert found["api_url"]["value"] == stack.api_url
    assert found["api_url"]["origin"].startswith("stack ")
    assert stack.api_key not in answer.out


def test_the_schema_is_up_to_date_and_migrating_again_changes_nothing(shell: Shell) -> None:
    """The database of the stack is found by itself."""
    assert shell("db", "status", "--json").document["up_to_date"] is True
    assert shell("db", "migrate", "--json").document["changed"] is False
    assert shell("db", "migrate", "--dry-run").code == 0
    away = shell("db", "status", "--database", "postgresql://stanchion@127.0.0.1:9/stanchion")
    assert (away.code, "E-DB-01" in away.err) == (6, True)


def test_a_service_is_served_in_the_foreground(start: Start, stack: Stack, tmp_path: Path) -> None:
    """`serve` becomes the service: its settings, its signals, its exit code."""
    shown = start(
        "serve",
        "outbox-relay",
        "--print-settings",
        "--database-url",
        "postgresql://a:b@c/d",
        "--kafka-bootstrap",
        "h:1",
    )
    out, err = shown.communicate(timeout=PATIENCE)
    assert shown.returncode == 0, err
    assert "postgresql://a:[hidden]@c/d" in out
    wrong = start("serve", "outbox-relay", "--nothing", "1")
    assert wrong.communicate(timeout=PATIENCE)[1].startswith("E-CONF-01")
    assert wrong.returncode == 2
    unknown = start("serve", "relay")
    assert "one of" in unknown.communicate(timeout=PATIENCE)[1]
    assert unknown.returncode == 3


def test_a_task_over_a_dead_api_is_unreachable(shell: Shell) -> None:
    """Exit code 6 after bounded tries."""
    answer = shell("task", "list", "--api-url", "http://127.0.0.1:9", "--json")
    assert answer.code == 6
    assert json.loads(answer.err)["error"]["code"] == "E-API-01"


def test_a_shell_completes_ids_and_names(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tasks that are there, workflows that are registered; where nothing answers, silence."""
    task_id = shell("task", "submit", "squares", "n:=1").id
    monkeypatch.setenv("_STANCHION_COMPLETE", "bash_complete")

    def completed(words: str, place: int) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(place))
        capsys.readouterr()
        with pytest.raises(SystemExit):
            run([])
        return capsys.readouterr().out.split()

    assert f"plain,{task_id}" in completed("stanchion task show tsk", 3)
    assert "plain,squares" in completed("stanchion task submit sq", 3)
    monkeypatch.setenv("STANCHION_API_URL", "http://127.0.0.1:9")
    assert completed("stanchion task submit sq", 3) == []


def test_rows_and_events_agree_until_somebody_meddles(shell: Shell, stack: Stack) -> None:
    """check names the row, the field and both values; a lost row of what is ready is put right after a question."""
    import psycopg

    task = shell("task", "submit", "squares", "n:=3", "--wait", "--json").document
    assert shell("db", "check", "--run", task["run_id"]).code == 0
    assert shell("db", "rebuild", "--run", task["run_id"], "--dry-run").code == 0
    with psycopg.connect(stack.endpoints.database_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # past the guards, as only an administrator can
        connection.execute(
            "UPDATE stanchion.task SET priority = priority + 1, state = 'failed' WHERE run_id = %s",
            (ids.parse(task["run_id"], ids.RUN),),
        )
    checked = shell("db", "check", "--run", task["run_id"], "--json")
    found = checked.document["items"]
    assert checked.code == 1
    assert {"what": "task", "field": "state", "stored": "failed", "told": "completed"}.items() <= {
        name: value for one in found if one["field"] == "state" for name, value in one.items()
    }.items()
    assert shell("db", "check", "--run", "tsk_" + "0" * 26).code == 2
