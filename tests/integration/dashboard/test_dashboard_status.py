"""How the platform stands, for people and probes: numbers, and no name of anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import fanned
from kit.engine import Admin, Engine

from services.orchestrator.dashboard.status import LEVELS, RATES
from stanchion.authority.samples import Samples
from stanchion.db import grants
from stanchion.db.engine import Database, login_url

JSON = {"accept": "application/json"}


@pytest.fixture(scope="module")
def opened(serve: Callable[..., str], engine: Engine) -> Iterator[httpx2.Client]:
    """A visitor without a key, of a server in production that shows its status to everybody."""
    with httpx2.Client(base_url=serve(profile="production", status_open=True), timeout=30.0) as client:
        yield client


def test_it_is_shown_to_nobody_by_default(serve: Callable[..., str], engine: Engine) -> None:
    """Like every page."""
    with httpx2.Client(base_url=serve(profile="production"), timeout=30.0) as client:
        assert client.get("/status").status_code == 401


def test_open_it_needs_no_key_and_opens_nothing_else(opened: httpx2.Client) -> None:
    """Numbers only; the pages stay closed."""
    page = opened.get("/status")
    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert opened.get("/").status_code == 401


def test_it_tells_of_numbers_and_never_of_names(
    opened: httpx2.Client,
    engine: Engine,
    admin: Admin,
    database_url: str,
    tenants: dict[str, UUID],
    eventually: Callable[..., Any],
) -> None:
    """All tenants together: what is ready is counted, and nobody learns of whom."""
    before = opened.get("/status", headers=JSON).json()
    assert before["state"] == "unknown"
    assert "no orchestrator has taken samples" in before["findings"][0]
    assert set(before["numbers"]) == {
        *LEVELS,
        *(f"{n}_rate" for n in RATES),
        "outbox_waiting",
        "outbox_partitions_held",
    }
    assert before["numbers"]["ready_steps"] is None, "unknown is not zero"
    fanned(engine, 3)
    admin.execute("UPDATE outbox SET at = at - interval '10 minutes'")
    database = Database(login_url(database_url, grants.ORCHESTRATOR), name="test", pool_size=1)
    while Samples(database).take() is not None:
        pass
    database.close()

    def measured() -> dict[str, Any] | None:
        told: dict[str, Any] = opened.get("/status", headers=JSON).json()  # a look is remembered for two seconds
        return told if told["numbers"]["ready_steps"] is not None else None

    after = eventually(measured)
    assert after["state"] == "late"
    assert after["numbers"]["ready_steps"] >= 3
    assert after["numbers"]["outbox_waiting"] > 0
    assert any("to be published" in finding for finding in after["findings"])
    assert any("no relay" in finding for finding in after["findings"])
    text = opened.get("/status").text + str(after)
    known = [*tenants, *(str(i) for i in tenants.values())]
    known += [r[0] for r in admin.execute("SELECT DISTINCT workflow FROM task UNION SELECT DISTINCT queue FROM step")]
    assert not [name for name in known if f">{name}<" in text or f"'{name}'" in text]


def test_without_a_database_it_says_so(serve: Callable[..., str]) -> None:
    """503 for probes, and a page that needs nothing."""
    away = "postgresql://nobody@127.0.0.1:9/none"
    with httpx2.Client(base_url=serve(profile="production", status_open=True, dashboard_database_url=away)) as client:
        told = client.get("/status", headers=JSON, timeout=60.0)
        assert (told.status_code, told.json()["state"]) == (503, "down")
        page = client.get("/status", timeout=60.0)
        assert page.status_code == 503
        assert "nothing is lost" in page.text
