"""Long tasks made of steps, on workers that may die.

    from stanchion import Ctx, Results, Workflow

    brief = Workflow("brief")

    @brief.step()
    async def plan(ctx: Ctx, topic: str) -> list[str]: ...

Importing this package opens nothing and imports next to nothing: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stanchion.errors import Rejected as Rejected
    from stanchion.errors import StanchionError as StanchionError
    from stanchion.sdk.async_client import AsyncClient as AsyncClient
    from stanchion.sdk.client import Client as Client
    from stanchion.sdk.context import Ctx as Ctx
    from stanchion.sdk.kafka_client import KafkaClient as KafkaClient
    from stanchion.workflow.approval import Ask as Ask
    from stanchion.workflow.approval import Decision as Decision
    from stanchion.workflow.artifact import Artifact as Artifact
    from stanchion.workflow.definition import Workflow as Workflow
    from stanchion.workflow.joins import All as All
    from stanchion.workflow.joins import AtLeast as AtLeast
    from stanchion.workflow.joins import First as First
    from stanchion.workflow.operation import Call as Call
    from stanchion.workflow.operation import Effect as Effect
    from stanchion.workflow.operation import NotSent as NotSent
    from stanchion.workflow.operation import Operation as Operation
    from stanchion.workflow.operation import Refused as Refused
    from stanchion.workflow.outcomes import Again as Again
    from stanchion.workflow.outcomes import Go as Go
    from stanchion.workflow.outcomes import Retry as Retry
    from stanchion.workflow.outcomes import Spawn as Spawn
    from stanchion.workflow.results import FailedChild as FailedChild
    from stanchion.workflow.results import Results as Results

_HOMES = {
    "Refused": "stanchion.workflow.operation",
    "Operation": "stanchion.workflow.operation",
    "NotSent": "stanchion.workflow.operation",
    "Effect": "stanchion.workflow.operation",
    "Call": "stanchion.workflow.operation",
    "Again": "stanchion.workflow.outcomes",
    "All": "stanchion.workflow.joins",
    "Ask": "stanchion.workflow.approval",
    "Decision": "stanchion.workflow.approval",
    "Artifact": "stanchion.workflow.artifact",
    "AsyncClient": "stanchion.sdk.async_client",
    "AtLeast": "stanchion.workflow.joins",
    "Client": "stanchion.sdk.client",
    "Ctx": "stanchion.sdk.context",
    "FailedChild": "stanchion.workflow.results",
    "First": "stanchion.workflow.joins",
    "Go": "stanchion.workflow.outcomes",
    "KafkaClient": "stanchion.sdk.kafka_client",
    "Rejected": "stanchion.errors",
    "Results": "stanchion.workflow.results",
    "Retry": "stanchion.workflow.outcomes",
    "Spawn": "stanchion.workflow.outcomes",
    "StanchionError": "stanchion.errors",
    "Workflow": "stanchion.workflow.definition",
}

__all__ = [
    "Again",
    "All",
    "Artifact",
    "Ask",
    "AsyncClient",
    "AtLeast",
    "Call",
    "Client",
    "Ctx",
    "Decision",
    "Effect",
    "FailedChild",
    "First",
    "Go",
    "KafkaClient",
    "NotSent",
    "Operation",
    "Refused",
    "Rejected",
    "Results",
    "Retry",
    "Spawn",
    "StanchionError",
    "Workflow",
]


def __getattr__(name: str) -> Any:
    """Load a public name on its first use, and keep it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
