"""Reading records from offsets that the reader keeps itself."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from tidelog.client.client import Client
from tidelog.client.errors import KafkaError, check
from tidelog.client.links import FETCH
from tidelog.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, leader_of
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse, PartitionData
from tidelog.wire.records import (
    CorruptBatch,
    Record,
    check_crc,
    end_txn_marker,
    iter_batches,
    iter_records,
)

TopicPartition = tuple[str, int]

FETCH_MAX_BYTES = 8 * 1024 * 1024
PARTITION_MAX_BYTES = 1024 * 1024
LONGEST_WAIT_MS = 500
SHORT_WAIT_MS = 50
ANSWER_WITHIN_MS = 5_000
PREFERRED_FOR_MS = 5_000
"""Then the leader is asked again whom to read from: a follower that is cut off has nothing new."""


class Read(NamedTuple):
    """One record and where it was found."""

    topic: str
    partition: int
    record: Record
    leader_epoch: int
    high_watermark: int
    log_start_offset: int


class Fetched(NamedTuple):
    """One answer about one partition."""

    reads: list[Read]
    from_offset: int
    next_offset: int
    high_watermark: int


class Preferred(NamedTuple):
    """The replica that a leader has sent us to."""

    broker: int
    until_ms: int


class Consumer:
    """Reads partitions through one client, each from its own position."""

    __slots__ = ("_client", "_isolation", "_preferred", "_rack", "positions")

    def __init__(
        self,
        client: Client,
        positions: Mapping[TopicPartition, int],
        *,
        committed: bool = False,
        rack: str = "",
    ) -> None:
        """With a `rack`, leaders may send us to a follower there (KIP-392)."""
        self._client = client
        self._isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
        self._rack = rack
        self._preferred: dict[TopicPartition, Preferred] = {}
        self.positions = dict(positions)

    async def read(self, *, max_wait_ms: int = LONGEST_WAIT_MS) -> dict[TopicPartition, Fetched]:
        """What there is after the positions, which move on; empty when there is nothing."""

        async def ask() -> dict[TopicPartition, Fetched]:
            groups = await self._by_broker()
            # Whoever has something is not kept waiting for long by those who have nothing.
            wait_ms = max_wait_ms if len(groups) == 1 else min(max_wait_ms, SHORT_WAIT_MS)
            answers = await asyncio.gather(
                *(self._fetch(broker, epochs, wait_ms) for broker, epochs in groups.items()),
                return_exceptions=True,
            )
            return self._take_all(answers)

        return await self._client.retrying(ask)

    async def __aiter__(self) -> AsyncIterator[Read]:
        """Every record from the positions on, without an end."""
        while True:
            for fetched in (await self.read()).values():
                for read in fetched.reads:
                    yield read

    async def _by_broker(self) -> dict[int, dict[TopicPartition, int]]:
        """Whom to ask for what, with the leader epochs that we know."""
        now_ms = self._client.now_ms()
        groups: dict[int, dict[TopicPartition, int]] = {}
        leaderless: KafkaError | None = None
        for topic, index in self.positions:
            try:
                leader, epoch = await leader_of(self._client, topic, index)
            except KafkaError as error:
                if error.error != Error.LEADER_NOT_AVAILABLE:
                    raise
                leaderless = error  # the others can be read all the same
                self._client.forget(topic)
                continue
            preferred = self._preferred.get((topic, index))
            broker = (
                leader if preferred is None or preferred.until_ms < now_ms else preferred.broker
            )
            groups.setdefault(broker, {})[topic, index] = epoch
        if not groups and leaderless is not None:
            raise leaderless
        return groups

    def _request(self, epochs: Mapping[TopicPartition, int], wait_ms: int) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for (topic, index), epoch in epochs.items():
            part = FetchPartition(
                partition=index,
                current_leader_epoch=epoch,
                fetch_offset=self.positions[topic, index],
                partition_max_bytes=PARTITION_MAX_BYTES,
            )
            topics.setdefault(topic, []).append(part)
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_MAX_BYTES,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic=name, partitions=parts) for name, parts in topics.items()],
            rack_id=self._rack,
        )

    async def _fetch(
        self, broker: int, epochs: Mapping[TopicPartition, int], wait_ms: int
    ) -> FetchResponse:
        request = self._request(epochs, wait_ms)
        answer = await self._client.ask_broker(
            broker, request, FetchResponse, purpose=FETCH, timeout_ms=wait_ms + ANSWER_WITHIN_MS
        )
        check(answer.error_code)
        return answer

    def _take_all(
        self, answers: Sequence[FetchResponse | BaseException]
    ) -> dict[TopicPartition, Fetched]:
        """Positions move only for what is returned. An error is raised only if there is nothing
        to return: if it does not pass, it comes again with the next question."""
        fetched: dict[TopicPartition, Fetched] = {}
        errors: list[BaseException] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                errors.append(answer)
                continue
            for topic in answer.responses:
                for data in topic.partitions:
                    self._take(topic.topic, data, fetched, errors)
        if errors:
            self._preferred.clear()
        if errors and not any(each.reads for each in fetched.values()):
            raise errors[0]
        if errors:
            for topic_name, _ in self.positions:
                self._client.forget(topic_name)
        return fetched

    def _take(
        self,
        topic: str,
        data: PartitionData,
        into: dict[TopicPartition, Fetched],
        errors: list[BaseException],
    ) -> None:
        where = (topic, data.partition_index)
        position = self.positions.get(where)
        if position is None:
            return
        if data.error_code:
            place = f"{topic}-{data.partition_index} at offset {position}"
            errors.append(KafkaError(data.error_code, place))
            return
        if data.preferred_read_replica >= 0:
            until_ms = self._client.now_ms() + PREFERRED_FOR_MS
            self._preferred[where] = Preferred(data.preferred_read_replica, until_ms)
        fetched = read_records(topic, data, position)
        self.positions[where] = fetched.next_offset
        into[where] = fetched


def read_records(topic: str, data: PartitionData, position: int) -> Fetched:
    """The records at and after a position that a reader may see, in order."""
    reads: list[Read] = []
    from_offset = position
    aborted = sorted(
        ((each.first_offset, each.producer_id) for each in data.aborted_transactions or ()),
        reverse=True,
    )
    dropped: set[int] = set()
    buffer = data.records if data.records is not None else b""
    for at, header in iter_batches(buffer):
        if not check_crc(buffer, at, header):
            raise CorruptBatch(f"{topic}-{data.partition_index}: the batch at {header.base_offset}")
        while aborted and aborted[-1][0] <= header.last_offset:
            dropped.add(aborted.pop()[1])
        if header.is_control:
            if end_txn_marker(buffer, at) is not None:
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            reads.extend(
                Read(
                    topic,
                    data.partition_index,
                    record,
                    header.leader_epoch,
                    data.high_watermark,
                    data.log_start_offset,
                )
                for record in iter_records(buffer, at, header)
                if record.offset >= position
            )
        position = max(position, header.next_offset)
    return Fetched(reads, from_offset, position, data.high_watermark)
