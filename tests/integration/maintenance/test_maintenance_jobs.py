"""Jobs are derived from PostgreSQL and done once, whatever becomes of the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
import redis
from maintenance_kit import Hand, keys_without_end, rows, together

from services.workers.maintenance.performer import Part
from stanchion.authority.maintenance import NOBODY, Due, Job, Maintenance, Redrive
from stanchion.errors import InvariantViolated, NotFound, Unavailable, Unprocessable

Admin = psycopg.Connection[tuple[Any, ...]]


def later(admin: Admin, seconds: int) -> None:
    """Move what is stored into the past."""
    moved = ", ".join(f"{name} = {name} - %(s)s * interval '1 s'" for name in ("due_at", "lease_until", "finished_at"))
    admin.execute(f"UPDATE stanchion.maintenance_job SET {moved}", {"s": seconds})


class TestDeriving:
    """What is due follows from the database and its clock."""

    def test_a_periodic_job_is_one_row_a_period(self, hand: Hand, admin: Admin) -> None:
        """Looking again adds nothing; the key is the start of the period."""
        for _ in range(3):
            hand.planner.run_once()
        (job,) = rows(admin)
        assert (job["kind"], job["state"], job["tenant_id"]) == ("test", "due", NOBODY)
        assert job["key"].endswith("00:00Z")

    def test_ten_planners_at_once_queue_it_once(self, make_hand: Callable[..., Hand], admin: Admin) -> None:
        """One row and one entry, and it is done once."""
        hands = [make_hand(f"hand-{n}") for n in range(10)]
        together(10, lambda n: hands[n].planner.run_once() and None)
        assert len(rows(admin)) == 1
        assert sum(queue.count for queue in (hands[0].planner.requested, hands[0].planner.periodic)) == 1
        assert sum(hand.drain() for hand in hands) == 1
        assert sum(len(hand.calls) for hand in hands) == 1

    def test_kinds_do_not_stand_in_for_each_other(self, hand: Hand, admin: Admin) -> None:
        """Two kinds with one period are two jobs."""
        hand.works["other"] = hand.noted(lambda _job: Part())
        hand.periods["other"] = 3_600
        hand.planner.run_once()
        hand.drain()
        assert sorted(job.kind for job in hand.calls) == ["other", "test"]
        assert {row["state"] for row in rows(admin)} == {"done"}

    def test_after_a_long_silence_a_job_runs_once(self, hand: Hand, admin: Admin) -> None:
        """A day without workers is one run, not 24; the period that is open is done first."""
        hand.planner.run_once()
        admin.execute("UPDATE stanchion.maintenance_job SET key = '2020-01-01T00:00:00Z', due_at = '2020-01-01Z'")
        hand.planner.run_once()
        assert len(rows(admin)) == 1
        hand.drain()
        hand.planner.run_once()
        hand.drain()
        assert [row["state"] for row in rows(admin)] == ["done", "done"]
        assert len(hand.calls) == 2

    def test_nothing_due_changes_nothing(self, hand: Hand, admin: Admin) -> None:
        """An idle look writes nothing to the database."""
        hand.planner.run_once()
        hand.drain()
        before = admin.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        for _ in range(20):
            hand.planner.run_once()
        assert hand.take() is False
        after = admin.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        assert admin.execute("SELECT %s::pg_lsn - %s::pg_lsn < 4096", (after[0], before[0])).fetchone() == (True,)  # type: ignore[index]


class TestLosing:
    """Redis holds nothing that can't be derived again."""

    def test_an_emptied_redis_loses_nothing(self, hand: Hand, client: redis.Redis, admin: Admin) -> None:
        """Entries that were queued come back with the next look."""
        for n in range(50):
            hand.periods[f"kind-{n}"] = 3_600
            hand.works[f"kind-{n}"] = hand.noted(lambda _job: Part())
        hand.planner.run_once()
        for _ in range(10):
            hand.take()
        client.flushall()
        hand.planner.run_once()
        hand.drain()
        assert {row["state"] for row in rows(admin)} == {"done"}
        assert len(hand.calls) == len({job.kind for job in hand.calls}) == 51

    def test_redis_emptied_in_the_middle_of_a_job(self, hand: Hand, client: redis.Redis, admin: Admin) -> None:
        """The job ends as if nothing had happened, and is not done again."""
        hand.works["test"] = hand.noted(lambda _job: (client.flushall() and Part({"did": 2})) or Part())
        hand.planner.run_once()
        hand.drain()
        hand.planner.run_once()
        hand.drain()
        (row,) = rows(admin)
        assert (row["state"], row["result"]) == ("done", {"did": 2})
        assert len(hand.calls) == 1
        assert keys_without_end(client) == []

    def test_an_entry_that_nobody_takes_is_offered_again(self, hand: Hand, client: redis.Redis, admin: Admin) -> None:
        """A stuck or forged key of the same name does not block a job: after a minute another entry is added."""
        (due,) = hand.maintenance.due(hand.periods)
        client.hset(f"rq:job:{due.entry}", mapping={"status": "queued", "data": b"rubbish"})
        hand.planner.run_once()
        assert hand.take() is False
        later(admin, 90)
        (again,) = hand.maintenance.due(hand.periods)
        assert (again.fence, again.entry != due.entry) == (due.fence, True)
        hand.planner.run_once()
        hand.drain()
        assert rows(admin)[0]["state"] == "done"

    def test_an_entry_that_comes_twice_is_done_once(self, hand: Hand, admin: Admin) -> None:
        """The second one's fence is old."""
        (due,) = hand.maintenance.due(hand.periods)
        arguments = (due.kind, due.key, str(due.tenant_id), due.fence)
        assert hand.performer.perform(*arguments) == {"outcome": "done"}
        assert hand.performer.perform(*arguments) == {"outcome": "taken"}
        assert len(hand.calls) == 1
        assert rows(admin)[0]["fence"] == 1

    def test_an_entry_of_another_release_is_left_to_its_own(self, hand: Hand, admin: Admin) -> None:
        """An unknown kind is not claimed."""
        hand.periods["newer"] = 3_600
        hand.planner.run_once()
        hand.drain()
        assert [row["fence"] for row in rows(admin, "newer")] == [0]


