"""Wake-up hints between processes, over Valkey pub/sub: "there is something for you", sent after a commit.

A hint decides nothing and may get lost: whoever waits polls as well. So publishing never raises and never waits for the
network: a name goes into a set, a thread sends it, at most one message per name in `SPACING_SECONDS`. While Valkey is
away hints are dropped; once it is back every listener is woken, since it may have missed some.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from stanchion.runtime.backoff import Backoff
from stanchion.runtime.logging import get_logger

if TYPE_CHECKING:
    import redis

RELAY: Final = "relay"  # rows were put into the outbox
ORCHESTRATOR: Final = "orchestrator"  # something may be due
MAINTENANCE: Final = "maintenance"  # a job was asked for, or stopped
WORKERS: Final = "workers"  # steps came back from a worker that was lost or leaves: their offers may go where it read

SPACING_SECONDS: Final = 0.002
CONNECT_SECONDS: Final = 1.0
LISTEN_SECONDS: Final = 1.0  # how long the listener waits at once: what stopping may take

log = get_logger()


class Hints:
    """One process's end of the hints; without a URL it does nothing, and polling does the work."""

    name = "hints"

    def __init__(self, redis_url: str | None, *, prefix: str = "stanchion.hint.") -> None:
        self.prefix = prefix
        self._url = redis_url
        self._lock = threading.Lock()
        self._pending: set[str] = set()
        self._listeners: dict[str, list[threading.Event]] = {}
        self._stopping = threading.Event()
        self._something = threading.Event()
        self._changed = threading.Event()  # a name was added to the listeners
        self._away = False
        self._threads: list[threading.Thread] = []

    def publish(self, name: str) -> None:
        """Wake whoever listens to `name`; returns at once, whatever the state of the network."""
        if self._url is None or self._stopping.is_set():
            return
        with self._lock:
            if self._away:
                return
            self._pending.add(name)
            self._thread("hints-publish", self._publish_loop)
        self._something.set()

    def subscribe(self, names: Iterable[str], event: threading.Event | None = None) -> threading.Event:
        """An event that is set whenever one of `names` is published, and after every reconnection."""
        wake = event or threading.Event()
        if self._url is None:
            return wake
        with self._lock:
            for name in names:
                self._listeners.setdefault(name, []).append(wake)
            self._changed.set()
            self._thread("hints-listen", self._listen_loop)
        return wake

    def start(self) -> None:
        """Load the client: its import takes half a second, which the first hint must not cost. Threads start with use."""
        if self._url is not None:
            import redis

            assert redis

    def stop(self, timeout: float = 2.0) -> bool:
        """End both threads within `timeout` seconds; True if they ended."""
        self._stopping.set()
        self._something.set()
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    close = stop

    def _thread(self, name: str, target: Any) -> None:
        if not any(thread.name == name for thread in self._threads):
            thread = threading.Thread(target=target, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _client(self) -> redis.Redis:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        assert self._url is not None
        # The client's own ten retries would hold a hint for a minute, long after polling has found the work.
        return redis.Redis.from_url(
            self._url,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=CONNECT_SECONDS,
            retry=Retry(NoBackoff(), 0),
            health_check_interval=15,
        )

    def _publish_loop(self) -> None:
        client = self._client()
        while not self._stopping.is_set():
            self._something.wait()
            self._something.clear()
            with self._lock:
                names, self._pending = self._pending, set()
            if not names:
                continue
            try:
                self._send(client, names)
            except Exception as error:  # noqa: BLE001 - whatever it is, hints are not worth more than a line
                self._wait_until_back(client, error)
            self._stopping.wait(SPACING_SECONDS)
        with suppress(Exception):
            client.close()

    def _send(self, client: redis.Redis, names: set[str]) -> None:
        if len(names) == 1:
            client.publish(self.prefix + next(iter(names)), b"")
            return
        with client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.publish(self.prefix + name, b"")
            pipe.execute()

    def _answers(self, client: redis.Redis) -> bool:
        try:
            return bool(client.ping())
        except Exception:  # noqa: BLE001 - the answer is no
            return False

    def _wait_until_back(self, client: redis.Redis, error: Exception) -> None:
        log.warning("hints.away", error=type(error).__name__)
        with self._lock:
            self._away = True
            self._pending.clear()
        backoff = Backoff(0.1, 5.0)
        while not self._stopping.wait(backoff.next()):
            if self._answers(client):
                log.info("hints.back")
                break
        with self._lock:
            self._away = False

    def _listen_loop(self) -> None:
        backoff = Backoff(0.1, 5.0)
        while not self._stopping.is_set():
            client = self._client()
            try:
                self._listen(client, backoff)
            except Exception as error:  # noqa: BLE001 - the same: polling goes on
                log.debug("hints.away", error=type(error).__name__)
                self._stopping.wait(backoff.next())
            finally:
                with suppress(Exception):
                    client.close()

    def _listen(self, client: redis.Redis, backoff: Backoff) -> None:
        pubsub = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]  # the library has no types
        with pubsub:
            subscribed: set[str] = set()
            while not self._stopping.is_set():
                self._changed.clear()
                with self._lock:
                    wanted = set(self._listeners)
                if new := wanted - subscribed:
                    pubsub.subscribe(*(self.prefix + name for name in new))
                    subscribed |= new
                    self._wake(new)  # it may have been published while nobody listened
                    backoff.reset()
                message = pubsub.get_message(timeout=0.05 if self._changed.is_set() else LISTEN_SECONDS)
                if message is not None and message["type"] == "message":
                    self._wake([message["channel"].decode().removeprefix(self.prefix)])

    def _wake(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                for event in self._listeners.get(name, ()):
                    event.set()
