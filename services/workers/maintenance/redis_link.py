"""The way to Redis (or Valkey): one client, what its server does when memory runs out, and one line when it goes away.

Redis holds nothing but entries that can be derived again. So while it is away jobs wait, and nobody fails.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from stanchion.errors import Unprocessable, register_code
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.logging import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

EVICTS: Final = register_code(
    "E-MAINT-01",
    "Redis may drop entries",
    status=422,
    meaning="The server's maxmemory-policy evicts keys, so under memory pressure jobs vanish from the queue unseen.",
    fix="CONFIG SET maxmemory-policy noeviction, or STANCHION_ALLOW_EVICTION=true: jobs then come late.",
)

CONNECT_SECONDS: Final = 2.0
SOCKET_SECONDS: Final = 10.0  # longer than the longest blocking call of a worker
SAFE_POLICY: Final = "noeviction"

log = get_logger()


class RedisLink:
    """Shared by the loops of one process. `strict`: a server that evicts is not used at all."""

    name = "redis"

    def __init__(self, url: str, *, strict: bool) -> None:
        self.client: redis.Redis = redis.Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=SOCKET_SECONDS,
            # the client's own ten retries would hold a loop for a minute
            retry=Retry(NoBackoff(), 0),
            health_check_interval=15,
        )
        self.strict = strict
        self._lock = threading.Lock()
        self._backoff = Backoff(0.1, 5.0)
        self._usable = False
        self._said: str | None = None  # what was logged last, so that an outage is one line

    def start(self) -> None:
        """Look at the server if it answers; raises Unprocessable E-MAINT-01 when it evicts and that is not allowed."""
        self.usable()
        if self._said == "maintenance.redis_evicts" and self.strict:
            raise Unprocessable(EVICTS, "Redis may drop entries of the queue", where="maxmemory-policy of the server")

    def stop(self, timeout: float = 0.0) -> bool:  # noqa: ARG002 - the signature of a part
        """Close all connections."""
        self.client.close()
        return True

    def usable(self) -> bool:
        """Whether jobs can be queued and taken now; asks the server only after it was away."""
        with self._lock:
            if not self._usable:
                self._look()
            return self._usable

    def lost(self, error: redis.RedisError) -> float:
        """Note that a call failed; the seconds to wait before the next one."""
        with self._lock:
            self._usable = False
            full = isinstance(error, redis.exceptions.OutOfMemoryError)
            self._say("maintenance.redis_full" if full else "maintenance.redis_away", error=type(error).__name__)
            return self._backoff.next()

    def wait_seconds(self) -> float:
        """How long to wait before asking `usable` again."""
        return self._backoff.next()

    def check(self) -> str | None:
        """A health check: None when the queue works."""
        return None if self.usable() else "Redis does not answer, or evicts: jobs wait"

    def _look(self) -> None:
        try:
            memory: Mapping[str, object] = self.client.info("memory")
        except redis.RedisError as error:
            self._say("maintenance.redis_away", error=type(error).__name__)
            return
        policy = str(memory.get("maxmemory_policy", SAFE_POLICY))
        if policy != SAFE_POLICY:
            self._say("maintenance.redis_evicts", policy=policy, used=not self.strict)
            self._usable = not self.strict
        else:
            self._usable = True
            if self._said is not None:
                log.info("maintenance.redis_back")
            self._said = None
        if self._usable:
            self._backoff.reset()

    def _say(self, event: str, **fields: object) -> None:
        if self._said != event:
            self._said = event
            log.warning(event, **fields)  # type: ignore[arg-type]  # one of the names above
