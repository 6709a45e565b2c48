"""The HTTP connector against the press, a real outside system with faults on demand: each effect is had once."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from kit.crew import crew
from kit.engine import Engine
from kit.press import Press

from stanchion.connectors.host_guard import HostGuard
from stanchion.connectors.http import Http
from stanchion.workflow import Ctx, Results, Workflow
from stanchion.workflow.operation import AnyOperation, Call, NotSent, Refused

ARTIFACT = {"sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "version": 1}


HOSTS: list[Http] = []


def opened(url: str, **options: Any) -> Http:
    """A host whose connections are closed after the test."""
    HOSTS.append(Http(url, **options))
    return HOSTS[-1]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while HOSTS:
        HOSTS.pop().close()


def patient(url: str) -> HostGuard:
    """A guard that never shuts: the tests' faults come in rows."""
    return HostGuard(url, failures=1_000_000)


def publishing(press: Press, **options: Any) -> AnyOperation:
    host = opened(press.url, guard=patient(press.url), deadline_header="Request-Deadline")
    given = {"keeps_key": "1d", "lookup": "/publications/by-key/{key}", "timeout": "2s"} | options
    return host.operation("press.publish", "POST", "/publications", **given)


def page(channel: str, title: str = "On stars") -> dict[str, Any]:
    return {"channel": channel, "title": title, "artifact": ARTIFACT}


def call(key: str = "stn_key", **more: Any) -> Call:
    return Call(key, "op_1", "tenant", 2.0, **more)


def once(press: Press, channel: str) -> int:
    """How often the press has really done work in a channel."""
    return int(press.get("/executions", channel=channel)["count"])


class TestAnswers:
    def test_a_receipt(self, press: Press, channel: str) -> None:
        receipt = publishing(press).do(call("stn_receipt"), page(channel))
        assert receipt["status"] == 201
        assert receipt["body"]["channel"] == channel
        assert receipt["id"]

    def test_a_look_up(self, press: Press, channel: str) -> None:
        publish = publishing(press)
        assert publish.check is not None
        assert publish.check(call("stn_lookup"), page(channel)) is None
        done = publish.do(call("stn_lookup"), page(channel))
        found = publish.check(call("stn_lookup"), page(channel))
        assert found["body"]["receipt"]["id"] == done["body"]["id"]

    def test_a_refusal_is_final(self, press: Press) -> None:
        with pytest.raises(Refused, match="400"):
            publishing(press).do(call("stn_bad"), {"channel": "x"})

    def test_too_many_requests_were_not_done(self, press: Press, channel: str) -> None:
        press.fault("rate_limit", channel=channel)
        with pytest.raises(NotSent, match="429"):
            publishing(press).do(call("stn_many"), page(channel))

    @pytest.mark.parametrize("fault", ["drop_reply", "error_after", "refuse"])
    def test_what_settles_nothing_is_no_refusal(self, press: Press, channel: str, fault: str) -> None:
        """A 503 may come from whoever stands before the host, after the work was done."""
        press.fault(fault, channel=channel)
        with pytest.raises(Exception) as raised:
            publishing(press).do(call(f"stn_{fault}"), page(channel))
        assert not isinstance(raised.value, NotSent | Refused)

    def test_nobody_listens(self, channel: str) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            host = opened(f"http://127.0.0.1:{taken.getsockname()[1]}")
            with pytest.raises(NotSent):
                host.operation("x.y", "POST", "/", unsafe_no_check="test").do(call(), {})

    def test_the_deadline_goes_along(self, press: Press, channel: str) -> None:
        press.fault("delay", seconds=1, channel=channel)
        with pytest.raises(Refused, match="410"):
            publishing(press).do(
                call("stn_deadline", deadline=datetime.now(UTC) + timedelta(seconds=0.2)), page(channel)
            )

    def test_an_answer_that_is_no_json_and_one_without_end(self) -> None:
        receipts = []
        for body in (b"<html>done</html>", b"x" * 10_000_000, b'{"a": 1, "a": 2}', b"\xff\xfe"):
            with Raw(body) as url:
                host = opened(url, guard=patient(url))
                receipts.append(host.operation("x.y", "POST", "/", unsafe_no_check="test").do(call(), {})["body"])
        assert receipts[0] == "<html>done</html>"
        assert receipts[1]["cut"] is True
        assert [type(r) for r in receipts[2:]] == [str, str]

    def test_a_redirect_is_not_followed(self) -> None:
        with Raw(b"", status="302 Found", header="Location: http://127.0.0.1:1/elsewhere") as url:
            host = opened(url, guard=patient(url))
            with pytest.raises(Exception, match="302"):
                host.operation("x.y", "POST", "/", unsafe_no_check="test").do(call(), {})

    @pytest.mark.parametrize("field", ["", ".", "..", None])
    def test_a_field_never_leads_to_another_address(self, field: str | None) -> None:
        """A client folds such parts of a path away: nothing leaves, and that is certain."""
        with Raw(b"{}") as url:
            host = opened(url, guard=patient(url))
            operation = host.operation("x.y", "PUT", "/things/{name}/parts", unsafe_no_check="test")
            before = len(Raw.seen)
            with pytest.raises(Refused, match="can't be filled"):
                operation.do(call(), {} if field is None else {"name": field})
            assert len(Raw.seen) == before
            operation.do(call(), {"name": "..."})
        assert Raw.seen[-1].startswith("PUT /things/.../parts ")

    def test_fields_of_a_path_are_quoted(self, press: Press) -> None:
        with Raw(b"{}") as url:
            host = opened(url, guard=patient(url))
            operation = host.operation("x.y", "PUT", "/things/{name}", unsafe_no_check="test")
            operation.do(call(), {"name": "../admin?x=1"})
        assert Raw.seen[-1].startswith("PUT /things/..%2Fadmin%3Fx%3D1 ")


