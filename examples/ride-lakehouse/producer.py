"""Write events of rides into a topic: `python producer.py --events events.npz --rate 50000 …`.

Prints a line of JSON twice a second. Ends with exit code 1 if an event was not acknowledged.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from rides import (
    AFTER_CLOSING,
    AVRO,
    CLOSING,
    JSON_BY_MISTAKE,
    SCHEMAS,
    AvroValues,
    Events,
    as_json,
    as_records,
    load_events,
)

PARTS = {
    "stream": (AVRO, JSON_BY_MISTAKE),
    "closing": (CLOSING,),
    "after-closing": (AFTER_CLOSING,),
}
CHUNK = 2_500
TELL_EVERY_SECONDS = 0.5
BEHIND_SECONDS = 4
"""An event waits if so many seconds of events are not acknowledged yet. So no partition falls
further behind another than the watermark of the reader allows."""
FLUSH_SECONDS = 150


class Writer:
    def __init__(self, servers: str, registry: str, topic: str) -> None:
        self._topic = topic
        self._registry = SchemaRegistryClient({"url": registry})
        self._values: dict[int, AvroValues] = {}
        self.sent = 0
        self.failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "rides",
                "enable.idempotence": True,  # acks=all, no event twice, order kept
                "linger.ms": 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 2_000_000,
                "delivery.report.only.error": True,
                "on_delivery": self._failed,
            }
        )

    def _failed(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))

    @property
    def waiting(self) -> int:
        """How many are not acknowledged yet."""
        return len(self._producer)

    def wait_until_fewer_than(self, count: int) -> None:
        while self.waiting >= count:
            self._producer.poll(0.05)

    def write(self, events: Events) -> None:
        records = as_records(events)
        versions, forms = events.version.tolist(), events.written_as.tolist()
        batch = []
        for record, version, form in zip(records, versions, forms, strict=True):
            encode = as_json if form == JSON_BY_MISTAKE else self._avro(version)
            key = b"%d" % record["ride"]  # all events of a ride in one partition, in order
            batch.append({"key": key, "value": encode(record)})
        taken = self._producer.produce_batch(self._topic, batch)
        assert taken == len(batch), [each["_error"] for each in batch if "_error" in each][:1]
        self.sent += taken
        self._producer.poll(0)

    def _avro(self, version: int) -> AvroValues:
        """A schema is registered when its first value is written."""
        if version not in self._values:
            schema = Schema(json.dumps(SCHEMAS[version]), "AVRO")
            schema_id = self._registry.register_schema(f"{self._topic}-value", schema)
            self._values[version] = AvroValues(version, schema_id)
            tell(schema=version, schema_id=schema_id, sent=self.sent)
        return self._values[version]

    def flush(self) -> int:
        return self._producer.flush(FLUSH_SECONDS)


def tell(**facts: object) -> None:
    print(json.dumps({**facts, "at": round(time.time(), 3)}), flush=True)


def write_paced(writer: Writer, events: Events, rate: int) -> None:
    """At an even pace. If the cluster or this process is too slow for it, as fast as it goes."""
    begin = told = time.monotonic()
    while writer.sent < events.count:
        due = int((time.monotonic() - begin) * rate)
        chunk = min(CHUNK, due - writer.sent, events.count - writer.sent)
        if chunk <= 0:
            time.sleep(0.01)
            continue
        writer.wait_until_fewer_than(BEHIND_SECONDS * rate)
        writer.write(events.where(slice(writer.sent, writer.sent + chunk)))
        if time.monotonic() - told >= TELL_EVERY_SECONDS:
            told = time.monotonic()
            tell(sent=writer.sent, acknowledged=writer.sent - writer.waiting)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--registry", required=True)
    parser.add_argument("--topic", default="rides")
    parser.add_argument("--part", choices=PARTS, default="stream")
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--start", type=int, default=0, help="the first event of the part")
    parser.add_argument("--end", type=int, help="the one behind the last")
    given = parser.parse_args()
    events = load_events(given.events)
    events = events.where(np.isin(events.written_as, PARTS[given.part]))
    events = events.where(slice(given.start, given.end))
    writer = Writer(given.servers, given.registry, given.topic)
    begin = time.monotonic()
    write_paced(writer, events, given.rate)
    left = writer.flush()
    tell(
        sent=writer.sent,
        acknowledged=writer.sent - left - len(writer.failures),
        seconds=round(time.monotonic() - begin, 3),
    )
    for failure in sorted(set(writer.failures)):
        print(f"not acknowledged: {failure}", file=sys.stderr)
    return 1 if left or writer.failures else 0


if __name__ == "__main__":
    sys.exit(main())
