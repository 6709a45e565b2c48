"""The clients without a server: streams, errors, addresses, pace, and the public names."""

from __future__ import annotations

import base64
import subprocess
import sys

import pytest

import stanchion
from stanchion.errors import (
    Conflict,
    NotAllowed,
    NotFound,
    Rejected,
    StanchionError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unprocessable,
)
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.sdk.client import Client, Pace, failure_of
from stanchion.sdk.faults import TaskCancelled, TaskFailed, from_problem
from stanchion.sdk.kafka_client import KafkaClient, refusal
from stanchion.sdk.models import Receipt, TaskInfo
from stanchion.sdk.sse import Frame, frames


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data: a\n\n", [Frame("", "message", "a")]),
        ("id: 1\nevent: x\ndata: a\ndata:b\n\n", [Frame("1", "x", "a\nb")]),
        (": keep-alive\n\nid: 2\ndata: {}\n\n", [Frame("2", "message", "{}")]),
        ("id: 1\ndata: a\n\ndata: b\n\n", [Frame("1", "message", "a"), Frame("1", "message", "b")]),
        ("id: 1\r\ndata: a\r\n\r\n", [Frame("1", "message", "a")]),
        ("id: 1\ndata: half", []),
        ("retry: 2000\n\n", []),
    ],
)
def test_event_streams_are_read_by_their_own_rules(text: str, expected: list[Frame]) -> None:
    """Comments keep the line alive, ids stay until the next one, half an event is none."""
    assert list(frames(text.encode().splitlines(keepends=True))) == expected


@pytest.mark.parametrize(
    ("status", "family"),
    [
        (400, Rejected),
        (401, Unauthenticated),
        (403, NotAllowed),
        (404, NotFound),
        (409, Conflict),
        (413, TooLarge),
        (422, Unprocessable),
        (429, Unavailable),
        (500, StanchionError),
        (503, Unavailable),
    ],
)
def test_a_problem_becomes_an_error_of_its_family(status: int, family: type[StanchionError]) -> None:
    """By the status; code, sentence, cause, fix and request id are carried over, and what is missing is no error."""
    problem = {"code": "E-X-01", "detail": "no", "where": "$.a", "why": "w", "fix": "f", "request_id": "r"}
    error = from_problem(status, problem, where="GET /x")
    assert type(error) is family
    assert (error.code, error.what, error.where, error.why, error.fix) == ("E-X-01", "no", "$.a", "w", "f")
    assert error.details["request_id"] == "r"
    assert str(status) in from_problem(status, {}, where="GET /x").what


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:80", "ftp://host", "http://", "http://a:b@host", "http://h/?x=1", "http://h:99999"]
)
def test_an_address_that_is_none_is_refused_before_any_call(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a code, not with an exception of the library in the middle of a call."""
    monkeypatch.delenv("STANCHION_API_URL", raising=False)
    with pytest.raises((Unprocessable, Unavailable)):
        Client(url)


def test_the_environment_names_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """Address and key, where the program gives none."""
    monkeypatch.setenv("STANCHION_API_URL", "http://api:1/base/")
    monkeypatch.setenv("STANCHION_API_KEY", "stn_k")
    client = Client()
    assert client.transport.url == "http://api:1/base"
    assert client.transport._headers["Authorization"] == "Bearer stn_k"
    assert "Authorization" not in Client("http://x", "").transport._headers


def test_waiting_looks_often_at_first_and_then_once_a_second() -> None:
    """A short task is seen at once, a long one costs little; a look that takes long is made more rarely."""
    pace = Pace()
    assert 0.02 <= pace.next() <= 0.2
    pace._started -= 100
    pace._looked -= 0.0
    assert 0.9 <= pace.next() <= 1.0
    pace._looked -= 5.0
    assert pace.next() > 5.0


def test_how_a_task_failed_is_carried_by_its_error() -> None:
    """The code of the reason, its text, and which task it was."""
    reason = {"code": "E-STEP-21", "what": "step a failed", "why": "ValueError: x"}
    failed = failure_of(TaskInfo.read({"task_id": "tsk_1", "state": "failed", "reason": reason}))
    assert (type(failed), failed.code, failed.why) == (TaskFailed, "E-STEP-21", "step a failed; ValueError: x")
    assert isinstance(failure_of(TaskInfo.read({"task_id": "tsk_1", "state": "cancelled"})), TaskCancelled)


def test_a_refusal_on_kafka_is_the_error_of_its_code() -> None:
    """The same family as over HTTP."""
    assert type(refusal("E-TASK-05", "x")) is Conflict
    assert type(refusal("E-FIND-01", "x")) is NotFound
    assert type(refusal("E-IDEM-01", "x", fix="f")) is Unprocessable
    assert type(refusal("E-NEW-77", "x")) is Unprocessable


def test_kafka_settings_follow_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker on this machine gets short timeouts, others those of production; nothing named is an error."""
    assert KafkaClient("127.0.0.1:1").settings.request_timeout_ms == 5_000
    assert KafkaClient("127.0.0.1:1,kafka:9092").settings.request_timeout_ms == 10_000
    given = KafkaSettings("h:1", "me")
    assert KafkaClient(given).settings is given
    monkeypatch.delenv("STANCHION_KAFKA_BOOTSTRAP", raising=False)
    with pytest.raises(Unavailable):
        KafkaClient()


def test_commands_are_signed_when_there_is_a_key() -> None:
    """The message that goes out carries a signature that the public half verifies; half a pair is refused."""
    from stanchion.contracts.commands import CancelTask
    from stanchion.contracts.envelope import Envelope
    from stanchion.contracts.ids import new_id
    from stanchion.contracts.signing import new_key, read_signature, verify_envelope

    private, public = new_key()
    client = KafkaClient("h:1", tenant="acme", key_id="loader", signing_key=base64.b64encode(private).decode())
    _, message = client._message(CancelTask(task_id=new_id()), "k")
    envelope = Envelope.from_headers(message.headers)
    assert envelope.tenant == "acme"
    assert read_signature(envelope)[0] == "loader"
    verify_envelope(envelope, message.value or b"", public)
    for half in ({"key_id": "loader"}, {"signing_key": private}, {"key_id": "x", "signing_key": "not base64!"}):
        with pytest.raises(Unprocessable):
            KafkaClient("h:1", **half)  # type: ignore[arg-type]  # that is the mistake


def test_a_receipt_is_the_same_from_both_doors() -> None:
    """Whatever else an answer holds is ignored."""
    answer = {"task_id": "tsk_1", "run_id": "run_1", "state": "accepted", "more": 1}
    assert Receipt.read(answer) == Receipt("tsk_1", "run_1", "accepted", duplicate=False)


def test_importing_the_package_opens_nothing() -> None:
    """The names are all there, each loaded on its first use; an unknown one is an AttributeError."""
    code = (
        "import sys, stanchion\n"
        "heavy = [name for name in ('pydantic', 'sqlalchemy', 'kafka', 'asyncio', 'click') if name in sys.modules]\n"
        "sys.exit(' '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    for name in stanchion.__all__:
        assert callable(getattr(stanchion, name))
    assert set(stanchion.__all__) <= set(dir(stanchion))
    with pytest.raises(AttributeError):
        _ = stanchion.Nothing


@pytest.mark.parametrize("key", ["stn_hidd\u00e9t", "stn_hidd\nt"])
def test_a_key_that_can_not_be_one_is_not_shown(key: str) -> None:
    """The library's own error would have it in its text."""
    with pytest.raises(Unprocessable, match="E-API-04") as told:
        Client("http://127.0.0.1:1", key)
    assert "hidd" not in str(told.value)
