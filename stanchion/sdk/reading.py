"""Values that a step reads: its arguments out of the lease, large ones out of the blob store, children a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from stanchion.authority import blobs
from stanchion.authority.leases import Lease, Leases
from stanchion.errors import LeaseLost
from stanchion.sdk.artifacts import ArtifactDoor
from stanchion.sdk.asking import Ask, at_once
from stanchion.workflow.graph import Node
from stanchion.workflow.inputs import GIVEN, is_wrapped
from stanchion.workflow.results import ResultRow

__all__ = ["GIVEN", "Ask", "Children", "arguments_of", "at_once", "blob", "own_input"]


def blob(leases: Leases, lease: Lease, sha256: bytes, ask: Ask = at_once) -> Any:
    """A stored value, from the database or, above 8 MiB, from the object store.

    Raises LeaseLost when the lease that grants the reading is gone.
    """
    body = ask(lambda: leases.get_blob(lease, sha256))
    if body is None and (data := ArtifactDoor(leases, lease, ask).value(sha256)) is not None:
        return orjson.loads(data)
    if body is None:
        raise LeaseLost(
            lease.node, fence=lease.fence, why="a stored value is not shown to an attempt that is not the current one"
        )
    return blobs.unpack(body, sha256)


@dataclass(frozen=True, slots=True)
class Children:
    """Reads the children that a join took in; the set was fixed when its barrier opened."""

    leases: Leases
    lease: Lease
    fan_id: UUID
    node: str
    ask: Ask = at_once

    def counts(self) -> Mapping[str, int]:
        """Children by state, and `expected`."""
        return self.ask(lambda: self.leases.results_counts(self.lease, self.fan_id))

    def page(self, after_idx: int, limit: int) -> Sequence[ResultRow]:
        """At most `limit` rows behind `after_idx`, by index."""
        rows = self.ask(lambda: self.leases.results_page(self.lease, self.fan_id, self.node, after_idx, limit))
        return [
            ResultRow(idx, state, body if sha is None else blob(self.leases, self.lease, sha, self.ask), error)
            for idx, state, body, sha, error in rows
        ]


def own_input(leases: Leases, lease: Lease, ask: Ask = at_once) -> Any:
    """The step's own input, out of its row or the blob store."""
    return lease.input if lease.input_blob is None else blob(leases, lease, lease.input_blob, ask)


def arguments_of(leases: Leases, lease: Lease, node: Node, ask: Ask = at_once) -> dict[str, Any]:
    """The keyword arguments for `StepCodec.decode_args`, as JSON."""
    own = own_input(leases, lease, ask)
    given: Any = None
    if is_wrapped(node, lease.round, own):
        given, own = own[GIVEN], own.get("input")
    chosen = node.on_demand and node.join is None and not (node.scope and node.scope[-1] == node.name)
    if chosen and isinstance(own, dict):
        given = own | (given or {})  # what Go carried, and what was given since
    steps: dict[str, Any] = {}
    reader = None
    joined = {p.step for p in node.params if p.source == "results"}
    names = node.after or tuple(sorted(n for n in joined if n))
    for name, source, value in zip(names, lease.sources or (), lease.inputs or (), strict=False):
        if name in joined:
            reader = Children(leases, lease, source, name, ask)
        elif value is None:
            steps[name] = None
        else:
            steps[name] = value["b"] if value.get("h") is None else blob(leases, lease, bytes.fromhex(value["h"]), ask)
    return {
        "input": own if isinstance(own, dict) else {},
        "item": own,
        "steps": steps,
        "reader": reader,
        "given": given,
    }
