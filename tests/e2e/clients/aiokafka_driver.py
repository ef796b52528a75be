"""aiokafka: the oldest versions of the protocol that a client of today speaks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError

from e2e.clients.driver import (
    Driver,
    Fetched,
    How,
    NewTopic,
    PartitionSeen,
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


def check(code: int, message: str | None = None) -> None:
    if code:
        raise refused_with(code, message or "")


def fetched(message: Any) -> Fetched:
    headers = tuple(message.headers)
    record = Record(message.partition, message.key, message.value, headers, message.timestamp)
    return Fetched(message.offset, record)


class AiokafkaDriver(Driver):
    name = "aiokafka"
    alters_incrementally = False
    tells_of_unknown_topics = False
    lacks = frozenset(
        {
            "describe_log_dirs",
            "describe_quorum",
            "elect_leaders",
            "reassign_partitions",
            "refuse_to_read_an_unknown_topic",
        }
    )

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self._common: dict[str, Any] = {"bootstrap_servers": bootstrap, "client_id": self.name}
        self._admin = self._runner.run(self._start_admin())

    async def _start_admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(**self._common)
        await admin.start()
        return admin

    def close(self) -> None:
        self._runner.run(self._admin.close())
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        with refusals():
            return self._runner.run(asyncio.wait_for(work, TIMEOUT_S))

    # -- records

    def produce(self, topic: str, records: Sequence[Record], how: How) -> None:
        self._run(self._produce(topic, records, how))

    async def _produce(self, topic: str, records: Sequence[Record], how: How) -> None:
        producer = AIOKafkaProducer(
            **self._common,
            acks="all" if how.acks == "all" else int(how.acks),
            compression_type=None if how.codec == "none" else how.codec,
            enable_idempotence=how.idempotent,
            max_request_size=LARGEST_BYTES,
            linger_ms=5,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    record.partition,
                    record.timestamp_ms,
                    list(record.headers),
                )
                for record in records
            ]
            await asyncio.gather(*futures)
        finally:
            await producer.stop()

    @contextlib.asynccontextmanager
    async def _consumer(self) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(**self._common, enable_auto_commit=False)
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    def read(self, topic: str, partition: int, start: Start) -> list[Fetched]:
        read: list[Fetched] = self._run(self._read(TopicPartition(topic, partition), start))
        return read

    async def _read(self, place: TopicPartition, start: Start) -> list[Fetched]:
        read: list[Fetched] = []
        async with self._consumer() as consumer:
            consumer.assign([place])
            if start.kind == "earliest":
                await consumer.seek_to_beginning(place)
            else:
                consumer.seek(place, await self._offset(consumer, place, start))
            end = (await consumer.end_offsets([place]))[place]
            while await consumer.position(place) < end:
                for messages in (await consumer.getmany(timeout_ms=1000)).values():
                    read.extend(map(fetched, messages))
        return read

    async def _offset(self, consumer: AIOKafkaConsumer, place: TopicPartition, start: Start) -> int:
        if start.kind == "timestamp":
            found: int = (await consumer.offsets_for_times({place: start.number}))[place].offset
        elif start.kind == "offset":
            found = start.number
        elif start.kind == "earliest":
            found = (await consumer.beginning_offsets([place]))[place]
        else:
            found = (await consumer.end_offsets([place]))[place]
        return found

    def read_new(self, topic: str, partition: int, when_ready: Callable[[], None]) -> Fetched:
        place = TopicPartition(topic, partition)
        consumer = self._run(self._at_the_end(place))
        try:
            when_ready()
            return fetched(self._run(consumer.getone(place)))
        finally:
            self._run(consumer.stop())

    async def _at_the_end(self, place: TopicPartition) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(**self._common, enable_auto_commit=False)
        await consumer.start()
        consumer.assign([place])
        await consumer.seek_to_end(place)
        await consumer.position(place)
        return consumer

    # -- administration

    def create_topic(self, topic: NewTopic) -> None:
        new = AioNewTopic(
            topic.name, topic.partitions, topic.replicas, topic_configs=dict(topic.configs)
        )
        answer = self._run(self._admin.create_topics([new]))
        for _, code, message, *_ in answer.topic_errors:
            check(code, message)

    def delete_topic(self, topic: str) -> None:
        answer = self._run(self._admin.delete_topics([topic]))
        for _, code, *_ in answer.topic_error_codes:
            check(code)

    def broker_ids(self) -> set[int]:
        return {each["node_id"] for each in self._run(self._admin.describe_cluster())["brokers"]}

    def partitions(self, topic: str) -> dict[int, PartitionSeen]:
        found = self._run(self._admin.describe_topics(None))  # naming it would create it
        seen = next((each for each in found if each["topic"] == topic), None)
        if seen is None:
            raise refused_with(3)
        return {
            each["partition"]: PartitionSeen(
                each["leader"], tuple(each["replicas"]), frozenset(each["isr"])
            )
            for each in seen["partitions"]
        }

    def configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._run(self._admin.describe_configs([resource]))
        ((code, message, _, _, entries),) = answer.resources
        check(code, message)
        return {entry[0]: entry[1] for entry in entries}

    def set_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        for answer in self._run(self._admin.alter_configs([resource])):
            for code, message, *_ in answer.resources:
                check(code, message)

    def add_partitions(self, topic: str, total: int) -> None:
        self._run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = TopicPartition(topic, partition)
        done = self._run(self._admin.delete_records({place: RecordsToDelete(before)}))
        low: int = done[place]
        return low

    def offset_at(self, topic: str, partition: int, start: Start) -> int:
        async def look() -> int:
            place = TopicPartition(topic, partition)
            async with self._consumer() as consumer:
                consumer.assign([place])
                return await self._offset(consumer, place, start)

        offset: int = self._run(look())
        return offset
