"""A client for any server that speaks OpenAI's chat completions: one question, one answer, no retries of its own.

Configured by `STANCHION_MODEL_URL` (for example `http://127.0.0.1:8080/v1`), `STANCHION_MODEL_NAME`,
`STANCHION_MODEL_KEY` and `STANCHION_MODEL_TIMEOUT_SECONDS`. Retrying is the engine's business: an error here fails the
attempt, and its class says whether another attempt makes sense.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_ANSWER_BYTES = 4 * 1024 * 1024
_AGAIN = {408, 409, 425, 429}


class ModelError(Exception):
    """The model gave no answer."""


class ModelUnavailableError(ModelError):
    """The server is away, slow, overloaded or answers with rubbish: another attempt may succeed."""


class ModelRefusedError(ModelError):
    """The server refused the request (wrong key, unknown model, too long): another attempt will not help."""


@dataclass(frozen=True)
class ChatModel:
    """A chat model behind an HTTP address. `timeout_seconds` bounds each wait for the server, not the whole answer."""

    url: str
    name: str
    key: str = ""
    timeout_seconds: float = 120.0

    def ask(self, system: str, user: str) -> str:
        """The model's answer as text, without its thoughts. Raises `ModelUnavailableError` or `ModelRefusedError`."""
        body = {
            "model": self.name,
            "temperature": 0.2,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        }
        return without_thoughts(_content(self._post(json.dumps(body).encode())))

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")  # noqa: S310 - checked in from_environment
        try:
            with _OPENER.open(request, timeout=self.timeout_seconds) as response:
                data: bytes = response.read(MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                said = " ".join(error.read(2_000).decode("utf-8", "replace").split())[:300]
            problem = f"the model server answered {error.code}: {said}"
            again = error.code >= 500 or error.code in _AGAIN
            raise (ModelUnavailableError if again else ModelRefusedError)(problem) from error
        except (OSError, http.client.HTTPException) as error:
            raise ModelUnavailableError(f"the model server cannot be reached ({error})") from error
        if len(data) > MAX_ANSWER_BYTES:
            raise ModelUnavailableError(f"the model's answer is longer than {MAX_ANSWER_BYTES:,} bytes")
        return data


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def from_environment(environment: Mapping[str, str] = os.environ) -> ChatModel | None:
    """The configured model, or None without `STANCHION_MODEL_URL`. Raises `ModelRefusedError` for a bad setting."""
    url = environment.get("STANCHION_MODEL_URL", "").strip().rstrip("/")
    if not url:
        return None
    if not re.match(r"^https?://[^\s/]", url):
        raise ModelRefusedError(f"STANCHION_MODEL_URL must start with http:// or https://, not {url!r}")
    if not url.endswith("/chat/completions"):
        url += "/chat/completions"
    seconds = environment.get("STANCHION_MODEL_TIMEOUT_SECONDS", "120")
    if not re.fullmatch(r"\d+(\.\d+)?", seconds) or float(seconds) <= 0:
        raise ModelRefusedError(f"STANCHION_MODEL_TIMEOUT_SECONDS must be a number of seconds above 0, not {seconds!r}")
    name = environment.get("STANCHION_MODEL_NAME", "").strip() or "default"
    return ChatModel(url, name, environment.get("STANCHION_MODEL_KEY", ""), float(seconds))


def _content(data: bytes) -> str:
    """The text of the first choice, whichever way the server spells it."""
    try:
        answer = json.loads(data)
        content = answer["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError) as error:
        raise ModelUnavailableError(
            f"the model server's answer is no chat completion ({type(error).__name__})"
        ) from error
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str) or not content.strip():
        raise ModelUnavailableError("the model's answer is empty")
    return content


def without_thoughts(text: str) -> str:
    """The answer without what reasoning models think aloud in front of it."""
    return re.sub(r"\A\s*<think(ing)?>.*?</think(ing)?>", "", text, flags=re.DOTALL).strip()


def find_json(text: str) -> Any:
    """The first JSON object or array in a text that may have prose or a code fence around it; None without one."""
    decoder = json.JSONDecoder()
    for match in list(re.finditer(r"[\[{]", text))[:50]:
        try:
            return decoder.raw_decode(text, match.start())[0]
        except (ValueError, RecursionError):
            continue
    return None
