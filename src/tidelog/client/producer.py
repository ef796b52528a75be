"""Writing records. With acks=all every batch is numbered, so that a retry is never a duplicate."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.client.client import Client
from tidelog.client.errors import KafkaError, check
from tidelog.client.links import PRODUCE
from tidelog.client.offsets import leader_of
from tidelog.client.partitioner import partition_of_key
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.init_producer_id_request import InitProducerIdRequest
from tidelog.wire.protocol.schemas.init_producer_id_response import InitProducerIdResponse
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse
from tidelog.wire.records import NONE, Record, encode

ALL, LEADER, NOBODY_WAITS = -1, 1, 0
NO_TIME = -1
UNNUMBERED = -1
SEQUENCES = 2**31


class NewRecord(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = NO_TIME
    """NO_TIME: now."""
    partition: int | None = None
    """None: by the key, or in turn."""


class Written(NamedTuple):
    topic: str
    partition: int
    base_offset: int
    """-1: nobody told (acks=0)."""
    records: int


class Producer:
    """Writes to topics through one client. One batch per partition is on its way at a time."""

    __slots__ = (
        "_acks",
        "_client",
        "_codec",
        "_numbered",
        "_producer",
        "_sequences",
        "_transactional_id",
        "_turn",
    )

    def __init__(
        self, client: Client, *, acks: int = ALL, codec: int = NONE, numbered: bool = True
    ) -> None:
        self._client = client
        self._acks = acks
        self._codec = codec
        self._numbered = numbered and acks == ALL
        self._producer: tuple[int, int] | None = None
        self._transactional_id: str | None = None
        self._sequences: dict[tuple[str, int], int] = {}
        self._turn = 0

    async def write(self, topic: str, records: Sequence[NewRecord]) -> list[Written]:
        """In the order given, within each partition; KafkaError for the first that is refused."""
        partitions = len((await self._client.known_topic(topic, create=True)).partitions)
        by_partition: dict[int, list[NewRecord]] = {}
        turn = self._turn % partitions
        for record in records:
            by_partition.setdefault(self._place(record, partitions, turn), []).append(record)
        self._turn += 1
        results = await asyncio.gather(
            *(self._write_batch(topic, index, each) for index, each in by_partition.items()),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if isinstance(result, Written)]

    def _place(self, record: NewRecord, partitions: int, turn: int) -> int:
        """Records without a key stay together in one batch; the next batch goes elsewhere."""
        if record.partition is not None:
            if not 0 <= record.partition < partitions:
                raise KafkaError(
                    Error.UNKNOWN_TOPIC_OR_PARTITION,
                    f"partition {record.partition} asked for, there are 0 to {partitions - 1}",
                )
            return record.partition
        return turn if record.key is None else partition_of_key(record.key, partitions)

    async def _write_batch(self, topic: str, index: int, records: list[NewRecord]) -> Written:
        producer_id, producer_epoch = await self._identity()
        now_ms = self._client.now_ms()
        sequence = self._sequences.get((topic, index), 0)
        batch = encode(
            [
                Record(
                    offset,
                    now_ms if record.timestamp_ms == NO_TIME else record.timestamp_ms,
                    record.key,
                    record.value,
                    record.headers,
                )
                for offset, record in enumerate(records)
            ],
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=self._transactional_id is not None,
        )
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=index, records=batch)]
        )
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._client.timeout_ms,
            topic_data=[data],
        )
        base_offset = await self._send(topic, index, request)
        if producer_id >= 0:
            self._sequences[topic, index] = (sequence + len(records)) % SEQUENCES
        return Written(topic, index, base_offset, len(records))

    async def _send(self, topic: str, index: int, request: ProduceRequest) -> int:
        client = self._client

        async def ask() -> int:
            leader, _ = await leader_of(client, topic, index)
            if self._acks == NOBODY_WAITS:
                address = await client.address_of(leader)
                await client.links.tell(address, request, timeout_ms=client.timeout_ms)
                return -1
            answer = await client.ask_broker(
                leader, request, ProduceResponse, purpose=PRODUCE, timeout_ms=client.timeout_ms
            )
            result = answer.responses[0].partition_responses[0]
            if result.error_code == Error.DUPLICATE_SEQUENCE_NUMBER and self._numbered:
                return result.base_offset  # an earlier try was written
            check(result.error_code, result.error_message or f"{topic}-{index}")
            return result.base_offset

        return await client.retrying(ask)

    async def _identity(self) -> tuple[int, int]:
        """Producer id and epoch; (-1, -1) where batches are not numbered."""
        if not self._numbered:
            return UNNUMBERED, UNNUMBERED
        if self._producer is None:
            asked = await self._client.retrying(self._introduce)
            self._producer = self._producer or asked  # batches of other partitions ask too
        return self._producer

    async def _introduce(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            answer = await self._client.ask_any(request, InitProducerIdResponse)
        except KafkaError as error:
            if error.error != Error.UNSUPPORTED_VERSION:
                raise
            self._numbered = False  # an old or a small broker: retries may write twice
            return UNNUMBERED, UNNUMBERED
        check(answer.error_code)
        return answer.producer_id, answer.producer_epoch
