"""`stanchion step show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from stanchion.cli.amounts import age, between, duration
from stanchion.cli.api import LAST, Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Printer
from stanchion.cli.session import Session
from stanchion.contracts import ids
from stanchion.contracts.failures import told

_SHOWN = 400


@verb(
    "show",
    examples=["stanchion step show stp_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", "stanchion step show 01JX4Q2R --task @last --json"],
    see_also=["stanchion task steps", "stanchion why"],
)
@click.argument("step")
@click.option("--task", default=LAST, help="Where a shortened id is looked up; default @last.")
def show(session: Session, step: str, task: str) -> None:
    """Show a step: its attempts with fences and workers, what was refused, what it waits for, input and result."""
    api = Api(session)

    def steps() -> Iterator[Mapping[str, Any]]:
        cursor, task_id = None, api.task_id(task)
        while True:
            page = api.client.steps(task_id, limit=1_000, cursor=cursor)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    found = api.client.step(api.find(step, ids.STEP, steps, "step_id"))
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found), ident="step_id")


def _lines(printer: Printer, step: Mapping[str, Any]) -> Iterator[str]:
    name = step["node"] + (f"[{step['index']}]" if step.get("fan_id") else "")
    yield f"{printer.bold(name)} {step['step_id']}  {printer.state(step['state'])}"
    attempts = f"attempts {step['attempts']} of {step['max_attempts']}"
    yield f"  task {step['task_id']}, queue {step['queue']}, fence {step['fence']}, {attempts}"
    for attempt in step.get("attempt_list", ()):
        took = between(attempt["granted_at"], attempt.get("ended_at"))
        facts = [
            f"fence {attempt['fence']}",
            printer.state(attempt["state"]),
            f"by {attempt.get('worker') or attempt['worker_id']}",
            duration(took) if took is not None else f"since {age(attempt['granted_at'])}",
        ]
        yield "  " + ", ".join(facts)
        error = attempt.get("error")
        if isinstance(error, Mapping):
            yield f"    {told(error)}"
    for refused in step.get("refused_writes", ()):
        fences = f"fence {refused['fence']}, the current one is {refused['current_fence']}"
        yield f"  refused: {refused['attempted']} with {fences}: {refused['why']}"
    for barrier in step.get("waits_for", ()):
        yield f"  join {barrier['barrier_id']} {barrier['rule']} {printer.state(barrier['state'])}"
    for payload in ("input", "result"):
        if step.get(payload) is not None:
            text = json.dumps(step[payload], ensure_ascii=False)
            yield f"  {payload}: {text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…'}"
        elif step.get(f"{payload}_is_large"):
            yield f"  {payload}: large; --json has it where it is small enough"