class TestClaims:
    """Who works on a job holds its fence."""

    def test_twenty_at_once_claim_it_once(self, hand: Hand) -> None:
        """One gets it."""
        (due,) = hand.maintenance.due(hand.periods)
        got: list[Job | None] = []
        together(20, lambda _n: got.append(hand.maintenance.claim(*due[:4], 60_000)))
        assert len([job for job in got if job]) == 1

    def test_a_silent_worker_is_replaced_and_changes_nothing_any_more(
        self, make_hand: Callable[..., Hand], admin: Admin
    ) -> None:
        """After its lease another one has the job; its own keep and finish are refused."""
        one, two = make_hand("one"), make_hand("two")
        (due,) = one.maintenance.due(one.periods)
        stale = one.maintenance.claim(*due[:4], 60_000)
        assert stale
        assert two.maintenance.due(two.periods) == []
        later(admin, 120)
        (again,) = two.maintenance.due(two.periods)
        fresh = two.maintenance.claim(*again[:4], 60_000)
        assert fresh
        assert fresh.fence == stale.fence + 1
        assert one.maintenance.keep(stale, {"stale": True}, 60_000) is False
        assert one.maintenance.finish(stale, "done", {"stale": True}) is None
        assert two.maintenance.finish(fresh, "done", {"fresh": True}) == "done"
        (row,) = rows(admin)
        assert (row["state"], row["result"], row["worker"]) == ("done", {"fresh": True}, "two")

    def test_an_expired_lease_that_nobody_took_is_still_good(self, hand: Hand, admin: Admin) -> None:
        """The fence is the law, not the clock."""
        (due,) = hand.maintenance.due(hand.periods)
        job = hand.maintenance.claim(*due[:4], 60_000)
        later(admin, 120)
        assert job
        assert hand.maintenance.finish(job, "done", {}) == "done"

    def test_a_job_that_keeps_killing_its_workers_is_given_up(self, hand: Hand, admin: Admin) -> None:
        """It ends failed, with a reason, and the next period is derived as ever."""
        for _ in range(5):
            (due,) = hand.maintenance.due(hand.periods)
            assert hand.maintenance.claim(*due[:4], 60_000)
            later(admin, 120)
        hand.maintenance.due(hand.periods)
        assert rows(admin)[0]["state"] == "failed"
        assert rows(admin)[0]["result"]["error"]["code"] == "E-MAINT-03"

    def test_a_long_job_goes_on_from_where_it_was(self, make_hand: Callable[..., Hand], admin: Admin) -> None:
        """What a part recorded is what the next one sees, also on another worker."""
        one, two = make_hand("one"), make_hand("two")

        def count(job: Job) -> Part:
            done = int(job.result.get("done", 0)) + 1
            return Part({"done": done}, more=done < 5)

        one.works["test"], two.works["test"] = one.noted(count), two.noted(count)
        one.performer.quiesce()  # it stops after one part
        one.planner.run_once()
        one.drain()
        assert rows(admin)[0]["state"] == "due"
        two.planner.run_once()
        two.drain()
        assert [job.result.get("done", 0) for job in one.calls + two.calls] == [0, 1, 2, 3, 4]
        assert (rows(admin)[0]["state"], rows(admin)[0]["result"]) == ("done", {"done": 5})


