"""Lists of many rows: counts and first pages of tasks by a filter, and what stands out in a large fan-out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg

from stanchion.authority.fan_outliers import FanOutliers
from stanchion.authority.task_search import TaskSearch
from stanchion.contracts.filters import parse
from stanchion.db import grants
from stanchion.db.engine import Database, login_url

ROUNDS = 30
PAGE = 50
FILTERS = {
    "first_page": "",
    "failed": "state:failed",
    "open_of_a_workflow": "is:open workflow:flow_0",
    "rare_tag": "tag:rare",
    "frequent_tag": "tag:nightly",
    "failed_of_a_workflow": "state:failed workflow:flow_6",
    "nothing_in_two_indexes": "state:failed workflow:flow_7",
    "rare_state_and_tag": "state:failed tag:rare",
}

# Triggers check transitions, and these rows never made any: they are put there as if they had come long ago.
_TASKS = """
INSERT INTO stanchion.task (tenant_id, task_id, run_id, workflow, workflow_version, state, payload_digest, input, tags,
  submitted_via, submitted_by, created_at, updated_at, ended_at)
SELECT %(tenant)s, uuidv7(-n * interval '1 s'), uuidv7(), 'flow_' || n %% 20, 1, s.state, '', '{"n": 1}',
  CASE WHEN n %% 40000 = 0 THEN '{rare}' WHEN n %% 10 = 0 THEN '{nightly}' ELSE '{}' END::text[], 'http', 'key:bench',
  now() - n * interval '1 s', now() - n * interval '1 s', CASE WHEN s.state <> 'running' THEN now() END
FROM generate_series(%(first)s::int, %(last)s::int) n,
  LATERAL (SELECT CASE WHEN n %% 200 = 0 THEN 'running' WHEN n %% 25 = 1 THEN 'failed' ELSE 'completed' END AS state) s
"""
_FAN = """
INSERT INTO stanchion.step (tenant_id, step_id, run_id, fan_id, idx, kind, state, node, queue, workflow, workflow_version)
SELECT %(tenant)s, CASE WHEN n < 0 THEN %(fan)s::uuid ELSE uuidv7() END, %(run)s, CASE WHEN n >= 0 THEN %(fan)s::uuid END,
  greatest(n, 0), CASE WHEN n < 0 THEN 'fan' ELSE 'step' END,
  CASE WHEN n < 0 THEN 'succeeded' WHEN n %% 50 = 0 THEN 'failed' WHEN n %% 7 = 0 THEN 'ready' ELSE 'succeeded' END,
  'visit', 'default', 'bench', 1
FROM generate_series(-1, %(last)s::int) n
"""
_ATTEMPTS = """
INSERT INTO stanchion.attempt (tenant_id, step_id, run_id, worker_id, fence, number, state, lease_until, granted_at,
  started_at, ended_at, error)
SELECT s.tenant_id, s.step_id, s.run_id, %(worker)s, 1, 1, s.state, now(), now(), now(),
  now() + (100 + s.idx %% 97) * interval '1 ms', CASE s.state WHEN 'failed' THEN '{"code": "E-STEP-27"}'::jsonb END
FROM stanchion.step s WHERE s.fan_id = %(fan)s AND s.state IN ('succeeded', 'failed')
"""


def tasks(admin_url: str, count: int) -> dict[str, Any]:
    """The 95th percentile in ms of counts and pages over `count` tasks, and how it grew from a hundredth of them."""
    with psycopg.connect(admin_url, autocommit=True) as admin, _database(admin_url) as database:
        tenant = _tenant(admin, f"bench-{time.time_ns()}")
        _seed(admin, tenant, 1, count // 100)
        small = _measured(database, tenant)
        _seed(admin, tenant, count // 100 + 1, count)
        large = _measured(database, tenant)
    return {"tasks": count, "p95_ms": large, "against_a_hundredth": {n: round(large[n] / small[n], 2) for n in large}}


def fan_out(admin_url: str, children: int) -> dict[str, Any]:
    """The 95th percentile in ms of what stands out in a fan-out, and how it grew from a tenth of it."""
    with psycopg.connect(admin_url, autocommit=True) as admin, _database(admin_url) as database:
        tenant = _tenant(admin, f"bench-{time.time_ns()}")
        view = FanOutliers(database)
        found = {}
        for size in (children // 10, children):
            fan = _fan(admin, tenant, size)
            found[size] = {"outliers": _p95(lambda fan=fan: view.of(tenant, fan, "visit"))}
    small, large = found.values()
    return {"children": children, "p95_ms": large, "against_a_tenth": {n: round(large[n] / small[n], 2) for n in large}}


def _measured(database: Database, tenant: UUID) -> dict[str, float]:
    search = TaskSearch(database)
    pages = {
        name: _p95(lambda text=text: search.page(tenant, parse(text), limit=PAGE)) for name, text in FILTERS.items()
    }
    return {"counts": _p95(lambda: search.counts(tenant))} | pages


def _p95(call: Callable[[], Any]) -> float:
    call()
    spent = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        spent.append((time.perf_counter() - began) * 1e3)
    return round(statistics.quantiles(spent, n=20)[18], 2)


def _database(admin_url: str) -> Any:
    from contextlib import closing

    return closing(Database(login_url(admin_url, grants.DASHBOARD), name="bench"))


def _tenant(admin: psycopg.Connection[Any], name: str) -> UUID:
    row = admin.execute("SELECT stanchion.create_tenant(%s)", (name,)).fetchone()
    assert row is not None
    found: UUID = row[0]
    return found


def _seed(admin: psycopg.Connection[Any], tenant: UUID, first: int, last: int) -> None:
    admin.execute("SET session_replication_role = replica")
    for begin in range(first, last + 1, 100_000):
        parameters = {"tenant": tenant, "first": begin, "last": min(begin + 99_999, last)}
        admin.execute(_TASKS, parameters)
    admin.execute("SET session_replication_role = origin")
    admin.execute("VACUUM ANALYZE stanchion.task")


def _fan(admin: psycopg.Connection[Any], tenant: UUID, children: int) -> UUID:
    from stanchion.contracts.ids import new_id

    parameters = {"tenant": tenant, "fan": new_id(), "run": new_id(), "worker": new_id(), "last": children - 1}
    admin.execute("SET session_replication_role = replica")
    admin.execute(_FAN, parameters)
    admin.execute(_ATTEMPTS, parameters)
    admin.execute("SET session_replication_role = origin")
    admin.execute("VACUUM ANALYZE stanchion.step, stanchion.attempt")
    return parameters["fan"]
