"""What the tests of records share: a key that acts, artifacts that are uploaded, and forms as a browser sends them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import httpx2
from dashboard_kit import Read


@dataclass(frozen=True)
class Shelf:
    """Uploads to one task, by the API."""

    api: httpx2.Client
    tsk: str

    def put(self, name: str, content: bytes, media_type: str = "text/plain", made_from: str | None = None) -> str:
        """A new version; its public id."""
        query = {"name": name} | ({"made_from": made_from} if made_from else {})
        answer = self.api.post(
            f"/v1/tasks/{self.tsk}/artifacts", params=query, content=content, headers={"content-type": media_type}
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["version_id"])


def send(browser: httpx2.Client, action: str, target: str, **fields: str) -> httpx2.Response:
    """Fill in the form of an action and send it, as a browser without scripts does."""
    form = browser.get(f"/do/{action}/{target}")
    assert form.status_code == 200, form.text[:500]
    (token,) = [a["value"] for a in Read.of(form).named("input") if a.get("name") == "csrf"]
    return browser.post(f"/do/{action}/{target}", data={"csrf": token or "", **fields})


SignIn = Callable[..., httpx2.Client]
SECRET = re.compile(r"stn_[A-Za-z0-9_-]{43}")
