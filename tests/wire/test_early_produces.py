"""Who writes to a large new topic at once waits until its logs are made, and not longer."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.batches import batch
from support.lone_broker import BROKER_ID, LoneBroker, duties_of, lone_broker, until
from support.loopback import run
from tidelog.broker.produce.early_produces import PATIENCE_MS
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.replication.inputs import ACKS_LEADER
from tidelog.core.types import PartitionId
from tidelog.host.disk import FileDisk
from tidelog.rpc import Peer
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse

APIS = (0,)
TOPIC, TOPIC_ID = "many", b"many............"
HERE, COMING, ELSEWHERE = 0, 8, 9
BY_NAME, BY_ID = 9, 13
WAIT_MS = 60_000

Story = Callable[[LoneBroker, "HaltingDisk"], Awaitable[None]]


class HaltingDisk(FileDisk):
    """The last two logs are not made before `go` is set."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.go = threading.Event()

    def make_dir(self, path: str) -> None:
        if path in (f"{TOPIC}-{COMING}", f"{TOPIC}-{ELSEWHERE}"):
            self.go.wait()
        super().make_dir(path)


def told(data: Path, story: Story) -> None:
    async def main() -> None:
        disk = HaltingDisk(data)
        async with lone_broker(data, APIS, disk=disk) as lone:
            duties = duties_of(lone.broker, lone.offline.append)
            duties.start()
            try:
                lone.commit(r.Topic(TOPIC, TOPIC_ID), *partitions(0, COMING))
                await until(lambda: len(lone.broker.replicas.hosted) == COMING)
                lone.commit(*partitions(COMING, ELSEWHERE + 1))
                coming = lone.broker.replicas.coming
                await until(lambda: PartitionId(TOPIC_ID, COMING) in coming)
                await story(lone, disk)
            finally:
                disk.go.set()
                duties.stop()
            assert not lone.offline

    run(main)


def partitions(begin: int, end: int) -> list[r.Partition]:
    return [
        r.Partition(
            index,
            TOPIC_ID,
            (BROKER_ID, 2),
            (BROKER_ID, 2),
            leader=2 if index == ELSEWHERE else BROKER_ID,
            leader_epoch=0,
            partition_epoch=0,
        )
        for index in range(begin, end)
    ]


def to(*indexes: int, sequence: int = 0, version: int = BY_NAME) -> ProduceRequest:
    """One batch of the same producer to each of these partitions."""
    records = [batch(b"%d" % sequence, producer=7, sequence=sequence) for _ in indexes]
    data = [
        PartitionProduceData(index=index, records=each)
        for index, each in zip(indexes, records, strict=True)
    ]
    topic = (
        TopicProduceData(topic_id=TOPIC_ID, partition_data=data)
        if version >= BY_ID
        else TopicProduceData(name=TOPIC, partition_data=data)
    )
    return ProduceRequest(acks=ACKS_LEADER, timeout_ms=30_000, topic_data=[topic])


def asked(
    peer: Peer, request: ProduceRequest, version: int = BY_NAME
) -> asyncio.Task[ProduceResponse]:
    async def ask() -> ProduceResponse:
        answer = await peer.ask(request, version, timeout_ms=WAIT_MS)
        assert isinstance(answer, ProduceResponse)
        return answer

    return asyncio.get_running_loop().create_task(ask())


def results(answer: ProduceResponse) -> list[tuple[Error, int]]:
    """Error and base offset of each partition."""
    (topic,) = answer.responses
    return [(Error(each.error_code), each.base_offset) for each in topic.partition_responses]


async def has_arrived(lone: LoneBroker, count: int) -> None:
    """So many requests wait."""
    early = lone.broker.early_produces
    await until(lambda: early.waiting_count == count)


def test_a_batch_for_a_log_in_the_making_is_appended_when_it_is_there(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, disk: HaltingDisk) -> None:
        by_name = asked(lone.client, to(COMING, HERE))
        await has_arrived(lone, 1)
        by_id = asked(lone.client, to(COMING, sequence=1, version=BY_ID), BY_ID)
        await has_arrived(lone, 2)
        disk.go.set()
        assert results(await by_name) == [(Error.NONE, 0), (Error.NONE, 0)]
        assert results(await by_id) == [(Error.NONE, 1)], "in the order they came"
        assert lone.broker.early_produces.waiting_count == 0

    told(tmp_path, story)


def test_nothing_of_a_connection_overtakes_and_others_do_not_wait(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, disk: HaltingDisk) -> None:
        first = asked(lone.client, to(COMING, HERE))
        await has_arrived(lone, 1)
        second = asked(lone.client, to(HERE, sequence=1))
        await has_arrived(lone, 2)
        other = Peer(lone.broker.host.network, ("127.0.0.1", lone.port), "other")
        assert results(await asked(other, to(1))) == [(Error.NONE, 0)]
        disk.go.set()
        assert results(await first) == [(Error.NONE, 0), (Error.NONE, 0)]
        assert results(await second) == [(Error.NONE, 1)]
        other.close()

    told(tmp_path, story)


def test_patience_ends(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _disk: HaltingDisk) -> None:
        first, second = asked(lone.client, to(COMING, HERE)), asked(lone.client, to(1))
        await has_arrived(lone, 2)
        lone.pass_time(PATIENCE_MS)
        refused, written = (Error.NOT_LEADER_OR_FOLLOWER, -1), (Error.NONE, 0)
        assert results(await first) == [refused, written], "what can be written is"
        assert results(await second) == [written]
        assert lone.broker.early_produces.waiting_count == 0

    told(tmp_path, story)


def test_a_topic_that_goes_lets_those_go_who_wait_for_it(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _disk: HaltingDisk) -> None:
        answer = asked(lone.client, to(COMING))
        await has_arrived(lone, 1)
        lone.commit(r.RemoveTopic(TOPIC_ID))
        assert results(await answer) == [(Error.UNKNOWN_TOPIC_OR_PARTITION, -1)]

    told(tmp_path, story)


def test_a_partition_that_another_broker_leads_is_not_waited_for(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _disk: HaltingDisk) -> None:
        answer = await asked(lone.client, to(ELSEWHERE))
        assert results(answer) == [(Error.NOT_LEADER_OR_FOLLOWER, -1)]

    told(tmp_path, story)


def test_who_goes_while_it_waits_is_forgotten_and_its_batch_kept(tmp_path: Path) -> None:
    """It was taken: whoever sends it again is told where it is."""

    async def story(lone: LoneBroker, disk: HaltingDisk) -> None:
        gone = Peer(lone.broker.host.network, ("127.0.0.1", lone.port), "gone")
        lost = asked(gone, to(COMING))
        await has_arrived(lone, 1)
        gone.close()
        await asyncio.wait([lost])
        assert lost.exception() is not None
        again = asked(lone.client, to(COMING))
        await has_arrived(lone, 2)
        disk.go.set()
        assert results(await again) == [(Error.NONE, 0)]
        hosted = lone.broker.replicas.named(TOPIC, COMING)
        assert hosted is not None
        assert hosted.log.log_end_offset == 1

    told(tmp_path, story)