class Raw:
    """A server that gives one answer, byte by byte as it is told."""

    seen: ClassVar[list[str]] = []

    def __init__(self, body: bytes, status: str = "200 OK", header: str = "Content-Type: text/plain") -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.answer = f"HTTP/1.1 {status}\r\n{header}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def __enter__(self) -> str:
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def _serve(self) -> None:
        connection, _ = self.socket.accept()
        with connection:
            self.seen.append(connection.recv(65_536).decode())
            try:
                connection.sendall(self.answer)
            except OSError:
                return  # the client has seen enough

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class TestGuard:
    def test_it_shuts_after_failures_and_opens_again(self) -> None:
        guard = HostGuard("somewhere", failures=2, shut_seconds=60)
        guard.enter()
        guard.failed()
        guard.enter()
        guard.failed()
        with pytest.raises(NotSent, match="spared"):
            guard.enter()

    def test_the_host_says_how_long(self) -> None:
        guard = HostGuard("elsewhere")
        guard.answered(429, "120")
        with pytest.raises(NotSent, match="is spared for 1"):
            guard.enter()

    def test_a_rate(self) -> None:
        guard = HostGuard("slow", rate=0.001, burst=2)
        guard.enter()
        guard.enter()
        with pytest.raises(NotSent):
            guard.enter()

    def test_workers_share_it_over_valkey(self, endpoints: Any) -> None:
        name = f"shared-{random.random()}"
        one, other = (HostGuard(name, rate=0.001, burst=2, redis_url=endpoints.redis_url) for _ in range(2))
        one.enter()
        other.enter()
        for guard in (one, other):
            with pytest.raises(NotSent):
                guard.enter()
        other.answered(503, "60")
        with pytest.raises(NotSent, match="is spared for 5"):
            HostGuard(name, redis_url=endpoints.redis_url).enter()

    def test_without_valkey_each_process_counts_for_itself(self) -> None:
        guard = HostGuard("lonely", rate=0.001, burst=1, redis_url="redis://127.0.0.1:1")
        guard.enter()
        with pytest.raises(NotSent):
            guard.enter()


