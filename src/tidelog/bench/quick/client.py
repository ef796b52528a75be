"""A process that sends single records, or times them, through librdkafka (`python -m`)."""

import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidelog.bench.compare.client_process import Job, answer
from tidelog.bench.compare.topics import library

FLUSH_S = 60.0
QUEUED = 20
"""Of each producer: enough that none waits for us."""
POLL_S = 0.001
READY_WITHIN_S = 30.0
ARRIVE_WITHIN_S = 30.0
WARM_UP = 200
"""Records whose latency is not counted: connections and code are new."""
STAMP = struct.Struct("=qd")
ONE_BY_ONE = {"batch.num.messages": 1, "max.in.flight.requests.per.connection": 1, "linger.ms": 0}


class Unanswered(Exception):  # noqa: N818 - it names what is so
    """Not every record was acknowledged, or not every one arrived."""


def small(job: Job) -> Job:
    """One record per request, one request in flight on each connection; seconds for all."""
    fate: Counter[str] = Counter()

    def heard(place: int, error: object, _: object) -> None:
        fate["refused" if error is not None else "answered"] += 1
        waiting[place] -= 1

    producers = [_producer(job, ONE_BY_ONE) for _ in range(job["connections"])]
    callbacks = [partial(heard, place) for place in range(len(producers))]
    waiting = [0] * len(producers)
    value, topic, left = bytes(job["record_bytes"]), job["topic"], job["records"]
    for producer in producers:
        producer.list_topics(topic, timeout=READY_WITHIN_S)
    begin = time.perf_counter()
    while left:
        for place, producer in enumerate(producers):
            for _ in range(min(left, QUEUED - waiting[place])):
                producer.produce(topic, value, partition=0, on_delivery=callbacks[place])
                waiting[place] += 1
                left -= 1
            producer.poll(0)
        producers[0].poll(POLL_S)
    unanswered = sum(producer.flush(FLUSH_S) for producer in producers)
    seconds = time.perf_counter() - begin
    if unanswered or fate["refused"]:
        raise Unanswered(f"{unanswered} records without an answer, {fate['refused']} refused")
    return {"seconds": seconds}


def latency(job: Job) -> Job:
    """Milliseconds from the call of the sender to the hands of the reader, in order of size."""
    count, rate, topic = job["records"] + WARM_UP, job["rate"], job["topic"]
    producer = _producer(job, {"linger.ms": 0})
    consumer = _consumer(job)
    arrived: dict[int, float] = {}
    reader = threading.Thread(target=_read, args=(consumer, count, arrived), daemon=True)
    reader.start()
    filling = bytes(max(0, job["record_bytes"] - STAMP.size))
    begin = time.perf_counter()
    for number in range(count):
        while (ahead := begin + number / rate - time.perf_counter()) > 0:
            time.sleep(ahead)
        value = STAMP.pack(number, time.perf_counter()) + filling
        producer.produce(topic, value, partition=0)
        producer.poll(0)
    producer.flush(FLUSH_S)
    reader.join(ARRIVE_WITHIN_S)
    if len(arrived) < count:
        raise Unanswered(f"{len(arrived)} of {count} records arrived")
    return {"latencies_ms": sorted(arrived[each] for each in range(WARM_UP, count))}


def _read(consumer: Any, count: int, arrived: dict[int, float]) -> None:
    deadline = time.monotonic() + ARRIVE_WITHIN_S
    while len(arrived) < count and time.monotonic() < deadline:
        message = consumer.poll(ARRIVE_WITHIN_S)
        if message is not None and message.error() is None:
            number, sent = STAMP.unpack_from(message.value())
            arrived[number] = (time.perf_counter() - sent) * 1000
            deadline = time.monotonic() + ARRIVE_WITHIN_S


def _producer(job: Job, settings: Mapping[str, object]) -> Any:
    own = {"bootstrap.servers": job["bootstrap_servers"], "log_level": 0, "acks": "all"}
    return library().Producer({**own, **settings})


def _consumer(job: Job) -> Any:
    """Reads from the beginning of a new topic, so nothing can be missed."""
    own = {"bootstrap.servers": job["bootstrap_servers"], "log_level": 0}
    consumer = library().Consumer({**own, "group.id": "quick", "enable.auto.commit": False})
    consumer.assign([library().TopicPartition(job["topic"], 0, 0)])
    return consumer


WORK: dict[str, Callable[[Job], Job]] = {"small": small, "latency": latency}

if __name__ == "__main__":
    answer(lambda job: WORK[job["work"]](job))
