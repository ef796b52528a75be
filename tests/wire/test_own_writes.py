"""A client reads what was acknowledged to it: acks=1, by a leader that is alone in the ISR."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.batches import batch
from support.lone_broker import LoneBroker, lone_broker
from support.loopback import run
from tidelog.broker.fetch.own_writes import PATIENCE_MS
from tidelog.core.errors import Error
from tidelog.host.disk import FileDisk
from tidelog.wire.protocol.schemas.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.protocol.schemas.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

APIS = (0, 2, 21)
TOPIC = "orders"
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
TIME_MS = 1_000_000

Story = Callable[[LoneBroker, "SlowDisk"], Awaitable[None]]


class SlowDisk(FileDisk):
    """A disk whose syncs take as long as the test says."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.syncs = threading.Event()
        self.syncs.set()

    def open(self, path: str, *, create: bool = False):  # type: ignore[no-untyped-def]  # as given
        return SlowFile(super().open(path, create=create), self.syncs)


class SlowFile:
    def __init__(self, file, syncs: threading.Event) -> None:  # type: ignore[no-untyped-def]
        self._file = file
        self._syncs = syncs

    def start_sync(self) -> "SlowSyncing":
        return SlowSyncing(self._file.start_sync(), self._syncs)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


class SlowSyncing:
    def __init__(self, syncing, syncs: threading.Event) -> None:  # type: ignore[no-untyped-def]
        self._syncing = syncing
        self._syncs = syncs

    def run(self) -> None:
        self._syncs.wait()
        self._syncing.run()


def told(data: Path, story: Story, **settings: str) -> None:
    async def main() -> None:
        disk = SlowDisk(data)
        async with lone_broker(
            data, APIS, disk=disk, **{"ack_durability": "fsync", **settings}
        ) as lone:
            try:
                await story(lone, disk)
            finally:
                disk.syncs.set()

    run(main)


async def write(lone: LoneBroker) -> int:
    """The offset that acks=1 has acknowledged."""
    data = PartitionProduceData(index=0, records=batch(b"x", time_ms=TIME_MS))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    answer = await lone.ask(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic]), 11)
    result = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
    assert result.error_code == 0
    return result.base_offset


async def offset_at(lone: LoneBroker, timestamp: int) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name=TOPIC, partitions=[wanted])
    answer = await lone.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 11)
    found = answer.topics[0].partitions[0]  # type: ignore[attr-defined]
    assert found.error_code == 0
    return found.offset


async def delete_up_to(lone: LoneBroker, offset: int) -> tuple[int, int]:
    """Its error, and the low watermark."""
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=[asked])
    answer = await lone.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=30_000), 2)
    result = answer.topics[0].partitions[0]  # type: ignore[attr-defined]
    return result.error_code, result.low_watermark


async def is_held_back(asked: "asyncio.Future[object]") -> bool:
    """The broker has read the question, and does not answer."""
    for _ in range(200):
        await asyncio.sleep(0)
    return not asked.done()


def test_offsets_acknowledged_by_a_lone_leader_are_listed_and_can_be_deleted(
    tmp_path: Path,
) -> None:
    async def story(lone: LoneBroker, _: SlowDisk) -> None:
        lone.create_topic(TOPIC)
        for number in range(0, 60, 2):
            assert await write(lone) == number
            assert await offset_at(lone, LATEST) == number + 1
            assert await write(lone) == number + 1
            assert await delete_up_to(lone, number + 2) == (0, number + 2)

    told(tmp_path, story)


@pytest.mark.parametrize("timestamp", [LATEST, MAX_TIMESTAMP, TIME_MS])
def test_a_question_about_what_is_acknowledged_waits_for_its_sync(
    tmp_path: Path, timestamp: int
) -> None:
    """What a crash could lose is never told to be committed."""

    async def story(lone: LoneBroker, disk: SlowDisk) -> None:
        lone.create_topic(TOPIC)
        disk.syncs.clear()
        assert await write(lone) == 0  # acks=1 does not wait for the disk
        asked = asyncio.ensure_future(offset_at(lone, timestamp))
        assert await is_held_back(asked)
        disk.syncs.set()
        assert await asked == (1 if timestamp == LATEST else 0)

    told(tmp_path, story)


@pytest.mark.parametrize("offset", [1, -1])
def test_a_deletion_of_what_is_acknowledged_waits_for_its_sync(tmp_path: Path, offset: int) -> None:
    async def story(lone: LoneBroker, disk: SlowDisk) -> None:
        lone.create_topic(TOPIC)
        disk.syncs.clear()
        assert await write(lone) == 0
        asked = asyncio.ensure_future(delete_up_to(lone, offset))
        assert await is_held_back(asked)
        disk.syncs.set()
        assert await asked == (0, 1)

    told(tmp_path, story)


def test_questions_that_no_sync_can_change_do_not_wait(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, disk: SlowDisk) -> None:
        lone.create_topic(TOPIC)
        disk.syncs.clear()
        assert await write(lone) == 0
        assert await offset_at(lone, EARLIEST) == 0
        assert await delete_up_to(lone, 0) == (0, 0)
        assert (await delete_up_to(lone, 2))[0] == Error.OFFSET_OUT_OF_RANGE

    told(tmp_path, story)


def test_a_leader_with_followers_in_sync_answers_with_what_is_committed(tmp_path: Path) -> None:
    """As with Kafka: there acks=1 says nothing about what can be read."""

    async def story(lone: LoneBroker, disk: SlowDisk) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2))
        disk.syncs.clear()
        assert await write(lone) == 0
        assert await offset_at(lone, LATEST) == 0
        assert (await delete_up_to(lone, 1))[0] == Error.OFFSET_OUT_OF_RANGE

    told(tmp_path, story)


def test_below_min_isr_nothing_waits_for_a_commit_that_cannot_come(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, disk: SlowDisk) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2), isr=(1,), min_insync_replicas="2")
        disk.syncs.clear()
        assert await write(lone) == 0
        assert await offset_at(lone, LATEST) == 0

    told(tmp_path, story)


def test_a_disk_that_does_not_come_back_delays_an_answer_only_so_long(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, disk: SlowDisk) -> None:
        lone.create_topic(TOPIC)
        disk.syncs.clear()
        assert await write(lone) == 0
        asked = asyncio.ensure_future(offset_at(lone, LATEST))
        assert await is_held_back(asked)
        lone.pass_time(PATIENCE_MS)
        assert await asked == 0
        assert lone.broker.replicas.named(TOPIC, 0).leader.parked._parked == {}

    told(tmp_path, story)
