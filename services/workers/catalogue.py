"""What this worker can run: its workflows, loaded once, registered at the start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stanchion.authority.workflows import Workflows
from stanchion.errors import Unprocessable
from stanchion.runtime.logging import get_logger
from stanchion.workflow.definition import Workflow
from stanchion.workflow.graph import Graph, Node
from stanchion.workflow.registry import load
from stanchion.workflow.step import AnyStep

log = get_logger()


class Catalogue:
    """Workflow versions by name; a step of any other version is not this worker's to run."""

    def __init__(self, workflows: Iterable[Workflow]) -> None:
        self.workflows = {(w.name, w.version): w for w in workflows}
        self._graphs: dict[tuple[str, int], Graph] = {key: w.graph() for key, w in self.workflows.items()}

    @staticmethod
    def load(targets: Sequence[str]) -> Catalogue:
        """What stands at `package.module:attribute`, for each target; raises Unprocessable E-CONF-05 without any."""
        if not targets:
            raise Unprocessable(
                "E-CONF-05",
                "a worker needs workflows to serve",
                where="STANCHION_TARGETS",
                fix="stanchion worker run yourmodule:workflow",
            )
        return Catalogue(workflow for target in targets for workflow in load(target))

    @property
    def definitions(self) -> list[str]:
        """`name@version` of each."""
        return [f"{name}@{version}" for name, version in self.workflows]

    @property
    def queues(self) -> list[str]:
        """All queues that its workflows name."""
        return sorted({node.queue for graph in self._graphs.values() for node in graph.nodes})

    def register(self, workflows: Workflows) -> None:
        """Make all known; raises Conflict E-VER-01 when a version is registered with another graph."""
        for graph in self._graphs.values():
            new = workflows.register(graph)
            log.info("worker.registered", workflow=graph.name, version=graph.version, new=new)

    def serves(self, workflow: str, version: int) -> bool:
        """Whether it has this version."""
        return (workflow, version) in self.workflows

    def find(self, workflow: str, version: int, node: str) -> tuple[AnyStep, Node]:
        """The step's function and its node."""
        key = (workflow, version)
        return self.workflows[key].steps[node], self._graphs[key].node(node)

    def graph(self, workflow: str, version: int) -> Graph:
        """A version's graph."""
        return self._graphs[workflow, version]
