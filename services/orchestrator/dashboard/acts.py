"""Doing something: a page that says what it does and asks what it needs, then one request to the task service.

It works without scripts. With them the same page opens as a dialog over where one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from stanchion.authority.keyring import check_own_site
from stanchion.contracts import limits, payload
from stanchion.contracts.actions import ACTIONS, Action, Field, command_of, words_of
from stanchion.errors import NotFound, StanchionError, TooLarge, Unauthenticated, Unprocessable

from .door import Visitor, roles_with
from .own_paths import own_path
from .painting import Painter
from .reads import Reads
from .shell import DONE_COOKIE
from .targets import Target, target_of
from .task_api import TaskApi, path_of
from .view import query_text

FORM_BYTES: Final = 4 * limits.INLINE_BYTES
FORM_FIELDS: Final = 100
DONE_SECONDS: Final = 30
AFTER: Final = dict.fromkeys(
    ("approval.approve", "approval.reject", "approval.delegate", "approval.edit"), "/approvals"
)
"""Where one goes after these, wherever one came from: the next question is one tap away there."""

PASSING: Final = ("/do/", "/sign-in", "/sign-out", "/find")
"""Pages that one only passes through."""

Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Asking:
    """An action that somebody is about to do: on what, with what is known already."""

    action: Action
    target: Target
    given: Mapping[str, str]

    @property
    def command(self) -> str:
        """The line to type that does the same."""
        return command_of(self.action, self.target.id, self.given)

    @property
    def request(self) -> str:
        """The request that does the same."""
        return f"{self.action.method} {path_of(self.action, self.target.id)}"


class Acts:
    """The pages of actions."""

    def __init__(self, reads: Reads, api: TaskApi, painter: Painter) -> None:
        self.reads = reads
        self.api = api
        self.painter = painter

    async def form(self, request: Request) -> Form:
        """What a form sent; raises TooLarge E-SIZE-01, and NotAllowed E-AUTH-07 for one of another site."""
        check_own_site(request.headers)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > FORM_BYTES:
                raise TooLarge("E-SIZE-01", f"a form has at most {FORM_BYTES:,} bytes", limit=FORM_BYTES)
        try:
            return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FORM_FIELDS))
        except ValueError:
            raise Unprocessable("E-DATA-15", f"a form has at most {FORM_FIELDS} fields") from None

    def ask(self, request: Request, visitor: Visitor, around: Mapping[str, Any]) -> Response:
        """The page that says what it does."""
        asking = self._asking(request, visitor, request.query_params)
        return self._shown(asking, visitor, around, _came_from(request, asking))

    def do(self, request: Request, visitor: Visitor, around: Mapping[str, Any], form: Form) -> Response:
        """Do it, and go back to where one was; what was refused is shown with what was filled in."""
        asking = self._asking(request, visitor, form)
        if not visitor.acts:
            raise Unauthenticated("E-AUTH-01", "sign in first: what is done here is done in somebody's name")
        try:
            body = body_of(asking.action, form)
            made = self.api.do(visitor, asking.action, asking.target.id, body, csrf=form.get("csrf", ""))
        except StanchionError as error:
            # as it stands now: what refused it may have happened since
            asking = self._asking(request, visitor, form)
            return self._shown(asking, visitor, around, own_path(form.get("return_to") or asking.target.path), error)
        if asking.action.shows or asking.action.tells:
            return self._answered(asking, made, around)
        after = (
            _landing(asking.action, made)
            or AFTER.get(asking.action.name)
            or form.get("return_to")
            or asking.target.path
        )
        answer = RedirectResponse(own_path(after), 303)
        done = f"{asking.action.name}/"
        answer.set_cookie(DONE_COOKIE, done, max_age=DONE_SECONDS, path="/", httponly=True, samesite="strict")
        return answer

    def _asking(self, request: Request, visitor: Visitor, given: Mapping[str, str]) -> Asking:
        action = ACTIONS.get(request.path_params["action"])
        if action is None:
            raise NotFound("E-HTTP-01", "there is no such action")
        target = target_of(self.reads, visitor, action, request.path_params["target"], given)
        known = {field.name: given[field.name] for field in action.fields if field.name in given}
        return Asking(action, target, dict(target.given) | known)

    def _shown(
        self,
        asking: Asking,
        visitor: Visitor,
        around: Mapping[str, Any],
        return_to: str,
        error: StanchionError | None = None,
    ) -> Response:
        allowed = not asking.action.right or visitor.may(asking.action.right)
        text = self.painter.plain(
            "act.html",
            asking=asking,
            error=error,
            allowed=allowed,
            roles=roles_with(asking.action.right),
            return_to=return_to,
            sign_in=f"/sign-in?{query_text(return_to=around['here'])}",
            **around,
        )
        return HTMLResponse(text, error.status if error else 200)

    def _answered(self, asking: Asking, made: Any, around: Mapping[str, Any]) -> Response:
        """The answer itself, maybe with what nobody can see again: that stands here, and in no address or cookie."""
        document = made if isinstance(made, dict) else {}
        facts = {name: value for name, value in document.items() if name != asking.action.shows and value is not None}
        secret = document.get(asking.action.shows, "")
        text = self.painter.plain(
            "answered.html", asking=asking, facts=facts, secret=secret, url=self.api.url or "", **around
        )
        return HTMLResponse(text)


def _landing(action: Action, made: Any) -> str:
    """The page of what an action made, if it made something that has one."""
    if not action.lands or not isinstance(made, dict):
        return ""
    texts = {name: value for name, value in made.items() if isinstance(value, str)}
    try:
        return action.lands.format(**texts)
    except KeyError:
        return ""


def body_of(action: Action, form: Form) -> dict[str, Any]:
    """The body of an action's request; raises Unprocessable E-DATA-15 for what is missing or no value of its kind."""
    found = {field.name: _value(field, form.get(field.name, "").strip()) for field in action.fields}
    return {name: value for name, value in found.items() if value is not None}


def _value(field: Field, text: str) -> Any:
    if field.kind == "yes":
        return bool(text) or None
    if field.kind == "list" and text:
        return words_of(text)
    if not text:
        if field.required:
            raise Unprocessable("E-DATA-15", f"{field.label} is missing", where=field.name)
        return None
    if field.kind in ("json", "number"):
        try:
            return payload.parse(text, where=field.name)
        except StanchionError as error:
            raise Unprocessable("E-DATA-15", f"{field.label} is no JSON", where=error.where, why=error.what) from None
    return text.replace("\r\n", "\n")


def _came_from(request: Request, asking: Asking) -> str:
    """The page of this site that led here, as the browser says; else that of the target."""
    came = urlsplit(request.headers.get("referer", ""))
    path = own_path(came.path + (f"?{came.query}" if came.query else ""))
    if came.netloc != request.headers.get("host") or path.startswith(PASSING):
        return asking.target.path
    return path
