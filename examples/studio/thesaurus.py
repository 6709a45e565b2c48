"""Words that technical texts use for one another; a topic's word is also looked for by its neighbours here.

Kept short and verb-heavy on purpose: nouns of a field mean different things, but who asks how something recovers
wants to read how it reconnects.
"""

from __future__ import annotations

from .words import stem

_GROUPS = (
    "recover reconnect retry restore replace reopen resume re-establish heal refresh renew revive recycle ping",
    "lost disconnect drop broken stale dead closed dropped disconnected unusable invalidated alive liveness",
    "verify check validate authenticate",
    "create construct build instantiate",
    "delete remove discard purge evict",
    "read fetch retrieve load get",
    "write store save persist emit",
    "start launch begin boot spawn",
    "stop shutdown terminate halt exit cancel",
    "fail error failure crash exception abort",
    "wait block await sleep pause",
    "send publish emit deliver produce dispatch",
    "receive consume subscribe accept",
    "convert transform cast coerce encode decode",
    "parse decode deserialize tokenize",
    "serialize dump encode marshal",
    "limit throttle restrict cap bound quota",
    "secure protect encrypt harden",
    "configure set option setting customize",
    "test assert mock fixture",
    "schedule cron periodic timer interval",
    "parallel concurrent simultaneous",
    "speed fast performance efficient optimize",
    "share common shared",
    "update modify change upgrade alter",
    "install deploy package distribute",
    "migrate migration upgrade schema",
    "rebalance reassign reassignment assignor revoke",
    "sign signature signing",
    "log logger logging",
    "cache memoize caching lru",
    "thread threading threaded",
    "lock mutex semaphore",
    "queue fifo backlog",
    "timeout deadline expire expiry",
    "duplicate idempotent dedupe deduplicate",
)
_NEIGHBOURS: dict[str, dict[str, None]] = {}
for _group in _GROUPS:
    _first, *_rest = (stem(word.replace("-", "")) for word in _group.split())
    _NEIGHBOURS.setdefault(_first, {}).update(dict.fromkeys(_rest))


def neighbours(stem_: str) -> list[str]:
    """The stems that a stem is also looked for by, without itself."""
    return [other for other in _NEIGHBOURS.get(stem_, {}) if other != stem_]
