"""The floor: what the same servers do at most, whatever stands on top of them."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg

from stanchion.bus.admin import ensure_topics
from stanchion.bus.consumer import Consumer
from stanchion.bus.messages import Message
from stanchion.bus.producer import Producer
from stanchion.contracts.topics import TopicSpec
from stanchion.runtime.kafka_settings import KafkaSettings


def commits(url: str, clients: int, seconds: float) -> dict[str, Any]:
    """Durable commits a second of one small row each."""
    with psycopg.connect(url, autocommit=True) as c:
        c.execute("CREATE TABLE IF NOT EXISTS public.floor (id bigint GENERATED ALWAYS AS IDENTITY, body text)")
    done = [0] * clients
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        with psycopg.connect(url, autocommit=True) as c:
            while time.monotonic() < end:
                c.execute("INSERT INTO public.floor (body) VALUES ('x')", prepare=True)
                done[number] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"clients": clients, "commits_per_second": round(sum(done) / seconds)}


def kafka_to_postgres(url: str, bootstrap: str, count: int) -> dict[str, Any]:
    """Records a second from a topic into a table, up to 100 a commit."""
    settings = KafkaSettings.dev(bootstrap)
    topic = f"floor-{time.time_ns()}"
    ensure_topics(settings, [TopicSpec(topic, "the floor", "none", "commands", partitions=4, replication=1)])
    producer = Producer(settings)
    producer.send_all([Message(topic, str(n).encode(), [], b'{"n": %d}' % n) for n in range(count)], timeout=60)
    consumer = Consumer(settings, topic, [topic])
    consumer.start()
    stored = 0
    started = 0.0
    with psycopg.connect(url, autocommit=True) as c:
        c.execute("CREATE TABLE IF NOT EXISTS public.floor_task (id bigint GENERATED ALWAYS AS IDENTITY, body jsonb)")
        while stored < count:
            records = consumer.take(100, 1.0)
            started = started or time.perf_counter()
            if records:
                c.execute(
                    "INSERT INTO public.floor_task (body) SELECT x::jsonb FROM unnest(%s::text[]) x",
                    ([(r.value or b"null").decode() for r in records],),
                    prepare=True,
                )
                consumer.done(records)
                stored += len(records)
    seconds = time.perf_counter() - started
    consumer.stop()
    producer.stop()
    return {"records": count, "per_second": round(count / seconds)}
