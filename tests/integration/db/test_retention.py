"""Retention: payloads before history, months of events as a whole, and never anything of what still lives."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kit.engine import Engine
from kit.flows import fan, single

from stanchion.authority.retention import Retention
from stanchion.authority.submission import Answer
from stanchion.db.engine import Database
from stanchion.db.grants import MAINTENANCE
from stanchion.errors import Conflict
from stanchion.workflow import All, Ctx, Workflow

DAY = timedelta(days=1)
YEAR = timedelta(days=365)


@pytest.fixture
def retention(db: Callable[[str], Database]) -> Retention:
    """Under the maintenance worker's login."""
    return Retention(db(MAINTENANCE))


def finished(engine: Engine, name: str) -> Answer:
    """A task with a fan-out that ended, and one stale write on record."""
    task = engine.submit(fan(name, "all", ["a", "b"]), idempotency_key=name)
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("visit")))
    lease = worker.take("visit", limit=1)[0]
    worker.finish(lease._replace(fence=99), "A")
    worker.finish(lease, "A")
    worker.work()
    return task


def counts(engine: Engine, *tables: str) -> dict[str, int]:
    """Rows by table."""
    return {t: engine.one(f"SELECT count(*) FROM stanchion.{t}")[0] for t in tables}


def months(engine: Engine) -> list[str]:
    """The partitions of events."""
    return engine.all(
        "SELECT relname::text FROM pg_inherits JOIN pg_class ON oid = inhrelid"
        " WHERE inhparent = 'stanchion.event'::regclass AND relname <> 'event_default' ORDER BY 1"
    )


class TestPartitions:
    """Events stand in months, which are made ahead and dropped as a whole."""

    def test_they_exist_before_their_month_begins(self, engine: Engine, retention: Retention) -> None:
        """This month and two more from the start; asking again makes none, time makes new ones."""
        assert len(months(engine)) == 3
        assert retention.make_partitions() == []
        (days,) = engine.one(
            "SELECT extract(day FROM date_trunc('month', now()) + interval '2 months 14 days' - now())"
        )
        engine.forward(float(days) * 86_400)
        assert len(retention.make_partitions()) == 2
        assert len(months(engine)) == 5

    def test_an_event_goes_into_its_month(self, engine: Engine, retention: Retention) -> None:
        """Not into the default one."""
        engine.submit(single("month"))
        assert engine.all("SELECT DISTINCT tableoid::regclass::text ~ 'event_2' FROM stanchion.event") == [True]

    def test_a_new_one_is_guarded_as_the_table(self, engine: Engine, retention: Retention) -> None:
        """Forced row-level security, the owner's, and no TRUNCATE."""
        engine.forward(200 * 86_400)
        (name, *_) = retention.make_partitions()
        found = engine.one(
            "SELECT relrowsecurity, relforcerowsecurity, relowner::regrole::text,"
            " (SELECT count(*) FROM pg_trigger WHERE tgrelid = c.oid AND tgname = 'never_truncated')"
            " FROM pg_class c WHERE relname = %s",
            name,
        )
        assert found == (True, True, "stanchion_owner", 1)

    def test_a_month_without_one_is_written_to_the_default(self, engine: Engine, retention: Retention) -> None:
        """Nobody made partitions for a year: nothing fails, and the month that is there already stays there."""
        engine.forward(400 * 86_400)
        engine.submit(single("default"))
        assert engine.all("SELECT DISTINCT tableoid::regclass::text ~ 'default' FROM stanchion.event") == [True]
        assert len(retention.make_partitions()) == 2, "the next months get theirs"

    def test_an_old_month_is_dropped_when_its_runs_are_gone(self, engine: Engine, retention: Retention) -> None:
        """Not before: a run that stands has its events, however old."""
        finished(engine, "old")
        engine.forward(200 * 86_400)
        before = months(engine)
        assert retention.drop_partitions(90 * DAY) == before[1:], "the first month has events of a run that stands"
        retention.remove_payloads(90 * DAY)
        retention.remove_history(90 * DAY)
        assert retention.drop_partitions(90 * DAY) == before[:1]
        assert engine.all("SELECT count(*) FROM stanchion.event WHERE kind <> 'PayloadRemoved'") == [0]

    def test_a_live_run_keeps_its_month(self, engine: Engine, retention: Retention) -> None:
        """A run that has gone on for a year loses nothing."""
        engine.submit(single("live"))
        before = counts(engine, "event", "task", "run", "step")
        engine.forward(400 * 86_400)
        assert retention.remove_payloads(DAY) == 0
        assert retention.remove_history(DAY) == 0
        retention.drop_partitions(DAY)
        assert counts(engine, "event", "task", "run", "step") == before

    def test_events_of_the_default_one_go_by_row(self, engine: Engine, retention: Retention) -> None:
        """Once their run is gone."""
        engine.forward(400 * 86_400)
        finished(engine, "by_row")
        engine.forward(900 * 86_400)
        assert "event_default" not in retention.drop_partitions(90 * DAY)
        retention.remove_payloads(90 * DAY)
        retention.remove_history(90 * DAY)
        assert "event_default" in retention.drop_partitions(90 * DAY)


