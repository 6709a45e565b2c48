"""Hostile inputs at every documented route: an answer below 500, a problem where it refuses, and nothing of the inside.

The routes come from the OpenAPI document, so a new one is tested without being named here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from task_service_kit import Api, Hand

from services.task_service.app import Connections, deps_of, event_feed
from services.task_service.http import create_app
from services.task_service.settings import TaskServiceSettings
from stanchion.bus.producer import Producer
from stanchion.contracts.ids import new_id, public
from stanchion.runtime.hints import Hints
from stanchion.runtime.http import HttpServer

# What a driver, a parser or the framework would say of itself.
INSIDE = re.compile(
    r"psycopg|sqlalchemy|Traceback|syntax error at|pg_(?:catalog|stat|type|class)|relation \"|asyncpg|pydantic|\.py\b",
    re.IGNORECASE,
)

NEEDED = {
    "names": "tasks_completed",
    "from": "2026-01-01T00:00:00Z",
    "to": "2026-01-01T01:00:00Z",
}  # parameters without a default

TEXTS = (
    "",
    " ",
    "' OR 1=1 --",
    "'; SELECT pg_sleep(5); --",
    "a'') OR (''='",
    "\x00",
    "a\x00b",
    "\n",
    "\u202e",
    "../../etc/passwd",
    "%00",
    "%",
    "{}",
    "NaN",
    "-1",
    "0",
    "1e999",
    "x" * 5_000,
    "\ud800",
    "\ufeff",
    "𐍈" * 50,
    "null",
    "true",
    "9" * 40,
    "٣",
    "2030-01-01T00:00:00Z",
    "failed",
)
FIELDS = ("workflow", "version", "input", "tags", "steps", "task_id", "node", "reason", "name", "scopes", "role")
FIELDS += ("tasks", "limit", "again", "key_id", "public_key", "deadline", "priority", "idempotency_key", "constraints")


class Hostile:
    """Draws inputs that mean harm, or nothing; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def text(self) -> str:
        if self.random.random() < 0.5:
            return self.random.choice(TEXTS)
        return "".join(chr(self.random.randrange(1, 0xD7FF)) for _ in range(self.random.randrange(40)))

    def value(self, depth: int = 3) -> Any:
        kinds = [None, True, False, 0, -1, 2**63, 2**53 - 1, 1e308, float("nan"), float("inf"), self.text()]
        if depth and self.random.random() < 0.5:
            if self.random.random() < 0.5:
                return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
            return {self.text(): self.value(depth - 1) for _ in range(self.random.randrange(4))}
        return self.random.choice(kinds)

    def body(self) -> bytes:
        if self.random.random() < 0.2:
            return self.random.randbytes(self.random.randrange(50))
        if self.random.random() < 0.3:
            return json.dumps(self.value()).encode()
        wanted = self.random.sample(FIELDS, self.random.randrange(6))
        return json.dumps({name: self.plausible(name) for name in wanted}).encode()

    def plausible(self, name: str) -> Any:
        """Something that gets past the first look, or not."""
        good = {"workflow": "single", "steps": [self.id()], "task_id": self.id(), "reason": "r", "limit": 5}
        good |= {"input": {"x": 1}, "role": "viewer", "node": "only", "tasks": [{"workflow": "single", "input": {}}]}
        return good[name] if name in good and self.random.random() < 0.6 else self.value()

    def id(self) -> str:
        prefix = self.random.choice(["tsk", "stp", "run", "bar", "wrk", "key", "ded"])
        return public(prefix, new_id()) if self.random.random() < 0.5 else self.text()


@pytest.fixture(scope="module")
def routes(api: Api) -> list[tuple[str, str, Any]]:
    """(method, path, operation) of every documented route."""
    document = api.get("/openapi.json")
    return [(m.upper(), path, op) for path, ops in document["paths"].items() for m, op in ops.items()]


def checked(response: Any) -> None:
    """Below 500, strict JSON, a problem where it refuses, nothing of the inside."""
    assert response.status_code < 500, f"{response.request.method} {response.request.url}: {response.text[:500]}"
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json", response.text[:300]
        problem = json.loads(response.text, parse_constant=pytest.fail)
        assert problem["status"] == response.status_code
        shown = json.dumps({name: text for name, text in problem.items() if name != "where"})
        assert not INSIDE.search(shown), shown


def request(api: Api, method: str, path: str, hostile: Hostile, operation: Any) -> Any:
    """One request with hostile ids, parameters and body."""
    for name in re.findall(r"\{(\w+)\}", path):
        drawn = hostile.id()
        drawn = "x" if drawn in ("", ".", "..") else drawn  # another path
        path = path.replace(f"{{{name}}}", quoted(drawn))
    known = [p["name"] for p in operation.get("parameters", []) if p["in"] == "query"]
    query = {}
    for _ in range(hostile.random.randrange(3)):
        query[hostile.random.choice([*known, *known, hostile.text()])] = hostile.text()
    if path.endswith("/events"):
        query["follow"] = "false"
    encoded = "&".join(f"{quoted(name)}={quoted(text)}" for name, text in query.items())
    content = hostile.body() if method == "POST" else None
    return api.http.request(method, f"{path}?{encoded}" if encoded else path, content=content)


def quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


@pytest.mark.parametrize("seed", range(6))
def test_no_input_breaks_any_route(api: Api, routes: list[tuple[str, str, Any]], seed: int) -> None:
    """Every route, with whatever comes: ids, parameters and bodies that mean harm, or nothing."""
    hostile = Hostile(seed)
    for method, path, operation in routes:
        for _ in range(3):
            checked(request(api, method, path, hostile, operation))


def test_answers_are_what_the_document_says(api: Api, hand: Hand, routes: list[tuple[str, str, Any]]) -> None:
    """Every successful answer has the fields that its schema requires, and none that it does not know."""
    made = api.submit("strict", {"count": 2})
    hand.run(lambda lease: [1, 2] if lease.node == "begin" else 1, made)
    step = api.get(f"/v1/tasks/{made['task_id']}/steps")["items"][0]
    known = {"task_id": made["task_id"], "step_id": step["step_id"], "any_id": made["run_id"], "name": "strict"}
    document = api.get("/openapi.json")
    checked_routes = 0
    for method, path, operation in routes:
        names = re.findall(r"\{(\w+)\}", path)
        if method != "GET" or not set(names) <= set(known) or path.endswith("/events") or "/oidc" in path:
            continue
        where = re.sub(r"\{(\w+)\}", lambda match: known[match[1]], path)
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        asked = {
            one["name"]: NEEDED[one["name"]]
            for one in operation.get("parameters", ())
            if one["in"] == "query" and one["required"]
        }
        _conforms(api.get(where, params=asked), schema, document, where)
        checked_routes += 1
    assert checked_routes >= 10


def _conforms(value: Any, schema: Any, document: Any, where: str) -> None:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        if value is None:
            assert {"type": "null"} in schema["anyOf"], where
            return
        schema = next(one for one in schema["anyOf"] if one != {"type": "null"})
        _conforms(value, schema, document, where)
        return
    if schema.get("type") == "object" and "properties" in schema:
        assert set(schema.get("required", ())) <= set(value), where
        assert set(value) <= set(schema["properties"]), where
        for name, child in value.items():
            _conforms(child, schema["properties"][name], document, f"{where}.{name}")
    elif schema.get("type") == "array":
        for item in value:
            _conforms(item, schema["items"], document, f"{where}[]")
    elif schema.get("pattern"):
        assert re.fullmatch(schema["pattern"], value), where


class TestExhaustion:
    """More at once than the process may do."""

    @pytest.fixture
    def small(self, settings: TaskServiceSettings) -> Any:
        """A server with two connections, a short patience, and room for 60 requests."""
        changed = settings.model_copy(
            update={"db_pool": 2, "db_wait_seconds": 0.05, "http_threads": 16, "http_requests": 60}
        )
        hints, connections = Hints(None), Connections(changed)
        feed = event_feed(changed, hints, connections)
        database = connections.make("http", changed.db_pool)
        deps = deps_of(changed, database, hints, Producer(changed.kafka), feed)
        server = HttpServer(create_app(changed, deps, {}), port=0)
        server.start()
        yield server.url, database
        assert server.stop(10)
        connections.stop()

    def test_too_many_requests_wait_or_are_told_to_come_again(self, small: Any, api: Api) -> None:
        """500 calls over two connections: success or 503 with Retry-After, never a 500; then all is as before."""
        url, database = small
        there = Api(url, api.key)
        body = {"workflow": "single", "input": {"x": 1}}
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda _: there.http.post("/v1/tasks", json=body), range(500)))
        assert {answer.status_code for answer in answers} <= {201, 503}
        assert sum(answer.status_code == 201 for answer in answers) > 20
        for answer in answers:
            if answer.status_code == 503:
                assert answer.headers["retry-after"] == "1"
                assert answer.json()["code"] in ("E-DB-10", "E-BUSY-01")
        assert there.post("/v1/tasks", body, 201)
        assert database.taken == 0
        assert database.engine.pool.checkedout() == 0  # type: ignore[attr-defined] # QueuePool has it
        there.close()

    def test_a_locked_database_costs_seconds_not_the_process(
        self, small: Any, api: Api, eventually: Callable[..., Any]
    ) -> None:
        """While all connections are taken health still answers, and calls are told to come again."""
        url, database = small
        there = Api(url, api.key)
        with database.connection(), database.connection():
            assert there.get("/v1/tasks", 503)["code"] == "E-DB-10"
            assert there.http.get("/healthz").status_code == 200
        eventually(lambda: there.http.get("/v1/tasks").status_code == 200)
        there.close()
