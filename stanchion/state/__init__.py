"""The state machines, each defined once.

From each definition come: the code's `StrEnum`, the CHECK constraints and the trigger body in the database, the
diagram and table in `docs/reference/states.md`, and the generated test matrix in `tests/state`.
"""

from .approval import APPROVAL, ApprovalState
from .artifact import ARTIFACT, ArtifactState
from .attempt import ATTEMPT, AttemptState
from .barrier import BARRIER, BarrierState
from .machine import Machine, Transition
from .operation import OPERATION, OperationState
from .run import RUN, RunState
from .step import STEP, StepState
from .task import TASK, TaskState

MACHINES: tuple[Machine, ...] = (TASK, RUN, STEP, ATTEMPT, BARRIER, OPERATION, ARTIFACT, APPROVAL)

__all__ = [
    "APPROVAL",
    "ARTIFACT",
    "ATTEMPT",
    "BARRIER",
    "MACHINES",
    "OPERATION",
    "RUN",
    "STEP",
    "TASK",
    "ApprovalState",
    "ArtifactState",
    "AttemptState",
    "BarrierState",
    "Machine",
    "OperationState",
    "RunState",
    "StepState",
    "TaskState",
    "Transition",
]
