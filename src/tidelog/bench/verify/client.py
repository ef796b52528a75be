"""A process that writes numbered records as fast as they go, and notes every offset it was told
(`python -m`, see `tidelog.bench.compare.client_process`)."""

from array import array
from functools import partial
from pathlib import Path

from tidelog.bench.compare.client_process import Job, answer
from tidelog.bench.compare.topics import library
from tidelog.bench.verify.values import value_of, writer_of

FLUSH_S = 120.0
FULL_QUEUE_S = 0.002
POLL_EVERY = 500
"""Records: answers can wait a moment, and asking for them takes as long as sending."""
UNKNOWN_OFFSET = -1


def write(job: Job) -> Job:
    """The offset of each record goes to a file, in the order of sending; -1 where none was told."""
    partitions, size_bytes, topic = job["partitions"], job["record_bytes"], job["topic"]
    offsets = array("q", [UNKNOWN_OFFSET]) * job["records"]
    refused: list[str] = []

    def heard(place: int, error: object, message: object) -> None:
        if error is None:
            offsets[place] = message.offset()  # type: ignore[attr-defined]  # a library's Message
        else:
            refused.append(str(error))

    producer = library().Producer({"log_level": 0, **job["settings"]})
    for place in range(job["records"]):
        number, partition = divmod(place, partitions)
        value = value_of(writer_of(job["producer"], partition, partitions), number, size_bytes)
        told = partial(heard, place)
        while True:
            try:
                producer.produce(topic, value, partition=partition, on_delivery=told)
                break
            except BufferError:
                producer.poll(FULL_QUEUE_S)
        if place % POLL_EVERY == 0:
            producer.poll(0)
    producer.flush(FLUSH_S)
    Path(job["offsets_file"]).write_bytes(offsets.tobytes())
    return {"refused": refused[:5]}


if __name__ == "__main__":
    answer(write)
