"""A topic from its beginning to its end."""

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

WAIT_SECONDS = 30


def read_all(servers: str, topic: str) -> list[Message]:
    """Every committed record there is now."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reads-{topic}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found = []
    try:
        known = consumer.list_topics(topic, WAIT_SECONDS).topics[topic]
        open_partitions = set(known.partitions)
        consumer.assign([TopicPartition(topic, each, 0) for each in known.partitions])
        while open_partitions:
            message = consumer.poll(WAIT_SECONDS)
            if message is None:
                raise TimeoutError(f"{topic} gave nothing for {WAIT_SECONDS} s")
            if message.error() is None:
                found.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            elif not message.error().retriable():
                raise RuntimeError(message.error().str())
    finally:
        consumer.close()
    return found
