"""The OpenAPI document: what the framework finds, and what routes read by hand: bodies, problems, the key."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from .bodies import BODY_MODELS

VERSION: Final = "1"
_REFERENCE: Final = "#/components/schemas/{model}"

PROBLEM_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "description": "RFC 9457; `code` is stable, `fix` says how to go on.",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "where": {"type": "string"},
        "why": {"type": "string"},
        "fix": {"type": "string"},
        "request_id": {"type": "string"},
        "state": {"type": "string"},
    },
}


def document(app: FastAPI) -> dict[str, Any]:
    """The document of an app, made once."""
    if app.openapi_schema:
        return app.openapi_schema
    made = get_openapi(title="Stanchion task service", version=VERSION, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = PROBLEM_SCHEMA
    for name, model in BODY_MODELS.items():
        schema = model.model_json_schema(ref_template=_REFERENCE)
        schemas |= schema.pop("$defs", {})
        schemas[name] = schema
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"key": []}]
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in made["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {"description": "A problem", "content": content}
    app.openapi_schema = made
    return made
