"""Lists over HTTP: filters, counts, jobs in bulk, saved views, groups of errors; and who may do what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from task_service_kit import Api, Hand, uuid_of

from stanchion.authority.error_groups import ErrorCollector
from stanchion.contracts import ids
from stanchion.contracts.ids import new_id
from stanchion.db import grants
from stanchion.db.engine import Database, login_url

Look = psycopg.Connection[tuple[Any, ...]]


def ids_of(page: Any) -> list[str]:
    return [item["task_id"] for item in page["items"]]


@pytest.fixture
def tag() -> str:
    """A tag that only this test uses: the module shares its database."""
    return f"t{new_id().hex}"


class TestFilters:
    """`GET /v1/tasks?q=`."""

    def test_a_filter_and_parameters_hold_together(self, api: Api, tag: str) -> None:
        """They are one filter; the answer says that no scan was needed."""
        one = api.submit("single", {"x": 1}, tags=[tag, "a"])["task_id"]
        two = api.submit("single", {"x": 2}, tags=[tag, "b"])["task_id"]
        page = api.get("/v1/tasks", params={"q": f"tag:{tag} is:open"})
        assert ids_of(page) == [two, one]
        assert (page["partial"], page["since"], page["next"]) == (False, None, None)
        assert ids_of(api.get("/v1/tasks", params={"q": f"tag:{tag}", "tag": "a"})) == [one]
        assert ids_of(api.get("/v1/tasks", params={"q": f"tag:{tag}", "order": "oldest"})) == [one, two]
        assert ids_of(api.get("/v1/tasks", params={"q": f"tag:{tag} by:me"})) == [two, one]
        assert set(ids_of(api.get("/v1/tasks", params={"q": f"tag:{tag}", "order": "still"}))) == {one, two}
        states = api.get("/v1/tasks/counts", params={"q": f"tag:{tag}"})["states"]
        assert sum(count["number"] for count in states.values()) == 2

    def test_a_search_in_values_says_how_far_it_looked(self, api: Api, tag: str) -> None:
        """Seven days unless told; the count of tasks that were looked at."""
        made = api.submit("single", {"x": 4711}, tags=[tag])["task_id"]
        page = api.get("/v1/tasks", params={"q": f"tag:{tag} input.x:4711"})
        assert ids_of(page) == [made]
        assert page["scanned"] > 0
        assert page["since"] is not None
        assert api.get("/v1/tasks", params={"q": f"tag:{tag} input.x:4711", "scope": "all"})["since"] is None
        api.get("/v1/tasks", 422, params={"scope": "soon"})

    @pytest.mark.parametrize("q", ["state:dead", "colour:red", 'error:"x', "created:2h", "'; DROP:y"])
    def test_what_is_no_filter_is_refused(self, api: Api, q: str) -> None:
        """With the column."""
        problem = api.get("/v1/tasks", 422, params={"q": q})
        assert problem["code"].startswith("E-FILTER-")
        assert "column" in problem["where"]

    def test_payloads_are_not_found_by_those_who_may_not_see_them(
        self, api: Api, make_api: Callable[..., Api], other: Api, tag: str
    ) -> None:
        """A search in inputs and errors tells what is in them; another tenant finds nothing at all."""
        made = api.submit("single", {"x": 5}, tags=[tag])["task_id"]
        viewer = make_api("acme", "viewer")
        assert viewer.get("/v1/tasks", 403, params={"q": "input.x:5"})["code"] == "E-AUTH-03"
        assert viewer.get("/v1/tasks", 403, params={"q": "-error:x"})["code"] == "E-AUTH-03"
        assert ids_of(viewer.get("/v1/tasks", params={"q": f"tag:{tag}"})) == [made]
        assert ids_of(other.get("/v1/tasks", params={"q": f"tag:{tag}"})) == []
        assert ids_of(other.get("/v1/tasks", params={"q": made})) == []


class TestJobs:
    """`/v1/jobs`."""

    def test_a_dry_run_then_a_job_then_its_stop(self, api: Api, other: Api, tag: str, look: Look) -> None:
        """The plan does nothing; the same id is the same job; it is seen and stopped in its tenant alone."""
        made = [api.submit("single", {"x": n}, tags=[tag])["task_id"] for n in range(3)]
        wanted = {"action": "task.cancel", "filter": f"tag:{tag}", "reason": "wrong input"}
        plan = api.post("/v1/jobs", {**wanted, "dry_run": True})
        assert (plan["count"], [task["task_id"] for task in plan["first"]]) == ({"number": 3, "exact": True}, made)
        job_id = ids.public(ids.JOB, new_id())
        job = api.post("/v1/jobs", {**wanted, "job_id": job_id, "expect_count": 3}, 202)
        assert (job["job_id"], job["state"], job["by"].partition(":")[0]) == (job_id, "waiting", "key")
        assert api.post("/v1/jobs", {**wanted, "job_id": job_id}, 202)["created_at"] == job["created_at"]
        assert job_id in [one["job_id"] for one in api.get("/v1/jobs")["items"]]
        assert other.get("/v1/jobs")["items"] == []
        other.get(f"/v1/jobs/{job_id}", 404)
        other.post(f"/v1/jobs/{job_id}/stop", {}, 404)
        assert api.get(f"/v1/jobs/{job_id}/targets")["items"] == []
        assert api.post(f"/v1/jobs/{job_id}/stop", {"reason": "no"})["state"] == "stopping"
        acts = look.execute("SELECT action FROM stanchion.audit WHERE target = %s ORDER BY 1", (str(uuid_of(job_id)),))
        assert [row[0] for row in acts] == ["job.create", "job.stop"]

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            ({"filter": " "}, "E-FILTER-04"),
            ({"filter": "colour:red"}, "E-FILTER-01"),
            ({"action": "task.delete"}, "E-JOB-01"),
            ({"action": "task.reopen"}, "E-JOB-01"),
            ({"action": "task.cancel", "reason": ""}, "E-JOB-01"),
            ({"rate": 0}, "E-DATA-15"),
            ({"colour": "red"}, "E-DATA-15"),
        ],
    )
    def test_what_is_no_job_is_refused(self, api: Api, body: dict[str, Any], code: str) -> None:
        """An empty filter would be everything."""
        wanted = {"action": "task.pause", "filter": "tag:none", "reason": "x"} | body
        assert api.post("/v1/jobs", wanted, 422)["code"] == code

    def test_another_count_is_refused(self, api: Api, tag: str) -> None:
        """Nothing was done."""
        wanted = {"action": "task.pause", "filter": f"tag:{tag}", "expect_count": 5}
        assert api.post("/v1/jobs", wanted, 409)["code"] == "E-JOB-03"

    def test_rights_are_those_of_the_act(self, api: Api, make_api: Callable[..., Api], tag: str) -> None:
        """Who may only cancel starts no retries, and stops no job of somebody else."""
        viewer = make_api("acme", "viewer")
        assert viewer.post("/v1/jobs", {"action": "task.pause", "filter": "tag:x"}, 403)["code"] == "E-AUTH-03"
        submitter = api.post("/v1/keys", {"name": f"c{tag}", "scopes": ["task.cancel", "task.read"]}, 201)
        only_cancels = Api(str(api.http.base_url), submitter["secret"])
        try:
            only_cancels.post("/v1/jobs", {"action": "task.retry", "filter": "tag:x"}, 403)
            job = api.post("/v1/jobs", {"action": "task.pause", "filter": f"tag:{tag}"}, 202)
            only_cancels.post(f"/v1/jobs/{job['job_id']}/stop", {}, 403)
            wanted = {"action": "task.cancel", "filter": f"tag:{tag} input.x:1", "reason": "x"}
            assert only_cancels.post("/v1/jobs", wanted, 403)["code"] == "E-AUTH-03"
        finally:
            only_cancels.close()


class TestViews:
    """`/v1/views`."""

    def test_views_are_kept_shared_and_removed(self, api: Api, make_api: Callable[..., Api], other: Api) -> None:
        """One's own by name; what is shared is seen by the tenant; the filter is stored as it was read."""
        mine = api.post("/v1/views", {"name": "Night", "query": "  tag:nightly   is:open"})["view_id"]
        assert api.post("/v1/views", {"name": "Night", "query": "tag:nightly", "shared": True})["view_id"] == mine
        found = {view["name"]: view for view in api.get("/v1/views")["items"]}
        assert (found["Night"]["query"], found["Night"]["shared"], found["Mine"]["built_in"]) == (
            "tag:nightly",
            True,
            True,
        )
        viewer = make_api("acme", "viewer")
        private = viewer.post("/v1/views", {"name": "Own", "query": "by:me"})["view_id"]
        assert {"Night", "Own"} <= {view["name"] for view in viewer.get("/v1/views")["items"]}
        assert "Own" not in {view["name"] for view in api.get("/v1/views")["items"]}
        assert all(view["built_in"] for view in other.get("/v1/views")["items"])
        assert viewer.http.delete(f"/v1/views/{mine}").status_code == 404
        assert api.http.delete(f"/v1/views/{private}").status_code == 404
        assert other.http.delete(f"/v1/views/{mine}").status_code == 404
        assert api.http.delete(f"/v1/views/{mine}").status_code == 200
        api.post("/v1/views", {"name": "Bad", "query": "colour:red"}, 422)
        api.post("/v1/views", {"name": "mine", "query": "tag:x"}, 422)


