"""The API's description of itself: the OpenAPI document, a page to read it, and what error codes mean."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from stanchion.errors import CODES

from ..params import StrictRoute

router = APIRouter(route_class=StrictRoute, include_in_schema=False)


@router.get("/openapi.json")
async def openapi_document(request: Request) -> dict[str, Any]:
    """The OpenAPI document."""
    found: dict[str, Any] = request.app.openapi()
    return found


@router.get("/docs/errors/{code}")
async def error_code(code: str) -> dict[str, Any]:
    """What an error code means, and the usual way out."""
    from ..problems import no_such_code

    info = CODES.get(code)
    if info is None:
        raise no_such_code()
    return {"code": code, "title": info.title, "status": info.status, "meaning": info.meaning, "fix": info.fix}


@router.get("/docs")
async def page(request: Request) -> HTMLResponse:
    """All routes on one page, without anything from outside."""
    rows = []
    for path, operations in request.app.openapi()["paths"].items():
        for method, operation in operations.items():
            right = operation.get("x-right", "")
            text = operation.get("description") or operation.get("summary", "")
            cells = (method.upper(), path, right, text)
            rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "<tr><th>method</th><th>path</th><th>right</th><th>what it does</th></tr>"
    return HTMLResponse(f"<!doctype html><title>API</title><h1>API</h1><table>{head}{''.join(rows)}</table>")
