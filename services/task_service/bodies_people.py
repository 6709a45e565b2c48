"""Bodies of requests about people and webhooks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from stanchion.contracts.message import Name

from .bodies import Body

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


class WebhookBody(Body):
    """Whom to call, and for what; `*` is everything."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    events: Annotated[tuple[Name, ...], Field(min_length=1, max_length=50)]
