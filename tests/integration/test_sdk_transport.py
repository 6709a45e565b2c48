"""What the clients make of answers, from something that speaks HTTP and is no task service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from stanchion.errors import StanchionError, Unprocessable
from stanchion.sdk.client import Client


class Elsewhere(BaseHTTPRequestHandler):
    """Answers as it is told, and keeps what it was sent."""

    status: ClassVar[int] = 200
    sent: ClassVar[list[tuple[str | None, bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.sent.append((self.headers["Authorization"], body))
        self.send_response(self.status)
        self.send_header("Location", "https://elsewhere/")
        self.send_header("Content-Length", "2" if self.status == 200 else "0")
        self.end_headers()
        if self.status == 200:
            self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The address of something that speaks HTTP."""
    Elsewhere.status, Elsewhere.sent = 200, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("status", [301, 302, 307, 308, 304])
def test_a_redirect_is_no_success(elsewhere: str, status: int) -> None:
    """What a proxy in between answers did not happen in the task service."""
    Elsewhere.status = status
    with Client(elsewhere, "stn_key") as client, pytest.raises(StanchionError, match="E-API-02"):
        client.cancel("tsk_1")


def test_an_empty_value_is_sent(elsewhere: str) -> None:
    """It is a value: only what is not given is left out."""
    with Client(elsewhere, " stn_key\n") as client:
        client.reopen(["stp_1"], reason="fixed", step_input="")
        client.reopen(["stp_1"], reason="fixed")
    assert [json.loads(body) for _, body in Elsewhere.sent] == [
        {"steps": ["stp_1"], "reason": "fixed", "input": ""},
        {"steps": ["stp_1"], "reason": "fixed"},
    ]
    assert {key for key, _ in Elsewhere.sent} == {"Bearer stn_key"}


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_what_is_no_json_is_told(elsewhere: str, value: object) -> None:
    """Before anything is sent."""
    with Client(elsewhere, "stn_key") as client, pytest.raises(Unprocessable, match="E-DATA-15"):
        client.submit("brief", x=value)
    assert Elsewhere.sent == []
