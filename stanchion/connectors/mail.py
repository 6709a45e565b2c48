"""E-mail over SMTP. No server can be asked what became of a message: what is unknown, a person decides."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Final

from stanchion.workflow.durations import Duration
from stanchion.workflow.operation import Call, NotSent, Operation, Refused

__all__ = ["Letter", "Smtp"]

_PERMANENT: Final = 500


@dataclass(frozen=True, slots=True)
class Letter:
    """What is sent; `html` beside the text, if any."""

    to: list[str]
    subject: str
    text: str
    html: str | None = None
    cc: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


class Smtp:
    """A mail server. `login` gives user and password when they are needed, so that they are nowhere else."""

    def __init__(
        self,
        host: str,
        port: int = 587,
        *,
        sender: str,
        starttls: bool = True,
        login: Callable[[], tuple[str, str]] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.sender = sender
        self.starttls = starttls
        self.login = login

    def operation(
        self,
        kind: str = "mail.send",
        *,
        timeout: Duration = "30s",
        needs_approval: bool = False,
        cost: Mapping[str, float] | None = None,
    ) -> Operation[Letter, dict[str, str]]:
        """The operation that sends a `Letter`; its receipt names the Message-ID and what the server said."""

        def do(call: Call, letter: Letter) -> dict[str, str]:
            return self._send(call, letter)

        why = "SMTP has no look-up: whether a letter arrived can only be seen where it was to arrive"
        return Operation(
            kind,
            do=do,
            timeout=timeout,
            reach="irreversible",
            unsafe_no_check=why,
            needs_approval=needs_approval,
            cost=cost,
        )

    def _send(self, call: Call, letter: Letter) -> dict[str, str]:
        message = self._message(call, letter)
        try:
            server = smtplib.SMTP(self.host, self.port, timeout=call.timeout)
        except (OSError, smtplib.SMTPException) as error:
            raise NotSent(f"{self.host} does not answer: {error}") from error
        try:
            self._greet(server)
            self._envelope(server, [*letter.to, *letter.cc])
        except (OSError, smtplib.SMTPException) as error:
            with suppress(Exception):
                server.close()
            raise NotSent(f"{self.host}: {error}") from error
        except (Refused, NotSent):
            with suppress(Exception):
                server.close()
            raise
        # from here on the server may have taken it, whatever becomes of its answer
        code, said = server.data(message.as_bytes())
        with suppress(Exception):
            server.quit()
        if code >= _PERMANENT:
            raise Refused(f"{self.host} refused the letter: {code} {said.decode(errors='replace')[:200]}")
        if code >= 400:
            raise NotSent(f"{self.host} does not take it now: {code} {said.decode(errors='replace')[:200]}")
        return {"message_id": str(message["Message-ID"]), "said": said.decode(errors="replace")[:500]}

    def _greet(self, server: smtplib.SMTP) -> None:
        if self.starttls:
            server.starttls(context=ssl.create_default_context())
        if self.login is not None:
            server.login(*self.login())

    def _envelope(self, server: smtplib.SMTP, receivers: Sequence[str]) -> None:
        """Sender and receivers; nothing is sent to some of them only."""
        for code, said in (server.mail(self.sender), *(server.rcpt(one) for one in receivers)):
            if code >= _PERMANENT:
                raise Refused(f"{self.host}: {code} {said.decode(errors='replace')[:200]}")
            if code >= 400:
                raise NotSent(f"{self.host}: {code} {said.decode(errors='replace')[:200]}")

    def _message(self, call: Call, letter: Letter) -> EmailMessage:
        message = EmailMessage()
        for name, value in letter.headers.items():
            message[name] = value
        message["From"], message["To"], message["Subject"] = self.sender, ", ".join(letter.to), letter.subject
        if letter.cc:
            message["Cc"] = ", ".join(letter.cc)
        # the same in every attempt, so that a receiver's own filter may drop a second one
        message["Message-ID"] = f"<{call.key}@{self.sender.rpartition('@')[2]}>"
        message.set_content(letter.text)
        if letter.html is not None:
            message.add_alternative(letter.html, subtype="html")
        return message
