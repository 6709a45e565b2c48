"""Sign-in at a provider of OpenID Connect, a real process, with everything that may come back wrong."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from kit.provider import CLIENT, SECRET
from pydantic import SecretStr
from task_service_kit import Api

from services.task_service.app import Connections, deps_of, event_feed
from services.task_service.http import create_app
from services.task_service.oidc import Oidc
from services.task_service.settings import TaskServiceSettings
from services.task_service.sign_in_page import own_path
from stanchion.authority.keys import Keys
from stanchion.bus.producer import Producer
from stanchion.db.engine import Database
from stanchion.errors import Unprocessable
from stanchion.runtime.hints import Hints
from stanchion.runtime.http import HttpServer

ROOT = Path(__file__).parents[3]
START, CALLBACK = "/v1/session/oidc", "/v1/session/oidc/callback"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """The provider, as a process of its own."""
    port = free_port()
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    process = subprocess.Popen([sys.executable, "-m", "kit.provider", str(port)], env=environ, cwd=ROOT)
    url = f"http://127.0.0.1:{port}"
    with httpx2.Client(timeout=5.0) as client:
        for _ in range(300):
            try:
                client.get(f"{url}/jwks")
                break
            except httpx2.TransportError:
                assert process.poll() is None
                threading.Event().wait(0.1)
    yield url
    process.kill()
    process.wait(10)


@pytest.fixture(scope="module")
def site(settings: TaskServiceSettings, database: Database, issuer: str) -> Iterator[str]:
    """A task service whose people sign in there."""
    port = free_port()
    own = settings.model_copy(
        update={
            "oidc_issuer": issuer,
            "oidc_client_id": CLIENT,
            "oidc_client_secret": SecretStr(SECRET),
            "oidc_redirect_url": f"http://127.0.0.1:{port}{CALLBACK}",
            "oidc_tenant": "corp",
            "oidc_roles": ("eng=operator", "ops=admin"),
            "oidc_teams": ("eng=builders", "press=editors"),
        }
    )
    hints, connections = Hints(None), Connections(own)
    feed = event_feed(own, hints, connections)
    producer = Producer(own.kafka)
    server = HttpServer(
        create_app(own, deps_of(own, connections.make("http", 4), hints, producer, feed), {}), port=port
    )
    server.start()
    yield server.url
    assert server.stop(10)
    connections.stop()
    producer.stop()


@pytest.fixture
def say(issuer: str) -> Callable[..., None]:
    """`say(claims={...})`: how the next sign-ins go at the provider."""

    def write(**script: Any) -> None:
        assert httpx2.post(f"{issuer}/script", json=script).status_code == 200

    write()
    return write


@pytest.fixture
def browser(site: str) -> Iterator[httpx2.Client]:
    """A browser that follows no redirect by itself."""
    with httpx2.Client(base_url=site, timeout=20.0) as client:
        yield client


def sent_back(browser: httpx2.Client, return_to: str = "/tasks?state=failed") -> str:
    """Go to the provider; where it sends the browser back to."""
    begun = browser.get(START, params={"return_to": return_to})
    assert begun.status_code == 302
    return str(httpx2.get(begun.headers["location"]).headers["location"])


def test_people_sign_in_with_their_groups(browser: httpx2.Client, say: Callable[..., None], look: Any) -> None:
    """Their role and teams are those of the mapping; the page goes on where they wanted to; the session is a cookie."""
    back = browser.get(sent_back(browser))
    assert back.status_code == 200
    assert 'href="/tasks?state=failed"' in back.text
    assert "default-src 'none'" in back.headers["content-security-policy"]
    who = browser.get("/v1/session").json()
    assert (who["subject"], who["tenant"], who["role"], who["teams"]) == (
        "person:ana.z",
        "corp",
        "operator",
        ["builders"],
    )
    # the provider's word holds at the next sign-in, for what it governs
    say(claims={"groups": ["ops", "press"], "name": "Ana Zed"})
    browser.get(sent_back(browser))
    who = browser.get("/v1/session").json()
    assert (who["name"], who["role"], who["teams"]) == ("ana.z", "admin", ["editors"])
    acts = look.execute("SELECT action FROM stanchion.audit WHERE target = 'ana.z'").fetchall()
    assert {"person.create", "person.role", "person.teams", "session.open"} <= {act[0] for act in acts}


def test_the_same_name_of_another_person_is_another_person(browser: httpx2.Client, say: Callable[..., None]) -> None:
    """People are known by issuer and subject; names are for reading."""
    browser.get(sent_back(browser))
    first = browser.get("/v1/session").json()
    say(claims={"sub": "s-2"})
    browser.get(sent_back(browser))
    second = browser.get("/v1/session").json()
    assert second["person_id"] != first["person_id"]
    assert second["name"] == "ana.z-2"


def test_the_dev_login_never_becomes_somebody_of_a_provider(
    browser: httpx2.Client, say: Callable[..., None], site: str, database: Database, look: Any
) -> None:
    """Also not in the same tenant."""
    browser.get(sent_back(browser))
    look.execute(
        "UPDATE stanchion.person SET tenant_id = %s WHERE name = 'ana.z'", (Keys(database).create_tenant("dev"),)
    )
    refused = httpx2.post(f"{site}/v1/session/dev", json={"name": "ana.z"})
    assert (refused.status_code, refused.json()["code"]) == (409, "E-PERSON-02")


@pytest.mark.parametrize(
    "script",
    [
        {"claims": {"nonce": "another"}},
        {"without": ["nonce"]},
        {"claims": {"aud": "somebody-else"}},
        {"claims": {"aud": ["stanchion", "somebody-else"]}},
        {"claims": {"azp": "somebody-else"}},
        {"claims": {"iss": "https://evil.example"}},
        {"times": {"exp": -120}},
        {"times": {"iat": 3_600}},
        {"times": {"iat": -3_600}},
        {"times": {"nbf": 3_600}},
        {"without": ["exp"]},
        {"without": ["iat"]},
        {"without": ["sub"]},
        {"claims": {"exp": "tomorrow"}},
        {"claims": {"sub": ""}},
        {"alg": "none"},
        {"alg": "HS256"},
        {"key": "foreign"},
        {"answer": {"iss": "https://evil.example"}},
        {"answer": {"code": "guessed"}},
        {"answer": {"state": "guessed"}},
        {"answer": {"error": "access_denied"}},
    ],
    ids=str,
)
def test_what_does_not_fit_opens_nothing(
    browser: httpx2.Client, say: Callable[..., None], script: dict[str, Any], look: Any
) -> None:
    """One answer for all of it, no cookie, no session."""
    before = look.execute("SELECT count(*) FROM stanchion.session").fetchone()
    say(**script)
    back = browser.get(sent_back(browser))
    assert (back.status_code, back.json()["code"]) == (401, "E-AUTH-09")
    assert browser.get("/v1/session").status_code == 401
    assert look.execute("SELECT count(*) FROM stanchion.session").fetchone() == before


def test_somebody_without_a_role_is_told_so(browser: httpx2.Client, say: Callable[..., None]) -> None:
    """403: the provider knows them, we don't."""
    say(claims={"groups": ["cooks"], "sub": "s-9"})
    back = browser.get(sent_back(browser))
    assert (back.status_code, back.json()["code"]) == (403, "E-AUTH-10")


