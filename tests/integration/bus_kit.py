"""What the tests of the bus share: a broker and a Valkey of their own, and a way to wait for things."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stanchion.bus.consumer import Consumer
from stanchion.bus.messages import Message, Record
from stanchion.contracts.topics import TopicSpec
from stanchion.embedded.server import Server, Workspace
from stanchion.embedded.state import StateFile
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.kafka_settings import KafkaSettings

# The library leaves the sockets of some connections (failed, or closed with bytes unsent) to the garbage collector, which
# warns. `swept` lets it run before another module's tests begin.
LEFT_SOCKETS = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module", autouse=True)
def swept() -> Iterator[None]:
    """Import it into a module whose tests close connections in the middle of things, with LEFT_SOCKETS as a mark."""
    yield
    gc.collect()


@contextlib.contextmanager
def own_server(kind: type[Server]) -> Iterator[Server]:
    """One embedded server that a test may kill, freeze and restart."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        workspace = Workspace(root, uuid.uuid4().hex[:12], StateFile(root))
        workspace.state.begin(workspace.run_id, ephemeral=True)
        server = kind(workspace)
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(ProcessLookupError):
                server.thaw()
            server.stop()


def eventually(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until it holds; an assertion error, once `seconds` are over."""
    deadline = Deadline(seconds)
    while not condition():
        assert not deadline.passed, f"not within {seconds:g} s"
        pause(0.01)


def new_topic(partitions: int = 4) -> TopicSpec:
    """A topic that no other test knows."""
    return TopicSpec(f"stanchion.test.{uuid.uuid4().hex[:10]}", "a test", "any", "commands", partitions, -1)


def messages(topic: str, count: int, tag: str = "m", size: int = 20) -> list[Message]:
    """Messages whose values are `tag-0` and on, filled up to `size`."""
    return [
        Message(topic, str(number).encode(), [("ce_id", b"x")], f"{tag}-{number}".ljust(size).encode())
        for number in range(count)
    ]


def settings(bootstrap: str, **changes: object) -> KafkaSettings:
    """Those of the dev profile, with changes."""
    return replace(KafkaSettings.dev(bootstrap, f"test-{os.getpid()}"), **changes)  # type: ignore[arg-type]


class Reader:
    """Takes what a consumer has, in a thread, and remembers it; `hold` keeps records from being done."""

    def __init__(self, consumer: Consumer, batch: int = 50) -> None:
        self.consumer = consumer
        self.batch = batch
        self.records: list[Record] = []
        self.hold: Callable[[Record], bool] = lambda _record: False
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._ends.is_set():
            taken = self.consumer.take(self.batch, 0.1)
            self.records.extend(taken)
            self.consumer.done([record for record in taken if not self.hold(record)])

    def stop(self) -> None:
        """End the thread."""
        self._ends.set()
        self._thread.join(10)

    def values(self, tag: str = "m") -> list[str]:
        """The values read so far that carry this tag."""
        texts = [(record.value or b"").decode(errors="replace").strip() for record in list(self.records)]
        return [text for text in texts if text.startswith(f"{tag}-")]


@contextlib.contextmanager
def reading(config: KafkaSettings, group: str, topic: str, batch: int = 50) -> Iterator[Reader]:
    """A consumer with a reader on it; both end with the block."""
    consumer = Consumer(config, group, [topic])
    consumer.start()
    reader = Reader(consumer, batch)
    try:
        yield reader
    finally:
        reader.stop()
        assert consumer.stop(15)
