"""Approvals on pages: what waits for whom, what exactly is asked, and deciding it as a person without scripts does."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest
from dashboard_kit import Read, rewrite
from kit.engine import Engine
from kit.shelf import Shelf
from people_pages_kit import HOSTILE, Asked, act, send, taken_apart, ways

from stanchion.authority.approvals import Approvals
from stanchion.contracts import ids

Browser = httpx2.Client
SignIn = Callable[..., Browser]
VOTING = ["approval.approve", "approval.reject", "approval.ask-back", "approval.delegate", "approval.edit"]


@pytest.fixture
def ann(sign_in: SignIn) -> Browser:
    return sign_in("ann")


@pytest.fixture
def bob(sign_in: SignIn) -> Browser:
    return sign_in("bob")


@pytest.fixture
def viewer(sign_in: SignIn) -> Browser:
    return sign_in("vic", "viewer")


@pytest.fixture
def asked(engine: Engine) -> Asked:
    return Asked(engine)


def text_of(web: Browser, path: str) -> str:
    """The words of a page."""
    response = web.get(path)
    assert response.status_code == 200, response.text[:500]
    return Read.of(response).text


def voted(engine: Engine, asked: Asked, vote: Any, name: str = "ann", **more: Any) -> None:
    """Somebody says something, past the page."""
    (person,) = engine.one(
        "SELECT person_id FROM stanchion.person WHERE name = %s AND tenant_id = %s", name, engine.tenant
    )
    shown = bytes.fromhex(asked.hash)
    Approvals(engine.service).vote(engine.tenant, asked.uuid, person, vote, payload_hash=shown, **more)


class TestInbox:
    @pytest.fixture(autouse=True)
    def _nothing_open(self, engine: Engine) -> None:
        """What other tests asked is over."""
        approvals = Approvals(engine.service)
        for one in engine.all("SELECT approval_id FROM stanchion.approval WHERE state = 'requested'"):
            approvals.revoke(engine.tenant, one, reason="test", actor="test")

    def test_the_least_time_left_comes_first(self, engine: Engine, ann: Browser) -> None:
        """With what it allows, whom it waits for, and how many have approved it."""
        late = Asked(engine, question="Late?", people=["ann"], needs=1, within_ms=7_200_000)
        soon = Asked(engine, question="Soon?", needs=2)
        text = text_of(ann, "/approvals")
        assert text.index("Soon?") < text.index("Late?")
        for words in ("1 press.publish “spring”", "0 of 2", "2 of any approver", "1 of ann", "by key:web", soon.tsk):
            assert words in text
        assert late.path in ann.get("/approvals").text

    def test_it_is_ones_own(self, engine: Engine, ann: Browser, bob: Browser) -> None:
        """For me, what I have not said anything about; what else is open stands under all."""
        Asked(engine, question="For bob?", people=["bob"])
        both = Asked(engine, question="For both?", needs=2)
        voted(engine, both, "approve")
        assert "Nothing waits for you. 2 wait for others." in text_of(ann, "/approvals?for=me")
        assert "For bob?" in text_of(bob, "/approvals")
        assert "For both?" in text_of(bob, "/approvals")
        assert "For bob?" in text_of(ann, "/approvals?for=all")
        assert "1 of 2" in text_of(ann, "/approvals?for=all")

    def test_of_my_teams(self, engine: Engine, ann: Browser) -> None:
        """And how one gets into one."""
        assert "You are in no team" in text_of(ann, "/approvals?for=teams")
        engine.admin.execute(
            "INSERT INTO stanchion.team_member (tenant_id, team, person_id)"
            " SELECT tenant_id, 'editors', person_id FROM stanchion.person WHERE name = 'ann'"
        )
        assert "Nothing waits for editors" in text_of(ann, "/approvals?for=teams")
        Asked(engine, question="For the team?", teams=["editors"])
        Asked(engine, question="For others?", teams=["lawyers"])
        text = text_of(ann, "/approvals?for=teams")
        assert "For the team?" in text
        assert "team editors" in text
        assert "For others?" not in text

    def test_without_a_sign_in_everything_open_is_shown(self, engine: Engine, web: Browser) -> None:
        """What is one's own needs one, and says so."""
        assert "Nobody is asked anything" in text_of(web, "/approvals")
        Asked(engine, question="Anybody?")
        assert "Anybody?" in text_of(web, "/approvals")
        text = text_of(web, "/approvals?for=me")
        assert "once you have signed in" in text
        assert "Anybody?" not in text

    @pytest.mark.parametrize("whose", ["all", "me"])
    def test_pages(self, engine: Engine, ann: Browser, monkeypatch: pytest.MonkeyPatch, whose: str) -> None:
        """Each is there once, in order, also when one of them is decided in between."""
        from services.orchestrator.dashboard.views import approval_reads, approvals

        for module in (approval_reads, approvals):
            monkeypatch.setattr(module, "SHOWN", 2)
        # the last one asked has the least time left
        made = [Asked(engine, question=f"{n}?", within_ms=3_600_000 - n * 60_000) for n in range(5)][::-1]
        path, seen = f"/approvals?for={whose}", []
        for _ in range(3):
            response = ann.get(path)
            seen += [one["data-key"] for one in Read.of(response).named("li") if one.get("data-key")]
            voted(engine, made[len(seen) - 1], "approve")
            path = next((a["href"] for a in Read.of(response).named("a") if a.get("rel") == "next"), "")
        assert seen == [one.id for one in made]

    def test_what_is_over(self, engine: Engine, ann: Browser) -> None:
        """With its outcome, by whom, and why."""
        one = Asked(engine)
        voted(engine, one, "reject", comment="the title is wrong")
        text = text_of(ann, "/approvals?for=closed")
        for words in ("rejected", "by person:ann", "the title is wrong", one.tsk):
            assert words in text

    @pytest.mark.parametrize("query", ["for=mine", "after=x", "before=op_1", "state=open", "for=me&for=all", "limit=5"])
    def test_a_bad_query(self, ann: Browser, query: str) -> None:
        assert ann.get(f"/approvals?{query}").status_code == 422


