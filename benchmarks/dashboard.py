"""`python -m benchmarks.dashboard`: what a page costs when there is a lot: first byte and bytes on the wire, warm.

A real stack runs a fan-out of 10,000 and one of 100,000; the rest (tasks, operations, approvals, audit entries, events of
one run, workers) is put beside it straight into the tables, since only their number matters. `--scale 0.01` is a look.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from stanchion.contracts import ids

from .ours import Ours

RESULTS = Path(".stanchion/bench")
WARM, MEASURED = 3, 20


@dataclass(frozen=True)
class Budget:
    """A page, and what it may take at its size: milliseconds to the first byte (p95), kilobytes on the wire."""

    name: str
    path: str
    first_byte_ms: float
    kilobytes: float


TASKS = """
WITH made AS (
  INSERT INTO stanchion.task (tenant_id, task_id, run_id, workflow, workflow_version, state, payload_digest, input, tags,
    goal, submitted_via, submitted_by, created_at, updated_at, ended_at)
  SELECT %(tenant)s, uuidv7(- n * interval '1 second'), uuidv7(- n * interval '1 second'), 'bench_one', 1,
    s.state, '\\x00', '{}', CASE WHEN n %% 1000 = 0 THEN ARRAY['nightly'] ELSE '{}' END, NULL, 'http', 'key:bench',
    stanchion.clock() - n * interval '1 second', stanchion.clock() - n * interval '1 second',
    CASE WHEN s.state NOT IN ('accepted', 'running') THEN stanchion.clock() - n * interval '1 second' END
  FROM generate_series(1, %(count)s) n,
    LATERAL (SELECT CASE WHEN n %% 50 = 0 THEN 'failed' WHEN n %% 997 = 0 THEN 'running' WHEN n %% 499 = 0 THEN 'accepted'
      ELSE 'completed' END AS state) s
  RETURNING tenant_id, task_id, run_id, state, created_at, ended_at)
INSERT INTO stanchion.run (tenant_id, run_id, task_id, number, workflow, workflow_version, state, open, created_at,
  updated_at, ended_at)
SELECT tenant_id, run_id, task_id, 1, 'bench_one', 1,
  CASE state WHEN 'completed' THEN 'succeeded' WHEN 'failed' THEN 'failed' ELSE 'running' END,
  CASE WHEN ended_at IS NULL THEN 1 ELSE 0 END, created_at, created_at, ended_at FROM made
"""
OPERATIONS = """
INSERT INTO stanchion.operation (tenant_id, operation_id, task_id, run_id, step_id, fence, scope_id, kind, key, state,
  payload, payload_hash, request_key, reach, can_query, sends, created_at, updated_at, dispatched_at, unknown_since,
  confirmed_at)
SELECT %(tenant)s, uuidv7(- n * interval '1 second'), %(task)s, %(run)s, %(step)s, 1, %(task)s, 'mail.send', 'k' || n,
  CASE WHEN n %% 2000 = 0 THEN 'unknown' ELSE 'confirmed' END, '{}', sha256('x'), 'r' || n, 'irreversible', n %% 3 = 0, 1,
  stanchion.clock() - n * interval '1 second', stanchion.clock(), stanchion.clock(),
  CASE WHEN n %% 2000 = 0 THEN stanchion.clock() - n * interval '1 second' END,
  CASE WHEN n %% 2000 <> 0 THEN stanchion.clock() END
FROM generate_series(1, %(count)s) n
"""
APPROVALS = """
INSERT INTO stanchion.approval (tenant_id, approval_id, task_id, run_id, step_id, fence, node, state, question, payload,
  payload_hash, needs, four_eyes, on_timeout, on_rejected, requested_by, expires_at)
SELECT %(tenant)s, uuidv7(- n * interval '1 second'), %(task)s, %(run)s, gen_random_uuid(), 1, 'ask', 'requested',
  'Send number ' || n || '?', '{"n": 1}', sha256('x'), 1, true, 'reject', 'end', 'key:bench',
  stanchion.clock() + n * interval '1 minute'
FROM generate_series(1, %(count)s) n
"""
AUDIT = """
INSERT INTO stanchion.audit (tenant_id, lane, actor, action, target, detail, hash)
SELECT %(tenant)s, 0, 'person:ana', 'task.cancel', 'tsk_' || n, '{}', sha256('x') FROM generate_series(1, %(count)s) n
"""
EVENTS = """
INSERT INTO stanchion.event (tenant_id, run_id, kind, actor, body)
SELECT %(tenant)s, %(run)s, 'StepProgressed', 'bench', '{}' FROM generate_series(1, %(count)s) n
"""
WORKERS = """
INSERT INTO stanchion.worker (worker_id, name, host, pid, queues, workflows, slots, state)
SELECT gen_random_uuid(), 'w-' || n, 'host-' || n %% 50, n, ARRAY['default'], ARRAY['bench_one@1'], 20, 'active'
FROM generate_series(1, %(count)s) n
"""


def main() -> int:
    """Fill, measure, print a line a page, write JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard")
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes; 1: two million tasks and so on")
    args = parser.parse_args()
    with Ours(RESULTS / "stack") as ours:
        places = fill(ours, args.scale)
        rows = [measured(ours.stack.page_url, budget) for budget in budgets(places)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "dashboard.json").write_text(json.dumps({"scale": args.scale, "pages": rows}, indent=2) + "\n")
    return 0


