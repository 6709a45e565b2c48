"""Reads records of the commands topic: what was asked, by whom, and whether they may. What can't be read is parked.

Two ways to show one's rights. `trusted`: the tenant that the message names is on the configured list, and the cluster
decides who may write. `signed`: the message carries an Ed25519 signature by a key that is registered for its tenant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from stanchion.authority.dead_letters import Letter
from stanchion.authority.intake import Asked, Refusal
from stanchion.authority.keys import Keys, Principal
from stanchion.bus.dead_letters import refuse_unreadable
from stanchion.bus.messages import Record
from stanchion.contracts import limits, payload
from stanchion.contracts.commands import CancelTask, SubmitTask
from stanchion.contracts.envelope import BadMessage, Envelope, format_time
from stanchion.contracts.signing import KEY_ID_HEADER, read_signature, verify_envelope
from stanchion.errors import NotAllowed, Rejected
from stanchion.runtime.clock import monotonic, utc_now

Rights = Literal["trusted", "signed"]

REMEMBERED: Final = 1_000
COMMAND_RIGHTS: Final[dict[str, str]] = {SubmitTask.TYPE: "task.submit", CancelTask.TYPE: "task.cancel"}
ALL_RIGHTS: Final = frozenset(COMMAND_RIGHTS.values())


@dataclass(frozen=True, slots=True)
class Order:
    """A command that was read, and whose it is."""

    asked: Asked
    principal: Principal
    command: SubmitTask | CancelTask


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record to be parked; answered too, when it is known whom to answer."""

    letter: Letter
    refusal: Refusal | None = None


class CommandReader:
    """Reads one record at a time; tenants and keys are remembered for `seconds`, unknown ones not at all."""

    def __init__(self, keys: Keys, rights: Rights, tenants: Sequence[str], seconds: float) -> None:
        self.keys = keys
        self.rights = rights
        self.tenants = frozenset(tenants)
        self.seconds = seconds
        self._known: dict[tuple[str, str], tuple[float, bytes | None, Principal]] = {}

    def read(self, record: Record) -> Order | Unreadable:
        """What a record asks for; raises Unavailable when the database can't say whose it is."""
        principal: Principal | None = None
        asked: Asked | None = None
        try:
            envelope = self._envelope(record)
            principal = self._principal(envelope, record.value or b"")
            asked = Asked(envelope, principal.tenant_id)
            if self.rights == "signed":
                _check_age(envelope)
            principal.require(COMMAND_RIGHTS[envelope.type])
            return Order(asked, principal, self._command(envelope, record.value))
        except Rejected as error:  # anything else is no verdict on the message
            letter = Letter(record, error, principal.tenant_id if principal else None)
            return Unreadable(letter, Refusal(asked, error) if asked else None)

    def _envelope(self, record: Record) -> Envelope:
        refuse_unreadable(record)
        _check_key(record.key)
        envelope = Envelope.from_headers(record.headers)
        if envelope.type not in COMMAND_RIGHTS:
            raise BadMessage(
                f"there is no command {envelope.type[:60]!a} here",
                code="E-MSG-02",
                where="ce_type",
                fix=f"send one of {', '.join(COMMAND_RIGHTS)}",
            )
        return envelope

    def _command(self, envelope: Envelope, body: bytes | None) -> SubmitTask | CancelTask:
        if envelope.type == CancelTask.TYPE:
            return CancelTask.from_value(body)
        command = SubmitTask.from_value(body)
        payload.check_size(payload.size(command.input), limits.COMMAND_BYTES, "$.input")
        return command

    def _principal(self, envelope: Envelope, body: bytes) -> Principal:
        if self.rights == "trusted":
            if envelope.tenant not in self.tenants:
                raise NotAllowed("E-AUTH-05", "this tenant may not send commands here", where="ce_tenant")
            return self._remembered((envelope.tenant, ""), envelope)[1]
        key_id, _ = read_signature(envelope)
        public_key, principal = self._remembered((envelope.tenant, key_id), envelope)
        assert public_key is not None, "a signing key is remembered with its public half"
        verify_envelope(envelope, body, public_key)
        return principal

    def _remembered(self, name: tuple[str, str], envelope: Envelope) -> tuple[bytes | None, Principal]:
        found = self._known.get(name)
        if found is None or found[0] < monotonic():
            looked_up = self._trusted(envelope) if self.rights == "trusted" else self._signed(*name)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[name] = (monotonic() + self.seconds, *looked_up)
        return found[1], found[2]

    def _trusted(self, envelope: Envelope) -> tuple[None, Principal]:
        tenant_id = self.keys.create_tenant(
            envelope.tenant, actor="kafka:trusted"
        )  # on the list: known by its name alone
        return None, Principal(tenant_id, envelope.tenant, "trusted", ALL_RIGHTS, kind="kafka")

    def _signed(self, tenant: str, key_id: str) -> tuple[bytes, Principal]:
        tenant_id = self.keys.tenant_id(tenant)
        found = self.keys.signing_key(tenant_id, key_id) if tenant_id is not None else None
        if tenant_id is None or found is None:
            # One answer for an unknown tenant, an unknown key and a revoked one: which it is, is nobody's business.
            raise NotAllowed("E-AUTH-04", "no such signing key is registered for this tenant", where=KEY_ID_HEADER)
        return found[0], Principal(tenant_id, tenant, key_id, found[1], kind="signing key")


def _check_age(envelope: Envelope) -> None:
    """Once its id is forgotten, whoever kept a signed command could have it done again as a new one."""
    age = utc_now() - envelope.time
    if age > timedelta(days=limits.SIGNED_DAYS):
        what, why = "the command was signed too long ago", f"it may be {limits.SIGNED_DAYS:g} days old"
    elif -age > timedelta(seconds=limits.SIGNED_AHEAD_SECONDS):
        what, why = "the command was signed in the future", f"a clock may be {limits.SIGNED_AHEAD_SECONDS:g} s ahead"
    else:
        return
    raise NotAllowed("E-AUTH-06", what, where="ce_time", why=f"{why}; ce_time is {format_time(envelope.time)}")


def _check_key(key: bytes | None) -> None:
    """Any text will do as a key, or none; bytes that are none come from a sender that means another topic."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        raise BadMessage("the key is not UTF-8", where="key") from None
    if len(text) > limits.KEY_CHARACTERS or any(ord(character) < 32 for character in text):
        raise BadMessage(
            f"the key has more than {limits.KEY_CHARACTERS} characters, or control characters", where="key"
        )
