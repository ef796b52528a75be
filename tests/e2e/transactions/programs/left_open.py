"""Begins a transaction of librdkafka, writes records, says so, and leaves it open."""

import sys

import confluent_kafka

from e2e.transactions.programs.program import TIMEOUT_S, hold


def main() -> None:
    bootstrap, topic, name, timeout_ms = sys.argv[1:]
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": int(timeout_ms),
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(topic, f"{name} {number}", partition=0)
    producer.flush(TIMEOUT_S)
    hold()


main()
