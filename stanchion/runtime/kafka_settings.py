"""How this process talks to Kafka: every timeout and bound of the bus in one value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Defaults are for production; `KafkaSettings.dev` is for a broker on this machine.

    Times are milliseconds, as Kafka counts. A broker that keeps waiting members half a session (the embedded one does)
    makes every join as slow as its session is long: that is why the two profiles differ.
    """

    bootstrap: str
    client_id: str = "stanchion"

    session_timeout_ms: int = 45_000  # silence after which the group drops this member
    heartbeat_interval_ms: int = 3_000
    fetch_max_wait_ms: int = 500  # a fetch that finds nothing answers after so long
    fetch_idle_wait_ms: int = 500  # the same once nothing has come for a while
    max_poll_interval_ms: int = 300_000
    commit_interval_ms: int = 200  # offsets are committed by time, not by record

    request_timeout_ms: int = 10_000
    bootstrap_timeout_ms: int = 5_000  # one try to connect; who calls tries again
    delivery_timeout_ms: int = 30_000  # a message is acknowledged, or reported as not, within this
    max_block_ms: int = 5_000  # look-up of a topic's partitions
    close_timeout_ms: int = 3_000
    fragile_groups: bool = False  # the embedded broker's groups: see bus.group_care

    linger_ms: int = 2
    batch_bytes: int = 131_072
    max_request_bytes: int = 10_000_000
    compression: Literal["lz4", "gzip", ""] = "lz4"
    in_flight_messages: int = 10_000  # sent and not acknowledged: the client has no bound of its own
    in_flight_bytes: int = 32 * 1024 * 1024

    queue_high: int = 2_000  # records queued here for one partition: fetching it pauses
    queue_low: int = 500  # fetching goes on
    queue_bytes: int = 64 * 1024 * 1024  # in the queues of all partitions together
    partition_fetch_bytes: int = 1_048_576
    fetch_max_bytes: int = 8 * 1024 * 1024  # the embedded broker heeds this one only

    security_protocol: SecurityProtocol = "PLAINTEXT"
    ssl_cafile: str | None = None
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

    @classmethod
    def dev(cls, bootstrap: str, client_id: str = "stanchion") -> KafkaSettings:
        """For a broker on this machine: short sessions, so that joins and take-overs take a second."""
        return cls(
            bootstrap,
            client_id,
            session_timeout_ms=2_000,
            heartbeat_interval_ms=500,
            fetch_max_wait_ms=20,  # the embedded broker answers at the end of this wait, also when something came
            fetch_idle_wait_ms=250,  # fifty empty fetches a second would cost more than all the rest of an idle process
            request_timeout_ms=5_000,
            bootstrap_timeout_ms=2_000,
            delivery_timeout_ms=10_000,
            linger_ms=0,
            fragile_groups=True,
        )

    def named(self, client_id: str) -> KafkaSettings:
        """The same under another client id."""
        return replace(self, client_id=client_id)

    def faults(self) -> list[str]:
        """The relations between these settings that do not hold, in words."""
        found = []
        if self.heartbeat_interval_ms * 3 > self.session_timeout_ms:
            found.append(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) * 3 > session_timeout_ms "
                f"({self.session_timeout_ms}): two lost heartbeats would cost the partitions"
            )
        if not 0 < self.queue_low < self.queue_high:
            found.append(f"queue_low ({self.queue_low}) must lie between 0 and queue_high ({self.queue_high})")
        if self.delivery_timeout_ms < self.request_timeout_ms + self.linger_ms:
            found.append(
                f"delivery_timeout_ms ({self.delivery_timeout_ms}) < request_timeout_ms ({self.request_timeout_ms})"
            )
        if self.commit_interval_ms <= 0:
            found.append(f"commit_interval_ms ({self.commit_interval_ms}) must be above 0")
        return found
