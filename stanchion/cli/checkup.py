"""What `doctor` looks at: each look is bounded, tells what it found, and names a fix where something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from stanchion.cli.connections import Connections
from stanchion.cli.session import Session
from stanchion.contracts import limits
from stanchion.errors import CODES, StanchionError

OK: Final = "ok"
WARNING: Final = "warning"
FAILING: Final = "failing"
SKIPPED: Final = "skipped"

_LOOK_SECONDS: Final = 8.0
_LAG_SECONDS: Final = 5.0
_LEAST_POSTGRES: Final = 180_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One look: what was looked at, how it is, what was found, and what to do about it."""

    check: str
    state: str
    what: str
    fix: str | None = None

    def row(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {"check": self.check, "state": self.state, "what": self.what, "fix": self.fix}


class Checkup:
    """All looks of one invocation, in the order in which a person would ask."""

    def __init__(self, session: Session, *, mend: bool = False) -> None:
        self.session = session
        self.mend = mend  # create topics that are missing
        self.connections = Connections(session)

    def findings(self) -> Iterator[Finding]:
        """Look at everything; a look that breaks is a finding too."""
        looks: dict[str, Callable[[], Iterator[Finding]]] = {
            "python": self._python,
            "api": self._api,
            "database": self._database,
            "kafka": self._kafka,
            "redis": self._redis,
        }
        for name, look in looks.items():
            try:
                yield from look()
            except StanchionError as error:
                info = CODES.get(error.code)
                what = f"{error.code} {error.what}" + (f": {error.why}" if error.why else "")
                yield Finding(name, FAILING, what, error.fix or (info.fix if info else None))
            except Exception as error:  # noqa: BLE001 - a check that breaks must not hide the others
                yield Finding(name, FAILING, f"the check broke: {type(error).__name__}: {error}", "report this")

    def _python(self) -> Iterator[Finding]:
        from importlib.metadata import version

        text = f"stanchion {version('stanchion')} on Python {sys.version.split()[0]}"
        yield Finding("python", OK, text)

    def _api(self) -> Iterator[Finding]:
        from stanchion.sdk.client import Client

        found = self.connections.find("api_url")
        if found is None:
            fix = "start `stanchion dev`, or set STANCHION_API_URL and STANCHION_API_KEY"
            yield Finding("api", FAILING, "nothing says where the API is", fix)
            return
        with Client(found.value, self.connections.api_key or "", timeout=_LOOK_SECONDS) as client:
            try:
                checks = client.read("/readyz").get("checks", {})
                yield Finding("api", OK, f"{found.value} is ready ({', '.join(checks) or 'no checks'})")
            except StanchionError as error:
                if error.details.get("status") != 503:
                    raise
                yield Finding("api", FAILING, f"{found.value} answers and is not ready", "see the task service's log")
            client.list(limit=1)
            yield Finding("key", OK, f"the key from {self._origin('api_key')} works")
            yield from self._workers([one for one in client.workers(limit=1_000).items if one["state"] == "active"])

    def _workers(self, workers: list[Mapping[str, Any]]) -> Iterator[Finding]:
        if not workers:
            yield Finding("workers", WARNING, "no worker is alive", "stanchion worker run TARGET")
            return
        busy = sum(int(one["running"]) for one in workers)
        slots = sum(int(one["slots"]) for one in workers)
        yield Finding("workers", OK, f"{len(workers)} alive, {busy} of {slots} slots busy")
        skewed = [one for one in workers if abs(int(one["clock_offset_ms"])) > limits.CLOCK_SKEW_SECONDS * 1_000]
        for worker in skewed:
            off = int(worker["clock_offset_ms"]) / 1_000
            place = f" on {worker['host']}" if worker["host"] else ""  # hidden from a key of a tenant
            yield Finding("clock", WARNING, f"{worker['name']}{place} is off by {off:+.1f} s", "run NTP there")

    def _database(self) -> Iterator[Finding]:
        found = self.connections.find("admin_database_url")
        if found is None:
            yield Finding("database", SKIPPED, "STANCHION_ADMIN_DATABASE_URL is not set")
            return
        from stanchion.db import migrate
        from stanchion.db.engine import Database
        from stanchion.runtime.redaction import redact_text

        status = migrate.status(found.value)
        if status.up_to_date:
            yield Finding("database", OK, f"{redact_text(found.value)} is at schema {status.current}")
        else:
            what = f"schema {status.current or 'none'}, this release needs {status.newest}"
            yield Finding("database", FAILING, what, "stanchion db migrate")
            return
        database = Database(found.value, name="doctor", pool_size=1, overflow=0)
        try:
            yield from self._inside(database)
        finally:
            database.close()

    def _inside(self, database: Any) -> Iterator[Finding]:
        before = datetime.now(UTC)
        version, now, lag = database.read(
            "SELECT current_setting('server_version_num')::int, clock_timestamp(),"
            " (SELECT oldest_seconds FROM stanchion.outbox_lag())"
        )[0]
        off = (now - before).total_seconds()
        fix = "upgrade the server" if version < _LEAST_POSTGRES else None
        yield Finding("postgresql", FAILING if fix else OK, f"version {version // 10_000}.{version % 10_000}", fix)
        skewed = abs(off) > limits.CLOCK_SKEW_SECONDS
        text = f"this machine and the database differ by {off:+.2f} s"
        yield Finding("clock", WARNING if skewed else OK, text, "run NTP here" if skewed else None)
        late = float(lag or 0) > _LAG_SECONDS
        fix = "see that an outbox relay and the broker run" if late else None
        yield Finding(
            "outbox", FAILING if late else OK, f"the oldest unsent message is {float(lag or 0):.1f} s old", fix
        )
        yield from self._aside(database)

    def _aside(self, database: Any) -> Iterator[Finding]:
        """Damaged rows that the orchestrator could not get past; it goes on with all others."""
        rows = database.read(
            "SELECT x.kind, x.target_id, x.run_id, x.code, x.why, count(*) OVER () FROM stanchion.set_aside x"
            " WHERE x.retry_at > stanchion.clock() ORDER BY x.since LIMIT 5"
        )
        if not rows:
            yield Finding("damage", OK, "nothing is set aside")
        for kind, target, run_id, code, why, count in rows:
            what = f"one of {count} set aside: {kind} {target} of run {run_id}: {code} {why}"
            yield Finding(
                "damage", FAILING, what, "stanchion db check, then stanchion db rebuild; it is tried again by itself"
            )

    def _kafka(self) -> Iterator[Finding]:
        bootstrap = self.connections.value("kafka_bootstrap")
        if bootstrap is None:
            yield Finding("kafka", SKIPPED, "STANCHION_KAFKA_BOOTSTRAP is not set")
            return
        from stanchion.bus.admin import ensure_topics, missing_topics
        from stanchion.cli.stack_setup import quieten
        from stanchion.contracts import topics

        quieten()
        wanted = topics.specs()
        missing = missing_topics(bootstrap, [spec.name for spec in wanted], timeout=_LOOK_SECONDS)
        if missing and self.mend:
            ensure_topics(bootstrap, [spec for spec in wanted if spec.name in missing], timeout=30)
            yield Finding("kafka", OK, f"{bootstrap} answers; made {', '.join(missing)}")
        elif missing:
            yield Finding("kafka", FAILING, f"topics are missing: {', '.join(missing)}", "stanchion doctor --mend")
        else:
            yield Finding("kafka", OK, f"{bootstrap} answers; all {len(wanted)} topics exist")

    def _redis(self) -> Iterator[Finding]:
        url = self.connections.value("redis_url")
        if url is None:
            yield Finding("redis", SKIPPED, "STANCHION_REDIS_URL is not set")
            return
        import redis

        from stanchion.runtime.redaction import redact_text

        try:
            with redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=3) as client:
                client.ping()
        except redis.RedisError as error:
            what = f"{redact_text(url)} does not answer: {error}"
            # Without hints everything still works, by polling.
            yield Finding("redis", WARNING, what, "check STANCHION_REDIS_URL and the server; work goes on, a bit later")
            return
        yield Finding("redis", OK, f"{redact_text(url)} answers")

    def _origin(self, name: str) -> str:
        found = self.connections.find(name)
        return found.origin if found else "nowhere"
