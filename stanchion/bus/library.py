"""The one place that imports kafka-python. It has no type information: what comes from here is `Any` to the checker.

The library reads its protocol schemas by a deprecated call while it is imported; the warning is not ours to mend.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import (
        AsyncConsumerRebalanceListener,
        KafkaAdminClient,
        KafkaConsumer,
        KafkaProducer,
        OffsetAndMetadata,
        TopicPartition,
    )
    from kafka import errors as kafka_errors
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.base import MemberState
    from kafka.net.inet import KafkaNetSocket
    from kafka.protocol.admin import DescribeGroupsRequest
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
    from kafka.record.default_records import DefaultRecord, DefaultRecordBatch, DefaultRecordBatchBuilder
    from kafka.record.util import decode_varint

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerProtocolAssignment",
    "CooperativeStickyAssignor",
    "DefaultRecord",
    "DefaultRecordBatch",
    "DefaultRecordBatchBuilder",
    "DescribeGroupsRequest",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaNetSocket",
    "KafkaProducer",
    "MemberState",
    "OffsetAndMetadata",
    "TopicPartition",
    "decode_varint",
    "kafka_errors",
]
