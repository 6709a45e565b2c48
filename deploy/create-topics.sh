#!/bin/bash
# Creates the topics that every installation has; queues' own topics come with their first worker.
set -euo pipefail

bootstrap="${BOOTSTRAP:-kafka:9092}"
partitions="${PARTITIONS:-12}"
replication="${REPLICATION:-1}"

create() {
  /opt/kafka/bin/kafka-topics.sh --bootstrap-server "$bootstrap" --create --if-not-exists --topic "$1" \
    --partitions "$partitions" --replication-factor "$replication" --config "retention.ms=$2" --config cleanup.policy=delete
}

week=604800000
month=2592000000
for topic in \
  stanchion.task-service.commands.v1 \
  stanchion.task-service.replies.v1 \
  stanchion.orchestrator.commands.v1 \
  stanchion.events.v1
do
  create "$topic" "$week"
  create "$topic.dlq" "$month"
done
