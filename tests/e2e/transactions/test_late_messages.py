"""Messages that come too late or from nowhere, sent by hand to real brokers: refused, and without
a trace."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest

from support.transaction_story import FIRST, SECOND, Gate, HandMade, TransactionStory, Versions
from tidelog.client import Client
from tidelog.client.coordinator import OF_GROUP, OF_TRANSACTION, find_coordinator
from tidelog.client.offsets import LATEST, READ_COMMITTED, find_offset, leader_of
from tidelog.client.transactions import OpenProducer, TransactionAdmin, TransactionView
from tidelog.core.errors import Error
from tidelog.host.clock import SystemClock
from tidelog.host.network import TcpNetwork
from tidelog.rpc import Peer
from tidelog.testing import Cluster
from tidelog.wire.protocol.schemas.describe_producers_request import DescribeProducersRequest
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest
from tidelog.wire.protocol.schemas.produce_request import ProduceRequest
from tidelog.wire.protocol.schemas.txn_offset_commit_request import TxnOffsetCommitRequest
from tidelog.wire.protocol.schemas.write_txn_markers_request import WriteTxnMarkersRequest

TOPICS = ("orders", "payments")
ANSWER_MS = 20_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as started:
        for topic in TOPICS:
            started.topic(topic, 1, replication_factor=3)
        yield started


class Trace(NamedTuple):
    """All that a message about a transaction could change."""

    ends: list[tuple[int, int]]
    producers: list[list[OpenProducer]]
    transaction: TransactionView | None


class LiveStory(TransactionStory):
    """Its questions go where they belong, and in the version that is asked for."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.gate = Gate()
        self._network = TcpNetwork(SystemClock())
        self._peers: dict[int, Peer] = {}

    async def ask(self, broker_id: int, request: Any, version: int) -> Any:
        broker = await self._whose(request)
        if broker not in self._peers:
            address = await self.client.address_of(broker)
            self._peers[broker] = Peer(self._network, address, "by hand")
        return await self._peers[broker].ask(request, version, timeout_ms=ANSWER_MS)

    async def _whose(self, request: Any) -> int:
        if isinstance(request, TxnOffsetCommitRequest):
            return await find_coordinator(self.client, OF_GROUP, request.group_id)
        if isinstance(request, WriteTxnMarkersRequest):
            topic = request.markers[0].topics[0].name
        elif isinstance(request, ProduceRequest):
            topic = request.topic_data[0].name
        elif isinstance(request, FetchRequest):
            topic = request.topics[0].topic
        elif isinstance(request, DescribeProducersRequest):
            topic = request.topics[0].name
        else:
            return await find_coordinator(self.client, OF_TRANSACTION, transactional_id(request))
        return (await leader_of(self.client, topic, 0))[0]

    async def trace(self, name: str | None = None) -> Trace:
        client, admin = self.client, TransactionAdmin(self.client)
        ends = []
        for topic in TOPICS:
            stable = await find_offset(client, topic, 0, LATEST, isolation=READ_COMMITTED)
            ends.append((stable.offset, (await find_offset(client, topic, 0, LATEST)).offset))
        return Trace(
            ends,
            [await admin.producers(topic, 0) for topic in TOPICS],
            None if name is None else await admin.describe(name),
        )

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._network.close()


def transactional_id(request: Any) -> str:
    for field in ("transactional_id", "v3_and_below_transactional_id"):
        if hasattr(request, field):
            return str(getattr(request, field))
    return str(request.transactional_ids[0])


def told(cluster: Cluster, tell: Callable[[LiveStory], Awaitable[None]]) -> None:
    async def work(client: Client) -> None:
        story = LiveStory(client)
        try:
            await tell(story)
        finally:
            story.close()

    cluster.ask(work)


async def begun(story: LiveStory, name: str, versions: Versions) -> HandMade:
    """In both topics, with a record in each, before anything is committed."""
    producer = HandMade(story, name, versions)
    assert await producer.init() == 0
    await write(producer, b"first")
    return producer


async def write(producer: HandMade, value: bytes) -> None:
    if producer.versions.produce < 12:
        assert await producer.add(*TOPICS) == [0, 0]
    for topic in TOPICS:
        assert (await producer.produce(topic, value)).error_code == 0


async def ended(story: LiveStory, producer: HandMade, *, commit: bool = True) -> None:
    assert await producer.end(commit=commit) == 0
    state = "CompleteCommit" if commit else "CompleteAbort"
    await story.until_state(producer.transactional_id, state)


async def sent(producer: HandMade, topic: str, value: bytes) -> Error:
    answer = await producer.send(topic, producer.batch(topic, value))
    return Error(answer.error_code)


