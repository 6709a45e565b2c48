"""Expansion of fan-outs: reads the list, plans the branches, inserts them in chunks so that the first start before the last exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from stanchion.contracts import limits
from stanchion.db.engine import Database
from stanchion.errors import TooLarge
from stanchion.workflow import anatomy, planner
from stanchion.workflow.graph import Graph
from stanchion.workflow.retrying import Branch, OldStep, adopt, take_over

from . import blobs
from .objects import Objects
from .places import find_around
from .workflows import Workflows


class Due(NamedTuple):
    """A fan-out that waits for its next branches, from `next_index` on."""

    tenant_id: UUID
    run_id: UUID
    fan_id: UUID
    next_index: int
    node: str
    workflow: str
    workflow_version: int
    outer_fan: UUID | None
    idx: int
    round: int
    sources: list[UUID] | None
    feeds: list[UUID] | None
    input: Any
    input_blob: bytes | None
    retry_of: UUID | None
    priority: int


class Planning:
    """The planner's hands: under the orchestrator's login."""

    def __init__(self, database: Database, workflows: Workflows, objects: Objects | None = None) -> None:
        self.database = database
        self.workflows = workflows
        self.objects = objects or Objects(None)

    def due(self, limit: int) -> list[Due]:
        """Fan-outs to expand, oldest first."""
        return [Due._make(r) for r in self.database.read("SELECT * FROM stanchion.due_expansions(%s)", (limit,))]

    def expand(self, due: Due) -> str:
        """Insert the next chunk of a fan-out; returns what the database said (expanded, taken, gone, winding down)."""
        graph = self.workflows.get(due.workflow, due.workflow_version)
        items = self._items(due)
        if len(items) > limits.FAN_OUT_CHILDREN:
            raise TooLarge(
                "E-TASK-04",
                f"{due.node} would get {len(items):,} children, the limit is {limits.FAN_OUT_CHILDREN:,}",
                fix="fan out twice: a list of lists",
                limit=limits.FAN_OUT_CHILDREN,
            )
        opener = graph.node(due.node)
        place = planner.Place(due.tenant_id, due.run_id, due.outer_fan, due.idx, due.round, priority=due.priority)
        fan = planner.FanOut(due.fan_id, place, opener, len(items), self._held(due))
        barriers, gather_ids = self._gathers(graph, fan, due)
        feeds = [i for (_, joined), i in gather_ids.items() if joined == opener.name]
        template = planner.child_template(graph, fan, feeds)
        width = max(1, limits.FAN_OUT_CHUNK // planner.branch_steps(graph, opener))
        chunk = items[due.next_index : due.next_index + width]
        steps: list[dict[str, Any]] | None = None
        if template is None:
            steps, inner = self._branches(graph, fan, due, chunk, gather_ids)
            barriers = barriers + inner
        return self._expand(
            due, chunk if template else None, template, steps, barriers, due.next_index + len(chunk), len(items)
        )

    def _expand(
        self,
        due: Due,
        items: Sequence[Any] | None,
        template: dict[str, Any] | None,
        steps: list[dict[str, Any]] | None,
        barriers: list[dict[str, Any]],
        upto: int,
        total: int,
    ) -> str:
        def text(value: Any) -> str | None:
            return None if value is None else orjson.dumps(value).decode()

        rows = self.database.call(
            "expand",
            "SELECT stanchion.expand(%s, %s, %s::text::jsonb, %s::text::jsonb, %s::text::jsonb, %s::text::jsonb, %s, %s)",
            (
                due.fan_id,
                due.next_index,
                text(items),
                text(template),
                text(steps),
                text(barriers),
                upto,
                total,
            ),
        )
        return str(rows[0][0])

    def _branches(
        self, graph: Graph, fan: planner.FanOut, due: Due, chunk: Sequence[Any], gather_ids: dict[tuple[str, str], UUID]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        known = self._known(graph, fan, due)
        plans = [
            planner.plan_branch(graph, fan, due.next_index + n, item, gather_ids, known) for n, item in enumerate(chunk)
        ]
        if due.retry_of is not None:
            self._take_over(graph, fan, due, plans, chunk, known)
        return [s for p in plans for s in p.steps], [b for p in plans for b in p.barriers]

    def _take_over(
        self,
        graph: Graph,
        fan: planner.FanOut,
        due: Due,
        plans: Sequence[planner.Plan],
        chunk: Sequence[Any],
        known: dict[str, UUID],
    ) -> None:
        """In a retried run: what succeeded in these branches before is planned as settled."""
        before, run_id = self.database.read("SELECT * FROM stanchion.fan_before(%s, %s)", (due.fan_id, due.next_index))[
            0
        ]
        if before is None:
            return
        first, upto = due.next_index, due.next_index + len(chunk)
        rows = self.database.read(
            "SELECT * FROM stanchion.branches_before(%s, %s, %s, %s)", (due.tenant_id, before, first, upto)
        )
        old: dict[int, list[OldStep]] = {}
        for idx, *columns in rows:
            old.setdefault(idx, []).append(OldStep(*columns))
        same = self._same_around(due, run_id, before, known)
        for n, (plan, item) in enumerate(zip(plans, chunk, strict=True)):
            if steps := old.get(first + n):
                take_over(plan, adopt(graph, steps, Branch(fan.opener.scope, item, same)))

    def _same_around(self, due: Due, run_id: UUID, before: UUID, known: dict[str, UUID]) -> set[str]:
        """Which steps around a branch have the results that they had in that run before."""
        if not known:
            return set()
        outer, idx = self.database.read("SELECT * FROM stanchion.place_of(%s)", (before,))[0]
        old = find_around(self.database, due.tenant_id, run_id, outer, idx, list(known))
        names = [name for name in known if name in old]
        rows = self.database.read(
            "SELECT stanchion.same_values(%s, %s, %s)",
            (due.tenant_id, [known[name] for name in names], [old[name] for name in names]),
        )
        return {name for name, same in zip(names, rows[0][0] or (), strict=True) if same}

    def _items(self, due: Due) -> list[Any]:
        if due.sources:
            body, blob, sha256 = self.database.read(
                "SELECT * FROM stanchion.read_value(%s, %s)", (due.tenant_id, due.sources[0])
            )[0]
            if blob is not None:
                return list(blobs.unpack_trusted(blob))
            return list(self._value(due.tenant_id, body, sha256))
        return list(self._value(due.tenant_id, due.input, due.input_blob))

    def _value(self, tenant_id: UUID, inline: Any, sha256: bytes | None) -> Any:
        return inline if sha256 is None else blobs.read(self.database, tenant_id, sha256, self.objects)

    def _held(self, due: Due) -> dict[str, UUID]:
        if not due.feeds:
            return {}
        rows = self.database.read("SELECT * FROM stanchion.nodes_of(%s)", (due.feeds,))
        return {node: step_id for step_id, node in rows}

    def _gathers(
        self, graph: Graph, fan: planner.FanOut, due: Due
    ) -> tuple[list[dict[str, Any]], dict[tuple[str, str], UUID]]:
        if due.next_index == 0:
            return planner.gathers(graph, fan)
        rows = self.database.read("SELECT * FROM stanchion.gathers_of(%s)", (due.fan_id,))
        # a join and the step that it joins stand in the graph; the barrier has the join, or for an end the step itself
        pairs = {j.name: (j.name, x.name) for j, x in anatomy.joins_of(graph, fan.opener.name)}
        pairs |= {x.name: ("", x.name) for x in anatomy.ends_of(graph, fan.opener.name)}
        return [], {pairs[node]: barrier_id for barrier_id, node in rows}

    def _known(self, graph: Graph, fan: planner.FanOut, due: Due) -> dict[str, UUID]:
        names = anatomy.outer_names(graph, fan.opener.scope)
        return find_around(self.database, due.tenant_id, due.run_id, due.outer_fan, due.idx, names)