class TestShow:
    def test_all_that_is_asked(self, engine: Engine, ann: Browser) -> None:
        """Question, summary, payload with its hash, what follows from each answer, the rules."""
        one = Asked(engine, people=["ann", "bob"], needs=2, on_rejected="end")
        text = text_of(ann, one.path)
        for words in (
            "Publish “On stars”?",
            "Two sections.",
            '"audience": 212',
            one.hash,
            "1 more of those asked has to approve it",
            "1 press.publish “spring” may leave: once, with exactly this payload",
            "No press.publish leaves, and the task ends as rejected.",
            "Silence never approves",
            "2 of ann, bob",
            "Four eyes",
            f"stanchion approval show {one.id}",
        ):
            assert words in text, words
        assert ways(ann, one.path) == [*VOTING, "approval.revoke"]
        assert "Approve, 1 of 2" in text

    def test_the_button_names_the_effect(self, ann: Browser, asked: Asked, engine: Engine) -> None:
        assert "Approve and send 1 press.publish…" in text_of(ann, asked.path)
        decision = Asked(engine, operation=None, key=None, on_timeout="fail")
        text = text_of(ann, decision.path)
        assert "Nothing outside is allowed by it" in text
        assert "Its step fails" in text

    @pytest.mark.parametrize("state", ["requested", "granted", "rejected", "expired", "revoked", "replaced", "spent"])
    def test_every_state(self, engine: Engine, ann: Browser, bob: Browser, asked: Asked, state: str) -> None:
        """As a word, with who decided and when; and only what can still be done is offered."""
        offered = {
            "requested": [*VOTING, "approval.revoke"],
            "granted": ["approval.revoke"],
            "spent": ["approval.revoke"],
        }
        said = {
            "granted": "It was approved, and what it allows has not left yet, by person:ann",
            "spent": "what it allows has left, by person:ann",
            "rejected": "It was rejected, by person:ann",
            "expired": "Its time was over before it was decided or used",
            "revoked": "It was taken back, by person:cat",
            "replaced": "What it asks was changed, and is asked anew, by person:ann",
        }
        self.bring(engine, ann, asked, state)
        assert asked.state == state
        text = text_of(bob, asked.path)
        assert said.get(state, "requested") in text
        assert ways(bob, asked.path) == offered.get(state, [])
        assert state in text_of(bob, f"/tasks/{asked.tsk}/approvals")

    def bring(self, engine: Engine, ann: Browser, asked: Asked, state: str) -> None:
        """Into this state."""
        if state in ("granted", "spent"):
            voted(engine, asked, "approve")
        if state == "spent":
            asked.spend()
        elif state == "rejected":
            voted(engine, asked, "reject")
        elif state == "revoked":
            Approvals(engine.service).revoke(engine.tenant, asked.uuid, reason="a mistake", actor="person:cat")
        elif state == "expired":
            rewrite(engine.admin, "UPDATE stanchion.approval SET expires_at = now() WHERE approval_id = %s", asked.uuid)
            rewrite(
                engine.admin,
                "UPDATE stanchion.timer SET due_at = '-infinity' WHERE target_id = %s",
                asked.lease.step_id,
            )
            engine.fire()
        elif state == "replaced":
            assert (
                act(ann, asked.path, "approval.edit", payload='{"title": "On cats", "audience": 212}').status_code
                == 303
            )

    def test_what_it_was_used_for(self, engine: Engine, ann: Browser, asked: Asked) -> None:
        voted(engine, asked, "approve")
        operation = ids.public(ids.OPERATION, asked.spend())
        assert operation in text_of(ann, asked.path)
        assert asked.id in text_of(ann, f"/operations/{operation}")

    def test_what_is_said_about_it(self, engine: Engine, ann: Browser, asked: Asked) -> None:
        voted(engine, asked, "ask_back", comment="which channel?")
        assert "A question of theirs waits for an answer" in text_of(ann, "/approvals?for=all")
        voted(engine, asked, "delegate", delegate_to="bob")
        text = text_of(ann, asked.path)
        for words in (
            "person:ann asked back which channel?",
            "person:ann delegated to bob",
            "passed your vote on to bob",
        ):
            assert words in text
        assert ways(ann, asked.path) == ["approval.revoke"]

    def test_the_version_that_it_is_about(
        self, engine: Engine, ann: Browser, database_url: str, tmp_path: Path
    ) -> None:
        """With its hash; once there is a newer one nothing leaves under it, and the page says so."""
        shelf = Shelf(engine, tmp_path, database_url)
        one = Asked(engine, about=lambda started: shelf.uploaded(started.task.task_id, b"one"))
        text = text_of(ann, one.path)
        for words in ("Evidence", "report 1", "text/plain, 3 B", f"sha256 {sha256(b'one').hexdigest()}"):
            assert words in text
        assert "nothing leaves" not in text
        shelf.uploaded(one.task.task_id, b"two")
        assert "There is a newer version of report: nothing leaves under this approval." in text_of(ann, one.path)
        shelf.close()

    def test_its_time_is_over(self, engine: Engine, ann: Browser, asked: Asked) -> None:
        """Nobody is offered what would be refused, also before the timer has fired."""
        rewrite(engine.admin, "UPDATE stanchion.approval SET expires_at = now() WHERE approval_id = %s", asked.uuid)
        assert "Its time is over: nobody can decide it any more." in text_of(ann, asked.path)
        assert ways(ann, asked.path) == ["approval.revoke"]
        answer = send(ann, f"/do/approval.approve/{asked.id}?payload_hash={asked.hash}")
        assert (answer.status_code, "E-APR-02" in answer.text) == (409, True)

    def test_a_viewer_sees_no_payload(self, engine: Engine, viewer: Browser, ann: Browser) -> None:
        """Nor the question, the summary, what was said and why; that they are hidden is said."""
        canaries = {"title": "canary-payload"}
        one = Asked(engine, page=canaries, question="canary-question?", summary="canary-summary")
        voted(engine, one, "ask_back", comment="canary-comment")
        voted(engine, one, "reject", comment="canary-reason")
        for path in (one.path, "/approvals?for=closed", f"/tasks/{one.tsk}/approvals", f"/do/approval.revoke/{one.id}"):
            assert "canary" not in viewer.get(path).text, path
        assert "canary" in ann.get(one.path).text
        text = text_of(viewer, one.path)
        assert "Hidden by role" in text
        assert "The payload is hidden by role" in text
        fresh = Asked(engine, page=canaries, question="canary-question?")
        for path in ("/approvals?for=all", fresh.path, f"/do/approval.edit/{fresh.id}?payload_hash={fresh.hash}"):
            assert "canary" not in viewer.get(path).text, path
        assert ways(viewer, fresh.path) == []
        assert "You have no vote: approvers and admins decide." in text_of(viewer, fresh.path)

    def test_another_tenants_is_not_there(
        self, make_engine: Callable[[str], Engine], ann: Browser, tenants: dict[str, UUID]
    ) -> None:
        """The same answer as for one that never was."""
        theirs = Asked(make_engine("other"), question="theirs-4711?")
        nowhere = ids.public(ids.APPROVAL, ids.new_id())
        for path in ("/approvals/{}", "/do/approval.approve/{}", "/do/approval.revoke/{}"):
            found, missing = ann.get(path.format(theirs.id)), ann.get(path.format(nowhere))
            assert (found.status_code, missing.status_code) == (404, 404)
            assert found.text.replace(theirs.id, "") == missing.text.replace(nowhere, "")
        assert "theirs-4711" not in ann.get("/approvals?for=all").text
        answer = ann.post(f"/do/approval.approve/{theirs.id}", data={"payload_hash": theirs.hash, "csrf": "x"})
        assert (answer.status_code, theirs.state) == (404, "requested")

    def test_hostile_texts_stay_texts(self, engine: Engine, ann: Browser) -> None:
        """Of those who ask, of those who are asked, and of those who say something."""
        one = Asked(engine, question=HOSTILE, summary=HOSTILE, page={HOSTILE: HOSTILE}, key=HOSTILE)
        voted(engine, one, "ask_back", comment=HOSTILE)
        edited = '{"' + HOSTILE.replace('"', '\\"') + '": "other"}'
        paths = [one.path, "/approvals?for=all", f"/tasks/{one.tsk}/approvals"]
        paths += [f"/do/approval.edit/{one.id}?payload_hash={one.hash}"]
        for path in paths:
            page = ann.get(path)
            assert page.status_code == 200
            assert "<img" not in page.text, path
            assert ">49" not in page.text
        assert HOSTILE in text_of(ann, one.path)
        assert act(ann, one.path, "approval.edit", payload=edited, comment=HOSTILE).status_code == 303
        for path in (self.newest(engine), one.path, "/approvals?for=closed"):
            assert "<img" not in ann.get(path).text, path
        assert HOSTILE in text_of(ann, self.newest(engine))

    @staticmethod
    def newest(engine: Engine) -> str:
        (last,) = engine.all("SELECT approval_id FROM stanchion.approval ORDER BY approval_id DESC LIMIT 1")
        return f"/approvals/{ids.public(ids.APPROVAL, last)}"


