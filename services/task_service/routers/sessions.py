"""Getting in and out: who one is, sessions, the dev login, and sign-in at a provider."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from stanchion.authority.keyring import check_own_site
from stanchion.authority.keys import SCOPES, Principal
from stanchion.authority.people import Opened, csrf_token_of, handle_of
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits
from stanchion.errors import NotAllowed, NotFound, Unprocessable

from .. import sign_in_page
from ..access import Caller, needs_nothing
from ..bodies import body_schema
from ..bodies_people import DevSignInBody
from ..deps import Has
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, message
from ..views import Paged
from ..views_people import SessionEnded, SessionView, SignedInView, SignInWays, WhoView

router = APIRouter(route_class=StrictRoute, tags=["people"])
provider_router = APIRouter(route_class=APIRoute, tags=["people"])  # providers add parameters of their own

NO_PERSON = UUID(int=0)  # a key has no sessions
DEV_PATH = "/v1/session/dev"
WAYS_PATH = "/v1/session/ways"
START_PATH = "/v1/session/oidc"
CALLBACK_PATH = "/v1/session/oidc/callback"


@router.get("/v1/session", response_model=WhoView, **needs_nothing())
def get_session(caller: Caller) -> Row:
    """Who is asking: a key or a person, their teams, their role, and the rights that they have now."""
    signed_in = caller.signed_in
    found: Row = {
        "subject": caller.subject,
        "tenant": caller.tenant,
        "tenant_id": caller.tenant_id,
        "name": caller.name,
        "kind": caller.kind,
        "teams": sorted(caller.teams),
        "rights": [scope for scope in SCOPES if scope in caller.scopes],
    }
    if signed_in is not None:
        found |= {name: getattr(signed_in, name) for name in ("session_id", "person_id", "role", "expires_at")}
        if signed_in.kind == "browser":
            found["csrf_token"] = csrf_token_of(signed_in.session_id, signed_in.csrf_secret)
    return found


@router.get(WAYS_PATH, response_model=SignInWays, **needs_nothing())
def sign_in_ways(deps: Has) -> Row:
    """How people get in here: by the dev login, by a provider, or not at all."""
    return {"dev": deps.sign_in.dev_login, "oidc": deps.sign_in.oidc is not None}


@router.post(DEV_PATH, status_code=201, response_model=SignedInView, **body_schema(needs_nothing(), DevSignInBody))
def dev_sign_in(request: Request, deps: Has, body: Body) -> Response:
    """Sign in under any name: in the dev profile, on a loopback address, from this machine.

    The person is made when there is none of this name. A browser gets a cookie, the command line a token.
    """
    if not deps.sign_in.dev_login:
        raise NotFound("E-HTTP-01", "there is no dev login here")
    _check_neighbour(request)
    wanted = message(DevSignInBody, body)
    opened = deps.sign_in.as_neighbour(handle_of(wanted.name, "$.name"), wanted.role, wanted.kind)
    shown = _opened(opened, deps.sign_in.dev_tenant)
    if wanted.kind == "cli":
        return JSONResponse(shown | {"token": opened.token}, 201)
    answer = JSONResponse(shown | {"csrf_token": opened.csrf_token}, 201)
    deps.sign_in.give_cookie(answer, opened.token)
    return answer


@router.post("/v1/session/end", response_model=SessionEnded, **needs_nothing())
def sign_out(deps: Has, caller: Caller) -> Response:
    """End the session that asks."""
    signed_in = caller.signed_in
    if signed_in is None:
        raise Unprocessable("E-DATA-15", "a key is no session: it can't sign out", fix="stanchion key revoke")
    deps.people.end_session(
        caller.tenant_id, signed_in.session_id, of=signed_in.person_id, actor=caller.actor, signs_out=True
    )
    deps.ring.forget()
    answer = JSONResponse(SessionEnded(session_id=signed_in.session_id).model_dump(mode="json"))
    deps.sign_in.take_cookie(answer)
    return answer


@router.get("/v1/sessions", response_model=Paged[SessionView], **needs_nothing())
def list_sessions(
    deps: Has,
    caller: Caller,
    everybody: Annotated[bool, Query(description="of all people; needs the right people.manage")] = False,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """One's own sessions, or those of all people of the tenant, the newest first."""
    rows = deps.people.sessions(
        caller.tenant_id, of=_whose(caller, everybody), limit=limit + 1, before=cursor_of(cursor, ids.SESSION)
    )
    more = ids.public(ids.SESSION, rows[limit - 1]["session_id"]) if len(rows) > limit else None
    return {"items": rows[:limit], "next": more}


@router.post("/v1/sessions/{session_id}/revoke", response_model=SessionEnded, **needs_nothing())
def revoke_session(deps: Has, caller: Caller, session_id: str) -> Row:
    """End one of one's own sessions; with the right people.manage anybody's in the tenant."""
    parsed = ids.parse(session_id, ids.SESSION)
    of = _whose(caller, "people.manage" in caller.scopes)
    deps.people.end_session(caller.tenant_id, parsed, of=of, actor=caller.actor)
    deps.ring.forget()
    return {"session_id": parsed}


@provider_router.get(START_PATH, status_code=302, response_class=RedirectResponse, **needs_nothing())
def start_sign_in(
    deps: Has, return_to: Annotated[str, Query(max_length=1_000, description="a path of this site")] = "/"
) -> Response:
    """Send a browser to the provider; it comes back to `return_to`, which is a path of this site."""
    oidc = deps.sign_in.provider()
    begun = oidc.begin(sign_in_page.own_path(return_to))
    answer = RedirectResponse(begun.url, 302, {"cache-control": "no-store"})
    deps.sign_in.give_binder(answer, begun.binder)
    return answer


@provider_router.get(CALLBACK_PATH, response_class=HTMLResponse, **needs_nothing())
def finish_sign_in(request: Request, deps: Has) -> Response:
    """Where the provider sends the browser back to: opens a session, once, for the browser that began."""
    given = {name: request.query_params[name] for name in request.query_params}
    opened, return_to = deps.sign_in.come_back(given, deps.sign_in.binder_of(request.cookies))
    # no redirect: it would still be a request from the provider's site, and carry no strict cookie
    answer = HTMLResponse(sign_in_page.going_on(return_to), headers=sign_in_page.HEADERS)
    deps.sign_in.give_cookie(answer, opened.token)
    deps.sign_in.take_binder(answer)
    return answer


def _opened(opened: Opened, tenant: str) -> dict[str, Any]:
    found = SignedInView(
        session_id=opened.session_id,
        person_id=opened.person_id,
        name=opened.name,
        role=opened.role,
        tenant=tenant,
    )
    return found.model_dump(mode="json", exclude_none=True)


def _whose(caller: Principal, everybody: bool) -> UUID | None:
    if everybody:
        caller.require("people.manage")
        return None
    return caller.signed_in.person_id if caller.signed_in is not None else NO_PERSON


def _check_neighbour(request: Request) -> None:
    """Only a program at this machine, or a page that was opened under this machine's own name, gets in."""
    check_own_site(request.headers)
    client = request.client.host if request.client else ""
    if not (_is_here(client) and _is_here(request.url.hostname or "")):
        raise NotAllowed(
            "E-AUTH-03", "the dev login is for this machine only", where="header Host", fix="use http://127.0.0.1"
        )


def _is_here(name: str) -> bool:
    """Whether a host name can mean this machine only: 127.0.0.1.example.org is anybody's."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
