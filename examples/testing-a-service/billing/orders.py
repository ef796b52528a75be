"""The side that writes orders."""

import json

from confluent_kafka import KafkaException, Producer


class OrderWriter:
    """Knows of every order where it was written, or fails."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 0})

    def send(self, orders: list[dict[str, object]], timeout: float = 30) -> list[int]:
        """The offsets, in order."""
        offsets: list[int] = []
        failures: list[KafkaException] = []

        def on_delivery(error, message) -> None:
            if error is not None:
                failures.append(KafkaException(error))
            else:
                offsets.append(message.offset())

        for order in orders:
            key = str(order["customer"]).encode()
            value = json.dumps(order).encode()
            self._producer.produce(self._topic, value, key, on_delivery=on_delivery)
        if self._producer.flush(timeout):
            raise TimeoutError(f"not all orders were written within {timeout} s")
        if failures:
            raise failures[0]
        return offsets
