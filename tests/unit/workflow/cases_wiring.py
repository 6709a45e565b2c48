"""Definitions that are refused for how their steps hang together."""

from refusal_kit import Draft, Page, Url, pages, refused, urls

from stanchion.workflow import Again, Ctx, Go, Results, Spawn, Workflow

# --- wiring ---


@refused("E-WIRE-01", "fetch() takes url: Url but plan() returns list[str]")
def element_of_another_type(wf: Workflow) -> None:
    @wf.step()
    async def plan(ctx: Ctx) -> list[str]:
        return []

    @wf.step(after=plan, each=True)
    async def fetch(ctx: Ctx, url: Url) -> Page:
        return Page("")


@refused("E-WIRE-01", "send() takes page: Page but plan() returns list[Url]")
def value_of_another_type(wf: Workflow) -> None:
    @wf.step(after=urls(wf))
    async def send(ctx: Ctx, page: Page) -> None: ...


@refused("E-WIRE-01", "draft() takes pages: Results[Draft] but fetch() returns Page")
def results_of_another_type(wf: Workflow) -> None:
    @wf.step(after=pages(wf), join="all")
    async def draft(ctx: Ctx, pages: Results[Draft]) -> None: ...


@refused("E-WIRE-01", "fix: return int from count, or take share: float in send")
def never_narrower(wf: Workflow) -> None:
    @wf.step()
    def count(ctx: Ctx) -> float:
        return 1.5

    @wf.step(after=count)
    def send(ctx: Ctx, share: int) -> None: ...


@refused("E-WIRE-02", "send() takes 1 (page) but after= names 2 (fetch_one, plan)")
def argument_missing(wf: Workflow) -> None:
    plan = urls(wf)

    @wf.step()
    def fetch_one(ctx: Ctx, url: Url) -> Page:
        return Page("")

    @wf.step(after=(fetch_one, plan))
    def send(ctx: Ctx, page: Page) -> None: ...


@refused("E-WIRE-02", "each step in after= fills one argument, in order: plan → urls")
def argument_too_many(wf: Workflow) -> None:
    @wf.step(after=urls(wf))
    def send(ctx: Ctx, urls: list[Url], topic: str) -> None: ...


@refused("E-WIRE-02", "send() takes tone: str but nothing fills it")
def default_without_again(wf: Workflow) -> None:
    @wf.step(after=urls(wf))
    def send(ctx: Ctx, urls: list[Url], tone: str = "dry") -> None: ...


@refused("E-WIRE-02", "Again(plan, …): missing a required argument: 'topic'")
def again_without_its_arguments(wf: Workflow) -> None:
    Again(urls(wf))


@refused("E-WIRE-02", "Go(plan, …): got an unexpected keyword argument 'tpoic'")
def go_with_a_typo(wf: Workflow) -> None:
    Go(urls(wf), topic="x", tpoic="y")


@refused("E-WIRE-03", 'after="plan" is no step')
def predecessor_by_name(wf: Workflow) -> None:
    urls(wf)

    @wf.step(after="plan")
    def send(ctx: Ctx, urls: list[Url]) -> None: ...


@refused("E-WIRE-03", "after= of send names plan, a step of other")
def predecessor_of_another_workflow(wf: Workflow) -> None:
    other = Workflow("other")

    @wf.step(after=urls(other))
    def send(ctx: Ctx, urls: list[Url]) -> None: ...


@refused("E-WIRE-03", "did you mean 'deep'?")
def unknown_name(wf: Workflow) -> None:
    @wf.step(next="depp")
    def plan(ctx: Ctx) -> Go: ...

    @wf.step()
    def deep(ctx: Ctx) -> None: ...


@refused("E-WIRE-03", "next= of choose names plan, a step of other")
def target_of_another_workflow(wf: Workflow) -> None:
    @wf.step(next=urls(Workflow("other")))
    def choose(ctx: Ctx) -> Go: ...


@refused("E-WIRE-04", "send() runs in each branch of fetch and can't take check, which runs in each branch of check")
def two_fan_outs_at_once(wf: Workflow) -> None:
    fetch = pages(wf)

    @wf.step(after=fetch.after[0], each=True)
    def check(ctx: Ctx, url: Url) -> bool:
        return True

    @wf.step(after=(fetch, check))
    def send(ctx: Ctx, page: Page, good: bool) -> None: ...


@refused("E-WIRE-04", "rank() runs in each branch of fetch but waits for rules, which is outside of it")
def not_surely_complete(wf: Workflow) -> None:
    fetch = pages(wf)

    @wf.step()
    def rules(ctx: Ctx) -> str:
        return ""

    @wf.step(after=(fetch, rules))
    def rank(ctx: Ctx, page: Page, rules: str) -> None: ...


