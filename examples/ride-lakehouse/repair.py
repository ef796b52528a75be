"""Dead letters of rides, made right: `python repair.py --servers … --registry …`.

One version of the drivers' app wrote JSON. Its letters are read from rides.dead-letters, written
as Avro into rides.repaired, and keep partition, key, timestamp and headers; the headers say where
each was. `tidelog pipeline replay-dead-letters rides.repaired --to rides` then puts them back.
"""

import argparse
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient

from rides import AvroValues
from topics import WAIT_SECONDS, read_all

LETTERS, REPAIRED = "rides.dead-letters", "rides.repaired"
VERSION = 2


def repair(servers: str, registry: str) -> int:
    """How many there were. None of them is written if one cannot be repaired."""
    latest = SchemaRegistryClient({"url": registry}).get_latest_version("rides-value")
    encode = AvroValues(VERSION, latest.schema_id)
    letters = read_all(servers, LETTERS)
    values = [encode(json.loads(letter.value())) for letter in letters]
    failures: list[str] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for letter, value in zip(letters, values, strict=True):
        producer.produce(
            REPAIRED,
            value,
            letter.key(),
            partition=letter.partition(),
            timestamp=letter.timestamp()[1],
            headers=letter.headers(),
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
    if producer.flush(WAIT_SECONDS) or failures:
        raise RuntimeError(f"{REPAIRED} did not take all: {failures[:1]}")
    return len(letters)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--registry", required=True)
    given = parser.parse_args()
    print(json.dumps({"repaired": repair(given.servers, given.registry)}))
    sys.exit(0)