class TestPayloads:
    """Inputs and results go first; what happened stays."""

    def test_are_removed_from_ended_tasks_only(self, engine: Engine, retention: Retention) -> None:
        """Old and ended: gone. Old and live, or ended and young: kept, byte by byte."""
        old = finished(engine, "ended")
        live = engine.submit(fan("lives", All(on_failed="hold"), ["a"]), idempotency_key="l")
        engine.worker().work(until=lambda: engine.states(live, "visit") == {"ready": 1})
        engine.forward(40 * 86_400)
        young = finished(engine, "young")
        kept = "SELECT count(*) FROM stanchion.step WHERE run_id = %s AND input IS NOT NULL"
        before = engine.one(kept, live.run_id), engine.one(kept, young.run_id)
        assert retention.remove_payloads(30 * DAY) == 1
        assert retention.remove_payloads(30 * DAY) == 0
        assert engine.one(kept, old.run_id) == (0,)
        assert (engine.one(kept, live.run_id), engine.one(kept, young.run_id)) == before
        results = dict(
            engine.all(
                "SELECT s.run_id, count(*) FROM stanchion.result JOIN stanchion.step s USING (step_id) GROUP BY 1"
            )
        )
        assert old.run_id not in results
        assert live.run_id in results
        assert young.run_id in results
        assert engine.states(old) == {"succeeded": 4}
        assert counts(engine, "refused_write") == {"refused_write": 2}

    def test_a_task_without_its_payload_is_not_retried(self, engine: Engine, retention: Retention) -> None:
        """The refusal says why, and to submit it anew."""
        task = engine.submit(fan("fails", "all", ["bad"]))
        engine.worker().work()
        engine.forward(40 * 86_400)
        retention.remove_payloads(30 * DAY)
        with pytest.raises(Conflict) as refused:
            engine.service.call(
                "retry",
                "SELECT stanchion.retry_task(%s, %s, gen_random_uuid(), 1, '[]', NULL, NULL, 'ann')",
                (engine.tenant, task.task_id),
            )
        assert refused.value.code == "E-TASK-08"

    def test_blobs_go_with_the_last_row_that_names_them(self, engine: Engine, retention: Retention) -> None:
        """A value that two tasks share stays until both are gone; one that was stored just now stays a day."""
        wf = Workflow("blobs")

        @wf.step()
        def only(ctx: Ctx, text: str) -> str:
            return text

        large = {"text": "x" * 70_000}
        engine.submit(wf, input=large)
        engine.worker().work()
        engine.forward(20 * 86_400)
        engine.submit(wf, input=large)
        engine.worker().work()
        assert counts(engine, "blob") == {"blob": 2}  # the input, and the text alone as the result
        engine.forward(15 * 86_400)
        assert retention.remove_payloads(30 * DAY) == 1
        assert counts(engine, "blob") == {"blob": 2}
        engine.forward(20 * 86_400)
        assert retention.remove_payloads(30 * DAY) == 1
        assert counts(engine, "blob") == {"blob": 0}

    def test_values_that_were_never_named_go_after_a_day(self, engine: Engine, retention: Retention) -> None:
        """A worker died between storing and handing in."""
        from stanchion.authority import blobs

        _, sha256, packed, size = blobs.pack("y" * 70_000, "test")
        assert sha256 is not None
        assert packed is not None
        blobs.put(engine.worker_database, [(engine.tenant, sha256, size, packed)])
        assert retention.remove_orphans() == 0
        engine.forward(2 * 86_400)
        blobs.put(engine.worker_database, [(engine.tenant, sha256, size, packed)])
        assert retention.remove_orphans() == 0, "it was stored again, so it is about to be named"
        engine.forward(2 * 86_400)
        assert retention.remove_orphans() == 1


