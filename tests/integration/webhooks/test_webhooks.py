"""Webhooks: written with their cause, signed, called at least once, never inside, and given up in the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kit.engine import Admin, Engine
from kit.flows import single
from kit.receiver import Handler, Receiver, refuse

from services.orchestrator.webhook_courier import EACH, WebhookCourier, backoff_seconds
from stanchion.authority.webhooks import EVENTS, Masters, Webhooks
from stanchion.contracts import ids, limits, webhook_signing
from stanchion.db.engine import login_url
from stanchion.db.grants import ORCHESTRATOR
from stanchion.errors import Conflict, NotAllowed, NotFound, Unprocessable
from stanchion.runtime.outside import Rules

Eventually = Callable[..., Any]
ROOT = Path(__file__).parents[3]


def hook(hooks: Webhooks, tenant: UUID, receiver: Receiver, *events: str) -> tuple[UUID, str]:
    """A webhook for some events, else for all."""
    return hooks.create(tenant, receiver.url + "/in", events or ("*",), actor="test")


def notify(admin: Admin, tenant: UUID, kind: str = "task.completed", subject: str = "s", **body: Any) -> int:
    """Something happens."""
    row = admin.execute(
        "SELECT stanchion.notify_webhooks(%s, %s, %s, %s)", (tenant, kind, subject, json.dumps(body))
    ).fetchone()
    assert row is not None
    return int(row[0])


def one(hooks: Webhooks, tenant: UUID) -> dict[str, Any]:
    """The only delivery."""
    (found,) = hooks.deliveries(tenant, limit=10)
    return found


@pytest.fixture
def settled(courier: WebhookCourier, eventually: Eventually) -> Callable[[], None]:
    """Work the courier until its calls have ended."""

    def work() -> None:
        courier.run_once()
        eventually(lambda: not courier.busy())

    return work


class TestCauses:
    """A delivery is a row of the transaction that caused it."""

    def test_ends_of_tasks_are_told(
        self, engine: Engine, hooks: Webhooks, receiver: Receiver, settled: Callable[[], None]
    ) -> None:
        """Completed, failed, cancelled: with ids as people see them, and without any payload."""
        _, secret = hook(hooks, engine.tenant, receiver)
        flow = single("told")
        good, bad, gone = (engine.submit(flow) for _ in range(3))
        worker = engine.worker()
        leases = worker.take("only")
        for lease in leases:
            if lease.task_id == good.task_id:
                worker.finish(lease, 47114711)
            elif lease.task_id == bad.task_id:
                worker.fail(lease)
        engine.cancel(gone)
        worker.leases.give_back([lease for lease in leases if lease.task_id == gone.task_id], "test")
        engine.sweep()
        settled()
        told = {json.loads(call.body)["subject"]: json.loads(call.body) for call in receiver.calls}
        kinds = {ids.public(ids.TASK, task.task_id): kind for task, kind in ((good, "completed"), (bad, "failed"))}
        for subject, kind in kinds.items():
            assert told[subject]["type"] == f"task.{kind}"
            assert told[subject]["data"]["task_id"] == subject
            assert told[subject]["data"]["state"] == kind
        assert told[next(s for s, k in kinds.items() if k == "failed")]["data"]["code"].startswith("E-")
        assert b"47114711" not in b"".join(call.body for call in receiver.calls)
        for call in receiver.calls:
            webhook_signing.verify(secret, call.headers["stanchion-signature"], call.body, int(time.time()))

    def test_nothing_is_told_of_what_did_not_happen(
        self, admin: Admin, tenant: UUID, hooks: Webhooks, receiver: Receiver
    ) -> None:
        """A transaction that is rolled back leaves no delivery."""
        hook(hooks, tenant, receiver)
        with admin.transaction(force_rollback=True):
            assert notify(admin, tenant) == 1
        assert hooks.deliveries(tenant, limit=10) == []

    def test_each_webhook_hears_what_it_wants(
        self, admin: Admin, tenant: UUID, hooks: Webhooks, receiver: Receiver
    ) -> None:
        """One event is one id at all of them; another tenant's hear nothing."""
        hook(hooks, tenant, receiver, "task.failed")
        hook(hooks, tenant, receiver, "task.failed", "approval.requested")
        hook(hooks, tenant, receiver)
        other = admin.execute("SELECT stanchion.create_tenant('other')").fetchone()
        assert other is not None
        hook(hooks, other[0], receiver)
        assert [notify(admin, tenant, kind) for kind in ("task.failed", "approval.requested", "task.completed")] == [
            3,
            2,
            1,
        ]
        failed = [d for d in hooks.deliveries(tenant, limit=10) if d["type"] == "task.failed"]
        assert len({d["event_id"] for d in failed}) == 1
        assert hooks.deliveries(other[0], limit=10) == []

    def test_a_tenant_has_so_many(self, tenant: UUID, hooks: Webhooks, receiver: Receiver) -> None:
        """One more is refused, also when they come at once; an event that does not exist is as well."""
        outcomes: list[str] = []

        def make() -> None:
            try:
                hook(hooks, tenant, receiver)
                outcomes.append("made")
            except Conflict as error:
                outcomes.append(error.code)

        for _ in range(limits.WEBHOOKS - 1):
            make()
        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count("made") == limits.WEBHOOKS
        assert outcomes.count("E-HOOK-03") == 3
        with pytest.raises(Unprocessable):
            hook(hooks, tenant, receiver, "task.exploded")
        assert "approval.requested" in EVENTS


