"""Definitions that are refused for how they join the children of a fan-out."""

import math

from refusal_kit import CASES, Draft, Page, Url, pages, refused, urls

from stanchion.workflow import All, AtLeast, Ctx, First, Go, Results, Workflow


@refused("E-JOIN-01", "join='al' is no join rule; did you mean 'all'?")
def unknown_rule(wf: Workflow) -> None:
    @wf.step(after=pages(wf), join="al")
    def draft(ctx: Ctx, pages: Results[Page]) -> None: ...


@refused("E-JOIN-01", "join=First is no join rule")
def rule_class(wf: Workflow) -> None:
    @wf.step(after=pages(wf), join=First)
    def draft(ctx: Ctx, pages: Results[Page]) -> None: ...


for bad in (0, -1, 0.0, 1.5, math.nan, True, "3"):
    CASES.append(("E-JOIN-01", f"AtLeast({bad!r}) is n", lambda wf, bad=bad: AtLeast(bad)))
CASES.append(("E-JOIN-01", "on_failed='ignore' is not one of", lambda wf: All(on_failed="ignore")))
CASES.append(("E-JOIN-01", "rest='kill' is not one of", lambda wf: First(rest="kill")))


@refused("E-JOIN-02", "takes list[Page]; up to 100 of 10,000 may be missing")
def partial_join_of_a_list(wf: Workflow) -> None:
    @wf.step(after=pages(wf), join=AtLeast(0.99))
    def draft(ctx: Ctx, pages: list[Page]) -> None: ...


@refused("E-JOIN-02", 'draft() joins fetch with on_failed="collect" but takes list[Page]')
def collected_join_of_a_list(wf: Workflow) -> None:
    @wf.step(after=pages(wf), join=All(on_failed="collect"))
    def draft(ctx: Ctx, pages: list[Page]) -> None: ...


@refused("E-JOIN-02", "draft() joins fetch with First() but takes list[Page]")
def first_of_a_list(wf: Workflow) -> None:
    @wf.step(after=pages(wf), join="first")
    def draft(ctx: Ctx, pages: list[Page]) -> None: ...


@refused("E-JOIN-02", "draft() joins fetch but takes page: Page, one value")
def join_of_one_value(wf: Workflow) -> None:
    @wf.step(after=pages(wf), join="all")
    def draft(ctx: Ctx, page: Page) -> None: ...


@refused("E-JOIN-02", "branches that chose another step are missing")
def join_behind_a_choice(wf: Workflow) -> None:
    @wf.step(after=pages(wf), next=("deep", "quick"))
    def choose(ctx: Ctx, page: Page) -> Go: ...

    @wf.step()
    def deep(ctx: Ctx) -> Draft: ...

    @wf.step()
    def quick(ctx: Ctx) -> Draft: ...

    @wf.step(after=deep, join="all")
    def merge(ctx: Ctx, drafts: list[Draft]) -> None: ...


@refused("E-JOIN-03", "none of its predecessors is inside a fan-out")
def join_of_nothing(wf: Workflow) -> None:
    @wf.step(after=urls(wf), join="all")
    def draft(ctx: Ctx, urls: Results[list[Url]]) -> None: ...


@refused("E-JOIN-03", "draft() would join fetch and rank at once")
def join_of_two(wf: Workflow) -> None:
    fetch = pages(wf)

    @wf.step(after=fetch)
    def rank(ctx: Ctx, page: Page) -> int: ...

    @wf.step(after=(fetch, rank), join="all")
    def draft(ctx: Ctx, pages: Results[Page], ranks: Results[int]) -> None: ...


@refused("E-JOIN-04", "each=True and join= stand in one step")
def join_and_each(wf: Workflow) -> None:
    @wf.step(after=pages(wf), join="all", each=True)
    def draft(ctx: Ctx, pages: Results[Page]) -> None: ...


@refused("E-JOIN-06", "patient() holds for failed children of fetch, and strict() fails with the first of them")
def hold_beside_all_that_fail(wf: Workflow) -> None:
    fetch = pages(wf)

    @wf.step(after=fetch, join=All(on_failed="hold"))
    def patient(ctx: Ctx, pages: Results[Page]) -> None: ...

    @wf.step(after=fetch, join="all")
    def strict(ctx: Ctx, pages: list[Page]) -> None: ...


@refused("E-JOIN-05", "draft() takes pages: Results[Page] but joins nothing there")
def results_without_join(wf: Workflow) -> None:
    @wf.step(after=pages(wf))
    def draft(ctx: Ctx, pages: Results[Page]) -> None: ...