class TestHistory:
    """Ended tasks go as a whole, after their payload."""

    def test_is_removed_after_the_payload(self, engine: Engine, retention: Retention) -> None:
        """Nothing of the task is left in any table; its key is free again, and nothing of another task is touched."""
        finished(engine, "one")
        engine.forward(100 * 86_400)
        other = finished(engine, "two")
        tables = [
            "task",
            "run",
            "step",
            "attempt",
            "barrier",
            "barrier_slot",
            "barrier_release",
            "refused_write",
            "timer",
            "result",
        ]
        assert retention.remove_history(90 * DAY) == 0, "its payload is still there"
        retention.remove_payloads(30 * DAY)
        assert retention.remove_history(90 * DAY) == 1
        assert retention.remove_history(90 * DAY) == 0
        left = counts(engine, *tables)
        assert left["task"] == left["run"] == 1
        assert engine.states(other) == {"succeeded": 4}
        assert set(engine.all("SELECT DISTINCT run_id FROM stanchion.step")) == {other.run_id}
        assert set(engine.all("SELECT DISTINCT run_id FROM stanchion.refused_write")) == {other.run_id}
        assert engine.one(
            "SELECT count(*) FROM stanchion.barrier_release r WHERE NOT EXISTS (SELECT FROM stanchion.barrier b WHERE b.barrier_id = r.barrier_id)"
        ) == (0,)
        again = engine.submit(fan("one", "all", ["a", "b"]), idempotency_key="one")
        assert again.outcome == "created"

    def test_a_task_that_is_retried_keeps_everything(self, engine: Engine, retention: Retention) -> None:
        """It is live again."""
        task = engine.submit(single("again", retries=0))
        worker = engine.worker()
        worker.fail(*worker.take())
        engine.sweep()
        engine.forward(100 * 86_400)
        engine.admin.execute(
            "SELECT stanchion.retry_task(%s, %s, gen_random_uuid(), 1, '[]', NULL, NULL, 'ann')",
            (engine.tenant, task.task_id),
        )
        assert retention.remove_payloads(DAY) == 0
        assert retention.remove_history(DAY) == 0

    def test_applied_messages_are_forgotten(self, engine: Engine, retention: Retention) -> None:
        """After a time in which every broker has forgotten them too."""
        engine.submit(single("message"), message_id="m-1")
        assert retention.trim_inbox() == 0
        engine.forward(31 * 86_400)
        assert retention.trim_inbox() == 1


def test_the_engine_can_not_remove_what_only_grows(engine: Engine) -> None:
    """Retention's rights are the owner's: no function of the engine may delete events, releases or refusals."""
    finished(engine, "rights")
    found: list[Any] = engine.all(
        "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'stanchion'::regnamespace AND c.relkind IN ('r', 'p')"
        " AND has_table_privilege('stanchion_engine', c.oid, 'DELETE') AND c.relname ~ '^(event|barrier_release|refused_write|audit|workflow)'"
    )
    assert found == []
