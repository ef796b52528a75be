"""What sinks have delivered: one record per query in a compacted topic (spark.md §5).

The record is written in the transaction of the rows it speaks of, so it is there if and only if
they are. Readers judge by themselves what is committed: a last stable offset would make one sink
wait for the open transactions of all the others.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

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

TOPIC: Final = "__tidelog_spark_sinks"
PARTITION: Final = 0
"""The only one: a key must not move when somebody adds partitions."""
FETCH_BYTES: Final = 1024 * 1024
SUPERSEDED_AT_MOST: Final = 16
CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",  # little to read for whoever starts
    "min.cleanable.dirty.ratio": "0.1",
}


class MarkerKey(NamedTuple):
    """A query that writes through a sink."""

    sink_id: str
    query_id: str


class Marker(NamedTuple):
    """The last micro-batch that was delivered, and by which run of the query."""

    number: int
    run_id: str
    superseded: tuple[str, ...] = ()
    """Runs of the sink that an even later one took over from, the latest first."""

    def follows(self, run_id: str) -> tuple[str, ...]:
        """What `superseded` of the next marker is, if it is written by this run."""
        if run_id == self.run_id:
            return self.superseded
        return (self.run_id, *self.superseded)[:SUPERSEDED_AT_MOST]


def encoded(key: MarkerKey, marker: Marker | None, timestamp_ms: int) -> bytearray:
    """One batch with the record; None deletes it."""
    value = None
    if marker is not None:
        told = {
            "batchId": marker.number,
            "runId": marker.run_id,
            "superseded": marker.superseded,
        }
        value = json.dumps(told, separators=(",", ":")).encode()
    name = json.dumps(list(key), separators=(",", ":")).encode()
    return bytearray(encode([Record(0, timestamp_ms, name, value, ())]))


class MarkerLog:
    """All markers, as far as this process has read. Owner of its place in the topic."""

    __slots__ = ("_client", "_latest", "_markers", "_open", "_position")

    def __init__(self, client: Client) -> None:
        self._client = client
        self._markers: dict[MarkerKey, Marker] = {}
        self._latest: dict[str, Marker] = {}
        """By sink, of whichever query."""
        self._open: dict[int, list[Record]] = {}
        """By producer id: records whose transaction has not ended at our place."""
        self._position: int | None = None

    def of(self, key: MarkerKey) -> Marker | None:
        return self._markers.get(key)

    def latest(self, sink_id: str) -> Marker | None:
        return self._latest.get(sink_id)

    @property
    def markers(self) -> Mapping[MarkerKey, Marker]:
        return self._markers

    async def refresh(self) -> None:
        """Read on to where the topic ends now. Whatever was decided before this call is known
        after it."""
        await self._ensure_topic()
        if self._position is None:
            first = await find_offset(self._client, TOPIC, PARTITION, EARLIEST)
            self._position = first.offset
        end = (await find_offset(self._client, TOPIC, PARTITION, LATEST)).offset
        attempts = self._client.attempts()
        while self._position < end:
            before = self._position
            self._take(await self._client.retrying(self._fetch))
            if self._position > before:
                attempts = self._client.attempts()
            elif not await attempts.pause():
                where = f"{TOPIC}-{PARTITION} at offset {before}"
                raise KafkaError(Error.REQUEST_TIMED_OUT, f"nothing is read of {where}")

    async def _ensure_topic(self) -> None:
        try:
            await self._client.known_topic(TOPIC)
        except KafkaError as error:
            if error.error != Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            await self._create()
            await self._client.retrying(self._led)

    async def _create(self) -> None:
        try:
            await Admin(self._client).create_topic(NewTopic(TOPIC, 1, -1, CONFIGS))
        except KafkaError as error:
            if error.error != Error.TOPIC_ALREADY_EXISTS:
                raise

    async def _led(self) -> None:
        """Until it can be written to: brokers hear of a new topic a little later."""
        try:
            await leader_of(self._client, TOPIC, PARTITION)
        except KafkaError as error:
            self._client.forget(TOPIC)
            if error.error == Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(Error.LEADER_NOT_AVAILABLE, error.message) from None
            raise

    async def _fetch(self) -> PartitionData:
        assert self._position is not None
        leader, epoch = await leader_of(self._client, TOPIC, PARTITION)
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
            topics=[FetchTopic(topic=TOPIC, partitions=[part])],
        )
        answer = await self._client.ask_broker(
            leader, request, FetchResponse, purpose=FETCH, timeout_ms=ONE_TRY_MS
        )
        check(answer.error_code)
        data = answer.responses[0].partitions[0]
        check(data.error_code, f"{TOPIC}-{PARTITION} at offset {self._position}")
        return data

    def _take(self, data: PartitionData) -> None:
        assert self._position is not None
        buffer = data.records if data.records is not None else b""
        for at, header in iter_batches(buffer):
            if not check_crc(buffer, at, header):
                raise CorruptBatch(f"{TOPIC}-{PARTITION}: the batch at {header.base_offset}")
            if header.last_offset < self._position:
                continue
            self._position = header.next_offset
            ended = end_txn_marker(buffer, at) if header.is_control else None
            if ended is not None:
                records = self._open.pop(header.producer_id, [])
                for record in records if ended.commit else ():
                    self._learn(record)
            elif header.is_control:
                continue
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, []).extend(
                    iter_records(buffer, at, header)
                )
            else:
                for record in iter_records(buffer, at, header):
                    self._learn(record)

    def _learn(self, record: Record) -> None:
        key = MarkerKey(*json.loads(record.key or b""))
        if record.value is None:
            self._markers.pop(key, None)
            return
        told = json.loads(record.value)
        marker = Marker(told["batchId"], told["runId"], tuple(told["superseded"]))
        self._markers[key] = self._latest[key.sink_id] = marker
