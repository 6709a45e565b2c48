"""The ledger on pages: what nobody knows first, what happened to each, what follows, and settling it by forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import Read, lose, name_worker, rewrite
from kit.engine import Engine
from people_pages_kit import HOSTILE, MAIL, PUBLISH, Asked, Effect, act, taken_apart, ways

from stanchion.authority.approvals import Approvals
from stanchion.authority.operations import Operations
from stanchion.contracts import ids
from stanchion.workflow.operation import Operation

Browser = httpx2.Client
SignIn = Callable[..., Browser]
TOLD = {"reason": "it is on the page", "proof": "https://press.example/17"}
CHECK, DONE, NOT_DONE = "operation.reconcile", "operation.mark-done", "operation.mark-not-done"


@pytest.fixture
def olga(sign_in: SignIn) -> Browser:
    return sign_in("olga", "operator")


@pytest.fixture
def viewer(sign_in: SignIn) -> Browser:
    return sign_in("vic", "viewer")


def text_of(web: Browser, path: str) -> str:
    """The words of a page."""
    response = web.get(path)
    assert response.status_code == 200, response.text[:500]
    return Read.of(response).text


def listed(web: Browser, path: str) -> list[str]:
    """The operations in a list, from the top."""
    return [row["data-key"] or "" for row in Read.of(web.get(path)).named("tr") if row.get("data-key")]


def settle_all(engine: Engine, which: list[str] | None = None) -> None:
    """Nothing (of these) is unknown any more."""
    for one in engine.all("SELECT operation_id FROM stanchion.operation WHERE state = 'unknown'"):
        if which is None or ids.public(ids.OPERATION, one) in which:
            Operations(engine.service).tell(engine.tenant, one, done=True, reason="t", proof="t", actor="test")


class TestList:
    @pytest.fixture(autouse=True)
    def _all_known(self, engine: Engine) -> None:
        settle_all(engine)

    def test_what_nobody_knows_comes_first(self, engine: Engine, olga: Browser) -> None:
        """The oldest at the top, with how many of them are asked after without anybody's doing."""
        made = [
            Effect(engine, check_in_ms=60_000),
            Effect(engine, operation=MAIL),
            Effect(engine, check_in_ms=0),
            Effect(engine, "confirmed"),
        ]
        assert listed(olga, "/operations") == [one.id for one in made[:3]]
        text = text_of(olga, "/operations")
        assert "3 unknown , oldest" in text
        assert "2 are checked automatically, 1 needs a person" in text
        assert "a person decides" in text
        assert "Operations 3" in text  # the number in the bar
        for words in ("press.publish", "mail.send", "spring", made[0].tsk, f"stn_{made[0].id[3:]}"):
            assert words in text

    def test_filters(self, engine: Engine, olga: Browser) -> None:
        """By state, kind and task; of a task everything is shown."""
        sent, mail = Effect(engine, "confirmed"), Effect(engine, operation=MAIL)
        assert listed(olga, "/operations?kind=mail.send") == [mail.id]
        assert listed(olga, "/operations?kind=press.publish") == []
        assert listed(olga, "/operations?state=confirmed")[0] == sent.id
        assert listed(olga, f"/operations?task={sent.tsk}") == [sent.id]
        assert listed(olga, f"/operations?task={sent.tsk}&state=unknown") == []
        assert listed(olga, "/operations?state=all")[:2] == [mail.id, sent.id]
        assert f"stanchion op list --kind mail.send --task {mail.tsk}" in text_of(
            olga, f"/operations?kind=mail.send&task={mail.tsk}"
        )

    def test_nothing_is_empty_without_a_word(self, engine: Engine, olga: Browser) -> None:
        """Nothing unknown (and what was, last), nothing that fits (and a way to drop the filter)."""
        one = Effect(engine)
        assert act(olga, one.path, DONE, **TOLD).status_code == 303
        text = text_of(olga, "/operations")
        assert "No unknown results. Last one: press.publish spring , settled" in text
        assert "by person:olga" in text
        assert one.id in olga.get("/operations").text
        response = olga.get("/operations?kind=nothing.here&state=all")
        assert "of the kind nothing.here fits" in Read.of(response).text
        assert 'href="/operations?state=all"' in response.text
        assert "No operation is refused" in text_of(olga, "/operations?state=refused")

    def test_pages_of_unknown_ones(self, engine: Engine, olga: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each is there once, also when the last one of a page is settled in between."""
        self.check_pages(engine, olga, monkeypatch, "/operations", [Effect(engine) for _ in range(5)])

    def test_pages_of_all(self, engine: Engine, olga: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
        """The newest first."""
        made = [Effect(engine) for _ in range(5)]
        self.check_pages(engine, olga, monkeypatch, "/operations?state=all&kind=press.publish", made[::-1])

    def check_pages(
        self, engine: Engine, web: Browser, monkeypatch: pytest.MonkeyPatch, path: str, made: list[Effect]
    ) -> None:
        """Three pages of two."""
        from services.orchestrator.dashboard.views import operation_reads, operations

        for module in (operation_reads, operations):
            monkeypatch.setattr(module, "SHOWN", 2)
        seen: list[str] = []
        for _ in range(3):
            response = web.get(path)
            page = [row["data-key"] or "" for row in Read.of(response).named("tr") if row.get("data-key")]
            seen += page
            settle_all(engine, page[-1:])
            path = next((a["href"] or "" for a in Read.of(response).named("a") if a.get("rel") == "next"), "")
        assert seen[:5] == [one.id for one in made]

    def test_a_rare_state_is_looked_for_in_parts(
        self, engine: Engine, olga: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A page says so when it has not looked everywhere yet, and the next one goes on from there."""
        from services.orchestrator.dashboard.views import operation_reads

        rare = Effect(engine, "refused")
        others = [Effect(engine, "confirmed") for _ in range(3)]
        monkeypatch.setattr(operation_reads, "SCANNED", 2)
        response = olga.get("/operations?state=refused")
        assert "None among those that were looked at so far" in Read.of(response).text
        path = next(a["href"] or "" for a in Read.of(response).named("a") if a.get("rel") == "next")
        assert others[1].id in path
        assert listed(olga, path) == [rare.id]

    @pytest.mark.parametrize(
        "query",
        ["state=sent", "task=x", "after=1", "after=9.op_x", "before=tsk_1", "limit=5", "state=unknown&state=all"],
    )
    def test_a_bad_query(self, olga: Browser, query: str) -> None:
        state = "state=all&" if query.startswith("before") else ""
        assert olga.get(f"/operations?{state}{query}").status_code == 422

    def test_a_task_lists_its_own(self, engine: Engine, olga: Browser) -> None:
        one = Effect(engine)
        assert listed(olga, f"/tasks/{one.tsk}/operations") == [one.id]
        quiet = Asked(engine)
        assert "has done nothing outside" in text_of(olga, f"/tasks/{quiet.tsk}/operations")
        assert "Nobody was asked anything for this task" in text_of(olga, f"/tasks/{one.tsk}/approvals")


class TestShow:
    @pytest.mark.parametrize(
        ("state", "said", "offered"),
        [
            ("prepared", "and not sent yet", []),
            ("dispatched", "its answer has not come yet", []),
            ("confirmed", "confirmed at", ["operation.compensate"]),
            ("refused", "other side decided against it", []),
            ("unknown", "no answer came that tells. The request may have arrived.", [CHECK, DONE, NOT_DONE]),
        ],
    )
    def test_what_became_of_it(self, engine: Engine, olga: Browser, state: str, said: str, offered: list[str]) -> None:
        """As a sentence and a word; only what can be done is offered."""
        one = Effect(engine, state)
        assert one.state == state
        text = text_of(olga, one.path)
        assert said in text
        assert ways(olga, one.path) == offered
        assert one.id in olga.get(f"/operations?state={state}").text

    def test_its_worker_vanished(self, engine: Engine, olga: Browser) -> None:
        """Who sent it, when, under which fence."""
        one = Effect(engine, "dispatched")
        name_worker(one.worker, "w-17")
        lose(engine, [one.lease])
        assert one.state == "unknown"
        text = text_of(olga, one.path)
        assert "by w-17 under fence 1; the worker vanished before an answer came. The request may have arrived." in text

    def test_not_done(self, engine: Engine, olga: Browser) -> None:
        """When its run is cancelled it is not sent again; else it is."""
        one, other = Effect(engine), Effect(engine)
        engine.cancel(one.task)
        assert "It was not done, and nobody wants it any more" in text_of(olga, one.path)
        for each in (one, other):
            assert act(olga, each.path, NOT_DONE, **TOLD).status_code == 303
        assert (one.state, other.state) == ("not_done", "prepared")
        assert "certainly not done, by the word of person:olga" in text_of(olga, one.path)
        assert "its step sends it again with the same key" in text_of(olga, other.path)

    def test_undone(self, engine: Engine, olga: Browser) -> None:
        """It and what undid it name each other."""
        one = Effect(engine, "confirmed")
        one.undo()
        assert one.state == "compensated"
        text = text_of(olga, one.path)
        assert "and undone since" in text
        assert ways(olga, one.path) == []
        (by,) = engine.one("SELECT operation_id FROM stanchion.operation WHERE compensates = %s", one.uuid)
        assert ids.public(ids.OPERATION, by) in text
        assert one.id in text_of(olga, f"/operations/{ids.public(ids.OPERATION, by)}")

    def test_what_was_promised_and_found_out(self, engine: Engine, olga: Browser) -> None:
        """The key outside, how long it is kept, what each probe said as it said it."""
        one = Effect(engine, check_in_ms=0)
        (lease,) = one.worker.leases.lease([one.lease.step_id], 1)
        one.ledger.probed(lease, one.uuid, "cant_tell", detail={"what": "503 from the status page"})
        text = text_of(olga, one.path)
        for words in (
            f"stn_{one.id[3:]}",
            "key is kept until in ",
            "or never",
            "cant tell no",
            "503 from the status page",
        ):
            assert words in text, words
        assert "E-OP-10" in text
        assert "OperationUnknown" in text

    @pytest.mark.parametrize(
        ("operation", "forward", "said", "unsaid"),
        [
            (PUBLISH, 0, "The other side still keeps that, so a second one does nothing", "done twice"),
            (
                Operation("a.b", do=PUBLISH.do, check=PUBLISH.check, lands_within="2m"),
                0,
                "may still arrive",
                "keeps that",
            ),
            (
                Operation("a.b", do=PUBLISH.do, check=PUBLISH.check, lands_within="2m"),
                300,
                "can't arrive any more, so it is sent again",
                "done twice",
            ),
            (MAIL, 0, "it is done twice", "It is not found"),
        ],
    )
    def test_what_follows_from_each_answer(
        self, engine: Engine, olga: Browser, operation: Any, forward: int, said: str, unsaid: str
    ) -> None:
        """As the database will decide it: by the key that is kept, and by whether the request may still arrive."""
        one = Effect(engine, operation=operation, check_in_ms=None if operation is MAIL else 60_000)
        rewrite(
            engine.admin,
            "UPDATE stanchion.operation SET lands_until = lands_until - %s * interval '1 s' WHERE operation_id = %s",
            forward,
            one.uuid,
        )
        text = text_of(olga, one.path)
        assert "What follows from each answer" in text
        assert said in text
        assert unsaid not in text

    def test_a_step_that_ended_asks_nothing_any_more(self, engine: Engine, olga: Browser) -> None:
        """So no check is offered that would never come."""
        one = Effect(engine)
        sql = "UPDATE stanchion.step SET state = 'failed', doubts = 0 WHERE step_id = %s"
        rewrite(engine.admin, sql, one.lease.step_id)
        assert ways(olga, one.path) == [DONE, NOT_DONE]
        assert "It is not found" not in text_of(olga, one.path)

    def test_its_step_was_removed(self, engine: Engine, olga: Browser) -> None:
        """By retention, of another task that did it again: what is left is shown."""
        one = Effect(engine, "confirmed")
        sql = "UPDATE stanchion.operation SET step_id = gen_random_uuid(), run_id = gen_random_uuid() WHERE operation_id = %s"
        rewrite(engine.admin, sql, one.uuid)
        assert "confirmed at" in text_of(olga, one.path)

    def test_its_approval(self, engine: Engine, sign_in: SignIn) -> None:
        """And the way there."""
        ann, asked = sign_in("ann"), Asked(engine)
        (person,) = engine.one("SELECT person_id FROM stanchion.person WHERE name = 'ann'")
        shown = bytes.fromhex(asked.hash)
        Approvals(engine.service).vote(engine.tenant, asked.uuid, person, "approve", payload_hash=shown)
        path = f"/operations/{ids.public(ids.OPERATION, asked.spend())}"
        assert asked.path in ann.get(path).text

    def test_a_viewer_sees_no_payload(self, engine: Engine, viewer: Browser, olga: Browser) -> None:
        """Neither request, receipt, error nor what a probe answered; that they are hidden is said."""
        made = [
            Effect(engine, state, payload={"title": "canary-payload"}) for state in ("confirmed", "refused", "unknown")
        ]
        done = act(olga, made[2].path, DONE, reason="canary-reason", proof="canary-proof", receipt='{"id": "canary"}')
        assert done.status_code == 303
        for one in made:
            for path in (one.path, "/operations?state=all", f"/tasks/{one.tsk}/operations", f"/do/{DONE}/{one.id}"):
                assert "canary" not in viewer.get(path).text, path
            assert "Request and receipt are hidden by role" in text_of(viewer, one.path)
            assert "canary-payload" in olga.get(one.path).text
        assert "hidden by role" in text_of(viewer, made[2].path).partition("What was found out")[2]
        assert "canary-proof" in olga.get(made[2].path).text

    def test_another_tenants_is_not_there(
        self, make_engine: Callable[[str], Engine], olga: Browser, tenants: dict[str, UUID]
    ) -> None:
        """The same answer as for one that never was, by its own id and by that of its task."""
        theirs = Effect(make_engine("other"), key="theirs-4711")
        nowhere = ids.public(ids.OPERATION, ids.new_id())
        for path in ("/operations/{}", f"/do/{DONE}/{{}}", f"/do/{CHECK}/{{}}"):
            found, missing = olga.get(path.format(theirs.id)), olga.get(path.format(nowhere))
            assert (found.status_code, missing.status_code) == (404, 404)
            assert found.text.replace(theirs.id, "") == missing.text.replace(nowhere, "")
        assert listed(olga, f"/operations?task={theirs.tsk}") == []
        for path in ("/operations", "/operations?state=all"):
            assert "theirs-4711" not in olga.get(path).text
        csrf = taken_apart(olga.get(f"/do/{DONE}/{Effect(make_engine('dev')).id}")).hidden["csrf"]
        assert olga.post(f"/do/{DONE}/{theirs.id}", data=TOLD | {"csrf": csrf}).status_code == 404
        assert theirs.state == "unknown"

    def test_hostile_texts_stay_texts(self, engine: Engine, olga: Browser) -> None:
        """Of keys, payloads, errors, probes, and of those who settle it."""
        one = Effect(engine, payload={HOSTILE: HOSTILE}, key=HOSTILE, check_in_ms=0)
        (lease,) = one.worker.leases.lease([one.lease.step_id], 1)
        one.ledger.probed(lease, one.uuid, "cant_tell", detail={"what": HOSTILE})
        one.worker.leases.give_back([lease], HOSTILE)
        name_worker(one.worker, HOSTILE)
        sql = "UPDATE stanchion.operation SET kind = %s, provider_id = %s WHERE operation_id = %s"
        rewrite(engine.admin, sql, HOSTILE, HOSTILE, one.uuid)
        for path in (
            one.path,
            "/operations",
            "/operations?state=all",
            f"/tasks/{one.tsk}/operations",
            f"/do/{DONE}/{one.id}",
        ):
            response = olga.get(path)
            assert response.status_code == 200
            assert "<img" not in response.text, path
            assert ">49" not in response.text
            assert HOSTILE in Read.of(response).text, path
        for name in ("kind", "state", "task", "after"):
            assert "<img" not in olga.get("/operations", params={name: HOSTILE}).text


class TestSettle:
    """By links and forms alone."""

    def test_done(self, engine: Engine, olga: Browser) -> None:
        """With a reason and a proof, and back to its page."""
        one = Effect(engine)
        assert act(olga, one.path, DONE, reason="x").status_code == 422
        answer = act(olga, one.path, DONE, **TOLD, receipt='{"id": 17}')
        assert (answer.status_code, answer.headers["location"], one.state) == (303, one.path, "confirmed")
        text = text_of(olga, one.path)
        assert "Done: mark done" in text
        assert "by the word of person:olga" in text
        assert "https://press.example/17" in text
        assert '"id": 17' in text

    @pytest.mark.parametrize("receipt", ["{", "NaN", '{"a": 1, "a": 2}', "1" * 400])
    def test_a_receipt_that_is_no_json(self, engine: Engine, olga: Browser, receipt: str) -> None:
        one = Effect(engine)
        answer = act(olga, one.path, DONE, **TOLD, receipt=receipt)
        assert (answer.status_code, one.state) == (422, "unknown")
        assert "it is on the page" in answer.text  # what was filled in stays

    def test_checking_now(self, engine: Engine, olga: Browser) -> None:
        """A worker finds it ready to be asked after."""
        one = Effect(engine)
        assert "none: a person decides" in text_of(olga, one.path)
        assert act(olga, one.path, CHECK).status_code == 303
        assert "next check now" in text_of(olga, one.path)
        (lease,) = one.worker.leases.lease([one.lease.step_id], 1)
        assert lease.outcome == "probe"

    def test_undoing(self, engine: Engine, olga: Browser) -> None:
        one = Effect(engine, "confirmed")
        assert act(olga, one.path, "operation.compensate", reason="a misprint").status_code == 303
        sql = "SELECT count(*) FROM stanchion.step WHERE run_id = %s AND kind = 'undo'"
        assert engine.one(sql, engine.run_of(one.task)) == (1,)

    def test_two_at_once(self, engine: Engine, olga: Browser, sign_in: SignIn) -> None:
        """Who comes second is told that it is known, and how it stands."""
        one, otto = Effect(engine), sign_in("otto", "operator")
        link = next(way for way in taken_apart(otto.get(one.path)).links if NOT_DONE in way)
        form = taken_apart(otto.get(link)).hidden
        assert act(olga, one.path, DONE, **TOLD).status_code == 303
        answer = otto.post(link, data=form | TOLD)
        assert (answer.status_code, "E-OP-13" in answer.text, one.state) == (409, True, "confirmed")
        assert "now confirmed" in Read.of(answer).text

    def test_without_the_right(self, engine: Engine, sign_in: SignIn) -> None:
        """The form says which right is needed; the task service refuses it."""
        one, ann = Effect(engine), sign_in("ann")
        page = ann.get(f"/do/{DONE}/{one.id}")
        assert "operation.settle" in page.text
        csrf = taken_apart(ann.get("/sign-out")).hidden["csrf"]
        answer = ann.post(f"/do/{DONE}/{one.id}", data=TOLD | {"csrf": csrf})
        assert (answer.status_code, one.state) == (403, "unknown")

    @pytest.mark.parametrize("token", ["", "wrong", None])
    def test_a_forged_form(self, engine: Engine, olga: Browser, token: str | None) -> None:
        one = Effect(engine)
        form = TOLD | ({} if token is None else {"csrf": token})
        answer = olga.post(f"/do/{NOT_DONE}/{one.id}", data=form)
        assert (answer.status_code, "E-AUTH-07" in answer.text, one.state) == (403, True, "unknown")