class TestFailing:
    """A failure is on record, is tried again, and fills nothing."""

    def test_a_failure_is_tried_again_and_given_up_at_last(self, hand: Hand, admin: Admin) -> None:
        """Five times, a minute apart; the row has the reason without secrets."""

        def fail(_job: Job) -> Part:
            raise RuntimeError("no way to postgresql://me:hunter2@db/x")

        hand.works["test"] = hand.noted(fail)
        for n in range(1, 6):
            hand.planner.run_once()
            hand.drain()
            assert len(hand.calls) == n
            hand.planner.run_once()
            assert hand.drain() == 0
            later(admin, 61)
        (row,) = rows(admin)
        assert row["state"] == "failed"
        assert row["result"]["error"]["code"] == "E-BUG-01"
        assert "hunter2" not in str(row["result"])

    def test_something_that_is_away_is_no_failure(self, hand: Hand, admin: Admin) -> None:
        """The job goes on later and no try is spent."""

        def away(_job: Job) -> Part:
            raise Unavailable("E-NET-01", "the broker is away")

        hand.works["test"] = away
        hand.planner.run_once()
        hand.drain()
        assert (rows(admin)[0]["state"], rows(admin)[0]["tries"]) == ("due", 0)

    def test_long_tracebacks_do_not_fill_redis(self, hand: Hand, client: redis.Redis) -> None:
        """40 jobs that fail with 200 KB of text leave some KB each, and all of it ends by itself."""

        def fail(_job: Job) -> Part:
            raise RuntimeError("x" * 200_000)

        for n in range(40):
            hand.periods[f"kind-{n}"] = 3_600
            hand.works[f"kind-{n}"] = fail
        before = client.info("memory")["used_memory"]
        hand.planner.run_once()
        assert hand.drain() == 41
        assert client.info("memory")["used_memory"] - before < 40 * 10_000
        assert keys_without_end(client) == []


class TestRequests:
    """What somebody asks for."""

    @pytest.fixture
    def asked(self, db: Callable[..., Any]) -> Maintenance:
        """The jobs, under the task service's login."""
        return Maintenance(db("stanchion_task_service"))

    def test_a_request_is_one_job_of_its_tenant(
        self, asked: Maintenance, hand: Hand, tenant: UUID, admin: Admin
    ) -> None:
        """Asking again is the same job; another tenant can't see it; the act is in the audit log."""
        assert asked.request_redrive(tenant, "r-1", Redrive(code="E-MSG-01"), actor="key:ops") is True
        assert asked.request_redrive(tenant, "r-1", Redrive(), actor="key:ops") is False
        report = asked.redrive(tenant, "r-1")
        assert (report.state, report.request["code"], report.request["rate"]) == ("due", "E-MSG-01", 50)
        with pytest.raises(NotFound):
            asked.redrive(UUID(int=7), "r-1")
        assert [d for d in hand.maintenance.due({}) if d.tenant_id == tenant] == [Due("redrive", "r-1", tenant, 0, 0)]
        found = admin.execute("SELECT actor, action, target FROM stanchion.audit WHERE lane = 0").fetchall()
        assert found == [("key:ops", "maintenance.redrive", "r-1")]

    @pytest.mark.parametrize("rate", [0, -1, 1_001])
    def test_a_rate_out_of_bounds_is_refused(self, asked: Maintenance, tenant: UUID, rate: int) -> None:
        """With the bounds in the error."""
        with pytest.raises(Unprocessable, match="1 to 1,000"):
            asked.request_redrive(tenant, "r-1", Redrive(rate=rate), actor="x")

    def test_requests_come_before_what_comes_by_itself(self, asked: Maintenance, hand: Hand, tenant: UUID) -> None:
        """Somebody waits for them."""
        hand.works["redrive"] = hand.noted(lambda _job: Part())
        hand.planner.run_once()
        asked.request_redrive(tenant, "r-1", Redrive(), actor="x")
        hand.planner.run_once()
        hand.drain()
        assert [job.kind for job in hand.calls] == ["redrive", "test"]


def test_old_jobs_are_forgotten(hand: Hand, admin: Admin) -> None:
    """Ended ones after their time, open ones never."""
    hand.planner.run_once()
    hand.drain()
    later(admin, 100)
    hand.periods["open"] = 3_600
    hand.maintenance.due(hand.periods)
    assert hand.maintenance.forget(101) == 0
    assert hand.maintenance.forget(99) == 1
    assert [row["kind"] for row in rows(admin)] == ["open"]


def test_the_login_has_nothing_but_its_functions(hand: Hand, admin: Admin) -> None:
    """It reads what a filter and a retry look at, of one tenant at a time; no table to write, no function that changes
    tasks but the one that notes what it did."""
    granted = (
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'stanchion'::regnamespace AND c.relkind IN ('r', 'p')"
    )
    granted += " AND has_table_privilege('stanchion_maintenance', c.oid, %s) ORDER BY 1"
    read = [row[0] for row in admin.execute(granted, ("SELECT",)).fetchall()]
    assert read == ["attempt", "operation", "run", "step", "task", "worker"]
    assert admin.execute(granted, ("INSERT, UPDATE, DELETE, TRUNCATE",)).fetchall() == []
    with pytest.raises(InvariantViolated, match=r"stanchion\.tenant"):
        hand.database.read("SELECT count(*) FROM stanchion.task")
    for call in ("reap(1)", "submit('[]', '[]', NULL)", "cancel_task(NULL, NULL, NULL, NULL)"):
        with pytest.raises(InvariantViolated, match="permission denied"):
            hand.database.read(f"SELECT stanchion.{call}")  # type: ignore[arg-type]  # a text of this test