class TestCalls:
    """What an endpoint gets, and what becomes of its answer."""

    def test_a_call_is_signed_and_told_apart_by_its_event(
        self, admin: Admin, tenant: UUID, hooks: Webhooks, receiver: Receiver, settled: Callable[[], None]
    ) -> None:
        """The signature covers the time and the body; a changed byte, another secret or an old time is refused."""
        webhook_id, secret = hook(hooks, tenant, receiver)
        notify(admin, tenant, run_id=str(webhook_id), n=1)
        settled()
        (call,) = receiver.calls
        now, header = int(time.time()), call.headers["stanchion-signature"]
        webhook_signing.verify(secret, header, call.body, now)
        for wrong in (
            (secret, header, call.body + b" ", now),
            (secret + "x", header, call.body, now),
            (secret, header, call.body, now + 301),
            (secret, header.replace("t=", "t=1"), call.body, now),
            (secret, "v1=" + "0" * 64, call.body, now),
            (secret, "", call.body, now),
        ):
            with pytest.raises(NotAllowed):
                webhook_signing.verify(*wrong)
        document = json.loads(call.body)
        assert document["id"] == call.headers["stanchion-event-id"]
        assert document["tenant"] == "acme"
        assert (call.headers["stanchion-event-type"], call.headers["stanchion-try"]) == ("task.completed", "1")
        done = one(hooks, tenant)
        assert (done["state"], done["status"], done["tries"]) == ("sent", 204, 1)

    def test_the_secret_stands_nowhere(self, admin: Admin, tenant: UUID, hooks: Webhooks, receiver: Receiver) -> None:
        """Not in a row, not in the audit log, not in a list."""
        _, secret = hook(hooks, tenant, receiver)
        rows = admin.execute("SELECT w::text FROM stanchion.webhook w UNION ALL SELECT a::text FROM stanchion.audit a")
        assert not [row for row in rows if secret[6:20] in row[0]]
        assert secret not in str(hooks.page(tenant, limit=10))

    def test_an_endpoint_that_fails_is_called_again(
        self, admin: Admin, tenant: UUID, hooks: Webhooks, receiver: Receiver, settled: Callable[[], None]
    ) -> None:
        """After a while, with the same event and the same body; nothing that it said is kept."""
        hook(hooks, tenant, receiver)
        receiver.behaviour = refuse
        notify(admin, tenant)
        settled()
        waiting = one(hooks, tenant)
        assert (waiting["state"], waiting["status"], waiting["error"], waiting["tries"]) == ("due", 500, "E-HOOK-04", 1)
        settled()
        assert len(receiver.calls) == 1  # not before its time
        admin.execute("UPDATE stanchion.webhook_delivery SET due_at = stanchion.clock()")
        receiver.behaviour = lambda handler, _: handler.answer(200)
        settled()
        assert one(hooks, tenant)["state"] == "sent"
        first, second = receiver.calls
        assert first.body == second.body
        assert second.headers["stanchion-try"] == "2"
        rows = admin.execute("SELECT d::text FROM stanchion.webhook_delivery d").fetchall()
        assert "canary-4711" not in str(rows)

    @pytest.mark.parametrize("how", ["redirect", "silence", "drip", "endless", "rubbish", "hang-up", "away"])
    def test_hostile_endpoints(
        self,
        how: str,
        admin: Admin,
        tenant: UUID,
        hooks: Webhooks,
        receiver: Receiver,
        courier: WebhookCourier,
        eventually: Eventually,
    ) -> None:
        """A redirect is not followed, silence and drips are cut off in time, an endless answer is read in part."""
        hook(hooks, tenant, receiver)
        receiver.behaviour = _hostile(how, receiver)
        if how == "away":
            admin.execute("UPDATE stanchion.webhook SET url = 'http://127.0.0.1:9/'")
        notify(admin, tenant)
        started = time.monotonic()
        courier.run_once()
        eventually(lambda: not courier.busy(), 8)
        assert time.monotonic() - started < 6
        found = one(hooks, tenant)
        if how == "endless":
            assert (found["state"], found["status"]) == ("sent", 200)
        else:
            assert (found["state"], found["tries"]) == ("due", 1)
            assert found["error"] in ("E-HOOK-04", "E-OUT-03")
        assert all(call.path == "/in" for call in receiver.calls)

    def test_the_inside_is_not_called(
        self,
        admin: Admin,
        tenant: UUID,
        hooks: Webhooks,
        receiver: Receiver,
        make_courier: Callable[..., WebhookCourier],
        eventually: Eventually,
    ) -> None:
        """Whatever stood in the row: where loopback is not allowed, nothing goes there."""
        hook(hooks, tenant, receiver)
        strict = make_courier(rules=Rules())
        for url in (receiver.url, receiver.url.replace("127.0.0.1", "localhost"), "https://169.254.169.254/latest"):
            admin.execute("UPDATE stanchion.webhook SET url = %s", (url,))
            notify(admin, tenant)
            strict.run_once()
            eventually(lambda: not strict.busy())
        assert receiver.calls == []
        assert {d["error"] for d in hooks.deliveries(tenant, limit=10)} <= {"E-OUT-01", "E-OUT-02"}

    def test_a_secret_of_a_lost_master_key_calls_nobody(
        self,
        admin: Admin,
        tenant: UUID,
        hooks: Webhooks,
        receiver: Receiver,
        make_courier: Callable[..., WebhookCourier],
        eventually: Eventually,
    ) -> None:
        """It waits until the key is there again."""
        hook(hooks, tenant, receiver)
        notify(admin, tenant)
        courier = make_courier(masters=Masters(()))
        courier.run_once()
        eventually(lambda: not courier.busy())
        assert receiver.calls == []
        assert one(hooks, tenant)["error"] == "E-HOOK-02"

    def test_an_endpoint_that_hangs_holds_up_nobody_else(
        self,
        admin: Admin,
        tenant: UUID,
        hooks: Webhooks,
        receiver: Receiver,
        courier: WebhookCourier,
        eventually: Eventually,
    ) -> None:
        """However much waits for it: it gets a few hands, the others go on."""
        with Receiver() as stuck:
            held = threading.Event()
            stuck.behaviour = lambda handler, _: (held.wait(10), handler.answer(204))[1]
            hook(hooks, tenant, stuck)
            for _ in range(30):
                notify(admin, tenant)
            hook(hooks, tenant, receiver, "task.failed")
            for _ in range(10):
                notify(admin, tenant, "task.failed")
            for _ in range(20):
                courier.run_once()
                if len(receiver.calls) == 10:
                    break
                threading.Event().wait(0.05)
            assert len(receiver.calls) == 10
            assert len(stuck.calls) <= EACH
            held.set()
            eventually(lambda: not courier.busy())


