"""One version of an artifact: what it is, where it came from and went to, its content to look at, and what differs."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from sqlalchemy import select

from stanchion.authority.rows import Row
from stanchion.contracts import ids
from stanchion.db import tables
from stanchion.errors import NotFound, StanchionError, Unprocessable

from ..contents import beginning
from ..previews import Difference, Preview, difference, preview
from ..view import Asked, Page, Shown, Twin

VERSIONS_SHOWN: Final = 20


def show(asked: Asked) -> Shown:
    """A version; of one that was deleted what is left."""
    version_id, tenant_id = asked.id("version_id", ids.ARTIFACT), asked.visitor.tenant_id
    art, artifacts = ids.public(ids.ARTIFACT, version_id), asked.reads.artifacts
    try:
        row = artifacts.get(tenant_id, version_id)
    except NotFound:
        removed = artifacts.removed(tenant_id, version_id)
        if removed is None:
            raise
        return _shown(art, removed, ("removed",), {})
    others = artifacts.page(tenant_id, row["task_id"], name=row["name"], limit=VERSIONS_SHOWN)
    seen, fault = _preview(asked, row)
    context = {"others": others.items, "seen": seen, "fault": fault, "made_by": _made_by(asked, row)}
    return _shown(art, row, ("head", "preview", "lineage", "versions"), context)


def _shown(art: str, row: Row, regions: tuple[str, ...], context: dict[str, Any]) -> Shown:
    tsk = ids.public(ids.TASK, row["task_id"])
    return Shown(
        "artifact",
        f"{row['name']} v{row['number']}",
        regions,
        {"row": row, "art": art, "tsk": tsk, "place": "artifacts"} | context,
        Twin(f"stanchion artifact get {art}", f"GET /v1/artifacts/{art}"),
        "records",
        (("Artifacts", "/artifacts"), (tsk, f"/tasks/{tsk}/artifacts")),
        ended=True,  # a version never changes, and its content is not fetched again and again
        still=True,
    )


def _preview(asked: Asked, row: Row) -> tuple[Preview | None, StanchionError | None]:
    """What is shown of the content; or why nothing is: the rest of the page needs no task service."""
    if not asked.visitor.may("artifact.read") or not asked.visitor.acts:
        return None, None
    try:
        content = beginning(asked.api, asked.visitor, row)
    except StanchionError as error:
        return None, error
    return preview(row["name"], row["media_type"], content, row["size"]), None


def _made_by(asked: Asked, row: Row) -> str:
    """The node of the step that made it, if a step did."""
    if row["step_id"] is None:
        return ""
    step = tables.step.c
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        found = connection.execute(select(step.node).where(step.step_id == row["step_id"])).scalar()
    return found or "a step"


def compare(asked: Asked) -> Shown:
    """What differs between two versions that are texts, the older one first."""
    pair = [asked.id("version_id", ids.ARTIFACT), asked.chosen_id("with", ids.ARTIFACT)]
    if pair[1] is None:
        raise Unprocessable("E-DATA-15", "with what?", where="query.with", fix="name another version")
    rows = [_found(asked, version_id) for version_id in sorted(filter(None, pair))]
    found: Difference | None = None
    if asked.visitor.acts:
        asked.visitor.require("artifact.read")
        old, new = (beginning(asked.api, asked.visitor, row) for row in rows)
        same = rows[0]["sha256"] == rows[1]["sha256"]
        found = (
            Difference(why="They are the same.") if same else difference(old, new, (rows[0]["size"], rows[1]["size"]))
        )
    names = [ids.public(ids.ARTIFACT, row["version_id"]) for row in rows]
    return Shown(
        "compare",
        f"{rows[0]['name']} v{rows[0]['number']} and {rows[1]['name']} v{rows[1]['number']}",
        ("lines",),
        {"rows": rows, "names": names, "found": found, "place": "artifacts"},
        Twin(
            " ".join(
                f"diff <(stanchion artifact get {name} -o -)" if n == 0 else f"<(stanchion artifact get {name} -o -)"
                for n, name in enumerate(names)
            )
        ),
        "records",
        (("Artifacts", "/artifacts"), (names[1], f"/artifacts/{names[1]}")),
        ended=True,
        still=True,
    )


def _found(asked: Asked, version_id: UUID) -> Row:
    return asked.reads.artifacts.find(asked.visitor.tenant_id, version_id)


PAGES: Final = (
    Page("/artifacts/{version_id}", show, personal=True),
    Page("/artifacts/{version_id}/compare", compare, query=("with",), personal=True),
)
