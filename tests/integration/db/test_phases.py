"""Faults inside a transaction: what was never committed is never taken for done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit.engine import Engine
from kit.flows import single

from stanchion.errors import Unavailable
from stanchion.runtime import failpoints


@pytest.fixture
def armed() -> Iterator[None]:
    """The two phases of a lease, which never fire by themselves."""
    rules = "lease.before_commit=100000*raise;lease.mid_commit=100000*raise"
    failpoints.configure("dev", {"STANCHION_FAILPOINTS": rules})
    yield
    failpoints.configure("dev", {})


def test_a_commit_that_nobody_confirmed_is_none(engine: Engine, armed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session ends while its process stands still before the commit: the leases of that call are not given out."""
    engine.submit(single("lost"))
    worker = engine.worker()
    ready = worker.ready()
    hit = failpoints.hit

    def end_the_session(name: str, **context: object) -> None:
        if name == "lease.before_commit":
            engine.admin.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
            )
        hit(name, **context)

    monkeypatch.setattr(failpoints, "hit", end_the_session)
    with pytest.raises(Unavailable):
        worker.leases.lease(ready, 1)
    monkeypatch.undo()
    assert len(worker.leases.lease(ready, 1)) == 1