class TestLives:
    """Pausing, giving up, sending again, removing."""

    def test_given_up_after_three_days_and_sent_again_on_request(
        self, admin: Admin, tenant: UUID, hooks: Webhooks, receiver: Receiver, settled: Callable[[], None]
    ) -> None:
        """The webhook has failed, what else waits is held; both can be mended."""
        webhook_id, _ = hook(hooks, tenant, receiver)
        receiver.behaviour = refuse
        notify(admin, tenant)
        notify(admin, tenant, subject="second")
        admin.execute("UPDATE stanchion.webhook_delivery SET give_up_at = stanchion.clock() WHERE subject = 's'")
        admin.execute("UPDATE stanchion.webhook_delivery SET due_at = due_at + interval '1 h' WHERE subject = 'second'")
        settled()
        found = {d["subject"]: d for d in hooks.deliveries(tenant, limit=10)}
        assert (found["s"]["state"], found["second"]["state"], found["second"]["due_at"]) == ("failed", "due", None)
        (listed,) = hooks.page(tenant, limit=10)
        assert (listed["state"], listed["waiting"], listed["failed"]) == ("failed", 1, 1)
        receiver.behaviour = lambda handler, _: handler.answer(200)
        hooks.resend(tenant, found["s"]["delivery_id"], actor="test")
        hooks.pause(tenant, webhook_id, paused=False, actor="test")
        settled()
        assert {d["state"] for d in hooks.deliveries(tenant, limit=10)} == {"sent"}
        again = [call.headers["stanchion-event-id"] for call in receiver.calls]
        assert len(again) == 3
        assert len(set(again)) == 2

    def test_what_is_paused_waits(
        self,
        admin: Admin,
        tenant: UUID,
        hooks: Webhooks,
        receiver: Receiver,
        courier: WebhookCourier,
        settled: Callable[[], None],
    ) -> None:
        """Also what comes meanwhile; for three days, then it is given up."""
        webhook_id, _ = hook(hooks, tenant, receiver)
        notify(admin, tenant)
        hooks.pause(tenant, webhook_id, paused=True, actor="test")
        notify(admin, tenant, subject="late")
        settled()
        assert receiver.calls == []
        hooks.pause(tenant, webhook_id, paused=False, actor="test")
        settled()
        assert len(receiver.calls) == 2
        hooks.pause(tenant, webhook_id, paused=True, actor="test")
        notify(admin, tenant, subject="old")
        admin.execute("UPDATE stanchion.webhook_delivery SET give_up_at = stanchion.clock() WHERE subject = 'old'")
        assert courier.webhooks.trim() == 1
        assert [d["error"] for d in hooks.deliveries(tenant, state="failed", limit=10)] == ["E-HOOK-05"]
        admin.execute(
            "UPDATE stanchion.webhook_delivery SET ended_at = ended_at - interval '31 days' WHERE state = 'sent'"
        )
        assert courier.webhooks.trim() == 2

    def test_what_is_removed_is_gone(self, admin: Admin, tenant: UUID, hooks: Webhooks, receiver: Receiver) -> None:
        """With its deliveries; of another tenant it was never there."""
        webhook_id, _ = hook(hooks, tenant, receiver)
        notify(admin, tenant)
        delivery = one(hooks, tenant)["delivery_id"]
        other = UUID(int=7)
        for act in (
            lambda: hooks.remove(other, webhook_id, actor="x"),
            lambda: hooks.pause(other, webhook_id, paused=True, actor="x"),
            lambda: hooks.resend(other, delivery, actor="x"),
        ):
            with pytest.raises(NotFound):
                act()
        hooks.remove(tenant, webhook_id, actor="test")
        assert hooks.deliveries(tenant, limit=10) == hooks.page(tenant, limit=10) == []

    def test_an_old_fence_writes_nothing(
        self, admin: Admin, tenant: UUID, hooks: Webhooks, receiver: Receiver, courier: WebhookCourier
    ) -> None:
        """Whoever took it over decides."""
        hook(hooks, tenant, receiver)
        notify(admin, tenant)
        (taken,) = courier.webhooks.claim(10, 4, [], 60)
        assert courier.webhooks.claim(10, 4, [], 60) == []
        admin.execute("UPDATE stanchion.webhook_delivery SET due_at = stanchion.clock()")
        (over,) = courier.webhooks.claim(10, 4, [], 60)
        assert over.fence == taken.fence + 1
        outcome = {"sent": False, "status": 500, "error": "E-HOOK-04", "delay_seconds": 1}
        assert courier.webhooks.finish(taken, **outcome) is None
        assert courier.webhooks.finish(over, sent=True, status=200, error=None, delay_seconds=0) == "sent"
        assert courier.webhooks.finish(over, **outcome) is None

    def test_the_backoff_doubles_and_is_capped(self) -> None:
        """Within three days there are some eighty tries, not thousands."""
        assert 0.5 <= backoff_seconds(0) <= 1
        assert 4 <= backoff_seconds(3) <= 8
        assert backoff_seconds(1_000_000) <= limits.WEBHOOK_BACKOFF_SECONDS


