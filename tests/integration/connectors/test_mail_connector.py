"""The mail connector against an SMTP server that answers as it is told."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator

import pytest

from stanchion.connectors.mail import Letter, Smtp
from stanchion.workflow.operation import Call, NotSent, Refused

LETTER = Letter(["ann@example.org", "bob@example.org"], "On stars", "They shine.", html="<p>They shine.</p>")
CALL = Call("stn_key", "op_1", "tenant", 5.0)


class Server(socketserver.ThreadingTCPServer):
    """Answers each command with what `answers` has for its first word, else with success; None hangs up."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        self.answers: dict[str, str | None] = {}
        self.letters: list[str] = []
        super().__init__(("127.0.0.1", 0), Session)


class Session(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        self.say("220 here")
        while line := self.rfile.readline().decode():
            word = line.split()[0].upper()
            if word == "DATA":
                self.say("354 go on")
                text = ""
                while (more := self.rfile.readline().decode()) != ".\r\n":
                    text += more
                self.server.letters.append(text)
                word = "LETTER"
            answer = self.server.answers.get(word, "250 fine")
            if answer is None:
                return
            self.say(answer)
            if word == "QUIT":
                return

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def send(server: Server) -> Callable[[], dict[str, str]]:
    port = server.server_address[1]
    operation = Smtp("127.0.0.1", port, sender="us@example.org", starttls=False).operation()
    return lambda: operation.do(CALL, LETTER)  # type: ignore[return-value]  # it is no coroutine


def test_a_letter_is_sent(server: Server, send: Callable[[], dict[str, str]]) -> None:
    receipt = send()
    assert receipt["message_id"] == "<stn_key@example.org>"
    assert "Subject: On stars" in server.letters[0]
    assert "They shine." in server.letters[0]


@pytest.mark.parametrize("word", ["MAIL", "RCPT"])
def test_what_is_refused_before_the_letter_was_not_sent(
    server: Server, send: Callable[[], dict[str, str]], word: str
) -> None:
    server.answers[word] = "550 no such box"
    with pytest.raises(Refused):
        send()
    server.answers[word] = "451 later"
    with pytest.raises(NotSent):
        send()
    assert server.letters == []


def test_the_letter_itself_is_refused(server: Server, send: Callable[[], dict[str, str]]) -> None:
    server.answers["LETTER"] = "554 spam"
    with pytest.raises(Refused):
        send()


def test_no_answer_to_the_letter_leaves_it_open(server: Server, send: Callable[[], dict[str, str]]) -> None:
    server.answers["LETTER"] = None
    with pytest.raises(Exception) as raised:
        send()
    assert not isinstance(raised.value, NotSent | Refused)
    assert len(server.letters) == 1


def test_nobody_listens() -> None:
    operation = Smtp("127.0.0.1", 1, sender="us@example.org").operation()
    with pytest.raises(NotSent):
        operation.do(CALL, LETTER)
    assert operation.check is None
    assert operation.reach == "irreversible"
