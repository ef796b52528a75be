"""A small compacted topic that a process reads as it is now, and reads on when it asks again.

Readers judge by themselves what is committed: a last stable offset would make one reader wait for
the open transactions of all the others.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.client import Admin, Client, KafkaError, NewTopic
from tidelog.client.client import ONE_TRY_MS
from tidelog.client.errors import check
from tidelog.client.links import FETCH
from tidelog.client.offsets import (
    EARLIEST,
    LATEST,
    READ_UNCOMMITTED,
    find_offset,
    leader_of,
)
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse, PartitionData
from tidelog.wire.records import (
    CorruptBatch,
    Record,
    check_crc,
    encode,
    end_txn_marker,
    iter_batches,
    iter_records,
)

PARTITION: Final = 0
"""The only one: a key must not move when somebody adds partitions."""
FETCH_BYTES: Final = 1024 * 1024
CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",  # little to read for whoever starts
    "min.cleanable.dirty.ratio": "0.1",
}


def encoded(key: bytes, value: bytes | None, timestamp_ms: int) -> bytearray:
    """One batch with one record; None deletes what the key has."""
    return bytearray(encode([Record(0, timestamp_ms, key, value, ())]))


class CommittedLog:
    """What the topic says, as far as this process has read. Owner of its place in the topic."""

    __slots__ = ("_client", "_open", "_position", "_topic")

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._open: dict[int, list[Record]] = {}
        """By producer id: records whose transaction has not ended at our place."""
        self._position: int | None = None

    def learn(self, record: Record) -> None:
        """A record that is committed, in the order of the topic."""
        raise NotImplementedError

    async def refresh(self) -> None:
        """Read on to where the topic ends now. Whatever was decided before this call is known
        after it."""
        await self._ensure_topic()
        if self._position is None:
            first = await find_offset(self._client, self._topic, PARTITION, EARLIEST)
            self._position = first.offset
        end = (await find_offset(self._client, self._topic, PARTITION, LATEST)).offset
        attempts = self._client.attempts()
        while self._position < end:
            before = self._position
            self._take(await self._client.retrying(self._fetch))
            if self._position > before:
                attempts = self._client.attempts()
            elif not await attempts.pause():
                where = f"{self._topic}-{PARTITION} at offset {before}"
                raise KafkaError(Error.REQUEST_TIMED_OUT, f"nothing is read of {where}")

    async def _ensure_topic(self) -> None:
        try:
            await self._client.known_topic(self._topic)
        except KafkaError as error:
            if error.error != Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            await self._create()
            await self._client.retrying(self._led)

    async def _create(self) -> None:
        try:
            await Admin(self._client).create_topic(NewTopic(self._topic, 1, -1, CONFIGS))
        except KafkaError as error:
            if error.error != Error.TOPIC_ALREADY_EXISTS:
                raise

    async def _led(self) -> None:
        """Until it can be written to: brokers hear of a new topic a little later."""
        try:
            await leader_of(self._client, self._topic, PARTITION)
        except KafkaError as error:
            self._client.forget(self._topic)
            if error.error == Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(Error.LEADER_NOT_AVAILABLE, error.message) from None
            raise

    async def _fetch(self) -> PartitionData:
        assert self._position is not None
        leader, epoch = await leader_of(self._client, self._topic, PARTITION)
        part = FetchPartition(
            partition=PARTITION,
            current_leader_epoch=epoch,
            fetch_offset=self._position,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_UNCOMMITTED,
            topics=[FetchTopic(topic=self._topic, partitions=[part])],
        )
        answer = await self._client.ask_broker(
            leader, request, FetchResponse, purpose=FETCH, timeout_ms=ONE_TRY_MS
        )
        check(answer.error_code)
        data = answer.responses[0].partitions[0]
        check(data.error_code, f"{self._topic}-{PARTITION} at offset {self._position}")
        return data

    def _take(self, data: PartitionData) -> None:
        assert self._position is not None
        buffer = data.records if data.records is not None else b""
        for at, header in iter_batches(buffer):
            if not check_crc(buffer, at, header):
                raise CorruptBatch(f"{self._topic}-{PARTITION}: the batch at {header.base_offset}")
            if header.last_offset < self._position:
                continue
            self._position = header.next_offset
            ended = end_txn_marker(buffer, at) if header.is_control else None
            if ended is not None:
                records = self._open.pop(header.producer_id, [])
                for record in records if ended.commit else ():
                    self.learn(record)
            elif header.is_control:
                continue
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, []).extend(
                    iter_records(buffer, at, header)
                )
            else:
                for record in iter_records(buffer, at, header):
                    self.learn(record)
