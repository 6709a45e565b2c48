"""Signing in, people, teams, the audit log and webhooks, by command line on a whole stack."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_kit import PATIENCE, Shell
from kit.receiver import Receiver

from stanchion.cli.stack import Stack
from stanchion.contracts import webhook_signing

Eventually = Callable[..., object]


@pytest.fixture
def signed_out(shell: Shell) -> Iterator[None]:
    """Whoever signed in is signed out after the test: the other tests use the stack's own key."""
    yield
    shell("logout")


@pytest.mark.usefixtures("signed_out")
def test_login_acts_as_a_person_until_logout(shell: Shell, project: Path, stack: Stack) -> None:
    """Rights are those of the person; a key that is given goes before; the token is its owner's alone."""
    assert shell("whoami", "--json").document["kind"] == "key"
    made = shell("login", "--as", "vera", "--role", "viewer")
    assert (made.code, "vera (viewer)" in made.out) == (0, True), made.err
    assert shell("whoami", "-q").id == "person:vera"
    assert shell("task", "list").code == 0
    assert shell("task", "submit", "squares", "n:=1").code == 4
    assert shell("whoami", "-q", "--api-key", stack.api_key).id.startswith("key:")
    kept = project / "home" / "logins.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    token = next(iter(json.loads(kept.read_text()).values()))
    assert len(shell("session", "list", "--json").document["items"]) >= 1
    assert token not in shell("config", "view", "--json").out
    assert shell("logout").code == 0
    assert shell("whoami", "--api-key", token).code == 4
    assert shell("whoami", "--json").document["kind"] == "key"


@pytest.mark.usefixtures("signed_out")
def test_an_admin_says_what_people_may(shell: Shell) -> None:
    """Roles, teams, and keeping somebody out."""
    assert shell("login", "--as", "pat", "--role", "viewer").code == 0
    assert shell("logout").code == 0
    assert shell("login", "--as", "boss").code == 0
    assert shell("person", "role", "pat", "viewer", "--with", "payload.read").code == 0
    listed = {one["name"]: one for one in shell("person", "list", "--json").document["items"]}
    assert (listed["pat"]["role"], listed["pat"]["rights"]) == ("viewer", ["payload.read"])
    assert shell("person", "role", "pat", "platform").code == 4
    assert shell("person", "role", "nobody-here", "viewer").code == 3
    assert shell("team", "add", "editors", "pat").code == 0
    assert "pat" in shell("team", "list").out
    assert shell("team", "remove", "editors", "pat").code == 0
    assert shell("person", "disable", "pat").code == 2  # without consent
    assert shell("person", "disable", "pat", "--yes").code == 0
    assert shell("login", "--as", "pat").code == 4
    assert shell("person", "enable", "pat").code == 0


@pytest.mark.usefixtures("signed_out")
def test_acts_are_listed_and_verified(shell: Shell) -> None:
    """The head that one walk prints is the anchor of the next."""
    assert shell("login", "--as", "auditor").code == 0
    acts = shell("audit", "list", "--actor", "person:auditor", "--json").document["items"]
    assert [act["action"] for act in acts] == ["session.open"]
    head = shell("audit", "verify", "-q")
    assert head.code == 0
    assert shell("audit", "verify", "--anchor", head.id, "--json").document["intact"] is True
    lane, entry, digest = head.id.split(",")[0].split(":")
    cut = shell("audit", "verify", "--anchor", f"{lane}:{int(entry) + 1_000_000}:{digest}")
    assert (cut.code, "cut off" in cut.out) == (1, True)
    assert shell("audit", "verify", "--anchor", "x").code == 2


def test_a_webhook_hears_of_a_task(shell: Shell, eventually: Eventually) -> None:
    """From the end of the task to the endpoint, by the orchestrator of the stack; sent again on request."""
    with Receiver() as receiver:
        made = shell("webhook", "add", f"{receiver.url}/in", "--event", "task.completed", "--json")
        assert made.code == 0, made.err
        webhook_id, secret = made.document["webhook_id"], made.document["secret"]
        task_id = shell("task", "submit", "squares", "n:=1", "-q").id

        def heard() -> bool:
            return any(json.loads(call.body)["subject"] == task_id for call in receiver.calls)

        eventually(heard, PATIENCE)
        call = next(call for call in receiver.calls if json.loads(call.body)["subject"] == task_id)
        at = int(call.headers["stanchion-signature"].split(",")[0].removeprefix("t="))
        webhook_signing.verify(secret, call.headers["stanchion-signature"], call.body, at)
        assert secret not in shell("webhook", "list", "--json").out

        def sent() -> list[str]:
            listed = shell("webhook", "deliveries", "--state", "sent", "--webhook", webhook_id, "--json").document[
                "items"
            ]
            return [one["delivery_id"] for one in listed]

        delivery = eventually(sent, PATIENCE)[0]  # type: ignore[index]  # a list once it is true
        before = len(receiver.calls)
        assert shell("webhook", "resend", delivery).code == 0
        eventually(lambda: len(receiver.calls) > before, PATIENCE)
        assert shell("webhook", "pause", webhook_id).code == 0
        assert shell("webhook", "resume", webhook_id).code == 0
        assert shell("webhook", "remove", webhook_id, "--yes").code == 0
    assert shell("webhook", "add", "http://169.254.169.254/x").code == 2
    assert shell("webhook", "add", "https://example.org/", "--event", "task.exploded").code == 2
