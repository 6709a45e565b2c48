"""What a host is spared: more requests than it takes, and requests while it is down. Shared by all workers over Valkey.

Nothing here decides a fact. Before a request leaves, the guard may say "not now", and then it certainly was not sent.
Without Valkey each process counts for itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from stanchion.contracts import limits
from stanchion.runtime.clock import monotonic
from stanchion.workflow.operation import NotSent

__all__ = ["HostGuard", "wait_of"]

PREFIX: Final = "stanchion.host."
AWAY_SECONDS: Final = 5.0
"""How long Valkey is left alone after it did not answer."""

_TAKE: Final = """
local now = redis.call('TIME'); now = now[1] * 1000 + math.floor(now[2] / 1000)
local shut = tonumber(redis.call('HGET', KEYS[1], 'shut') or '0')
if shut > now then return shut - now end
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
if rate <= 0 then return 0 end
local level = tonumber(redis.call('HGET', KEYS[1], 'level') or burst)
local at = tonumber(redis.call('HGET', KEYS[1], 'at') or now)
level = math.min(burst, level + (now - at) * rate / 1000)
if level < 1 then return math.ceil((1 - level) * 1000 / rate) end
redis.call('HSET', KEYS[1], 'level', level - 1, 'at', now)
redis.call('PEXPIRE', KEYS[1], 3600000)
return 0
"""
_SHUT: Final = """
local now = redis.call('TIME'); now = now[1] * 1000 + math.floor(now[2] / 1000)
if ARGV[2] == '1' then
  local n = redis.call('HINCRBY', KEYS[1], 'failures', 1)
  redis.call('PEXPIRE', KEYS[1], 3600000)
  if n < tonumber(ARGV[3]) then return 0 end
end
redis.call('HSET', KEYS[1], 'shut', now + tonumber(ARGV[1]), 'failures', 0)
return 1
"""


class HostGuard:
    """`rate` requests a second with bursts of `burst` (None: no limit); shut for `shut_seconds` after `failures` in a row,
    or for as long as the host asks by Retry-After. `redis_url` defaults to STANCHION_REDIS_URL."""

    def __init__(
        self,
        name: str,
        *,
        rate: float | None = None,
        burst: int = 10,
        failures: int = 5,
        shut_seconds: float = 10.0,
        redis_url: str | None = None,
    ) -> None:
        self.name = name
        self.rate = rate
        self.burst = burst
        self.failures = failures
        self.shut_seconds = shut_seconds
        self._url = redis_url
        self._lock = threading.Lock()
        self._redis: Any = None
        self._away_until = 0.0
        self._own = _Own()

    def enter(self) -> None:
        """Let one request through; raises NotSent while it must wait."""
        wait = self._shared(lambda r: r.eval(_TAKE, 1, PREFIX + self.name, self.rate or 0, self.burst))
        if wait is None:
            wait = self._own.take(self.rate, self.burst)
        if wait:
            what = f"{self.name} is spared for {int(wait) / 1000:g} s: it is down, or takes no more"
            raise NotSent(what, wait_seconds=wait / 1000)

    def failed(self) -> None:
        """A request did not get an answer."""
        self._shut(self.shut_seconds, counted=True)

    def answered(self, status: int, retry_after: str | None = None) -> None:
        """The host answered, so it is there; what it asks for is done."""
        seconds = wait_of(retry_after)
        if status in (429, 503) and seconds:
            self._shut(seconds, counted=False)
        elif status >= 500:
            self._shut(self.shut_seconds, counted=True)
        elif self._own.failures:
            self._own.failures = 0
            self._shared(lambda r: r.hset(PREFIX + self.name, "failures", 0) or 0)

    def _shut(self, seconds: float, *, counted: bool) -> None:
        self._own.shut(seconds, self.failures if counted else 0)
        self._shared(
            lambda r: r.eval(
                _SHUT, 1, PREFIX + self.name, round(seconds * 1000), "1" if counted else "0", self.failures
            )
        )

    def _shared(self, call: Callable[[Any], Any]) -> Any:
        """What Valkey says; None while it is away, which harms nothing."""
        url = self._url or os.environ.get("STANCHION_REDIS_URL")
        if not url or monotonic() < self._away_until:
            return None
        try:
            return call(self._client(url))
        except Exception:  # noqa: BLE001 - whatever it is, each process counts for itself meanwhile
            self._away_until = monotonic() + AWAY_SECONDS
            return None

    def _client(self, url: str) -> Any:
        with self._lock:
            if self._redis is None:
                import redis

                self._redis = redis.Redis.from_url(url, socket_connect_timeout=0.5, socket_timeout=0.5)
            return self._redis


class _Own:
    """What this process alone knows."""

    def __init__(self) -> None:
        self.failures = 0
        self._shut_until = 0.0
        self._level: float | None = None
        self._at = monotonic()
        self._lock = threading.Lock()

    def take(self, rate: float | None, burst: int) -> float:
        """Milliseconds to wait, 0 when one may go."""
        with self._lock:
            now = monotonic()
            if now < self._shut_until:
                return (self._shut_until - now) * 1000
            if rate is None:
                return 0
            self._level = min(burst, (burst if self._level is None else self._level) + (now - self._at) * rate)
            self._at = now
            if self._level < 1:
                return (1 - self._level) * 1000 / rate
            self._level -= 1
            return 0

    def shut(self, seconds: float, failures: int) -> None:
        """Shut for a while, at once or after so many failures in a row."""
        with self._lock:
            self.failures += 1
            if self.failures >= failures:
                self._shut_until = monotonic() + seconds
                self.failures = 0


def wait_of(retry_after: str | None) -> float:
    """The seconds that a Retry-After asks for, within what a host may; 0 without one, and for what is no number."""
    found = 0.0
    with suppress(TypeError, ValueError):
        found = float(retry_after or "")
    return min(found, limits.HOST_WAIT_SECONDS) if found > 0 else 0.0
