"""http-api.md: every route, from the OpenAPI document that the task service serves."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from pydantic import SecretStr

from stanchion.runtime.homes import service_module

from .markdown import code, flow, page, section, table
from .message_page import kind_of

_INTRO = """
The task service serves this API, and the same as an OpenAPI document at `/openapi.json`. Send `Authorization: Bearer`
with a key (`stn_...`) or the token of a session (`sts_...`); a browser sends its cookie, and the header `X-CSRF-Token`
with whatever changes something. The right that a route needs stands with it ([rights](rights.md)). Errors are RFC 9457 problem details
(`application/problem+json`) with `code`, `where`, `why`, `fix` and `request_id` ([errors](errors.md)). A query
parameter that a route does not have is refused, not ignored. Without a key or a session only `/healthz` and `/readyz`
answer, on a loopback address `/metrics`, and the ways in that are set up: the dev login and a provider.
"""
_METHODS = ("get", "post", "put", "patch", "delete")


def document() -> dict[str, Any]:
    """The OpenAPI document of the task service, from an application that is connected to nothing."""
    home = service_module("task-service")
    kind = importlib.import_module(home + ".settings").TaskServiceSettings
    settings = kind(database_url=SecretStr("postgresql://nowhere/none"), kafka_bootstrap="nowhere:9092")
    # Routes ask for what they work with when they are called; describing them calls none.
    nothing = SimpleNamespace(ring=None)
    found: dict[str, Any] = importlib.import_module(home + ".http").create_app(settings, nothing, {}).openapi()
    return found


def api_page() -> str:
    """The page of routes and schemas."""
    spec = document()
    operations = list(_operations(spec))
    rows = [(f"[{method.upper()} {path}](#{_anchor(method, path)})", _title(o)) for method, path, o in operations]
    routes = [_route(method, path, operation) for method, path, operation in operations]
    schemas = spec.get("components", {}).get("schemas", {})
    shapes = [_shape(name, schemas[name]) for name in sorted(schemas)]
    return page(
        "HTTP API",
        _INTRO,
        section("Routes", table(("route", "what it does"), rows)),
        *routes,
        section("Shapes", *shapes),
    )


def _operations(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, item in spec["paths"].items():
        for method in _METHODS:
            if method in item:
                yield method, path, item[method]


def _anchor(method: str, path: str) -> str:
    """The anchor that Markdown readers make of a heading."""
    kept = "".join(one for one in f"{method} {path}".lower() if one.isalnum() or one in " -_")
    return kept.replace(" ", "-")


def _title(operation: Mapping[str, Any]) -> str:
    text = str(operation.get("description") or operation.get("summary") or "")
    return flow(text).partition("\n\n")[0].partition(". ")[0].rstrip(".")


def _route(method: str, path: str, operation: Mapping[str, Any]) -> str:
    right = operation.get("x-right")
    said = flow(str(operation.get("description") or operation.get("summary") or ""))
    needs = f"Needs the right {code(right)}." if right and right != "none" else ""
    parameters = table(
        ("parameter", "in", "type", "required", "what it is"),
        (
            (
                code(one["name"]),
                one["in"],
                kind_of(one.get("schema", {})),
                "yes" if one.get("required") else "",
                one.get("description") or one.get("schema", {}).get("description", ""),
            )
            for one in operation.get("parameters", ())
        ),
    )
    return section(f"{method.upper()} {path}", said, needs, parameters, _body(operation), _answers(operation))


def _body(operation: Mapping[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    lines = []
    for media, found in content.items():
        schema = found.get("schema", {})
        fields = _fields(schema)
        lines.append(f"Body: {code(media)}" + (f", {kind_of(schema)}." if not fields else "."))
        lines.append(fields)
    return "\n\n".join(line for line in lines if line)


def _answers(operation: Mapping[str, Any]) -> str:
    rows = []
    for status, answer in operation.get("responses", {}).items():
        schemas = [kind_of(found["schema"]) for found in answer.get("content", {}).values() if found.get("schema")]
        when = answer.get("description", "").replace("Successful Response", "done")
        rows.append((status, when, " or ".join(dict.fromkeys(schemas))))
    return table(("answer", "when", "what comes"), rows)


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    said = flow(str(schema.get("description", "")))
    words = ", ".join(code(one) for one in schema.get("enum", ()))
    return section(name, said, words, _fields(schema), level=3) or f"### {name}\n\nAny JSON."


def _fields(schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    return table(
        ("field", "type", "required", "what it is"),
        (
            (code(name), kind_of(kind), "yes" if name in required else "", kind.get("description", ""))
            for name, kind in schema.get("properties", {}).items()
        ),
    )
