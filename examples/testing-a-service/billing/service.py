"""The service: reads orders, writes invoices, and does both in one transaction."""

import json
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

TRANSACTION_TIMEOUT_S = 30


class Billing:
    """One invoice for every order. `bill` may be called again after any error: what it has done
    half is undone, and the orders of it are read again."""

    def __init__(self, servers: str, orders: str, invoices: str, group: str = "billing") -> None:
        self._invoices = invoices
        self._producer = Producer({"bootstrap.servers": servers, "transactional.id": group})
        self._producer.init_transactions(TRANSACTION_TIMEOUT_S)
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe([orders])
        self.aborted = 0
        """Transactions that had to be tried again."""

    def bill(self, count: int, timeout: float = 30) -> int:
        """Until so many orders have their invoices; how many have."""
        deadline = time.monotonic() + timeout
        billed = 0
        while billed < count and time.monotonic() < deadline:
            messages = self._consumer.consume(count - billed, 1.0)
            read = [message for message in messages if message.error() is None]
            if read:
                billed += self._write_invoices(read)
        return billed

    def _write_invoices(self, messages: list) -> int:
        self._producer.begin_transaction()
        try:
            for message in messages:
                order = json.loads(message.value())
                invoice = {"customer": order["customer"], "cents": order["cents"]}
                self._producer.produce(self._invoices, json.dumps(invoice), message.key())
            positions = self._consumer.position(self._consumer.assignment())
            group = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(positions, group)
            self._producer.commit_transaction(TRANSACTION_TIMEOUT_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(TRANSACTION_TIMEOUT_S)
            self.aborted += 1
            self._go_back(messages)
            return 0
        return len(messages)

    def _go_back(self, messages: list) -> None:
        """To the first order of each partition that has no invoice now."""
        first: dict[tuple[str, int], int] = {}
        for message in messages:
            first.setdefault((message.topic(), message.partition()), message.offset())
        for (topic, partition), offset in first.items():
            self._consumer.seek(TopicPartition(topic, partition, offset))

    def close(self) -> None:
        self._consumer.close()