class TestErrors:
    """`/v1/errors`."""

    def test_groups_members_and_marks(
        self, api: Api, make_api: Callable[..., Api], other: Api, hand: Hand, admin_url: str, tag: str
    ) -> None:
        """As the collector made them; texts are withheld from those who may not see payloads."""
        made = [api.submit("single", {"x": n}, tags=[tag]) for n in range(3)]
        for one in made:
            hand.fail(hand.lease_of(one), "E-STEP-27")
        own = api.get(f"/v1/tasks/{made[0]['task_id']}/errors")["items"]
        assert [(group["count"], group["message"]) for group in own] == [(1, "it broke")]
        maintenance = Database(login_url(admin_url, grants.MAINTENANCE), name="collector")
        while ErrorCollector(maintenance).collect()[1]:
            pass
        maintenance.close()
        group = next(row for row in api.get("/v1/errors")["items"] if row["error_id"] == own[0]["error_id"])
        assert (group["count"], group["failed"], group["known"]) == (3, 3, False)
        detail = api.get(f"/v1/errors/{group['error_id']}", params={"limit": 2})
        assert len(detail["members"]) == 2
        rest = api.get(f"/v1/errors/{group['error_id']}", params={"cursor": detail["next"]})
        tasks = {member["task_id"] for member in (*detail["members"], *rest["members"])}
        assert tasks == {one["task_id"] for one in made}
        viewer = make_api("acme", "viewer")
        hidden = viewer.get(f"/v1/errors/{group['error_id']}")
        assert (hidden["message"], hidden["example"], hidden["code"]) == (None, None, "E-STEP-27")
        viewer.post(f"/v1/errors/{group['error_id']}/mark", {"known": True}, 403)
        marked = api.post(f"/v1/errors/{group['error_id']}/mark", {"known": True, "link": "https://example.org/7"})
        assert (marked["known"], marked["link"], marked["marked_by"].partition(":")[0]) == (
            True, "https://example.org/7", "key",
        )  # fmt: skip
        api.post(f"/v1/errors/{group['error_id']}/mark", {"link": "javascript:alert(1)"}, 422)
        assert other.get("/v1/errors")["items"] == []
        other.get(f"/v1/errors/{group['error_id']}", 404)
        other.get(f"/v1/tasks/{made[0]['task_id']}/errors", 404)

    def test_groups_come_in_pages(self, api: Api) -> None:
        """And a cursor that is none is refused."""
        seen, cursor = list[str](), None
        while True:
            page = api.get("/v1/errors", params={"limit": 1, **({"cursor": cursor} if cursor else {})})
            seen += [row["error_id"] for row in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert len(seen) == len(set(seen))
        for wrong in ("x", "1", "99999999999999999.err_x", "1.tsk_00000000000000000000000000"):
            api.get("/v1/errors", 422, params={"cursor": wrong})
