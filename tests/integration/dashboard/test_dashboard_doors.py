"""Getting in, getting out, and doing something: forms as a browser without scripts sends them, and all that is refused."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import HOSTILE, Read, check_harmless, fanned, tsk
from kit.engine import Engine
from people_pages_kit import act, send, taken_apart

from services.orchestrator.dashboard.acts import FORM_BYTES
from stanchion.authority.keys import Keys
from stanchion.authority.submission import Answer
from stanchion.db.engine import Database

SignIn = Callable[..., httpx2.Client]
ELSEWHERE = ["//evil.example", "\\\\evil.example", "/\\evil.example", "http://evil.example", "https:evil", "evil", "/ä"]


@pytest.fixture
def task(engine: Engine) -> Answer:
    """A task that goes on."""
    return fanned(engine, 2)[0]


@pytest.fixture
def nobody(site: str) -> Iterator[httpx2.Client]:
    """A browser that has not signed in."""
    with httpx2.Client(base_url=site, timeout=30.0) as client:
        yield client


@pytest.fixture(scope="module")
def olga(sign_in: SignIn) -> httpx2.Client:
    """An operator."""
    return sign_in("olga", "operator")


def state(engine: Engine, task: Answer) -> str:
    """As it stands in the database."""
    return str(engine.one("SELECT state FROM stanchion.task WHERE task_id = %s", task.task_id)[0])


def sessions(engine: Engine) -> int:
    """How many sessions are open."""
    return int(engine.one("SELECT count(*) FROM stanchion.session WHERE revoked_at IS NULL")[0])


def cookies_of(answer: httpx2.Response) -> SimpleCookie:
    """The cookies that an answer sets, with their flags."""
    made = SimpleCookie()
    for line in answer.headers.get_list("set-cookie"):
        made.load(line)
    return made


class TestSignIn:
    """The dev login, by its form."""

    def test_the_form_opens_a_session(self, nobody: httpx2.Client) -> None:
        """It goes on to where one was; the cookie is out of reach of scripts and of other sites."""
        page = nobody.get("/sign-in", params={"return_to": "/tasks?q=state%3Afailed"})
        check_harmless(Read.of(page))
        answer = nobody.post("/sign-in", data=taken_apart(page).hidden | {"name": "ines", "role": "operator"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/tasks?q=state%3Afailed")
        flags = cookies_of(answer)["stanchion_session"]
        assert (flags["httponly"], flags["samesite"].lower(), flags["path"], flags["domain"]) == (
            True,
            "strict",
            "/",
            "",
        )
        assert answer.headers["cache-control"] == "no-store"
        assert "as person:ines" in Read.of(nobody.get("/")).text

    @pytest.mark.parametrize("name", ["", " ", HOSTILE, "x" * 200])
    def test_a_name_that_is_none(self, nobody: httpx2.Client, engine: Engine, name: str) -> None:
        """It is said, what was filled in stays, and nobody is signed in."""
        before = sessions(engine)
        answer = nobody.post("/sign-in", data={"name": name, "role": "viewer", "return_to": "/tasks"})
        assert answer.status_code == 422
        assert "set-cookie" not in answer.headers
        check_harmless(Read.of(answer))
        assert taken_apart(answer).hidden["return_to"] == "/tasks"
        assert "<option selected>viewer</option>" in answer.text
        assert sessions(engine) == before

    @pytest.mark.parametrize("return_to", ELSEWHERE)
    def test_it_goes_on_to_this_site_alone(self, nobody: httpx2.Client, return_to: str) -> None:
        """From the link, and from the form."""
        page = nobody.get("/sign-in", params={"return_to": return_to})
        assert taken_apart(page).hidden["return_to"] == "/"
        answer = nobody.post("/sign-in", data={"name": "ines", "return_to": return_to})
        assert answer.headers["location"] == "/"

    @pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
    def test_another_site_signs_nobody_in(self, nobody: httpx2.Client, headers: dict[str, str]) -> None:
        """Else what people do would be done under a name that somebody else chose."""
        answer = nobody.post("/sign-in", data={"name": "mallory"}, headers=headers)
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)

    def test_it_is_for_this_machine_only(self, serve: Callable[..., str], task_service: str) -> None:
        """Neither under another name, nor where others can reach it, nor outside the dev profile."""
        form = {"name": "ines"}
        here = serve(task_service_url=task_service)
        assert httpx2.post(f"{here}/sign-in", data=form, headers={"host": "evil.example"}).status_code == 403
        for changes in ({"http_host": "0.0.0.0"}, {"profile": "production"}):
            url = serve(task_service_url=task_service, **changes)
            answer = httpx2.post(f"{url}/sign-in", data=form)
            assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)

    def test_a_page_leads_there_and_back(self, serve: Callable[..., str], task_service: str) -> None:
        """Where one has to sign in, a browser gets the way to do so, with 401; it comes back to the same page."""
        url = serve(task_service_url=task_service, profile="production")
        answer = httpx2.get(f"{url}/tasks?q=state%3Afailed", headers={"accept": "text/html"})
        assert answer.status_code == 401
        assert taken_apart(answer).hidden["return_to"] == "/tasks?q=state%3Afailed"


class TestSignOut:
    """Ends the session, not only its cookie."""

    def test_the_session_is_over(self, nobody: httpx2.Client, engine: Engine) -> None:
        """In the database too: whoever kept the cookie opens nothing with it."""
        nobody.post("/sign-in", data={"name": "otto", "role": "operator"})
        kept, before = dict(nobody.cookies), sessions(engine)
        answer = nobody.post("/sign-out", data=taken_apart(nobody.get("/sign-out")).hidden)
        assert (answer.status_code, cookies_of(answer)["stanchion_session"].value) == (303, "")
        assert sessions(engine) == before - 1
        assert "as person:otto" not in nobody.get("/").text
        with httpx2.Client(base_url=nobody.base_url, cookies=kept) as again:
            assert "as person:otto" not in again.get("/").text
            assert again.post("/sign-out", data={"csrf": "x"}).status_code == 401

    @pytest.mark.parametrize("form", [{}, {"csrf": "wrong"}])
    def test_another_site_ends_none(self, olga: httpx2.Client, engine: Engine, form: dict[str, str]) -> None:
        """It needs the token of the form, and the browser must not say that the request is foreign."""
        before = sessions(engine)
        assert olga.post("/sign-out", data=form).status_code == 403
        real = taken_apart(olga.get("/sign-out")).hidden
        assert olga.post("/sign-out", data=real, headers={"origin": "https://evil.example"}).status_code == 403
        assert sessions(engine) == before


class TestDo:
    """Cancelling a task, as one of all actions."""

    def test_by_a_form(self, olga: httpx2.Client, engine: Engine, task: Answer) -> None:
        """From the task's page, through the form, back to it: it says what was done, once."""
        path = f"/tasks/{tsk(task)}"
        answer = act(olga, path, "task.cancel", reason="a newer one comes")
        assert (answer.status_code, answer.headers["location"]) == (303, path)
        assert state(engine, task) in ("cancelling", "cancelled")
        assert "Done: cancel" in Read.of(olga.get(path)).text
        assert "Done: cancel" not in Read.of(olga.get(path)).text
        done = "SELECT actor, detail->>'reason' FROM stanchion.audit WHERE action = 'task.cancel' AND target = %s"
        assert engine.one(done, str(task.task_id)) == ("person:olga", "a newer one comes")

    def test_one_goes_back_to_where_one_was(self, olga: httpx2.Client, site: str, task: Answer) -> None:
        """To the list with its filter, if that was it; never to another site, and not into the sign-in."""
        link = f"/do/task.pause/{tsk(task)}"
        for came, back in (
            (f"{site}/tasks?q=state%3Arunning", "/tasks?q=state%3Arunning"),
            (f"{site}/sign-in?return_to=%2F", f"/tasks/{tsk(task)}"),
            ("https://evil.example/tasks", f"/tasks/{tsk(task)}"),
            (f"{site}//evil.example", "/"),
        ):
            assert taken_apart(olga.get(link, headers={"referer": came})).hidden["return_to"] == back

    @pytest.mark.parametrize("return_to", ELSEWHERE)
    def test_the_form_leads_to_this_site_alone(self, olga: httpx2.Client, task: Answer, return_to: str) -> None:
        """When it was done, and when it was refused."""
        link = f"/do/task.pause/{tsk(task)}"
        assert send(olga, link, return_to=return_to).headers["location"] == "/"
        again = f"/do/task.reopen/{tsk(task)}"
        refused = send(olga, again, node="", return_to=return_to)
        assert refused.status_code == 422
        assert taken_apart(refused).hidden["return_to"] == "/"

    @pytest.mark.parametrize("token", [None, "", "wrong", "ä", "✓", "a\r\nb: c"])
    def test_a_forged_form(self, olga: httpx2.Client, engine: Engine, task: Answer, token: str | None) -> None:
        """Without the session's token, or with that of another session, nothing is done."""
        answer = olga.post(f"/do/task.cancel/{tsk(task)}", data={} if token is None else {"csrf": token})
        assert (answer.status_code, "E-AUTH-07" in answer.text) == (403, True)
        assert state(engine, task) == "running"

    def test_the_token_of_another_session(
        self, olga: httpx2.Client, sign_in: SignIn, engine: Engine, task: Answer
    ) -> None:
        """It is no token of this one."""
        foreign = taken_apart(sign_in("adam", "admin").get(f"/do/task.cancel/{tsk(task)}")).hidden
        assert olga.post(f"/do/task.cancel/{tsk(task)}", data=foreign).status_code == 403
        assert state(engine, task) == "running"

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
        ],
    )
    def test_a_form_of_another_site(
        self, olga: httpx2.Client, engine: Engine, task: Answer, headers: dict[str, str]
    ) -> None:
        """The browser says so, and it is refused even with the right token."""
        link = f"/do/task.cancel/{tsk(task)}"
        answer = olga.post(link, data=taken_apart(olga.get(link)).hidden, headers=headers)
        assert (answer.status_code, state(engine, task)) == (403, "running")

    def test_a_key_acts(
        self, site: str, service: Database, tenants: dict[str, UUID], engine: Engine, task: Answer
    ) -> None:
        """As a bearer, without a token: no other site can make a browser send it. Its rights count."""
        link = f"/do/task.cancel/{tsk(task)}"
        reads = bearer(service, tenants["dev"], "task.read")
        cancels = bearer(service, tenants["dev"], "task.read", "task.cancel")
        theirs = bearer(service, tenants["other"], "task.read", "task.cancel")
        assert httpx2.post(site + link, data={}, headers=reads).status_code == 403
        assert httpx2.post(site + link, data={}, headers=theirs).status_code == 404
        assert state(engine, task) == "running"
        assert httpx2.post(site + link, data={}, headers=cancels).status_code == 303
        assert state(engine, task) in ("cancelling", "cancelled")

    def test_a_cookie_of_somebody_else(self, site: str, olga: httpx2.Client, engine: Engine, task: Answer) -> None:
        """Another service of the same host left something that is no ASCII: one is known all the same."""
        link = f"/do/task.cancel/{tsk(task)}"
        form = taken_apart(olga.get(link)).hidden
        cookie = f"other=\u00e4; stanchion_session={olga.cookies['stanchion_session']}"
        answer = httpx2.post(f"{site}{link}", data=form, headers={"cookie": cookie.encode("latin-1")})
        assert (answer.status_code, state(engine, task) != "running") == (303, True)

    def test_without_the_right(self, sign_in: SignIn, engine: Engine, task: Answer) -> None:
        """The page names the right and who has it, and shows no form; a form that was made up is refused."""
        vera = sign_in("vera", "viewer")
        link = f"/do/task.cancel/{tsk(task)}"
        page = vera.get(link)
        text = Read.of(page).text
        assert "Hidden by role: this needs the right task.cancel , which operator, admin" in text
        assert not [a for a in Read.of(page).named("form") if a.get("method") == "post"]
        csrf = taken_apart(vera.get("/sign-out")).hidden["csrf"]
        assert vera.post(link, data={"csrf": csrf}).status_code == 403
        assert state(engine, task) == "running"

    def test_without_a_sign_in(self, nobody: httpx2.Client, engine: Engine, task: Answer) -> None:
        """What is shown on one's own machine to everybody is done there by nobody."""
        link = f"/do/task.cancel/{tsk(task)}"
        assert "Sign in" in nobody.get(link).text
        assert nobody.post(link, data={"csrf": "x"}).status_code == 401
        assert state(engine, task) == "running"

    def test_a_session_that_is_over(self, site: str, engine: Engine, task: Answer) -> None:
        """Whoever sends a form after that is led through the sign-in, back to the same action."""
        link = f"/do/task.cancel/{tsk(task)}"
        with httpx2.Client(base_url=site, timeout=30.0, headers={"accept": "text/html"}) as web:
            web.post("/sign-in", data={"name": "omar", "role": "operator"})
            form = taken_apart(web.get(link)).hidden
            engine.admin.execute(
                "UPDATE stanchion.session SET revoked_at = now()"
                " WHERE person_id = (SELECT person_id FROM stanchion.person WHERE name = 'omar')"
            )
            answer = web.post(link, data=form)
            assert (answer.status_code, taken_apart(answer).hidden["return_to"]) == (401, link)
        assert state(engine, task) == "running"

    def test_what_was_refused_keeps_what_was_filled_in(self, olga: httpx2.Client, engine: Engine, task: Answer) -> None:
        """With the error's code and the way out, and nothing changed; hostile texts stay texts."""
        link = f"/do/task.retry/{tsk(task)}"
        answer = send(olga, link, budget='{"usd": 1}', reason=HOSTILE, return_to="/tasks")
        assert answer.status_code == 409
        text = Read.of(answer).text
        assert "E-TASK-" in text
        assert "Nothing was changed" in text
        check_harmless(Read.of(answer))
        left = taken_apart(answer)
        assert (left.areas["reason"], left.areas["budget"]) == (HOSTILE, '{"usd": 1}')
        assert left.hidden["return_to"] == "/tasks"

    def test_what_is_not_there(self, olga: httpx2.Client, make_engine: Callable[[str], Engine]) -> None:
        """An action, a target, and another tenant's."""
        theirs, _ = fanned(make_engine("other"), 1)
        for link in (
            "/do/task.explode/x",
            "/do/task.cancel/tsk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0",
            f"/do/task.cancel/{tsk(theirs)}",
        ):
            assert olga.get(link).status_code == 404
            assert olga.post(link, data={}).status_code == 404
        assert olga.get("/do/task.cancel/nonsense").status_code == 422

    def test_a_form_has_a_size(self, olga: httpx2.Client, engine: Engine, task: Answer) -> None:
        """In bytes and in fields; what is too large is not read to its end."""
        link = f"/do/task.cancel/{tsk(task)}"
        answer = olga.post(link, data={"reason": "x" * FORM_BYTES})
        assert (answer.status_code, "E-SIZE-01" in answer.text) == (413, True)
        answer = olga.post(link, data={f"f{number}": "x" for number in range(101)})
        assert (answer.status_code, "E-DATA-15" in answer.text) == (422, True)
        assert state(engine, task) == "running"

    def test_the_task_service_is_away(
        self, serve: Callable[..., str], olga: httpx2.Client, engine: Engine, task: Answer
    ) -> None:
        """Pages go on; the form says that nothing was changed, and keeps what was filled in. Nobody can sign in."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        url = serve(task_service_url=f"http://127.0.0.1:{port}")
        with httpx2.Client(base_url=url, timeout=30.0, cookies=dict(olga.cookies)) as web:
            assert web.get("/tasks").status_code == 200
            answer = send(web, f"/do/task.cancel/{tsk(task)}", reason="it is wrong")
            assert answer.status_code == 503
            assert "E-PAGE-01" in answer.text
            assert "nothing was changed" in answer.text
            assert taken_apart(answer).areas["reason"] == "it is wrong"
            assert "E-PAGE-01" in web.get("/sign-in").text
            assert web.post("/sign-in", data={"name": "ines"}).status_code == 503
            assert web.post("/sign-out", data=taken_apart(web.get("/sign-out")).hidden).status_code == 503
        assert state(engine, task) == "running"


class TestLook:
    """How pages look is a cookie of the browser."""

    def test_what_is_known_is_kept(self, nobody: httpx2.Client) -> None:
        """The page comes in it at once, from the server."""
        answer = nobody.get("/look", params={"theme": "dark", "return_to": "/tasks"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/tasks")
        nobody.get("/look", params={"density": "compact"})
        (html,) = Read.of(nobody.get("/tasks")).named("html")
        assert {html["data-theme"], html["data-density"]} == {"dark", "compact"}

    @pytest.mark.parametrize("value", ["pink", "", "dark.zone:local", 'dark"; path=/; x="', HOSTILE, "x" * 5_000])
    def test_nothing_else_is(self, nobody: httpx2.Client, value: str) -> None:
        """Neither in the cookie nor on the page."""
        answer = nobody.get("/look", params={"theme": value})
        assert cookies_of(answer)["stanchion_look"].value == "theme:system.zone:utc.density:cosy.keys:on"
        assert list(cookies_of(answer)) == ["stanchion_look"]

    @pytest.mark.parametrize("cookie", ["theme:pink.zone:utc", "x", "theme", ":", "a:b:c..", "keys:on;theme"])
    def test_a_cookie_that_somebody_wrote(self, nobody: httpx2.Client, cookie: str) -> None:
        """Counts as not said."""
        answer = nobody.get("/tasks", headers={"cookie": f"stanchion_look={cookie}"})
        (html,) = Read.of(answer).named("html")
        assert (answer.status_code, html["data-theme"]) == (200, "system")

    @pytest.mark.parametrize("return_to", ELSEWHERE)
    def test_it_stays_on_this_site(self, nobody: httpx2.Client, return_to: str) -> None:
        assert nobody.get("/look", params={"theme": "dark", "return_to": return_to}).headers["location"] == "/"


def bearer(service: Database, tenant: UUID, *scopes: str) -> dict[str, str]:
    """The header of a new key with these rights."""
    _, secret = Keys(service).create(tenant, f"k-{os.urandom(4).hex()}", scopes, actor="test")
    return {"authorization": f"Bearer {secret}"}