@refused("E-WIRE-05", "fetch() fans out over plan(), which returns Url")
def fan_out_over_one(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx) -> Url:
        return Url("")

    @wf.step(after=plan, each=True)
    def fetch(ctx: Ctx, url: Url) -> None: ...


@refused("E-WIRE-05", "fetch_again() has each=True and 2 predecessors")
def fan_out_over_two(wf: Workflow) -> None:
    fetch = pages(wf)

    @wf.step(after=(fetch, fetch.after[0]), each=True)
    def fetch_again(ctx: Ctx, url: Url, page: Page) -> None: ...


@refused("E-WIRE-05", "each= stands without after=")
def fan_out_over_nothing(wf: Workflow) -> None:
    @wf.step(each=True)
    def fetch(ctx: Ctx, url: Url) -> None: ...


@refused("E-WIRE-05", "which may choose another step and then has no list")
def fan_out_over_a_choice(wf: Workflow) -> None:
    @wf.step(next="deep")
    def plan(ctx: Ctx) -> list[Url] | Go: ...

    @wf.step()
    def deep(ctx: Ctx) -> None: ...

    @wf.step(after=plan, each=True)
    def fetch(ctx: Ctx, url: Url) -> None: ...


@refused("E-WIRE-06", "quick is skipped when another step is chosen")
def alternatives_without_none(wf: Workflow) -> None:
    @wf.step(next=("quick", "deep"))
    def choose(ctx: Ctx, topic: str) -> Go: ...

    @wf.step()
    def quick(ctx: Ctx, topic: str) -> Page: ...

    @wf.step()
    def deep(ctx: Ctx, topic: str) -> Draft: ...

    @wf.step(after=(quick, deep))
    def send(ctx: Ctx, page: Page, draft: Draft | None) -> None: ...


@refused("E-WIRE-06", "choose has no value when it returns Go")
def chooser_without_none(wf: Workflow) -> None:
    @wf.step(next="deep")
    def choose(ctx: Ctx, topic: str) -> Page | Go: ...

    @wf.step()
    def deep(ctx: Ctx) -> None: ...

    @wf.step(after=choose)
    def send(ctx: Ctx, page: Page) -> None: ...


@refused("E-WIRE-07", "deep has after=, so it is started by its predecessors and not by Go")
def target_with_predecessors(wf: Workflow) -> None:
    @wf.step(next="deep")
    def choose(ctx: Ctx) -> Page | Go: ...

    @wf.step(after=choose)
    def deep(ctx: Ctx, page: Page | None) -> None: ...


@refused("E-WIRE-07", "deep is a target of one and of two")
def target_of_two(wf: Workflow) -> None:
    @wf.step(next="deep")
    def one(ctx: Ctx) -> Go: ...

    @wf.step(next="deep")
    def two(ctx: Ctx) -> Go: ...

    @wf.step()
    def deep(ctx: Ctx) -> None: ...


@refused("E-WIRE-07", "choose names itself in next=")
def target_is_itself(wf: Workflow) -> None:
    @wf.step(next="choose")
    def choose(ctx: Ctx) -> Go: ...


@refused("E-WIRE-07", "Go(<function element_of_another_type")
def go_to_a_function(wf: Workflow) -> None:
    Go(element_of_another_type)


@refused("E-WIRE-08", "plan names send in again=, from which no way of after= leads to it")
def again_forward(wf: Workflow) -> None:
    @wf.step(again="send")
    def plan(ctx: Ctx) -> Page | Again: ...

    @wf.step(after=plan)
    def send(ctx: Ctx, page: Page) -> None: ...


@refused("E-WIRE-08", "plan runs once; rank runs once for each branch of fetch")
def again_out_of_the_branch(wf: Workflow) -> None:
    @wf.step(after=pages(wf), again="plan")
    def rank(ctx: Ctx, page: Page) -> int | Again: ...


@refused("E-WIRE-08", "merge names review in again=, and on the way review may choose publish")
def again_over_a_choice_that_leads_away(wf: Workflow) -> None:
    @wf.step(next=("polish", "publish"))
    def review(ctx: Ctx, draft: str) -> str | Go: ...

    @wf.step(on_demand=True)
    def polish(ctx: Ctx, text: str) -> str: ...

    @wf.step(on_demand=True)
    def publish(ctx: Ctx, text: str) -> str: ...

    @wf.step(after=(polish, review), again="review")
    def merge(ctx: Ctx, a: str | None, b: str | None) -> str | Again: ...


@refused("E-WIRE-08", "Again('plan') does not name a step")
def again_by_name(wf: Workflow) -> None:
    Again("plan")


@refused("E-WIRE-09", "merge in spawns= of digest has no join=")
def spawn_without_join(wf: Workflow) -> None:
    @wf.step(on_demand=True)
    def read(ctx: Ctx, url: Url) -> Page: ...

    @wf.step(after=read)
    def merge(ctx: Ctx, page: Page) -> Draft: ...

    @wf.step(spawns=(read, merge))
    def digest(ctx: Ctx) -> Draft | Spawn: ...