def test_a_state_works_once_in_time_and_in_one_browser(
    browser: httpx2.Client, say: Callable[..., None], site: str, look: Any
) -> None:
    """Replayed, stolen by another browser, or too late, it opens nothing."""
    stolen = sent_back(browser)
    with httpx2.Client(base_url=site) as thief:
        assert thief.get(stolen).status_code == 401
        thief.get(START)  # one of its own, with another's answer
        assert thief.get(stolen).status_code == 401
    assert browser.get(stolen).status_code == 200
    assert browser.get(stolen).status_code == 401
    late = sent_back(browser)
    look.execute("UPDATE stanchion.sign_in SET expires_at = clock_timestamp()")
    assert browser.get(late).status_code == 401
    sent_back(browser)
    assert look.execute("SELECT count(*) FROM stanchion.sign_in").fetchone()[0] <= 2  # those that never came back go


def test_what_is_kept_of_a_sign_in_opens_nothing(browser: httpx2.Client, say: Callable[..., None], look: Any) -> None:
    """State and binder stand there as hashes; the cookie is lax, and no script reads it."""
    begun = browser.get(START)
    state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
    assert all(part in begun.headers["set-cookie"].lower() for part in ("httponly", "samesite=lax"))
    assert state not in str(look.execute("SELECT s::text FROM stanchion.sign_in s").fetchall())


@pytest.mark.parametrize(
    "place",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil",
        "javascript:alert(1)",
        "",
        "x",
        "/a b",
        "/\n",
        "/%0d\r",
    ],
)
def test_nobody_is_sent_elsewhere(browser: httpx2.Client, place: str) -> None:
    """After a sign-in a browser goes to a path of this site alone."""
    refused = browser.get(START, params={"return_to": place})
    assert (refused.status_code, refused.json()["code"]) == (422, "E-AUTH-08")
    with pytest.raises(Unprocessable):
        own_path(place)


def test_a_provider_that_changed_its_keys_is_asked_again(
    browser: httpx2.Client, say: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token by a new key is verified with the keys of the moment."""
    monkeypatch.setattr("services.task_service.oidc.KEYS_AGAIN_SECONDS", 0.0)
    browser.get(sent_back(browser))
    say(rotate=True)
    assert browser.get(sent_back(browser)).status_code == 200


def test_a_provider_that_is_away_is_a_503(settings: TaskServiceSettings, database: Database, nobody: Api) -> None:
    """And where none is set the doors are shut."""
    away = settings.model_copy(update={"oidc_issuer": "http://127.0.0.1:9", "oidc_tenant": "corp"})
    from stanchion.authority.people import People
    from stanchion.errors import Unavailable

    with pytest.raises(Unavailable) as told:
        Oidc(away, Keys(database), People(database)).begin("/")
    assert told.value.code == "E-AUTH-11"
    assert nobody.http.get(START).status_code == 401
    assert nobody.get("/v1/session/ways") == {"dev": True, "oidc": False}


@pytest.mark.parametrize(
    "given",
    [
        {"oidc_issuer": "https://id.example"},
        {
            "oidc_issuer": "http://id.example",
            "oidc_client_id": "x",
            "oidc_redirect_url": "https://a/b",
            "oidc_tenant": "t",
        },
        {
            "oidc_issuer": "https://id.example",
            "oidc_client_id": "x",
            "oidc_redirect_url": "http://a/b",
            "oidc_tenant": "t",
        },
    ],
)
def test_half_a_provider_is_refused_at_the_start(given: dict[str, str]) -> None:
    """Settings that would fail at the first sign-in, or leave TLS."""
    with pytest.raises(Unprocessable):
        TaskServiceSettings(database_url=SecretStr("postgresql://x/y"), kafka_bootstrap="h:1", **given)  # type: ignore[arg-type]  # as from the environment
