"""The clients of kafka-python, built from `KafkaSettings`, and its errors in our words."""

from __future__ import annotations

from typing import Any, Final

from stanchion.bus import failed_sockets, tolerant_records
from stanchion.bus.library import (
    CooperativeStickyAssignor,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    kafka_errors,
)
from stanchion.errors import NotAllowed, StanchionError, TooLarge, Unavailable, Unprocessable
from stanchion.runtime.kafka_settings import KafkaSettings

tolerant_records.install()
failed_sockets.install()

# The library waits up to 30 s between tries to reconnect: after a long outage that is half a minute of nothing.
_RECONNECT_MAX_MS: Final = 1_000

# Larger than any fetch: with leftovers of a fetch inside the client, a paused partition can stay silent for good.
_ALL_OF_A_FETCH: Final = 10_000_000


def _common(settings: KafkaSettings) -> dict[str, Any]:
    common: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap.split(","),
        "client_id": settings.client_id,
        "request_timeout_ms": settings.request_timeout_ms,
        "bootstrap_timeout_ms": settings.bootstrap_timeout_ms,
        "reconnect_backoff_max_ms": _RECONNECT_MAX_MS,
        "metadata_max_age_ms": 30_000,
        "security_protocol": settings.security_protocol,
    }
    if settings.ssl_cafile:
        common["ssl_cafile"] = settings.ssl_cafile
    if settings.sasl_mechanism:
        common |= {
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_plain_username": settings.sasl_username,
            "sasl_plain_password": settings.sasl_password,
        }
    return common


def build_consumer(settings: KafkaSettings, group: str | None) -> Any:
    """A KafkaConsumer without topics; with a group it commits by hand and keeps what it need not give up."""
    grouped: dict[str, Any] = {}
    if group is not None:
        grouped = {
            "group_id": group,
            "partition_assignment_strategy": [CooperativeStickyAssignor],
            "session_timeout_ms": settings.session_timeout_ms,
            "heartbeat_interval_ms": settings.heartbeat_interval_ms,
            "max_poll_interval_ms": settings.max_poll_interval_ms,
        }
    return KafkaConsumer(
        **_common(settings),
        **grouped,
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # "latest" loses what was sent before the first reader came
        max_poll_records=_ALL_OF_A_FETCH,
        fetch_max_wait_ms=settings.fetch_max_wait_ms,
        max_partition_fetch_bytes=settings.partition_fetch_bytes,
        fetch_max_bytes=settings.fetch_max_bytes,
        metrics_enabled=False,
    )


def build_producer(settings: KafkaSettings) -> Any:
    """A KafkaProducer: idempotent, every message acknowledged by all replicas in sync."""
    producer = KafkaProducer(
        **_common(settings),
        acks="all",
        enable_idempotence=True,
        linger_ms=settings.linger_ms,
        batch_size=settings.batch_bytes,
        compression_type=settings.compression or None,
        max_request_size=settings.max_request_bytes,
        delivery_timeout_ms=settings.delivery_timeout_ms,
        max_block_ms=settings.max_block_ms,
        metrics_enabled=False,
    )
    # The library takes a broker that came back empty for one that only forgot old records, where it had sent nothing to
    # the partition before: it then repeats the refused batch until the delivery timeout. Told at once, we build anew.
    assert callable(producer._sender._is_retention_based_unknown_producer_id)
    producer._sender._is_retention_based_unknown_producer_id = lambda *_: False
    return producer


def build_admin(settings: KafkaSettings) -> Any:
    """A KafkaAdminClient."""
    return KafkaAdminClient(**_common(settings))


_TOO_LARGE = (kafka_errors.MessageSizeTooLargeError, kafka_errors.RecordListTooLargeError)
_REFUSED = (
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.ClusterAuthorizationFailedError,
    kafka_errors.SaslAuthenticationFailedError,
)
_MISSING = (kafka_errors.UnknownTopicOrPartitionError,)
_BAD_TOPIC = (kafka_errors.InvalidTopicError,)


def translate(error: BaseException, where: str | None = None) -> StanchionError:
    """An error of the library as one of ours: TooLarge, NotAllowed and Unprocessable never pass by themselves."""
    if isinstance(error, StanchionError):
        return error
    text = str(error)[:500] or type(error).__name__
    if isinstance(error, _TOO_LARGE):
        return TooLarge(
            "E-NET-03", "the message is larger than the broker or this client allows", where=where, why=text
        )
    if isinstance(error, _REFUSED):
        return NotAllowed("E-NET-06", "the broker refuses", where=where, why=text)
    if isinstance(error, _BAD_TOPIC):
        return Unprocessable("E-NET-02", "this is no topic name", where=where, why=text)
    if isinstance(error, _MISSING):
        return Unavailable("E-NET-02", "the topic does not exist", where=where, why=text)
    if isinstance(error, (TypeError, ValueError, AssertionError)):
        return Unprocessable("E-MSG-01", "the message can't be encoded", where=where, why=text)
    return Unavailable(
        "E-NET-01", f"the broker does not answer as it should: {type(error).__name__}", where=where, why=text
    )
