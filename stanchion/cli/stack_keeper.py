"""The loop that keeps a stack whole: services that died are started again, with backoff; an emptied broker gets its
topics back."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from stanchion.cli import stack_setup
from stanchion.embedded.watching import Watcher
from stanchion.errors import StanchionError
from stanchion.runtime.clock import monotonic

if TYPE_CHECKING:
    from stanchion.cli.service_process import ServiceProcess
    from stanchion.cli.stack import Stack

_LOOK_SECONDS: Final = 0.2
_BACKOFF_SECONDS: Final = (0.2, 0.5, 1.0, 5.0, 10.0)
_SETTLED_SECONDS: Final = 30.0  # who lived so long has earned a quick restart again

_log = logging.getLogger("stanchion.stack")


class StackKeeper:
    """Looks five times a second; one pass never waits for a service to become ready."""

    def __init__(self, stack: Stack, closing: threading.Event, watcher: Watcher) -> None:
        self._stack = stack
        self._closing = closing
        self._watcher = watcher
        self._thread: threading.Thread | None = None
        self._deaths: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._seen_dead: set[tuple[str, int]] = set()
        self._broker_starts = 0

    def start(self) -> None:
        """Begin to look."""
        self._broker_starts = self._broker_restarts()
        self._thread = threading.Thread(target=self._keep, name="stanchion-stack", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End with the current pass; the caller has set `closing`."""
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _keep(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            try:
                self._look()
            except Exception:  # noqa: BLE001 - the top of the loop
                # Whatever it is, the other services still need their supervisor; the next look tries again.
                _log.exception("a look at the stack failed")

    def _look(self) -> None:
        self._watcher.keep()
        changed = False
        for service in self._stack.services:
            changed = self._look_at(service) or changed
        if changed:
            self._stack.publish()
        if (starts := self._broker_restarts()) != self._broker_starts:
            self._broker_starts = starts
            threading.Thread(target=self._restore_topics, name="stanchion-topics", daemon=True).start()

    def _look_at(self, service: ServiceProcess) -> bool:
        now = monotonic()
        name = service.name
        if service.is_running() or not service.supervise or not service.wanted or service.record is None:
            return False
        self._tell_once(service)
        if service.kind == "worker" and service.exit_status() == 0:
            return False  # somebody asked it to drain: starting it again would undo that
        if now < self._not_before.get(name, 0.0):
            return False
        if now - self._started.get(name, 0.0) > _SETTLED_SECONDS:
            self._deaths[name] = 0
        # A service that dies at once every time must not keep a core busy; one that lived is back at once.
        died = self._deaths[name] = self._deaths.get(name, 0) + 1
        self._not_before[name] = now + _BACKOFF_SECONDS[min(died, len(_BACKOFF_SECONDS)) - 1]
        if not service.revive():
            return False
        self._started[name] = now
        self._stack.say(f"{name} runs again as process {service.pid}")
        return True

    def _tell_once(self, service: ServiceProcess) -> None:
        mark = (service.name, service.pid)
        if mark in self._seen_dead:
            return
        self._seen_dead.add(mark)
        status = service.exit_status()
        how = f"was ended by signal {-status}" if status is not None and status < 0 else f"ended with code {status}"
        self._stack.say(f"{service.name} (process {service.pid}) {how}; log: {service.log_path}")

    def _broker_restarts(self) -> int:
        servers = self._stack.servers
        if servers is None:
            return 0
        nodes = getattr(servers.kafka, "nodes", (servers.kafka,))
        return sum(getattr(node, "restarts", 0) for node in nodes)

    def _restore_topics(self) -> None:
        # The embedded broker comes back empty. Services create nothing by themselves, and what the broker would create
        # on the first mention has its own number of partitions.
        try:
            stack_setup.ensure_topics(self._stack.endpoints.kafka_bootstrap, self._stack.queues())
            self._stack.say("the broker came back; its topics are in place again")
        except StanchionError as error:
            self._stack.say(f"the topics could not be restored: {error}")