@pytest.fixture
def start(database_url: str) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Couriers as processes of their own, with a lease of two seconds."""
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "kit.courier_process", login_url(database_url, ORCHESTRATOR), "2"]
        environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
        started.append(subprocess.Popen(command, env=environ, cwd=ROOT))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(10)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_courier_that_dies_in_a_call_loses_nothing(
    number: signal.Signals,
    admin: Admin,
    tenant: UUID,
    hooks: Webhooks,
    receiver: Receiver,
    start: Callable[[], subprocess.Popen[bytes]],
    eventually: Eventually,
) -> None:
    """Killed or frozen while the endpoint has the call: another one calls again, with the same event."""
    held = threading.Event()

    def hold(handler: Handler, _body: bytes) -> None:
        if len(receiver.calls) == 1:
            held.wait(20)
        handler.answer(204)

    receiver.behaviour = hold
    hook(hooks, tenant, receiver)
    first = start()
    notify(admin, tenant)
    eventually(lambda: len(receiver.calls) == 1, 20)
    first.send_signal(number)
    start()
    eventually(lambda: one(hooks, tenant)["state"] == "sent", 20)
    assert len({call.headers["stanchion-event-id"] for call in receiver.calls}) == 1
    assert len(receiver.calls) >= 2
    if number == signal.SIGSTOP:
        before = one(hooks, tenant)
        first.send_signal(signal.SIGCONT)
        held.set()
        threading.Event().wait(1.0)
        assert one(hooks, tenant) == before  # what it still reports is refused
    held.set()


def test_many_couriers_call_each_once(
    admin: Admin,
    tenant: UUID,
    hooks: Webhooks,
    receiver: Receiver,
    start: Callable[[], subprocess.Popen[bytes]],
    eventually: Eventually,
) -> None:
    """While all goes well, replicas don't repeat each other's calls."""
    hook(hooks, tenant, receiver)
    for n in range(60):
        notify(admin, tenant, subject=str(n))
    for _ in range(3):
        start()
    eventually(lambda: len(hooks.deliveries(tenant, state="sent", limit=100)) == 60, 40)
    assert len(receiver.calls) == 60


def _hostile(how: str, receiver: Receiver) -> Callable[[Handler, bytes], None]:
    def behave(handler: Handler, _body: bytes) -> None:
        if how == "redirect":
            handler.answer(302, location=receiver.url + "/elsewhere")
        elif how == "silence":
            threading.Event().wait(8)
        elif how == "drip":
            for letter in b"HTTP/1.1 200 OK\r\nx-slow: " + b"a" * 100:
                handler.wfile.write(bytes([letter]))
                threading.Event().wait(0.2)
        elif how == "endless":
            handler.send_response(200)
            handler.end_headers()
            for _ in range(200_000):
                handler.wfile.write(b"x" * 1_000)
        elif how == "rubbish":
            handler.wfile.write(b"\x00\xff\r\n\r\n")
            handler.close_connection = True
        else:
            handler.connection.close()

    return behave