@refused("E-WIRE-09", "merge() returns Page but digest(), which spawns for it, returns Draft")
def spawn_of_another_type(wf: Workflow) -> None:
    @wf.step(on_demand=True)
    def read(ctx: Ctx, url: Url) -> Page: ...

    @wf.step(after=read, join="all", on_demand=True)
    def merge(ctx: Ctx, pages: list[Page]) -> Page: ...

    @wf.step(spawns=(read, merge))
    def digest(ctx: Ctx) -> Draft | Spawn: ...


@refused("E-WIRE-09", "read() is spawned by digest and takes url: Url, depth: int")
def spawn_of_two_values(wf: Workflow) -> None:
    @wf.step(on_demand=True)
    def read(ctx: Ctx, url: Url, depth: int) -> Page: ...

    @wf.step(after=read, join="all", on_demand=True)
    def merge(ctx: Ctx, pages: list[Page]) -> Draft: ...

    @wf.step(spawns=(read, merge))
    def digest(ctx: Ctx) -> Draft | Spawn: ...


@refused("E-WIRE-09", "merge in spawns= of digest does not come after read, and after it alone")
def spawn_joined_elsewhere(wf: Workflow) -> None:
    fetch = pages(wf)

    @wf.step(after=fetch, join="all")
    def merge(ctx: Ctx, pages: list[Page]) -> Draft: ...

    @wf.step(on_demand=True)
    def read(ctx: Ctx, url: Url) -> Page: ...

    @wf.step(spawns=(read, merge))
    def digest(ctx: Ctx) -> Draft | Spawn: ...


@refused("E-WIRE-09", "spawns='read' is not a pair")
def spawn_of_one(wf: Workflow) -> None:
    @wf.step(spawns="read")
    def digest(ctx: Ctx) -> Draft | Spawn: ...


@refused("E-WIRE-10", "deep is never started")
def never_started(wf: Workflow) -> None:
    urls(wf)

    @wf.step(on_demand=True)
    def deep(ctx: Ctx) -> None: ...


@refused("E-WIRE-10", "brief has no steps")
def no_steps(wf: Workflow) -> None:
    wf.graph()


@refused("E-WIRE-11", "steps wait for each other: one → two → one")
def circle(wf: Workflow) -> None:
    urls(wf)

    @wf.step(next="two")
    def one(ctx: Ctx) -> Go: ...

    @wf.step(next="one")
    def two(ctx: Ctx) -> Go: ...


@refused("E-WIRE-12", "rank() takes topic: int but plan() takes topic: str")
def one_input_two_types(wf: Workflow) -> None:
    urls(wf)

    @wf.step()
    def rank(ctx: Ctx, topic: int) -> None: ...


@refused("E-WIRE-08", "act names think in again=, from which no way of after= leads to it")
def again_over_a_choice(wf: Workflow) -> None:
    @wf.step(next="act")
    def think(ctx: Ctx, goal: str) -> str | Go: ...

    @wf.step(again="think")
    def act(ctx: Ctx, tool: str) -> str | Again: ...


@refused("E-WIRE-09", "after= of send names merge, which runs only when digest spawns")
def step_behind_a_spawn(wf: Workflow) -> None:
    @wf.step()
    def read(ctx: Ctx, url: Url) -> Page: ...

    @wf.step(after=read, join="all")
    def merge(ctx: Ctx, pages: list[Page]) -> Draft: ...

    @wf.step(spawns=(read, merge))
    def digest(ctx: Ctx) -> Draft | Spawn: ...

    @wf.step(after=merge)
    def send(ctx: Ctx, draft: Draft) -> None: ...


@refused("E-WIRE-09", "count joins what digest spawns, and is not in its spawns=")
def second_join_of_a_spawn(wf: Workflow) -> None:
    @wf.step()
    def read(ctx: Ctx, url: Url) -> Page: ...

    @wf.step(after=read, join="all")
    def merge(ctx: Ctx, pages: list[Page]) -> Draft: ...

    @wf.step(after=read, join="all")
    def count(ctx: Ctx, pages: list[Page]) -> int: ...

    @wf.step(spawns=(read, merge))
    def digest(ctx: Ctx) -> Draft | Spawn: ...


@refused("E-WIRE-09", "read is started by digest and by other")
def child_of_two(wf: Workflow) -> None:
    @wf.step()
    def read(ctx: Ctx, url: Url) -> Page: ...

    @wf.step(after=read, join="all")
    def merge(ctx: Ctx, pages: list[Page]) -> Draft: ...

    @wf.step(spawns=(read, merge))
    def digest(ctx: Ctx) -> Draft | Spawn: ...

    @wf.step(spawns=(read, merge))
    def other(ctx: Ctx) -> Draft | Spawn: ...