def test_a_host_that_asks_for_time_gets_it(engine: Engine, press: Press, channel: str) -> None:
    """The step is tried again after what Retry-After says, so that its attempts are not used up before."""
    press.fault("rate_limit", times=1, channel=channel, seconds=30)
    publish = publishing(press)
    wf = Workflow("asked", operations=[publish])

    @wf.step(retries=3, retry_delay="10ms", retry_cap="20ms")
    def send(ctx: Ctx) -> int:
        ctx.op(publish, page(channel), key="page").wait()
        return 1

    engine.submit(wf)
    with crew(engine) as worker:
        worker.work(lambda: engine.one("SELECT count(*) FROM stanchion.timer WHERE kind = 'retry'")[0] == 1, 30)
    (due,) = engine.one(
        "SELECT extract(epoch FROM due_at - stanchion.clock()) FROM stanchion.timer WHERE kind = 'retry'"
    )
    assert 20 < due <= 31


def test_many_publications_with_random_faults(engine: Engine, press: Press, channel: str) -> None:
    """Lost answers, errors after the work, late landings, refusals, in any mixture: the press does each work once."""
    publish = publishing(press, timeout="1s")
    count = 40
    wf = Workflow("many", operations=[publish])

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return list(range(count))

    @wf.step(after=plan, each=True, retries=20, retry_delay="10ms", retry_cap="20ms")
    def send(ctx: Ctx, n: int) -> int:
        ctx.op(publish, page(channel, f"page {n}"), key=f"page-{n}").wait()
        return n

    @wf.step(after=send, join="all")
    def total(ctx: Ctx, sent: Results[int]) -> int:
        return len(list(sent))

    for kind in ("drop_reply", "error_after", "late", "refuse", "rate_limit"):
        press.fault(kind, times=6, channel=channel, **({"seconds": 0.3} if kind == "late" else {}))
    engine.submit(wf)
    with crew(engine) as worker:

        def done() -> bool:
            engine.expand()
            engine.fire()
            return engine.one("SELECT ended_at IS NOT NULL FROM stanchion.run")[0] is True

        worker.work(done, 120)
    assert engine.one("SELECT state FROM stanchion.run")[0] == "succeeded"
    assert set(engine.all("SELECT state FROM stanchion.operation")) == {"confirmed"}
    keys = set(engine.all("SELECT request_key FROM stanchion.operation"))
    work = press.get("/executions", channel=channel, limit=1_000)
    assert work["count"] == count
    assert {one["key"] for one in work["items"]} == keys
    assert sum(press.fired()) == 30
    assert engine.one("SELECT count(*) FROM stanchion.operation WHERE probes > 0")[0] > 0


def test_a_retraction_undoes_a_publication(engine: Engine, press: Press, channel: str) -> None:
    host = opened(press.url, guard=patient(press.url))
    retract = host.operation(
        "press.retract",
        "DELETE",
        lambda effect: f"/publications/{effect['receipt']['body']['id']}",
        body=lambda _effect: None,
        lookup=lambda effect: f"/publications/{effect['receipt']['body']['id']}",
        found=lambda receipt: receipt["body"]["retraction"] is not None,
        keeps_key="1d",
    )
    publish = publishing(press, undo=retract)
    wf = Workflow("regret", operations=[publish], compensate="failed")

    @wf.step(retries=0)
    def send(ctx: Ctx) -> int:
        ctx.op(publish, page(channel), key="one").wait()
        raise ValueError("regret")

    press.fault("drop_reply", channel=channel, method="DELETE")
    engine.submit(wf)
    with crew(engine) as worker:

        def done() -> bool:
            engine.sweep()
            return engine.one("SELECT ended_at IS NOT NULL FROM stanchion.run")[0] is True

        worker.work(done)
    assert sorted(engine.all("SELECT kind || ' ' || state FROM stanchion.operation")) == [
        "press.publish compensated",
        "press.retract confirmed",
    ]
    published = press.get("/publications", channel=channel)["items"][0]
    assert press.get(f"/publications/{published['id']}")["retraction"] is not None
