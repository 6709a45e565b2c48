"""A declared step: still the user's function, with a name and what the decorator said about it."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar

from stanchion.workflow.context import Ctx

if TYPE_CHECKING:
    from collections.abc import Callable

    from stanchion.workflow.codec import StepCodec
    from stanchion.workflow.definition import Workflow
    from stanchion.workflow.faults import Site
    from stanchion.workflow.options import StepOptions
    from stanchion.workflow.signature import Signature

__all__ = ["AnyStep", "Step"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Step(Generic[P, R_co]):
    """What `@workflow.step(...)` makes of a function: called with a context and arguments it is that function.

    `name` is the step's name; `is_async` says that a call gives an awaitable.
    """

    def __init__(
        self, fn: Callable[..., Any], *, workflow: Workflow, options: StepOptions, signature: Signature, where: Site
    ) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name: str = signature.name
        self.workflow = workflow
        self.options = options
        self.signature = signature
        self.where = where
        self.after: tuple[AnyStep, ...] = options.after

    def __call__(self, ctx: Ctx, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function itself, as a test does; nothing is leased, stored or retried."""
        result: R_co = self.fn(ctx, *args, **kwargs)
        return result

    @property
    def is_async(self) -> bool:
        """True for `async def`, also below a decorator that keeps `__wrapped__`."""
        return inspect.iscoroutinefunction(self.fn) or inspect.iscoroutinefunction(inspect.unwrap(self.fn))

    @property
    def codec(self) -> StepCodec:
        """How its arguments and its result cross a process; reading it freezes the workflow."""
        return self.workflow.codec(self.name)

    def retryable(self, error: BaseException) -> bool:
        """Whether an attempt that raised `error` may be tried again, by `retry_on=` and `no_retry=`."""
        return self.options.retryable(error)

    def __repr__(self) -> str:
        return f"<step {self.name} of {self.workflow.name} v{self.workflow.version}>"


AnyStep: TypeAlias = Step[..., object]
