"""Failures in groups: those that look the same are one line, with how many, since when, and of which versions."""

from __future__ import annotations

from typing import Final

from stanchion.contracts import ids

from ..view import Asked, Page, Shown, Twin

SHOWN: Final = 50


def show(asked: Asked) -> Shown:
    """The groups of the tenant, the last seen first; what is known is left out unless it is asked for."""
    known = asked.one_of("known", ("yes", "all"))
    rows = asked.reads.errors.page(
        asked.visitor.tenant_id,
        limit=SHOWN,
        workflow=asked.text("workflow"),
        known={"yes": True, "all": None, None: False}[known],
    )
    return Shown(
        "errors",
        "Errors",
        ("list",),
        {"rows": rows, "known": known, "workflow": asked.text("workflow")},
        Twin("stanchion error list", "GET /v1/errors"),
        "dead",
        every=5.0,
    )


def group(asked: Asked) -> Shown:
    """One group: its example, and the steps whose last failure it is."""
    group_id, tenant_id = asked.id("group_id", ids.ERROR), asked.visitor.tenant_id
    before = asked.chosen_id("before", ids.STEP)
    found = asked.reads.errors.group(tenant_id, group_id)
    page = asked.reads.errors.members(tenant_id, group_id, limit=SHOWN, before=before)
    public = ids.public(ids.ERROR, group_id)
    return Shown(
        "errorgroup",
        f"Error in {found['node']}",
        ("head", "members"),
        {"group": found, "public_id": public, "page": page, "before": before, "base": f"/errors/{public}"},
        Twin(f"stanchion error show {public}", f"GET /v1/errors/{public}"),
        "dead",
        (("Errors", "/errors"),),
        every=5.0,
    )


PAGES: Final = (
    Page("/errors", show, query=("known", "workflow")),
    Page("/errors/{group_id}", group, query=("before",)),
)
