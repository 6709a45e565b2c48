"""Templates into HTML: a page in its frame, one region of it, an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.requests import Request

from stanchion.authority.why_codes import WHY, Reason
from stanchion.authority.withholding import reason_text, withheld
from stanchion.contracts.actions import ACTIONS
from stanchion.errors import StanchionError

from . import look
from .shell import Taste
from .view import Looked, Shown, query_text

FILTERS = (
    "shape", "ordered", "shares", "between", "moment", "absolute", "clock", "public", "duration", "number", "size", "pretty",
    "short", "from_iso",
)  # fmt: skip


class Painter:
    """Nothing here is marked as safe but what was painted by these templates before."""

    def __init__(self, templates: Path, static: Mapping[str, str]) -> None:
        made = Environment(
            loader=FileSystemLoader(templates),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        made.filters |= {name: getattr(look, name) for name in FILTERS}
        made.filters |= {
            "error_text": _error_text,
            "reason_text": _reason_text,
            "segment": lambda text: quote(
                str(text), safe=""
            ),  # a browser takes /../ of a filter or a name for the way up
            "meaning": lambda code: WHY[code].meaning,
        }
        made.globals |= {"static": dict(static), "query": query_text, "actions": ACTIONS}
        made.globals["parts"] = made.get_template("parts.html").module
        self._environment = made

    def region(self, shown: Shown, name: str) -> str:
        """One region of a view."""
        return self._environment.get_template(f"{shown.folder}/{name}.html").render(shown=shown, **shown.context)

    def page(self, looked: Looked, around: Mapping[str, Any]) -> str:
        """A whole page: the regions stand in it as they were painted."""

        def region(name: str) -> Markup:
            inside = Markup(looked.regions[name])  # noqa: S704 - painted by our own templates, which escape
            return Markup('<div id="r-{}" data-region>{}</div>').format(name, inside)

        context = looked.shown.context | dict(around)
        template = self._environment.get_template(f"{looked.shown.folder}/page.html")
        return template.render(shown=looked.shown, region=region, revision=looked.revision, **context)

    def plain(self, template: str, **context: Any) -> str:
        """A page that does not live."""
        return self._environment.get_template(template).render(**context)

    def error(self, request: Request, error: StanchionError) -> str:
        """What is shown instead of a page; it needs no database."""
        return self.plain("error.html", error=error, around=None, taste=Taste.of(request), path=request.url.path)


@pass_context
def _error_text(context: Context, error: Any) -> str:
    """What an error says, to somebody who may not see payloads without the words of a step's author."""
    return look.error_text(error if context.get("whole") else withheld(error))


@pass_context
def _reason_text(context: Context, reason: Reason) -> str:
    return reason_text(reason, whole=bool(context.get("whole")))
