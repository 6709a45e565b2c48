"""User code in which a strict type checker must find exactly the errors that stand beside the lines."""

from stanchion.workflow import Again, AtLeast, Ctx, Go, Results, Retry, Spawn, Workflow

wf = Workflow("brief", version="7")  # E: Argument "version" to "Workflow" has incompatible type "str"; expected "int"


@wf.step()
async def plan(ctx: Ctx, topic: str) -> list[str]:
    return [topic]


@wf.step(after=plan, retires=3)  # E: Unexpected keyword argument "retires" for "step" of "Workflow"
def typo(ctx: Ctx, urls: list[str]) -> None: ...


@wf.step(retries="3")  # E: Argument "retries" to "step" of "Workflow" has incompatible type "str"; expected "int"
def text(ctx: Ctx) -> None: ...


@wf.step(after="plan")  # E: Argument "after" to "step" of "Workflow" has incompatible type "str"
def by_name(ctx: Ctx, urls: list[str]) -> None: ...


@wf.step(after=print)  # E: Argument "after" to "step" of "Workflow" has incompatible type
def no_step(ctx: Ctx, urls: list[str]) -> None: ...


@wf.step(after=plan, join="al")  # E: Argument "join" to "step" of "Workflow" has incompatible type "Literal['al']"
def no_rule(ctx: Ctx, urls: Results[str]) -> None: ...


@wf.step(isolation="fork")  # E: Argument "isolation" to "step" of "Workflow" has incompatible type "Literal['fork']"
def no_isolation(ctx: Ctx) -> None: ...


@wf.step(spawns=(plan,))  # E: Argument "spawns" to "step" of "Workflow" has incompatible type
def no_pair(ctx: Ctx) -> None: ...


@wf.step(retry_on=3)  # E: Argument "retry_on" to "step" of "Workflow" has incompatible type "int"
def no_error(ctx: Ctx) -> None: ...


@wf.step()  # E: Value of type variable "C_contra" of "__call__" of "StepDecorator" cannot be "str"
def no_context(topic: str) -> None: ...


@wf.step  # E: Argument 1 to "step" of "Workflow" has incompatible type "Callable[[Ctx], None]"; expected "Never"
def no_brackets(ctx: Ctx) -> None: ...


AtLeast("3")  # E: Argument 1 to "AtLeast" has incompatible type "str"; expected "int | float"
AtLeast(3, on_failed="ignore")  # E: Argument "on_failed" to "AtLeast" has incompatible type "Literal['ignore']"
AtLeast(3, rest="kill")  # E: Argument "rest" to "AtLeast" has incompatible type "Literal['kill']"


@wf.step(again="decide", next="plan")
def decide(ctx: Ctx, number: int) -> str | Again | Go | Retry | Spawn:
    if number == 1:
        return Again(decide)  # E: Missing positional argument "number" in call to "Again"
    if number == 2:
        return Again(decide, number="x")  # E: Argument "number" to "Again" has incompatible type "str"; expected "int"
    if number == 3:
        return Go(plan, topik="x")  # E: Unexpected keyword argument "topik" for "Go"
    if number == 4:
        return Go("plan", topic="x")  # E: Argument 1 to "Go" has incompatible type "str"
    if number == 5:
        return Spawn(decide, 3, then=plan)  # E: Argument 2 to "Spawn" has incompatible type "int"
    if number == 6:
        return Spawn(decide, [1])  # E: Missing named argument "then" for "Spawn"
    if number == 7:
        return Retry(reason=3)  # E: Argument "reason" to "Retry" has incompatible type "int"; expected "str"
    return 3  # E: Incompatible return value type (got "int", expected "str | Again | Go | Retry | Spawn")


async def use(ctx: Ctx, results: Results[str]) -> None:
    decide(ctx, "x")  # E: Argument 2 to "__call__" of "Step" has incompatible type "str"; expected "int"
    decide(3, 3)  # E: Argument 1 to "__call__" of "Step" has incompatible type "int"; expected "Ctx"
    number: int = await plan(ctx, "x")  # E: Incompatible types in assignment
    first: int = results[0]  # E: Incompatible types in assignment
    narrow: Results[bool] = Results.of([1])  # E: List item 0 has incompatible type "int"; expected "bool"
    plan.nmae  # E: has no attribute "nmae"  # noqa: B018 - never run
    del number, first, narrow