def fill(ours: Ours, scale: float) -> dict[str, str]:
    """Everything that pages show, in numbers; returns the ids of what is looked at."""
    places: dict[str, str] = {}
    for name, children in (("ten", 10_000), ("hundred", 100_000)):
        receipt = ours.kafka.submit("bench_fan", n=max(10, int(children * scale)), timeout=60)
        ours.await_end([ids.parse(receipt.task_id, ids.TASK)])
        places[name] = receipt.task_id
        say(f"a fan-out of {int(children * scale):,}")
    receipt = ours.kafka.submit("bench_one", n=1, timeout=60)
    task = ids.parse(receipt.task_id, ids.TASK)
    ours.await_end([task])
    places["one"] = receipt.task_id
    run = ids.parse(receipt.run_id, ids.RUN)
    step = ours.one("SELECT step_id FROM stanchion.step WHERE run_id = %s LIMIT 1", run)
    places["step"] = ids.public(ids.STEP, step)
    given = {"tenant": ours.tenant, "task": task, "run": run, "step": step}
    with psycopg.connect(ours.stack.endpoints.database_url, autocommit=True) as admin:
        admin.execute("SET session_replication_role = replica")  # only their number matters: no trigger looks at them
        for what, sql, count in (
            ("tasks", TASKS, 2_000_000),
            ("operations", OPERATIONS, 1_000_000),
            ("approvals", APPROVALS, 10_000),
            ("audit entries", AUDIT, 1_000_000),
            ("events of one run", EVENTS, 50_000),
            ("workers", WORKERS, 1_000),
        ):
            began = time.perf_counter()
            admin.execute(sql, given | {"count": max(10, int(count * scale))})  # type: ignore[arg-type]  # our own texts
            say(f"{int(count * scale):,} {what} in {time.perf_counter() - began:.0f} s")
        admin.execute("ANALYZE")
    return places


def budgets(places: dict[str, str]) -> list[Budget]:
    """Every page that has a budget, at its size."""
    ten, hundred, one = places["ten"], places["hundred"], places["one"]
    return [
        Budget("tasks", "/tasks", 80, 30),
        Budget("tasks that failed", "/tasks?state=failed", 80, 30),
        Budget("tasks that run", "/tasks?state=running", 80, 30),
        Budget("task, 10,000 children", f"/tasks/{ten}", 60, 25),
        Budget("task, 100,000 children", f"/tasks/{hundred}", 150, 80),
        Budget("fan-out of 10,000", f"/tasks/{ten}/fan/child", 60, 30),
        Budget("fan-out of 100,000", f"/tasks/{hundred}/fan/child", 150, 80),
        Budget("timeline, 10,000 attempts", f"/tasks/{ten}/timeline", 120, 40),
        Budget("timeline, 100,000 attempts", f"/tasks/{hundred}/timeline", 400, 60),
        Budget("history of 50,000 events", f"/tasks/{one}/history", 60, 40),
        Budget("approvals, 10,000 open", "/approvals", 60, 30),
        Budget("operations, 500 unknown", "/operations", 80, 30),
        Budget("operations, 1,000,000", "/operations?state=all", 80, 30),
        Budget("operations of a rare state", "/operations?state=refused", 300, 30),
        Budget("step", f"/steps/{places['step']}", 60, 25),
    ]


def measured(base: str, budget: Budget) -> dict[str, Any]:
    """One page: asked for some times to warm it, then measured one request after the other."""
    with httpx2.Client(base_url=base, timeout=60.0, headers={"accept-encoding": "gzip"}) as client:
        took = []
        for number in range(WARM + MEASURED):
            began = time.perf_counter()
            with client.stream("GET", budget.path) as answer:
                next(answer.iter_raw())
                seconds = time.perf_counter() - began
                assert answer.status_code == httpx2.codes.OK, answer.status_code
            if number >= WARM:
                took.append(seconds * 1_000)
        size = int(client.get(budget.path).headers["content-length"])
    took.sort()
    p50, p95 = took[len(took) // 2], took[int(len(took) * 0.95) - 1]
    row = {
        "page": budget.name,
        "p50_ms": round(p50, 1),
        "p95_ms": round(p95, 1),
        "of_budget": round(p95 / budget.first_byte_ms, 2),
        "kilobytes": round(size / 1_000, 1),
        "of_size": round(size / 1_000 / budget.kilobytes, 2),
    }
    speed = f"{row['p50_ms']:>8} {row['p95_ms']:>8} ms {row['of_budget']:>6}x"
    say(f"{budget.name:28} {speed} {row['kilobytes']:>8} kB {row['of_size']:>6}x")
    return row


def say(line: str) -> None:
    """Show it at once."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
