"""The supervisor: what dies comes back, workers come and go, and an emptied broker gets its topics back."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_kit import FLOWS, PATIENCE

from stanchion.bus.admin import missing_topics
from stanchion.cli.launches import LOGINS
from stanchion.cli.stack import Stack
from stanchion.contracts.topics import TASK_SERVICE_COMMANDS
from stanchion.embedded.errors import EmbeddedError
from stanchion.embedded.server import Server
from stanchion.errors import NotFound
from stanchion.sdk.client import Client

Eventually = Callable[..., Any]


def client_of(stack: Stack) -> Client:
    return Client(stack.api_url, stack.api_key)


def squares(stack: Stack, n: int = 3) -> int:
    with client_of(stack) as client:
        return int(client.submit("squares", n=n).result(timeout=PATIENCE))


@pytest.mark.parametrize("kind", list(LOGINS))
def test_a_service_that_is_killed_comes_back(stack: Stack, kind: str, eventually: Eventually) -> None:
    """On the same port, as another process, and the stack works on."""
    service = stack.service(kind)
    pid, port = service.pid, service.port
    service.kill(signal.SIGKILL)
    eventually(lambda: service.pid != pid and service.is_running() and service.answers(), PATIENCE)
    assert service.port == port
    assert squares(stack) == 5


def test_what_is_written_down_is_what_runs(stack: Stack, eventually: Eventually) -> None:
    """`endpoints.json` names every service with the process that it is now."""

    def agrees() -> bool:
        document = json.loads((stack.root / "endpoints.json").read_text())
        assert document["api_url"] == stack.api_url
        assert document["v"] == 1
        return {one["name"]: one["pid"] for one in document["services"]} == {
            service.name: service.pid for service in stack.services
        }

    eventually(agrees, PATIENCE)


def test_workers_are_scaled_up_and_down(stack: Stack) -> None:
    """More are started side by side, fewer drain first; work goes on all the while."""
    before = len(stack.workers)
    stack.scale_workers(before + 2)
    assert len(stack.workers) == before + 2
    assert all(worker.answers() for worker in stack.workers)
    leaving = stack.workers[-1]
    assert squares(stack, 20) == 2470
    stack.scale_workers(before)
    assert len(stack.workers) == before
    assert not leaving.is_running()
    assert leaving.exit_status() == 0
    assert squares(stack) == 5


def test_a_service_of_its_own_environment_is_added(stack: Stack) -> None:
    """For failpoints and other settings of one process alone."""
    worker = stack.add("worker", env={"STANCHION_SLOTS": "2"})
    try:
        assert worker.environment()["STANCHION_SLOTS"] == "2"
        assert "STANCHION_SLOTS" not in stack.workers[0].environment()
        with client_of(stack) as client:
            named = {one["name"]: one for one in client.workers(limit=100).items if one["state"] == "active"}
        assert named[worker.name]["slots"] == 2
    finally:
        stack.remove(worker)
    with pytest.raises(NotFound):
        stack.service(worker.name)


def test_a_service_that_must_stay_down_stays_down(stack: Stack, eventually: Eventually) -> None:
    """`supervise = False` gives a test the process; a restart by hand brings it back."""
    relay = stack.service("outbox-relay")
    orchestrator = stack.service("orchestrator")
    relay.supervise = False
    relay.kill()
    pid = orchestrator.pid
    orchestrator.kill()
    eventually(lambda: orchestrator.pid != pid and orchestrator.answers(), PATIENCE)  # the supervisor has looked
    assert not relay.is_running()
    relay.supervise = True
    relay.restart()
    assert squares(stack) == 5


def test_an_emptied_broker_gets_its_topics_back(stack: Stack, eventually: Eventually) -> None:
    """The embedded broker keeps nothing: after its death the topics are made again, and tasks run."""
    assert stack.servers is not None
    broker = stack.servers.kafka
    if not isinstance(broker, Server):
        pytest.skip("Apache Kafka keeps its topics")
    restarts = broker.restarts
    broker.kill()
    eventually(lambda: broker.restarts > restarts and broker.is_running(), PATIENCE)
    eventually(lambda: not missing_topics(broker.url, [TASK_SERVICE_COMMANDS]), PATIENCE)
    assert squares(stack) == 5


def test_one_root_has_one_stack(stack: Stack) -> None:
    """A second supervisor on the same root is refused, and harms nothing."""
    with pytest.raises(EmbeddedError, match="another supervisor"):
        Stack(stack.root, targets=[str(FLOWS)]).start()
    assert squares(stack) == 5
    assert (stack.root / "endpoints.json").exists()


def test_broken_code_ends_the_start_with_its_log(stack: Stack, tmp_path: Path) -> None:
    """A worker that can't start says why, in the error itself, and is not left in the stack."""
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('this code is broken')\n")
    count = len(stack.workers)
    with pytest.raises(EmbeddedError) as refused:
        stack.add("worker", env={"STANCHION_TARGETS": str(broken)})
    assert "this code is broken" in (refused.value.why or "")
    assert len(stack.workers) == count


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    """With the kinds that there are."""
    with pytest.raises(NotFound) as refused:
        Stack(tmp_path, replicas={"relay": 2})
    assert "outbox-relay" in (refused.value.fix or "")