class TestDecide:
    """By links and forms alone."""

    def test_two_of_them(self, engine: Engine, ann: Browser, bob: Browser) -> None:
        """Back to the inbox after each, which says what was done; the second yes grants it."""
        one = Asked(engine, people=["ann", "bob"], needs=2)
        answer = act(ann, one.path, "approval.approve", comment="read it")
        assert (answer.status_code, answer.headers["location"]) == (303, "/approvals")
        assert "Done: approve" in text_of(ann, "/approvals")
        assert one.state == "requested"
        text = text_of(bob, one.path)
        assert "1 of bob" in text
        assert "read it" in text
        assert act(bob, one.path, "approval.approve").status_code == 303
        assert one.state == "granted"
        assert "person:bob approved" in text_of(ann, one.path)

    def test_no(self, ann: Browser, asked: Asked) -> None:
        answer = act(ann, asked.path, "approval.reject", comment="the title is wrong")
        assert (answer.status_code, asked.state) == (303, "rejected")

    def test_asking_back_and_answering(self, sign_in: SignIn, ann: Browser, asked: Asked) -> None:
        """Both stay on its page; neither decides."""
        answer = act(ann, asked.path, "approval.ask-back", comment="which channel?")
        assert answer.headers["location"] == asked.path
        olga = sign_in("olga", "operator")
        assert "You have no vote" in text_of(olga, asked.path)
        assert ways(olga, asked.path) == ["approval.answer"]
        assert act(olga, asked.path, "approval.answer", comment="spring").status_code == 303
        assert "person:olga answered spring" in text_of(ann, asked.path)
        assert asked.state == "requested"

    def test_what_is_needed_is_asked_for(self, ann: Browser, asked: Asked) -> None:
        """What was filled in stays there."""
        answer = act(ann, asked.path, "approval.ask-back", comment=" ")
        assert answer.status_code == 422
        assert "Comment is missing" in Read.of(answer).text
        answer = act(ann, asked.path, "approval.delegate", to="", comment="I am away")
        assert (answer.status_code, "I am away" in answer.text) == (422, True)

    def test_passing_it_on(self, ann: Browser, bob: Browser, engine: Engine) -> None:
        one = Asked(engine, people=["ann"])
        assert "You have no vote: ann was asked." in text_of(bob, one.path)
        assert act(ann, one.path, "approval.delegate", to="nobody").status_code == 409
        assert act(ann, one.path, "approval.delegate", to="bob").status_code == 303
        assert act(bob, one.path, "approval.approve").status_code == 303
        assert one.state == "granted"

    def test_changing_it(self, engine: Engine, ann: Browser, bob: Browser, asked: Asked) -> None:
        """The form begins with what is asked; the new question shows what differs, and who changed it has no vote on it."""
        link = next(one for one in taken_apart(ann.get(asked.path)).links if "approval.edit" in one)
        assert '"title": "On stars"' in taken_apart(ann.get(link)).areas["payload"]
        assert act(ann, asked.path, "approval.edit", payload="{").status_code == 422
        assert act(ann, asked.path, "approval.edit", payload='{"title": 1, "audience": 2}').status_code == 409
        changed = '{"title": "On cats", "audience": 212}'
        assert act(ann, asked.path, "approval.edit", payload=changed, comment="shorter").status_code == 303
        new = TestShow.newest(engine)
        text = text_of(ann, asked.path)
        assert "What is asked instead" in text
        assert new in ann.get(asked.path).text
        text = text_of(bob, new)
        assert "What person:ann changed" in text
        assert '± changed title "On stars" "On cats"' in text
        assert "audience" not in text.partition("What person:ann changed")[2].partition("What follows")[0]
        assert "You have no vote: four eyes" in text_of(ann, new)
        assert act(bob, new, "approval.approve").status_code == 303

    def test_changed_meanwhile(self, engine: Engine, ann: Browser, bob: Browser, asked: Asked) -> None:
        """Whoever has the form open decides nothing about what is asked now, and is told who changed it."""
        link = next(one for one in taken_apart(bob.get(asked.path)).links if "approval.approve" in one)
        form = taken_apart(bob.get(link))
        assert form.hidden["payload_hash"] == asked.hash
        assert act(ann, asked.path, "approval.edit", payload='{"title": "x", "audience": 1}').status_code == 303
        answer = bob.post(link.partition("?")[0], data=form.hidden)
        assert answer.status_code == 409
        text = Read.of(answer).text
        assert "E-APR-01" in text
        assert (
            "Changed since you opened it, review again. What it asks was changed, and is asked anew by person:ann."
            in text
        )
        assert TestShow.newest(engine) in answer.text
        assert not taken_apart(answer).hidden.get("payload_hash")

    @pytest.mark.parametrize("shown", ["00" * 32, "", "zz"])
    def test_about_something_else(self, ann: Browser, asked: Asked, shown: str) -> None:
        """A hash that was not shown, or none: neither the form nor the task service takes it."""
        link = f"/do/approval.approve/{asked.id}?payload_hash={shown}"
        page = ann.get(link)
        assert ("review again" in page.text or "Look at what it asks first" in page.text) is True
        csrf = taken_apart(ann.get(f"/do/approval.approve/{asked.id}?payload_hash={asked.hash}")).hidden["csrf"]
        answer = ann.post(f"/do/approval.approve/{asked.id}", data={"csrf": csrf, "payload_hash": shown})
        assert answer.status_code in (409, 422)
        assert asked.state == "requested"

    def test_four_eyes(self, engine: Engine, sign_in: SignIn) -> None:
        """Whoever asked for it is told that they have no vote, and has none."""
        adam = sign_in("adam", "admin")
        one = Asked(engine, by="person:adam")
        assert "You have no vote: four eyes" in text_of(adam, one.path)
        assert ways(adam, one.path) == ["approval.answer", "approval.revoke"]
        answer = send(adam, f"/do/approval.approve/{one.id}?payload_hash={one.hash}")
        assert (answer.status_code, "E-APR-03" in answer.text, one.state) == (403, True, "requested")

    @pytest.mark.parametrize("token", ["", "wrong", None])
    def test_a_forged_form(self, ann: Browser, asked: Asked, token: str | None) -> None:
        """Without the token of the session, or from another site: nothing is decided."""
        link = f"/do/approval.approve/{asked.id}"
        form = {"payload_hash": asked.hash} | ({} if token is None else {"csrf": token})
        answer = ann.post(link, data=form)
        assert (answer.status_code, "E-AUTH-07" in answer.text) == (403, True)
        real = taken_apart(ann.get(f"{link}?payload_hash={asked.hash}")).hidden
        for origin in ("https://evil.example", "null"):
            assert ann.post(link, data=real, headers={"origin": origin}).status_code == 403
        # without any referrer a browser says "null" of our own forms too
        assert ann.get(asked.path).headers["referrer-policy"] == "same-origin"
        assert asked.state == "requested"

    def test_without_a_sign_in(self, site: str, asked: Asked) -> None:
        """The doors are there, and lead through the sign-in; it comes back to exactly this one."""
        with httpx2.Client(base_url=site) as nobody:
            link = next(one for one in taken_apart(nobody.get(asked.path)).links if "approval.approve" in one)
            assert "Sign in" in nobody.get(link).text
            assert asked.id in nobody.get(link).text
            assert nobody.post(link.partition("?")[0], data={"payload_hash": asked.hash}).status_code == 401
        assert asked.state == "requested"

    def test_somebody_else_was_faster(self, engine: Engine, ann: Browser, bob: Browser, asked: Asked) -> None:
        """Who comes second sees who decided."""
        link = next(one for one in taken_apart(bob.get(asked.path)).links if "approval.reject" in one)
        form = taken_apart(bob.get(link)).hidden
        assert act(ann, asked.path, "approval.approve").status_code == 303
        answer = bob.post(link.partition("?")[0], data=form)
        assert answer.status_code == 409
        assert "It was approved, and what it allows has not left yet by person:ann" in Read.of(answer).text

    def test_taking_it_back(self, ann: Browser, asked: Asked) -> None:
        assert act(ann, asked.path, "approval.approve").status_code == 303
        assert act(ann, asked.path, "approval.revoke", reason="").status_code == 422
        assert act(ann, asked.path, "approval.revoke", reason="a newer one comes").status_code == 303
        assert asked.state == "revoked"
        assert "a newer one comes" in text_of(ann, asked.path)

    def test_the_next_one_is_one_tap_away(self, engine: Engine, sign_in: SignIn) -> None:
        """Whoever has more to decide sees the next one on the page of each."""
        dora = sign_in("dora")
        one = Asked(engine, people=["dora"], question="One?", within_ms=60_000)
        two = Asked(engine, people=["dora"], question="Two?", within_ms=120_000)
        page = dora.get(one.path)
        following = [a["href"] for a in Read.of(page).named("a") if a.get("rel") == "next"]
        assert following == [two.path]
        assert act(dora, one.path, "approval.approve").headers["location"] == "/approvals"
        assert "Two?" in text_of(dora, "/approvals")

    def test_the_commands_are_those_of_the_command_line(self, ann: Browser, asked: Asked) -> None:
        link = f"/do/approval.delegate/{asked.id}?payload_hash={asked.hash}&to=bob"
        text = text_of(ann, link)
        assert f"stanchion approval delegate {asked.id} bob --hash {asked.hash}" in text
        assert f"POST /v1/approvals/{asked.id}/delegate" in text
