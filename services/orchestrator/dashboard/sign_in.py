"""Getting in and out: the task service opens and ends sessions, the browser keeps the cookie, this passes it on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from stanchion.contracts import limits
from stanchion.errors import NotAllowed, StanchionError, Unauthenticated, Unavailable

from .door import Door, is_here
from .own_paths import own_path
from .painting import Painter
from .shell import LOOK_COOKIE, Taste
from .task_api import TaskApi
from .view import query_text

LOOK_SECONDS: Final = 365 * 86_400
WAYS_SECONDS: Final = 2.0  # whoever opens a page without a session waits for it
PASSED_ON: Final = ("set-cookie", "location", "content-type", "cache-control", "content-security-policy")
DEV_ROLES: Final = ("admin", "operator", "approver", "viewer")


class SignIn:
    """`dev`: whoever sits at this machine signs in under any name."""

    def __init__(self, api: TaskApi, painter: Painter, door: Door, *, dev: bool) -> None:
        self.api = api
        self.painter = painter
        self.door = door
        self.dev = dev

    def page(self, request: Request) -> Response:
        """How one gets in here."""
        return self._shown(request, None, own_path(request.query_params.get("return_to")))

    def asked(self, request: Request, error: StanchionError, headers: Mapping[str, str]) -> Response:
        """The same, for somebody who opened a page without a session."""
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        back = here if request.method == "GET" or here.startswith("/do/") else "/"  # the form of an action has a page
        answer = self._shown(request, error, own_path(back))
        answer.status_code = error.status
        answer.headers.update(headers)
        return answer

    def enter(self, request: Request, form: Mapping[str, str]) -> Response:
        """Sign in by the dev login, and go on."""
        self._check_neighbour(request)
        body = {"name": form.get("name", ""), "role": form.get("role", "admin"), "kind": "browser"}
        answer = self.api.ask("POST", "/v1/session/dev", {"host": "127.0.0.1"}, body)
        return_to = own_path(form.get("return_to"))
        if answer.is_error:
            return self._shown(request, self.api.refusal(answer), return_to, form)
        return _with_cookies(answer, RedirectResponse(return_to, 303))

    def leaving(self, request: Request) -> Response:
        """The form that ends the session. It has a page of its own: others are compressed, and hold no token."""
        visitor = self.door.visitor(request)
        return HTMLResponse(self.painter.plain("sign_out.html", visitor=visitor, taste=Taste.of(request)))

    def leave(self, request: Request, form: Mapping[str, str]) -> Response:
        """End the session, here and in the database."""
        visitor = self.door.visitor(request)
        if not visitor.csrf_token:
            raise Unauthenticated("E-AUTH-01", "nobody has signed in here")
        headers = visitor.forwarded | {"x-csrf-token": form.get("csrf", "")}
        answer = self.api.ask("POST", "/v1/session/end", headers)
        if answer.is_error:
            raise self.api.refusal(answer)
        return _with_cookies(answer, RedirectResponse("/", 303))

    def forward(self, request: Request) -> Response:
        """The way to a provider and back: the task service's own pages, under this site's name."""
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        passed = {name: request.headers[name] for name in ("cookie", "accept") if name in request.headers}
        answer = self.api.ask("GET", path, passed)
        made = Response(answer.content, answer.status_code)
        for name in PASSED_ON:
            if name != "set-cookie" and name in answer.headers:
                made.headers[name] = answer.headers[name]
        return _with_cookies(answer, made)

    def look(self, request: Request) -> Response:
        """Change how pages look, and go back; nothing but a cookie of this browser changes."""
        taste = Taste.of(request)
        for name in Taste.__slots__:
            if (value := request.query_params.get(name)) is not None:
                taste = taste.with_(name, value)
        answer = RedirectResponse(own_path(request.query_params.get("return_to")), 303)
        answer.set_cookie(LOOK_COOKIE, taste.cookie[:200], max_age=LOOK_SECONDS, path="/", samesite="lax")
        return answer

    def _shown(
        self, request: Request, error: StanchionError | None, return_to: str, form: Mapping[str, str] | None = None
    ) -> Response:
        trouble = None
        try:
            ways: Mapping[str, Any] = self.api.send("GET", "/v1/session/ways", {}, None, WAYS_SECONDS)
        except Unavailable as away:
            ways, trouble = {"dev": False, "oidc": False}, away
        except StanchionError:
            ways = {"dev": False, "oidc": False}
        text = self.painter.plain(
            "sign_in.html",
            error=error,
            trouble=trouble,
            ways=ways,
            roles=DEV_ROLES,
            form=form or {},
            most=limits.NAME_CHARACTERS,
            return_to=return_to,
            provider=f"/v1/session/oidc?{query_text(return_to=return_to)}",
            around=None,
            taste=Taste.of(request),
        )
        return HTMLResponse(text, error.status if error else 200)

    def _check_neighbour(self, request: Request) -> None:
        client = request.client.host if request.client else ""
        if not (self.dev and is_here(client) and is_here(request.url.hostname or "")):
            raise NotAllowed("E-AUTH-03", "the dev login is for this machine only", fix="use http://127.0.0.1")


def _with_cookies(answer: Any, made: Response) -> Response:
    for cookie in answer.headers.get_list("set-cookie"):
        made.raw_headers.append((b"set-cookie", cookie.encode("latin-1")))
    return made
