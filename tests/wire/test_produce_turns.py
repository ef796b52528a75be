"""Requests that come in one turn of the event loop enter their log together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from support.batches import batch
from support.lone_broker import LoneBroker, lone_broker
from support.loopback import run
from tidelog.broker.turn_end import TurnEnd
from tidelog.core.replication.inputs import ACKS_ALL
from tidelog.host.disk import FileDisk
from tidelog.host.ports import Buffer
from tidelog.storage.log import Log
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
)
from tidelog.wire.records import Record, decode

APIS = (0,)
NOW_MS = 1_000_000
TOPIC = "orders"
END = 1 << 60
STORAGE_ERROR = 56

Story = Callable[[LoneBroker, "CountingDisk"], Awaitable[None]]


class CountingDisk(FileDisk):
    """Knows how often a log was written to, and takes no more than so many bytes."""

    writes = 0
    free_bytes = 1 << 40

    def open(self, path: str, *, create: bool = False):  # type: ignore[no-untyped-def]  # as given
        file = super().open(path, create=create)
        return CountedFile(file, self) if path.endswith(".log") else file


class CountedFile:
    def __init__(self, file, disk) -> None:  # type: ignore[no-untyped-def]  # as given
        self._file = file
        self._disk = disk

    def write(self, position: int, data: Buffer | Sequence[Buffer]) -> None:
        parts = [data] if isinstance(data, Buffer) else list(data)
        size_bytes = sum(map(len, parts))
        if size_bytes > self._disk.free_bytes:
            raise OSError(28, "No space left on device")
        self._disk.free_bytes -= size_bytes
        self._disk.writes += 1
        self._file.write(position, data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def request(records: bytearray, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])


def values(*texts: bytes, **about: int) -> bytearray:
    return batch(*texts, time_ms=NOW_MS, **about)  # type: ignore[arg-type]  # plain numbers


async def sent_at_once(
    lone: LoneBroker, requests: Sequence[ProduceRequest]
) -> list[PartitionProduceResponse]:
    """The client writes what is sent in one turn together, so the broker reads it together."""
    answers = await asyncio.gather(*(lone.ask(each, 11) for each in requests))
    results = []
    for answer in answers:
        assert isinstance(answer, ProduceResponse), answer
        results.append(answer.responses[0].partition_responses[0])
    return results


def log_of(lone: LoneBroker) -> Log:
    hosted = lone.broker.replicas.named(TOPIC, 0)
    assert hosted is not None, TOPIC
    return hosted.log


def values_in(lone: LoneBroker) -> list[bytes | None]:
    log = log_of(lone)
    records: list[Record] = []
    while log.log_start_offset + len(records) < log.log_end_offset:
        for run_of in log.read(log.log_start_offset + len(records), END, 1 << 20):
            records += decode(run_of)
    return [each.value for each in records]


def told(data: Path, story: Story) -> None:
    async def main() -> None:
        disk = CountingDisk(data)
        async with lone_broker(data, APIS, disk=disk) as lone:
            lone.create_topic(TOPIC)
            (first,) = await sent_at_once(lone, [request(values(b"first"))])
            assert first.base_offset == 0
            disk.writes = 0
            await story(lone, disk)

    run(main)


@pytest.mark.parametrize("acks", [1, ACKS_ALL])
def test_requests_of_one_turn_are_one_write_with_offsets_in_their_order(
    tmp_path: Path, acks: int
) -> None:
    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        texts = [b"%d" % number for number in range(5)]
        results = await sent_at_once(lone, [request(values(text), acks) for text in texts])
        assert [each.error_code for each in results] == [0] * 5
        assert [each.base_offset for each in results] == [1, 2, 3, 4, 5]
        assert disk.writes == 1
        assert values_in(lone) == [b"first", *texts]
        assert lone.broker.traffic.messages_in == 6

    told(tmp_path, story)


def test_batches_of_one_producer_are_judged_one_after_the_other(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        batches = [values(b"a", producer=7, sequence=number) for number in (0, 1, 1, 5, 2)]
        results = await sent_at_once(lone, [request(each) for each in batches])
        assert [each.error_code for each in results] == [0, 0, 0, 45, 0]
        assert [each.base_offset for each in results] == [1, 2, 2, -1, 3]
        assert len(values_in(lone)) == 4

    told(tmp_path, story)


def test_a_full_disk_takes_those_that_fit_and_refuses_the_others(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        batches = [values(b"small"), values(bytes(2_000)), values(b"small too")]
        disk.free_bytes = 500
        results = await sent_at_once(lone, [request(each) for each in batches])
        assert [each.error_code for each in results] == [0, STORAGE_ERROR, 0]
        assert [each.base_offset for each in results] == [1, -1, 2]
        assert values_in(lone) == [b"first", b"small", b"small too"]

    told(tmp_path, story)


def test_a_turn_that_is_larger_than_a_segment_is_appended_in_parts(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        log = log_of(lone)
        log.config.segment_bytes = 16_384
        batches = [values(bytes([65 + number]) * 6_000) for number in range(5)]
        results = await sent_at_once(lone, [request(each) for each in batches])
        assert [each.base_offset for each in results] == [1, 2, 3, 4, 5]
        assert disk.writes == 5

    told(tmp_path, story)


def test_a_large_batch_does_not_overtake_the_small_ones_before_it(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        texts = [b"a", b"b" * 20_000, b"c"]
        results = await sent_at_once(lone, [request(values(text)) for text in texts])
        assert [each.base_offset for each in results] == [1, 2, 3]
        assert values_in(lone) == [b"first", *texts]

    told(tmp_path, story)


def test_work_for_the_end_of_a_turn_may_add_more_and_fail_alone() -> None:
    planned: list[object] = []
    done: list[str] = []
    turn_end = TurnEnd(planned.append)

    def fails() -> None:
        turn_end.add(lambda: done.append("third"))
        raise ValueError("of its own")

    turn_end.add(lambda: done.append("first"))
    turn_end.add(fails)
    turn_end.add(lambda: done.append("second"))
    (work,) = planned
    with pytest.raises(ValueError, match="of its own"):
        work()  # type: ignore[operator]  # what was planned
    assert done == ["first"]
    planned[1]()  # type: ignore[operator]  # what was planned
    assert done == ["first", "second", "third"]
    assert len(planned) == 2