@pytest.mark.parametrize(
    ("produce", "refused"),
    [(10, Error.INVALID_TXN_STATE), (11, Error.TRANSACTION_ABORTABLE)],
    ids=["v10", "v11"],
)
def test_a_late_batch_of_the_first_version_opens_nothing(
    cluster: Cluster, produce: int, refused: Error
) -> None:
    async def story(s: LiveStory) -> None:
        name = f"late-{produce}"
        producer = await begun(s, name, FIRST._replace(produce=produce))
        late = producer.twin()
        await ended(s, producer)
        before = await s.trace(name)
        for topic in TOPICS:
            assert await sent(late.twin(), topic, b"late") is refused
        assert await s.trace(name) == before
        await write(producer, b"second")
        await ended(s, producer)

    told(cluster, story)


def test_late_messages_of_the_second_version_carry_an_epoch_that_is_over(cluster: Cluster) -> None:
    async def story(s: LiveStory) -> None:
        producer = await begun(s, "late-2", SECOND)
        late = producer.twin()
        await ended(s, producer)
        await write(producer, b"second")
        before = await s.trace("late-2")
        assert before.transaction is not None
        assert before.transaction.state == "Ongoing"
        assert await sent(late.twin(), "orders", b"late") is Error.INVALID_PRODUCER_EPOCH
        for commit in (True, False):
            assert await late.twin().end(commit=commit) == Error.PRODUCER_FENCED
        assert await late.twin().commit_offsets("g", "orders", 5) in (
            Error.INVALID_PRODUCER_EPOCH,
            Error.PRODUCER_FENCED,
        )
        assert await s.trace("late-2") == before
        await ended(s, producer)

    told(cluster, story)


def test_who_does_not_belong_to_a_transaction_is_refused(cluster: Cluster) -> None:
    async def story(s: LiveStory) -> None:
        producer = await begun(s, "known", FIRST)
        before = await s.trace("known")
        stranger, older = producer.twin(), producer.twin()
        stranger.producer_id += 500_000
        older.epoch -= 1
        nobody = producer.twin()
        nobody.transactional_id = "nobody"
        for mistaken in (stranger, nobody):
            assert await mistaken.add("orders") == [Error.INVALID_PRODUCER_ID_MAPPING]
            assert await mistaken.end(commit=True) == Error.INVALID_PRODUCER_ID_MAPPING
        assert await older.add("orders") == [Error.PRODUCER_FENCED]
        assert await older.end(commit=True) == Error.PRODUCER_FENCED
        assert await producer.twin().add("orders", "nowhere") == [
            Error.OPERATION_NOT_ATTEMPTED,
            Error.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await s.trace("known") == before
        await ended(s, producer)

    told(cluster, story)


def test_a_batch_in_a_partition_that_was_not_added_is_refused(cluster: Cluster) -> None:
    async def story(s: LiveStory) -> None:
        producer = HandMade(s, "unadded", FIRST._replace(produce=10))
        assert await producer.init() == 0
        before = await s.trace("unadded")
        assert await sent(producer.twin(), "orders", b"x") is Error.INVALID_TXN_STATE
        assert await s.trace("unadded") == before
        assert await producer.add("orders") == [0]
        before = await s.trace("unadded")
        assert await sent(producer.twin(), "payments", b"x") is Error.INVALID_TXN_STATE
        assert await s.trace("unadded") == before
        assert (await producer.produce("orders", b"x")).error_code == 0
        await ended(s, producer, commit=False)

    told(cluster, story)


def test_markers_of_a_coordinator_that_was_replaced_are_refused(cluster: Cluster) -> None:
    async def coordinator(client: Client) -> int:
        return await find_coordinator(client, OF_TRANSACTION, "moved")

    async def first(s: LiveStory) -> None:
        await ended(s, await begun(s, "moved", FIRST))

    async def second(s: LiveStory) -> None:
        producer = await begun(s, "moved", FIRST)
        await ended(s, producer)
        epochs = {
            each.coordinator_epoch
            for each in await TransactionAdmin(s.client).producers("orders", 0)
            if each.producer_id == producer.producer_id
        }
        assert epochs == {1}, "the office was handed over once"
        await write(producer, b"second")
        before = await s.trace("moved")
        for commit in (True, False):
            refused = await s.write_marker("orders", producer, commit=commit, coordinator_epoch=0)
            assert refused == Error.TRANSACTION_COORDINATOR_FENCED
        assert await s.trace("moved") == before
        await ended(s, producer)

    told(cluster, first)
    office = cluster.ask(coordinator)
    cluster.kill(office)
    cluster.wait(lambda: cluster.ask(coordinator) != office)
    try:
        told(cluster, second)
    finally:
        cluster.restart(office)
