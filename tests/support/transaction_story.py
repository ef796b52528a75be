"""Two brokers with transactions, and producers that speak the protocol by hand.

Broker 1 coordinates transactions and leads `orders`, broker 2 coordinates groups and leads
`payments`: so everything that brokers tell each other goes over a socket.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support import fed_brokers as fed
from support.fed_brokers import FedCluster, fed_brokers, topic_id, topic_records
from support.loopback import run
from support.scripted_controller import ALLOCATE, scripted_controller
from tidelog.broker.api_table import handlers
from tidelog.broker.broker import Broker
from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.core.metadata import records as r
from tidelog.host.clock import SystemClock
from tidelog.rpc import Call, Handler
from tidelog.wire.protocol.schemas.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from tidelog.wire.protocol.schemas.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.protocol.schemas.allocate_producer_ids_response import (
    AllocateProducerIdsResponse,
)
from tidelog.wire.protocol.schemas.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from tidelog.wire.protocol.schemas.describe_producers_response import ProducerState
from tidelog.wire.protocol.schemas.describe_transactions_request import (
    DescribeTransactionsRequest,
)
from tidelog.wire.protocol.schemas.end_txn_request import EndTxnRequest
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import PartitionData
from tidelog.wire.protocol.schemas.init_producer_id_request import InitProducerIdRequest
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import PartitionProduceResponse
from tidelog.wire.protocol.schemas.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.wire.protocol.schemas.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tidelog.wire.records import Record, encode, iter_batches, iter_records

COORDINATOR = 1
LEADERS = {TRANSACTION_STATE: 1, "orders": 1, CONSUMER_OFFSETS: 2, "payments": 2}
FIRST_PRODUCER_ID = 3000
FIRST_ADD_OF_BROKERS = 4
RETRIED = (14, 15, 16, 51)


class Versions(NamedTuple):
    """Of the APIs, as clients of one transaction version use them together."""

    init: int
    add: int
    add_offsets: int
    produce: int
    commit_offsets: int
    end: int


OLDEST = Versions(0, 0, 0, 3, 0, 0)
FIRST = Versions(4, 3, 4, 11, 4, 4)
SECOND = Versions(5, 3, 4, 12, 5, 5)
NEWEST = SECOND._replace(produce=13)


class Told(NamedTuple):
    """Values that a consumer gets, and what it is told beside them."""

    values: list[bytes]
    last_stable_offset: int
    high_watermark: int
    aborted: list[tuple[int, int]] | None


class Gate:
    """Requests between the brokers, held back while the story wants it."""

    def __init__(self) -> None:
        self.closed: set[int] = set()
        self.held: list[tuple[Handler, Call]] = []

    def handlers(self, broker: Broker) -> dict[int, Handler]:
        return {key: partial(self._serve, key, each) for key, each in handlers(broker).items()}

    def close(self, *apis: int) -> None:
        self.closed.update(apis)

    def open(self) -> None:
        self.closed.clear()
        held, self.held = self.held, []
        for handler, call in held:
            handler(call)

    def _serve(self, key: int, handler: Handler, call: Call) -> None:
        if key in self.closed:
            self.held.append((handler, call))  # there are no records in it that would not last
        else:
            handler(call)


class TransactionStory:
    def __init__(self, cluster: FedCluster, gate: Gate) -> None:
        self.cluster = cluster
        self.gate = gate

    async def ask(self, broker_id: int, request: Any, version: int) -> Any:
        return await self.cluster.members[broker_id].ask(request, version)

    async def fetch(self, topic: str, offset: int = 0, **given: int) -> PartitionData:
        isolation = given.pop("isolation", 1)
        request = FetchRequest(
            max_wait_ms=given.pop("max_wait_ms", 0),
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=isolation,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        )
        answer = await self.ask(LEADERS[topic], request, 12)
        (data,) = [each for topic in answer.responses for each in topic.partitions]
        assert isinstance(data, PartitionData)
        return data

    async def read(self, topic: str, offset: int = 0, **given: int) -> Told:
        """As a client does that believes the list of aborted transactions."""
        data = await self.fetch(topic, offset, **given)
        assert data.error_code == 0, data
        aborted = (
            None
            if data.aborted_transactions is None
            else [(each.producer_id, each.first_offset) for each in data.aborted_transactions]
        )
        values = visible(bytes(data.records or b""), aborted or [])
        return Told(values, data.last_stable_offset, data.high_watermark, aborted)

    async def until_read(self, topic: str, *values: bytes) -> Told:
        """Markers are written after EndTxn is answered."""
        while (told := await self.read(topic)).values != list(values):
            await asyncio.sleep(0.002)
        return told

    async def state(self, transactional_id: str) -> str:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = await self.ask(COORDINATOR, request, 0)
        (found,) = answer.transaction_states
        return str(found.transaction_state)

    async def until_state(self, transactional_id: str, state: str) -> None:
        while await self.state(transactional_id) != state:
            await asyncio.sleep(0.002)

    async def write_marker(
        self, topic: str, producer: "HandMade", *, commit: bool, coordinator_epoch: int = 0
    ) -> int:
        """As a coordinator, or an administrator, would."""
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
        )
        answer = await self.ask(LEADERS.get(topic, 1), WriteTxnMarkersRequest(markers=[marker]), 1)
        (result,) = [
            each for m in answer.markers for topic in m.topics for each in topic.partitions
        ]
        return int(result.error_code)

    async def producers(self, topic: str) -> list[ProducerState]:
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
        answer = await self.ask(LEADERS[topic], request, 0)
        (partition,) = answer.topics[0].partitions
        assert partition.error_code == 0, partition
        return list(partition.active_producers)


def visible(records: bytes, aborted: list[tuple[int, int]]) -> list[bytes]:
    values = []
    ended = {}
    for position, header in iter_batches(records):
        if header.is_control:
            ended[header.producer_id] = header.base_offset
            continue
        if header.is_transactional and any(
            producer_id == header.producer_id
            and first <= header.base_offset
            and ended.get(producer_id, -1) < first
            for producer_id, first in aborted
        ):
            continue
        values.extend(bytes(each.value or b"") for each in iter_records(records, position, header))
    return values


class HandMade:
    """A transactional producer that does exactly what it is told."""

    def __init__(
        self, story: TransactionStory, transactional_id: str = "mine", versions: Versions = FIRST
    ) -> None:
        self.story = story
        self.transactional_id = transactional_id
        self.versions = versions
        self.producer_id = self.epoch = -1
        self.sequences: dict[str, int] = {}

    def twin(self) -> "HandMade":
        """The same producer before what comes next."""
        twin = HandMade(self.story, self.transactional_id, self.versions)
        twin.producer_id, twin.epoch = self.producer_id, self.epoch
        twin.sequences = dict(self.sequences)
        return twin

    async def _ask(self, broker_id: int, request: Any, version: int) -> Any:
        """Again and again while it is told to, as every client does."""
        while True:
            answer = await self.story.ask(broker_id, request, version)
            if answer.error_code not in RETRIED:
                return answer
            await asyncio.sleep(0.002)

    async def init(self, timeout_ms: int = 60_000) -> int:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        answer = await self._ask(COORDINATOR, request, self.versions.init)
        if answer.error_code == 0:
            self.identify(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def identify(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.sequences.clear()

    async def add(self, *topics: str) -> list[int]:
        """Once the end of the last transaction is written."""
        while True:
            codes = await self.add_once(*topics, version=self.versions.add)
            if not set(codes) & set(RETRIED):
                return codes
            await asyncio.sleep(0.002)

    async def add_once(self, *topics: str, version: int) -> list[int]:
        added = [AddPartitionsToTxnTopic(name=topic, partitions=[0]) for topic in topics]
        if version >= FIRST_ADD_OF_BROKERS:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                verify_only=False,
                topics=added,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=added,
            )
        answer = await self.story.ask(COORDINATOR, request, version)
        results = [each.topic_results for each in answer.results_by_transaction]
        return [
            each.partition_error_code
            for topics in results or [answer.results_by_topic_v3_and_below]
            for topic in topics
            for each in topic.results_by_partition
        ]

    async def add_offsets(self, group_id: str) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        return int((await self._ask(COORDINATOR, request, self.versions.add_offsets)).error_code)

    def batch(self, topic: str, *values: bytes) -> bytearray:
        sequence = self.sequences.get(topic, 0)
        self.sequences[topic] = sequence + len(values)
        # Of now, as the markers are: a log does not keep what is years apart in one file.
        wall_ms = SystemClock().wall_ms()
        return encode(
            [Record(n, wall_ms, None, value) for n, value in enumerate(values)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )

    def produce_request(self, topic: str, records: bytearray, acks: int = -1) -> ProduceRequest:
        data = PartitionProduceData(index=0, records=records)
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(name=topic, topic_id=topic_id(topic), partition_data=[data])
            ],
        )

    async def send(self, topic: str, records: bytearray) -> PartitionProduceResponse:
        """Once, whatever the answer is."""
        request = self.produce_request(topic, records)
        answer = await self.story.ask(LEADERS[topic], request, self.versions.produce)
        (result,) = [each for topic in answer.responses for each in topic.partition_responses]
        assert isinstance(result, PartitionProduceResponse)
        return result

    async def produce(self, topic: str, *values: bytes) -> PartitionProduceResponse:
        """A batch; again while it is refused for now (NOT_ENOUGH_REPLICAS, 51)."""
        records = self.batch(topic, *values)
        while (result := await self.send(topic, bytearray(records))).error_code in (19, 51):
            await asyncio.sleep(0.002)
        return result

    async def commit_offsets(self, group_id: str, topic: str, offset: int) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                    ],
                )
            ],
        )
        while True:
            leader = LEADERS[CONSUMER_OFFSETS]
            answer = await self.story.ask(leader, request, self.versions.commit_offsets)
            (code,) = [each.error_code for topic in answer.topics for each in topic.partitions]
            if code not in RETRIED:
                return int(code)
            await asyncio.sleep(0.002)

    async def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = await self._ask(COORDINATOR, request, self.versions.end)
        if answer.error_code == 0 and self.versions.end >= 5:
            self.identify(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)


async def begun(story: TransactionStory, versions: Versions, *topics: str) -> HandMade:
    """A producer whose transaction may write to these topics."""
    producer = HandMade(story, versions=versions)
    assert await producer.init() == 0
    await joined(producer, *topics)
    return producer


async def joined(producer: HandMade, *topics: str) -> None:
    if producer.versions.produce < 12:
        assert set(await producer.add(*topics)) == {0}


Tell = Callable[[TransactionStory], Awaitable[None]]


def told(data: Path, story: Tell, *, replicated: bool = False, **settings: str) -> None:
    async def main() -> None:
        async with transactions(data, replicated=replicated, **settings) as prepared:
            await story(prepared)

    run(main)


@contextlib.asynccontextmanager
async def transactions(
    data: Path, *, replicated: bool = False, **settings: str
) -> AsyncIterator[TransactionStory]:
    """Of every partition there is one copy, or one on each broker."""
    async with scripted_controller() as controller:
        controller.usual[ALLOCATE] = AllocateProducerIdsResponse(
            producer_id_start=FIRST_PRODUCER_ID, producer_id_len=1000
        )
        voters = {"controller_quorum_voters": f"9@127.0.0.1:{controller.port}"}
        gate = Gate()
        async with fed_brokers(data, 1, 2, apis=gate.handlers, **voters, **settings) as cluster:
            for topic, leader in LEADERS.items():
                replicas = (leader, 3 - leader) if replicated else (leader,)
                cluster.commit(*topic_records(topic, replicas=replicas))
            yield TransactionStory(cluster, gate)


def move_leader(story: TransactionStory, topic: str, leader: int) -> None:
    """The next leader epoch of a partition."""
    story.cluster.commit(r.PartitionChange(0, fed.topic_id(topic), leader=leader))
