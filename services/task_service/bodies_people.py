"""Bodies of requests about people and webhooks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from stanchion.contracts.commands import Reason
from stanchion.contracts.message import Name

from .bodies import Body, GivenReason, Value

Handle = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Role = Literal["viewer", "operator", "approver", "admin", "platform"]


class DevSignInBody(Body):
    """Who signs in at this machine; `role` holds for somebody who is not known yet."""

    name: Handle
    role: Literal["viewer", "operator", "approver", "admin"] = "admin"
    kind: Literal["browser", "cli"] = "cli"


class RoleBody(Body):
    """What a person may do: a role, and rights beside it."""

    role: Role
    rights: Annotated[tuple[Name, ...], Field(max_length=10)] = ()


class MemberBody(Body):
    """Who is to be in a team, or out of it."""

    name: Handle


class VoteBody(Body):
    """What one says about an approval; `payload_hash` is the one that was shown with it, in hex."""

    payload_hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    comment: Reason = ""


class AskBackBody(VoteBody):
    """What one wants to know before one decides."""

    comment: GivenReason


class DelegateBody(VoteBody):
    """To whom one passes one's vote on."""

    to: Handle


class EditBody(VoteBody):
    """What is to be asked instead: the whole payload, of the same shape."""

    payload: Value


class WebhookBody(Body):
    """Whom to call, and for what; `*` is everything."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    events: Annotated[tuple[Name, ...], Field(min_length=1, max_length=50)]
