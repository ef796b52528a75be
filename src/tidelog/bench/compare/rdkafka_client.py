"""A process that writes or reads one topic through librdkafka (`python -m`, see client_process)."""

import hashlib
import time
from collections.abc import Iterator
from typing import Any

from tidelog.bench.compare.client_process import Job, answer
from tidelog.bench.compare.topics import library

FLUSH_S = 120.0
STANDSTILL_S = 30.0
FULL_QUEUE_S = 0.002
BATCH_MAX = 5_000
NUMBER_BYTES = 8


class Incomplete(Exception):  # noqa: N818 - it names what is so
    """Not all records were acknowledged, or not all were there."""


def values(records: int, record_bytes: int) -> Iterator[bytes]:
    """Values that differ: a number, and the same filling after it."""
    filling = bytes(65 + place % 26 for place in range(record_bytes - NUMBER_BYTES))
    for number in range(records):
        yield number.to_bytes(NUMBER_BYTES, "big") + filling


def digest(value: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "big")


def produce(job: Job) -> Job:
    """Seconds from the first record until the last is acknowledged."""
    refused: list[str] = []

    def heard(error: object, _: object) -> None:
        if error is not None:
            refused.append(str(error))

    quiet = {"log_level": 0, "delivery.report.only.error": True, "on_delivery": heard}
    producer = library().Producer({**quiet, **job["settings"]})
    topic, send, poll = job["topic"], producer.produce, producer.poll
    producer.list_topics(topic, timeout=STANDSTILL_S)  # connected, as it is for most of its life
    begin = time.perf_counter()
    for value in values(job["records"], job["record_bytes"]):
        while True:
            try:
                send(topic, value)
                break
            except BufferError:
                poll(FULL_QUEUE_S)
    left = producer.flush(FLUSH_S)
    seconds = time.perf_counter() - begin
    if left or refused:
        raise Incomplete(f"{left} records without an answer, {len(refused)} refused {refused[:1]}")
    return {"seconds": seconds}


def consume(job: Job) -> Job:
    """Seconds from the first record until the last is here. Connecting is left out: librdkafka
    rests for 50 ms on the way, by chance, and that is a fifth of what it takes to read."""
    batches = _batches(_consumer(job), job)
    next(batches)
    begin = time.perf_counter()
    read = sum(len(batch) for batch in batches)
    return {"seconds": time.perf_counter() - begin, "records": read}


def read_back(job: Job) -> Job:
    """Whether the topic holds every value that was written, once: count and sum of digests."""
    consumer = _consumer(job)
    found = sum(digest(each.value()) for batch in _batches(consumer, job) for each in batch)
    wanted = sum(map(digest, values(job["records"], job["record_bytes"])))
    if found != wanted:
        raise Incomplete(f"{job['records']} records were written, and others are read")
    ends = [consumer.get_watermark_offsets(each)[1] for each in consumer.assignment()]
    if sum(ends) != job["records"]:
        raise Incomplete(f"{job['records']} records were written, and {sum(ends)} are there")
    return {"records": job["records"]}


def _consumer(job: Job) -> Any:
    """Of the whole topic, from its beginning."""
    settings = {
        "group.id": "bench",
        "enable.auto.commit": False,
        "log_level": 0,
        # As it comes, it stops asking for a partition of which it has 64 MB or 100,000 records that
        # nobody took. If it has all of the other one on that broker, it asks for that alone, which
        # is answered half a second later: longer than the whole topic takes. Whether a partition
        # is that large is chance.
        "queued.max.messages.kbytes": 2_097_151,
        "queued.min.messages": 10_000_000,
    }
    consumer = library().Consumer({**settings, **job["settings"]})
    partition = library().TopicPartition
    consumer.assign([partition(job["topic"], each, 0) for each in range(job["partitions"])])
    return consumer


def _batches(consumer: Any, job: Job) -> Iterator[list[Any]]:
    """Until as many as were written are here; the first alone."""
    read = 0
    while read < job["records"]:
        # It waits until it has as many as it is asked for.
        wanted = min(BATCH_MAX, job["records"] - read) if read else 1
        batch = consumer.consume(wanted, STANDSTILL_S)
        broken = next((each.error() for each in batch if each.error() is not None), None)
        if broken is not None or not batch:
            raise Incomplete(f"{read} of {job['records']} records read, then {broken or 'nothing'}")
        read += len(batch)
        yield batch


WORK = {"produce": produce, "consume": consume, "read_back": read_back}

if __name__ == "__main__":
    answer(lambda job: WORK[job["work"]](job))
