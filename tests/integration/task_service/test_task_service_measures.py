"""Queues, samples, the outbox and lag over HTTP: whose they are, who may see them, and pausing a queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from task_service_kit import Api, Hand, seen

from stanchion.authority.pipeline import Pipeline
from stanchion.authority.samples import Samples


def queue(api: Api, name: str = "quick") -> dict[str, Any]:
    return api.get(f"/v1/queues/{name}")  # type: ignore[no-any-return]  # JSON


class TestQueues:
    """What waits, who serves it, and who holds it."""

    def test_a_queue_shows_what_is_the_tenants_own(self, make_api: Callable[..., Api], hand: Hand) -> None:
        """Its ready steps and what runs of it; workers and their slots by version; another tenant sees no step of it."""
        seen(hand)
        mine, theirs = make_api("queues"), make_api("queues_too")
        made = [mine.submit("single", {"x": n}) for n in range(3)]
        (lease,) = hand.lease_of(made[0])
        found = queue(mine)
        assert (found["ready"], found["running"]) == (2, 1)
        assert found["workers"] >= 1
        assert {"workflow": "single@1", "workers": found["workers"], "slots": found["slots"]} in found["versions"]
        assert found["oldest_ready_at"] is not None
        assert found["ready_age_seconds"] >= 0
        assert found["advice"]
        other = queue(theirs)
        assert (other["ready"], other["running"], other["oldest_ready_at"]) == (0, 0, None)
        assert "quick" in [item["queue"] for item in mine.get("/v1/queues")["items"]]
        hand.complete([lease], lambda _: 1)

    def test_rates_and_advice_come_from_the_samples(self, make_api: Callable[..., Api], hand: Hand, look: Any) -> None:
        """Steps a second over about a minute; before anybody sampled there are none."""
        seen(hand)
        mine = make_api("rates")
        for n in range(4):
            mine.submit("single", {"x": n})
        tenant = look.execute("SELECT tenant_id FROM stanchion.tenant WHERE name = 'rates'").fetchone()[0]
        samples = Samples(hand.engine_db)
        while samples.take() is not None:
            pass
        look.execute(
            'UPDATE stanchion.sample SET body = \'{"counts": {}, "levels": {}}\' WHERE seconds = 10 AND tenant_id = %s',
            (tenant,),
        )
        newest = look.execute("SELECT max(slot) FROM stanchion.sample WHERE seconds = 10").fetchone()[0]
        look.execute(
            "INSERT INTO stanchion.sample (tenant_id, seconds, slot, body) VALUES (%s, 10, %s, %s)"
            " ON CONFLICT (tenant_id, seconds, slot) DO UPDATE SET body = excluded.body",
            (tenant, newest, '{"counts": {"steps_made_ready:quick": 60, "steps_leased:quick": 120}, "levels": {}}'),
        )
        found = queue(mine)
        assert found["ready"] == 4
        assert (found["rate_in"], found["rate_out"]) == (1, 2)
        assert found["drain_seconds"] == 4
        assert found["advice"] == "drained in about 4 s"

    def test_a_queue_is_paused_and_resumed(self, make_api: Callable[..., Api], hand: Hand) -> None:
        """With a reason that everybody sees; nothing of it is leased meanwhile; the acts are in the audit log."""
        seen(hand)
        mine = make_api("pausing")
        made = mine.submit("single", {"x": 1})
        answer = mine.post("/v1/queues/quick/pause", {"reason": "vendor outage"})
        assert answer["changed"] is True
        assert answer["paused"]["reason"] == "vendor outage"
        assert answer["advice"].startswith("paused")
        assert hand.lease_of(made) == []
        again = mine.post("/v1/queues/quick/pause", {"reason": "another"})
        assert (again["changed"], again["paused"]["reason"]) == (False, "vendor outage")
        why = mine.get(f"/v1/tasks/{made['task_id']}/why")["reasons"]
        assert "vendor outage" in next(one["text"] for one in why if one["code"] == "W-PAUSED")
        assert mine.post("/v1/queues/quick/resume")["changed"] is True
        assert mine.post("/v1/queues/quick/resume")["changed"] is False
        assert len(hand.lease_of(made)) == 1
        acts = [(entry["action"], entry["target"]) for entry in mine.get("/v1/audit")["items"]]
        assert [act for act in acts if act[0].startswith("queue.")] == [
            ("queue.resume", "quick"),
            ("queue.pause", "quick"),
        ]

    def test_what_is_no_queue_is_refused(self, api: Api) -> None:
        """A name that none can have, one that is not there, a pause without a reason."""
        assert api.get("/v1/queues/No_Queue", 422)["code"] == "E-DATA-14"
        assert api.get("/v1/queues/nowhere", 404)["code"] == "E-FIND-01"
        assert api.post("/v1/queues/quick/pause", {}, 422)["code"].startswith("E-DATA")
        assert api.post("/v1/queues/nowhere/resume")["changed"] is False

    def test_a_viewer_pauses_nothing(self, make_api: Callable[..., Api]) -> None:
        """It sees queues."""
        viewer = make_api("pausing", "viewer")
        viewer.get("/v1/queues")
        assert viewer.post("/v1/queues/quick/pause", {"reason": "x"}, 403)["code"] == "E-AUTH-03"
        assert viewer.post("/v1/queues/quick/resume", None, 403)["code"] == "E-AUTH-03"


class TestSeries:
    """Samples between two times."""

    def test_a_tenant_reads_its_own_and_the_platform_needs_a_right(self, make_api: Callable[..., Api]) -> None:
        """What nobody sampled is null."""
        now = datetime.now(UTC)
        ask = {
            "names": "tasks_submitted,ready_steps:quick",
            "from": (now - timedelta(days=200)).isoformat(),
            "to": (now - timedelta(days=199)).isoformat(),
            "resolution": 3600,
        }
        admin = make_api("series", "admin")
        found = admin.get("/v1/metrics/series", params=ask)
        assert found["of"] == "tenant"
        assert len(found["at"]) in (24, 25)
        assert set(found["values"]) == {"tasks_submitted", "ready_steps:quick"}
        assert set(found["values"]["tasks_submitted"]) == {None}
        assert admin.get("/v1/metrics/series", 403, params=ask | {"of": "platform"})["code"] == "E-AUTH-03"
        assert make_api("series").get("/v1/metrics/series", params=ask | {"of": "platform"})["of"] == "platform"

    @pytest.mark.parametrize(
        "change",
        [
            {"names": "nothing"},
            {"from": "yesterday"},
            {"resolution": 11},
            {"of": "all"},
            {"name": "x"},
            {"names": ",".join(f"ready_steps:{n}" for n in range(21))},
        ],
    )
    def test_what_it_does_not_know_is_refused(self, api: Api, change: dict[str, Any]) -> None:
        """Names, times, resolutions and parameters."""
        ask = {"names": "tasks_submitted", "from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}
        assert api.get("/v1/metrics/series", 422, params=ask | change)["code"].startswith("E-DATA")


class TestPipeline:
    """The outbox and the lag of readers."""

    def test_topics_and_owners_are_for_those_above_tenants(self, make_api: Callable[..., Api], hand: Hand) -> None:
        """Counts are everybody's; unknown is a state."""
        above, below = make_api("pipe"), make_api("pipe", "viewer")
        above.submit("single", {"x": 1})
        assert above.get("/v1/outbox")["topics"]
        seen_below = below.get("/v1/outbox")
        assert seen_below["topics"] is None
        assert seen_below["waiting"] >= seen_below["own"] >= 1
        assert above.get("/v1/lag")["state"] == "unknown"
        watcher = Pipeline(hand.engine_db)
        watcher.turn("test")
        topic = "stanchion.workers.elsewhere.commands.v1"
        place = {"group": "stanchion-workers", "topic": topic, "partition": 0, "end": 5, "committed": 1, "owner": "w"}
        watcher.note([{"name": "stanchion-workers", "state": "steady", "members": ["w"]}], [place])
        found = above.get("/v1/lag", params={"group": "stanchion-workers"})
        assert (found["state"], found["groups"][0]["topics"][0]["lag"]) == ("known", 4)
        assert below.get("/v1/lag")["groups"][0]["topics"] == []
        assert above.get("/v1/lag", 404, params={"group": "nobody"})["code"] == "E-FIND-01"

    def test_ready_steps_of_a_task_are_offered_again(self, make_api: Callable[..., Api], hand: Hand, look: Any) -> None:
        """By an operator of the tenant alone; the step is leased once."""
        mine = make_api("again")
        made = mine.submit("single", {"x": 1})
        path = f"/v1/tasks/{made['task_id']}/republish"
        assert make_api("again", "viewer").post(path, None, 403)["code"] == "E-AUTH-03"
        assert make_api("strange").post(path, None, 404)["code"] == "E-FIND-01"
        assert mine.post(path, None, 202) == {"task_id": made["task_id"], "steps": 1}
        assert len(hand.lease_of(made)) == 1
        assert mine.post(path, None, 202)["steps"] == 0
