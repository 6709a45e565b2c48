"""The definition language: decorators make an immutable, versioned JSON graph out of typed functions."""

from stanchion.workflow.codec import (
    Encoded,
    EncodedAgain,
    EncodedGo,
    EncodedRetry,
    EncodedSpawn,
    EncodedValue,
    StepCodec,
)
from stanchion.workflow.context import Ctx
from stanchion.workflow.definition import Workflow
from stanchion.workflow.graph import Graph, JoinSpec, Node, Param
from stanchion.workflow.joins import All, AtLeast, First
from stanchion.workflow.outcomes import Again, Go, Retry, Spawn
from stanchion.workflow.results import FailedChild, ListReader, ResultReader, ResultRow, Results
from stanchion.workflow.step import Step

__all__ = [
    "Again",
    "All",
    "AtLeast",
    "Ctx",
    "Encoded",
    "EncodedAgain",
    "EncodedGo",
    "EncodedRetry",
    "EncodedSpawn",
    "EncodedValue",
    "FailedChild",
    "First",
    "Go",
    "Graph",
    "JoinSpec",
    "ListReader",
    "Node",
    "Param",
    "ResultReader",
    "ResultRow",
    "Results",
    "Retry",
    "Spawn",
    "Step",
    "StepCodec",
    "Workflow",
]
