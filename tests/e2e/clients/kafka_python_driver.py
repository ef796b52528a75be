"""kafka-python: no C, no threads of its own that we would see."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, OffsetSpec
from kafka.errors import BrokerResponseError
from kafka.protocol.admin.topics import ElectionType

from e2e.clients.driver import (
    Driver,
    Fetched,
    How,
    NewTopic,
    PartitionSeen,
    QuorumSeen,
    Record,
    Start,
    refused_with,
)

TIMEOUT_S = 10.0
LARGEST_BYTES = 10_000_000


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except BrokerResponseError as error:
        raise refused_with(error.errno, str(error)) from error


def check(code: int) -> None:
    if code:
        raise refused_with(code)


def fetched(message: Any) -> Fetched:
    headers = tuple((name, value) for name, value in message.headers)
    record = Record(message.partition, message.key, message.value, headers, message.timestamp)
    return Fetched(message.offset, record)


class KafkaPythonDriver(Driver):
    name = "kafka-python"
    describes_without_creating = False
    tells_of_unknown_topics = False  # allow_auto_create_topics does not reach its requests
    lacks = frozenset({"refuse_to_read_an_unknown_topic"})
    writes_null_headers = False

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, Any] = {
            "bootstrap_servers": bootstrap.split(","),
            "client_id": self.name,
        }
        self._admin = KafkaAdminClient(**self._common)

    def close(self) -> None:
        self._admin.close()

    # -- records

    def produce(self, topic: str, records: Sequence[Record], how: How) -> None:
        producer = KafkaProducer(
            **self._common,
            acks="all" if how.acks == "all" else int(how.acks),
            compression_type=None if how.codec == "none" else how.codec,
            enable_idempotence=how.idempotent,
            max_request_size=LARGEST_BYTES,
            linger_ms=5,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    record.partition,
                    record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(TIMEOUT_S)
            with refusals():
                for future in futures:
                    future.get(TIMEOUT_S)
        finally:
            producer.close(TIMEOUT_S)

    @contextlib.contextmanager
    def _consumer(self) -> Iterator[KafkaConsumer]:
        consumer = KafkaConsumer(**self._common, enable_auto_commit=False)
        try:
            with refusals():
                yield consumer
        finally:
            consumer.close()

    def read(self, topic: str, partition: int, start: Start) -> list[Fetched]:
        place = TopicPartition(topic, partition)
        read: list[Fetched] = []
        with self._consumer() as consumer:
            consumer.assign([place])
            if start.kind == "earliest":
                consumer.seek_to_beginning(place)
            elif start.kind == "timestamp":
                consumer.seek(
                    place, consumer.offsets_for_times({place: start.number})[place].offset
                )
            else:
                consumer.seek(place, start.number)
            end = consumer.end_offsets([place])[place]
            deadline = time.monotonic() + TIMEOUT_S
            while consumer.position(place) < end:
                assert time.monotonic() < deadline, "the end never came"
                for messages in consumer.poll(timeout_ms=1000).values():
                    read.extend(map(fetched, messages))
        return read

    def read_new(self, topic: str, partition: int, when_ready: Callable[[], None]) -> Fetched:
        place = TopicPartition(topic, partition)
        with self._consumer() as consumer:
            consumer.assign([place])
            consumer.seek_to_end(place)
            consumer.position(place)
            when_ready()
            polled = consumer.poll(timeout_ms=int(TIMEOUT_S * 1000))
            return fetched(polled[place][0])

    # -- administration

    def create_topic(self, topic: NewTopic) -> None:
        wanted = {
            "num_partitions": topic.partitions,
            "replication_factor": topic.replicas,
            "configs": dict(topic.configs),
        }
        with refusals():
            self._admin.create_topics({topic.name: wanted})

    def delete_topic(self, topic: str) -> None:
        with refusals():
            self._admin.delete_topics([topic])

    def broker_ids(self) -> set[int]:
        brokers = self._admin.describe_cluster()["brokers"]
        return {broker.get("broker_id", broker.get("node_id")) for broker in brokers}

    def partitions(self, topic: str) -> dict[int, PartitionSeen]:
        with refusals():
            (seen,) = self._admin.describe_topics([topic])
        check(seen["error_code"])
        return {
            each["partition_index"]: PartitionSeen(
                each["leader_id"], tuple(each["replica_nodes"]), frozenset(each["isr_nodes"])
            )
            for each in seen["partitions"]
        }

    def configs(self, topic: str) -> dict[str, str]:
        found = self._admin.describe_configs([ConfigResource("topic", topic)], config_filter="all")
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def set_config(self, topic: str, key: str, value: str) -> None:
        done = self._admin.alter_configs([ConfigResource("topic", topic, {key: value})])
        said = re.match(r"\[Error (\d+)\]", done["topic"][topic])  # otherwise "OK"
        check(int(said[1]) if said else 0)

    def log_sizes(self, topic: str) -> dict[int, int]:
        return {
            each["broker"]: sum(
                partition["partition_size"]
                for log_dir in each["log_dirs"]
                for found in log_dir["topics"]
                for partition in found["partitions"]
            )
            for each in self._admin.describe_log_dirs([topic])
        }

    def add_partitions(self, topic: str, total: int) -> None:
        with refusals():
            self._admin.create_partitions({topic: total})

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = TopicPartition(topic, partition)
        with refusals():
            low: int = self._admin.delete_records({place: before})[place]["low_watermark"]
        return low

    def offset_at(self, topic: str, partition: int, start: Start) -> int:
        place = TopicPartition(topic, partition)
        spec = {
            "earliest": OffsetSpec.EARLIEST,
            "latest": OffsetSpec.LATEST,
            "timestamp": start.number,
        }[start.kind]
        offset: int = self._admin.list_partition_offsets({place: spec})[place].offset
        return offset

    def elect_preferred(self, topic: str, partition: int) -> None:
        with refusals():
            response = self._admin.elect_leaders(ElectionType.PREFERRED, {topic: [partition]})
        for result in getattr(response, "replica_election_results", ()):
            for each in result.partition_result:
                check(each.error_code)  # it takes ElectionNotNeededError for success

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        place = TopicPartition(topic, partition)
        with refusals():
            error = self._admin.alter_partition_reassignments({place: list(replicas)})[place]
        if error is not None:
            raise refused_with(error.errno)

    def quorum(self) -> QuorumSeen:
        answer = self._admin.describe_metadata_quorum()
        partition = answer["topics"][0]["partitions"][0]
        voters = frozenset(each["replica_id"] for each in partition["current_voters"])
        return QuorumSeen(partition["leader_id"], voters)
