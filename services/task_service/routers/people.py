"""People of a tenant: what they may do, whether they may come in, and their teams."""

from __future__ import annotations

from fastapi import APIRouter

from stanchion.authority.people import handle_of
from stanchion.authority.rows import Row
from stanchion.contracts import limits

from ..access import Caller, needs
from ..bodies import body_schema
from ..bodies_people import MemberBody, RoleBody
from ..deps import Has
from ..params import Body, Cursor, Limit, StrictRoute, message, plain
from ..views import Paged
from ..views_people import PersonChanged, PersonView, TeamChanged, TeamView

router = APIRouter(route_class=StrictRoute, tags=["people"])


@router.get("/v1/people", response_model=Paged[PersonView], **needs("people.manage"))
def list_people(deps: Has, caller: Caller, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None) -> Row:
    """The people of the tenant, by name."""
    rows = deps.people.page(caller.tenant_id, limit=limit + 1, after=plain(cursor, "cursor"))
    return {"items": rows[:limit], "next": rows[limit - 1]["name"] if len(rows) > limit else None}


@router.post("/v1/people/{name}/role", response_model=PersonChanged, **body_schema(needs("people.manage"), RoleBody))
def set_role(deps: Has, caller: Caller, name: str, body: Body) -> Row:
    """Give a person a role, and rights beside it. Nobody gives, or takes, more than they have."""
    wanted = message(RoleBody, body)
    deps.people.set_role(caller, handle_of(name, "path"), wanted.role, wanted.rights)
    deps.ring.forget()
    return {"name": name, "role": wanted.role, "rights": sorted(set(wanted.rights))}


@router.post("/v1/people/{name}/disable", response_model=PersonChanged, **needs("people.manage"))
def disable_person(deps: Has, caller: Caller, name: str) -> Row:
    """Keep a person out: their sessions end, and they can't sign in."""
    deps.people.disable(caller, handle_of(name, "path"), disabled=True)
    deps.ring.forget()
    return {"name": name, "disabled": True}


@router.post("/v1/people/{name}/enable", response_model=PersonChanged, **needs("people.manage"))
def enable_person(deps: Has, caller: Caller, name: str) -> Row:
    """Let a person in again."""
    deps.people.disable(caller, handle_of(name, "path"), disabled=False)
    return {"name": name, "disabled": False}


@router.get("/v1/teams", response_model=Paged[TeamView], **needs("people.manage"))
def list_teams(deps: Has, caller: Caller, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None) -> Row:
    """The teams of the tenant with their members; a team is there while somebody is in it."""
    rows = deps.people.teams(caller.tenant_id, limit=limit + 1, after=plain(cursor, "cursor"))
    return {"items": rows[:limit], "next": rows[limit - 1]["team"] if len(rows) > limit else None}


@router.post("/v1/teams/{team}/add", response_model=TeamChanged, **body_schema(needs("people.manage"), MemberBody))
def add_member(deps: Has, caller: Caller, team: str, body: Body) -> Row:
    """Put a person into a team."""
    return _moved(deps, caller, team, body, member=True)


@router.post("/v1/teams/{team}/remove", response_model=TeamChanged, **body_schema(needs("people.manage"), MemberBody))
def remove_member(deps: Has, caller: Caller, team: str, body: Body) -> Row:
    """Take a person out of a team."""
    return _moved(deps, caller, team, body, member=False)


def _moved(deps: Has, caller: Caller, team: str, body: bytes, *, member: bool) -> Row:
    name = handle_of(message(MemberBody, body).name, "$.name")
    deps.people.put_in_team(caller, team, name, member=member)
    deps.ring.forget()
    return {"team": team, "name": name, "member": member}
