"""confluent-kafka: librdkafka of today, from Python."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import admin as ck

from e2e.clients.driver import (
    Driver,
    Fetched,
    How,
    NewTopic,
    PartitionSeen,
    Record,
    Refused,
    Start,
    refused_with,
)
from tidelog.core.errors import Error

TIMEOUT_S = 10.0
LARGEST_BYTES = 10_000_000


def refused(error: KafkaError) -> Refused:
    if error.code() == KafkaError._UNKNOWN_PARTITION:  # its own word for what the broker said
        return Refused(Error.UNKNOWN_TOPIC_OR_PARTITION.name, error.str())
    if error.code() < -1:
        return Refused(error.name().removeprefix("_"), error.str())
    return refused_with(error.code(), error.str())


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as failure:
        raise refused(failure.args[0]) from failure


def fetched(message: Message) -> Fetched:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Fetched(
        offset,
        Record(
            partition,
            message.key(),  # type: ignore[arg-type] # bytes, without a deserializer
            message.value(),  # type: ignore[arg-type] # the same
            tuple(message.headers() or ()),
            message.timestamp()[1],
        ),
    )


class ConfluentDriver(Driver):
    """Its consumers need a `group.id` even when they are no members of anything."""

    name = "confluent-kafka"
    lacks = frozenset({"describe_log_dirs", "describe_quorum", "reassign_partitions"})

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": self.name}
        self._admin = ck.AdminClient(self._common)

    def _one(self, futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        with refusals():
            return future.result(TIMEOUT_S)

    # -- records

    def produce(self, topic: str, records: Sequence[Record], how: How) -> None:
        producer = Producer(
            self._common
            | {
                "acks": how.acks,
                "compression.type": how.codec,
                "enable.idempotence": how.idempotent,
                "message.max.bytes": LARGEST_BYTES,
            }
        )
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
                on_delivery=delivered,
            )
        assert producer.flush(TIMEOUT_S) == 0, "not everything was delivered in time"
        if errors:
            raise refused(errors[0])

    @contextlib.contextmanager
    def consumer(self, settings: Mapping[str, Any] = {}) -> Iterator[Consumer]:
        consumer = Consumer(
            self._common
            | {
                "group.id": "nobody",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "allow.auto.create.topics": False,
                "auto.offset.reset": "error",
                # It tells the end of a partition by a fetch that waited there in vain.
                "fetch.wait.max.ms": 10,
            }
            | dict(settings)
        )
        try:
            with refusals():
                yield consumer
        finally:
            consumer.close()

    def read(self, topic: str, partition: int, start: Start) -> list[Fetched]:
        read = []
        with self.consumer() as consumer:
            consumer.assign([self._place(consumer, topic, partition, start)])
            deadline = time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline:
                message = consumer.poll(deadline - time.monotonic())
                assert message is not None, "nothing came"
                error = message.error()
                if error is None:
                    read.append(fetched(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return read
                else:
                    raise refused(error)
        raise AssertionError("the end never came")

    def _place(
        self, consumer: Consumer, topic: str, partition: int, start: Start
    ) -> TopicPartition:
        if start.kind == "timestamp":
            asked = [TopicPartition(topic, partition, start.number)]
            return consumer.offsets_for_times(asked, TIMEOUT_S)[0]
        if start.kind == "offset":  # assigning an unknown topic only waits for it
            consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
        offset = OFFSET_BEGINNING if start.kind == "earliest" else start.number
        return TopicPartition(topic, partition, offset)

    def read_new(self, topic: str, partition: int, when_ready: Callable[[], None]) -> Fetched:
        with self.consumer() as consumer:
            consumer.assign([TopicPartition(topic, partition, OFFSET_END)])
            end = consumer.poll(TIMEOUT_S)
            assert end is not None
            assert end.error().code() == KafkaError._PARTITION_EOF
            when_ready()
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "nothing came"
            assert message.error() is None, message.error()
            return fetched(message)

    # -- administration

    def create_topic(self, topic: NewTopic) -> None:
        new = ck.NewTopic(topic.name, topic.partitions, topic.replicas, config=dict(topic.configs))
        self._one(self._admin.create_topics([new]))

    def delete_topic(self, topic: str) -> None:
        self._one(self._admin.delete_topics([topic]))

    def broker_ids(self) -> set[int]:
        return {node.id for node in self._admin.describe_cluster().result(TIMEOUT_S).nodes}

    def partitions(self, topic: str) -> dict[int, PartitionSeen]:
        seen = self._one(self._admin.describe_topics(TopicCollection([topic])))
        return {
            each.id: PartitionSeen(
                each.leader.id,
                tuple(node.id for node in each.replicas),
                frozenset(node.id for node in each.isr),
            )
            for each in seen.partitions
        }

    def configs(self, topic: str) -> dict[str, str]:
        resource = ck.ConfigResource(ck.ResourceType.TOPIC, topic)
        entries = self._one(self._admin.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}

    def set_config(self, topic: str, key: str, value: str) -> None:
        entry = ck.ConfigEntry(key, value, incremental_operation=ck.AlterConfigOpType.SET)
        resource = ck.ConfigResource(ck.ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._one(self._admin.incremental_alter_configs([resource]))

    def add_partitions(self, topic: str, total: int) -> None:
        self._one(self._admin.create_partitions([ck.NewPartitions(topic, total)]))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = TopicPartition(topic, partition, before)
        deleted: ck.DeletedRecords = self._one(self._admin.delete_records([place]))
        return deleted.low_watermark

    def offset_at(self, topic: str, partition: int, start: Start) -> int:
        spec = {
            "earliest": ck.OffsetSpec.earliest,
            "latest": ck.OffsetSpec.latest,
            "timestamp": lambda: ck.OffsetSpec.for_timestamp(start.number),
        }[start.kind]()
        asked = {TopicPartition(topic, partition): spec}
        offset: int = self._one(self._admin.list_offsets(asked)).offset
        return offset

    def elect_preferred(self, topic: str, partition: int) -> None:
        place = TopicPartition(topic, partition)
        with refusals():
            results = self._admin.elect_leaders(ElectionType.PREFERRED, [place]).result(TIMEOUT_S)
        if results[place] is not None:
            error = results[place]
            raise refused(error.args[0] if isinstance(error, KafkaException) else error)
