"""Workflow versions: registered once, immutable, cached for ever."""

from __future__ import annotations

from psycopg.types.json import Jsonb

from stanchion.db.engine import Database
from stanchion.errors import NotFound
from stanchion.runtime.clock import monotonic
from stanchion.workflow.graph import Graph

NEWEST_SECONDS = 0.2
"""How long "the newest version" is believed: a flood of submissions must not ask for it one by one."""


class Workflows:
    """What is registered. A version never changes, so a cache never goes stale; only "the newest" is looked up again."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._known: dict[tuple[str, int], Graph] = {}
        self._newest: dict[str, tuple[Graph, float]] = {}

    def register(self, graph: Graph) -> bool:
        """Make a version known; True if it was new. Raises Conflict E-VER-01 for another graph under that version."""
        rows = self.database.read(
            "SELECT stanchion.register_workflow(%s, %s, %s, %s)",
            (graph.name, graph.version, Jsonb(graph.to_json()), graph.digest()),
        )
        return bool(rows[0][0])

    def get(self, name: str, version: int | None = None) -> Graph:
        """A version's graph, or the newest version's; raises NotFound E-TASK-01."""
        if version is not None and (known := self._known.get((name, version))):
            return known
        if version is None and (newest := self._newest.get(name)) and monotonic() - newest[1] < NEWEST_SECONDS:
            return newest[0]
        rows = self.database.read("SELECT version, graph FROM stanchion.get_workflow(%s, %s)", (name, version))
        if not rows:
            raise NotFound(
                "E-TASK-01",
                f"workflow {name}{'' if version is None else f' version {version}'} is not registered",
                where="$.workflow",
                why="no worker that knows it has ever started here",
                fix="start a worker with it: stanchion worker run yourmodule:workflow",
            )
        graph = self._known.get((name, rows[0][0])) or Graph.from_json(rows[0][1])
        if version is None:
            self._newest[name] = (graph, monotonic())
        return self._known.setdefault((name, graph.version), graph)
