"""Produce over TCP: what is acknowledged when, and every refusal."""

import asyncio
import contextlib
import resource
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from support.batches import batch, headers
from support.lone_broker import WAIT_MS, LoneBroker, lone_broker, until
from support.loopback import answer_of, run
from tidelog.broker.produce import record_work
from tidelog.broker.produce.record_work import RecordWork
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.host.disk import FileDisk
from tidelog.host.ports import ConnectionClosed, NetworkError, PeerReset
from tidelog.rpc import Peer
from tidelog.storage import DirectoryOffline
from tidelog.wire.protocol import RequestHeader, encode_request
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
)
from tidelog.wire.records import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    ZSTD,
    BatchHeader,
    Buffer,
    Record,
    decode,
    encode,
    read_header,
)
from tidelog.wire.records.body import build_batch
from tidelog.wire.records.header import CONTROL_BIT, seal

APIS = (0,)
NOW_MS = 1_000_000
"""Where the story's clock starts."""
TOPIC = "orders"
END = 1 << 60

Story = Callable[[LoneBroker], Awaitable[None]]


def told(data: Path, story: Story, **settings: str) -> None:
    async def main() -> None:
        async with lone_broker(data, APIS, **settings) as lone:
            await story(lone)

    run(main)


def request(
    records: bytes | bytearray | None,
    *,
    acks: int = 1,
    topic: str = TOPIC,
    index: int = 0,
    timeout_ms: int = 10_000,
    topic_id: bytes = bytes(16),
) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
    )


def values(*texts: bytes, time_ms: int = NOW_MS, **about: int) -> bytearray:
    return batch(*texts, time_ms=time_ms, **about)  # type: ignore[arg-type]  # plain numbers


async def produced(
    lone: LoneBroker, message: ProduceRequest, version: int = 11
) -> PartitionProduceResponse:
    return result_of(await lone.ask(message, version))


def result_of(answer: object) -> PartitionProduceResponse:
    assert isinstance(answer, ProduceResponse), answer
    ((result,),) = (topic.partition_responses for topic in answer.responses)
    return result


def log_of(lone: LoneBroker, topic: str = TOPIC) -> list[Record]:
    hosted = lone.broker.replicas.named(topic, 0)
    assert hosted is not None, topic
    log = hosted.log
    records: list[Record] = []
    position = log.log_start_offset
    while runs := log.read(position, END, 1 << 30):
        for run_ in runs:
            start = 0
            for header in headers([run_]):
                records.extend(decode(run_, position=start))
                start += header.size_bytes
                position = header.next_offset
    return records


# ---- acknowledging


def test_acks_1_is_answered_as_soon_as_the_batch_is_written(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2, 3))
        first = await produced(lone, request(values(b"a", b"b")))
        second = await produced(lone, request(values(b"c")))
        assert (first.error_code, first.base_offset) == (0, 0)
        assert (second.error_code, second.base_offset) == (0, 2)
        assert (first.log_append_time_ms, first.log_start_offset) == (-1, 0)
        assert [each.value for each in log_of(lone)] == [b"a", b"b", b"c"]

    told(tmp_path, story)


def test_what_is_written_carries_the_leaders_epoch_and_an_intact_checksum(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        await produced(lone, request(values(b"a")))
        hosted = lone.broker.replicas.named(TOPIC, 0)
        assert hosted is not None
        (header,) = headers(hosted.log.read(0, END, 1 << 20))
        assert header.leader_epoch == 5
        assert len(log_of(lone)) == 1

    told(tmp_path, story)


def test_acks_all_waits_until_every_in_sync_replica_has_it(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2, 3))
        asked = asyncio.ensure_future(produced(lone, request(values(b"a"), acks=-1)))
        await until(lambda: log_of(lone))
        lone.follower_fetches(TOPIC, 2, 1)
        await asyncio.sleep(0)
        assert not asked.done()
        lone.follower_fetches(TOPIC, 3, 1)
        result = await asked
        assert (result.error_code, result.base_offset) == (0, 0)

    told(tmp_path, story)


def test_in_fsync_mode_acks_all_waits_for_our_own_disk_too(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        result = await produced(lone, request(values(b"a"), acks=-1))
        hosted = lone.broker.replicas.named(TOPIC, 0)
        assert hosted is not None
        assert result.error_code == 0
        assert hosted.log.recovery_point == 1

    told(tmp_path, story, ack_durability="fsync")


def test_a_parked_produce_is_told_when_its_time_is_over_and_its_records_stay(
    tmp_path: Path,
) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2))
        asked = asyncio.ensure_future(produced(lone, request(values(b"a"), acks=-1, timeout_ms=50)))
        await until(lambda: log_of(lone))
        lone.pass_time(49)
        await asyncio.sleep(0)
        assert not asked.done()
        lone.pass_time(10)
        assert (await asked).error_code == 7
        assert len(log_of(lone)) == 1
        lone.follower_fetches(TOPIC, 2, 1)

    told(tmp_path, story)


def test_a_parked_produce_fails_when_somebody_else_becomes_leader(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        topic_id = lone.create_topic(TOPIC, replicas=(1, 2))
        asked = asyncio.ensure_future(lone.ask(request(values(b"a"), acks=-1), 11))
        await until(lambda: log_of(lone))
        lone.commit(r.PartitionChange(0, topic_id, leader=2))
        answer = await asked
        assert isinstance(answer, ProduceResponse)
        result = result_of(answer)
        assert result.error_code == 6
        assert result.current_leader is not None
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (2, 6)
        (endpoint,) = answer.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "127.0.0.1", 2)

    told(tmp_path, story)


def test_the_in_sync_set_may_shrink_below_its_minimum_after_the_append(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        topic_id = lone.create_topic(TOPIC, replicas=(1, 2), min_insync_replicas="2")
        asked = asyncio.ensure_future(produced(lone, request(values(b"a"), acks=-1)))
        await until(lambda: log_of(lone))
        lone.commit(r.PartitionChange(0, topic_id, isr=(1,)))
        lone.pass_time(20_000)
        assert (await asked).error_code == 7  # below the minimum nothing is committed
        assert (await produced(lone, request(values(b"b"), acks=-1))).error_code == 19
        assert (await produced(lone, request(values(b"c"), acks=1))).error_code == 0
        assert [each.value for each in log_of(lone)] == [b"a", b"c"]

    told(tmp_path, story)


def test_answers_leave_in_the_order_of_pipelined_requests(tmp_path: Path) -> None:
    """A parked acks=all holds back the answers behind it, not their appends."""

    async def story(lone: LoneBroker) -> None:
        lone.create_topic("slow", replicas=(1, 2))
        lone.create_topic("quick")
        order: list[str] = []

        async def asked(name: str, message: ProduceRequest) -> None:
            result = await produced(lone, message)
            order.append(f"{name}:{result.error_code}")

        tasks = [
            asyncio.ensure_future(asked("parked", request(values(b"a"), acks=-1, topic="slow"))),
            asyncio.ensure_future(asked("acks=1", request(values(b"b"), topic="quick"))),
            asyncio.ensure_future(asked("refused", request(values(b"c"), topic="nowhere"))),
        ]
        await until(lambda: log_of(lone, "quick"))
        assert order == []
        lone.follower_fetches("slow", 2, 1)
        await asyncio.gather(*tasks)
        assert order == ["parked:0", "acks=1:0", "refused:3"]

    told(tmp_path, story)


def test_one_answer_tells_of_all_partitions_when_the_last_one_is_decided(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        for name in ("a", "b"):
            lone.create_topic(name, replicas=(1, 2))
        message = ProduceRequest(
            acks=-1,
            timeout_ms=100,
            topic_data=[
                TopicProduceData(
                    name=name,
                    partition_data=[PartitionProduceData(index=0, records=values(b"x"))],
                )
                for name in ("a", "b", "nowhere")
            ],
        )
        asked = asyncio.ensure_future(lone.ask(message, 11))
        await until(lambda: log_of(lone, "b"))
        lone.follower_fetches("b", 2, 1)
        await asyncio.sleep(0)
        assert not asked.done()
        lone.pass_time(200)
        answer = await asked
        assert isinstance(answer, ProduceResponse)
        assert [
            (topic.name, topic.partition_responses[0].error_code) for topic in answer.responses
        ] == [("a", 7), ("b", 0), ("nowhere", 3)]

    told(tmp_path, story)


def test_a_request_for_nothing_is_answered_with_nothing(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        answer = await lone.ask(ProduceRequest(acks=-1), 11)
        assert answer == ProduceResponse()

    told(tmp_path, story)


# ---- acks=0


def test_acks_0_is_never_answered(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        network = lone.broker.host.network
        connection = await network.connect("127.0.0.1", lone.port, timeout_ms=WAIT_MS)
        silent = encode_request(RequestHeader(0, 11, 1, "silent"), request(values(b"a"), acks=0))
        connection.post(silent)
        asking = encode_request(RequestHeader(0, 11, 2, "silent"), request(values(b"b")))
        frame = await answer_of(connection, asking, timeout_ms=WAIT_MS)
        assert int.from_bytes(frame[:4], "big") == 2
        assert [each.value for each in log_of(lone)] == [b"a", b"b"]
        connection.close()

    told(tmp_path, story)


@pytest.mark.parametrize("topic", [TOPIC, "nowhere"])
def test_an_error_of_acks_0_ends_the_connection(tmp_path: Path, topic: str) -> None:
    """There is no answer that could carry it."""

    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        network = lone.broker.host.network
        connection = await network.connect("127.0.0.1", lone.port, timeout_ms=WAIT_MS)
        bad = values(b"a")
        bad[-1] ^= 1
        message = request(bad, acks=0, topic=topic)
        connection.post(encode_request(RequestHeader(0, 11, 1, "silent"), message))
        asking = encode_request(RequestHeader(0, 11, 2, "silent"), request(values(b"b")))
        with pytest.raises((ConnectionClosed, PeerReset)):
            await answer_of(connection, asking, timeout_ms=WAIT_MS)

    told(tmp_path, story)


# ---- refusals


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_numbers_of_acks_are_refused_for_every_partition(tmp_path: Path, acks: int) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        result = await produced(lone, request(values(b"a"), acks=acks))
        assert (result.error_code, result.base_offset) == (21, -1)
        assert result.error_message is not None
        assert str(acks) in result.error_message
        assert log_of(lone) == []

    told(tmp_path, story)


def test_partitions_that_are_not_here_are_told_apart(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        led = lone.create_topic("elsewhere", replicas=(2, 3), leader=3)
        lone.create_topic("followed", replicas=(2, 1), leader=2)
        good = values(b"a")
        assert (await produced(lone, request(good, topic="nowhere"))).error_code == 3
        assert (await produced(lone, request(good, index=7))).error_code == 3
        assert (await produced(lone, request(good, topic_id=b"?" * 16), 13)).error_code == 100
        for message, version, leader in (
            (request(good, topic="elsewhere"), 12, 3),
            (request(good, topic_id=led), 13, 3),
            (request(good, topic="followed"), 11, 2),
        ):
            result = await produced(lone, message, version)
            assert result.error_code == 6
            assert result.current_leader is not None
            assert result.current_leader.leader_id == leader
        old = await produced(lone, request(good, topic="elsewhere"), 9)
        assert (old.error_code, old.current_leader) == (6, None)

    told(tmp_path, story)


def test_a_topic_is_found_by_its_id_and_echoed_by_it(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        topic_id = lone.create_topic(TOPIC)
        answer = await lone.ask(request(values(b"a"), topic_id=topic_id), 13)
        assert isinstance(answer, ProduceResponse)
        assert answer.responses[0].topic_id == topic_id
        assert result_of(answer).error_code == 0

    told(tmp_path, story)


def broken(change: str) -> bytes | bytearray | None:
    good = values(b"a", b"b")
    if change == "nothing":
        return None
    if change == "empty":
        return b""
    if change == "two batches":
        return good + good
    if change == "checksum":
        good[-1] ^= 1
    elif change == "old magic":
        good[16] = 1
    elif change == "torn":
        return good[:-1]
    elif change == "offset chosen":
        good[7] = 9
    elif change == "control":
        good[22] |= CONTROL_BIT
        seal(good, 0, read_header(good))
    return good


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("nothing", 87),
        ("empty", 87),
        ("two batches", 87),
        ("checksum", 2),
        ("old magic", 87),
        ("torn", 87),
        ("offset chosen", 87),
        ("control", 87),
    ],
)
def test_bytes_that_are_not_one_good_batch_are_refused_with_a_reason(
    tmp_path: Path, change: str, code: int
) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        result = await produced(lone, request(broken(change)))
        assert (result.error_code, result.base_offset) == (code, -1)
        assert result.error_message
        assert log_of(lone) == []

    told(tmp_path, story)


def claiming(count: int, *texts: bytes, codec: int) -> bytearray:
    """A batch whose header counts other records than there are, under a right checksum."""
    data = encode([Record(n, NOW_MS, None, text) for n, text in enumerate(texts)], codec=codec)
    data[57:61] = count.to_bytes(4, "big")
    data[23:27] = (count - 1).to_bytes(4, "big")
    seal(data, 0, read_header(data))
    return data


@pytest.mark.parametrize("codec", sorted(CODEC_NAMES), ids=CODEC_NAMES.get)
@pytest.mark.parametrize(("claimed", "there"), [(5, 1), (1, 5)])
def test_a_batch_that_does_not_hold_the_records_it_counts_is_refused(
    tmp_path: Path, codec: int, claimed: int, there: int
) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        lying = claiming(claimed, *[b"x" * 20] * there, codec=codec)
        result = await produced(lone, request(lying))
        assert (result.error_code, result.base_offset) == (87, -1)
        assert result.error_message is not None
        assert "record" in result.error_message
        good = await produced(lone, request(claiming(there, *[b"x"] * there, codec=codec)))
        assert (good.error_code, good.base_offset) == (0, 0)
        assert len(log_of(lone)) == there

    told(tmp_path, story)


@contextlib.contextmanager
def occupied_workshop(lone: LoneBroker) -> Iterator[None]:
    """Its only thread has something else to do: what is sent there is away until this ends."""
    over = threading.Event()
    lone.broker.workshop._worker.run(over.wait)
    try:
        yield
    finally:
        over.set()


def gzip_of_zeros(mebibytes: int) -> bytearray:
    """One batch that inflates to so much, made without ever having it: a block that can follow
    itself, again and again. The stream has no end, but that is not what it is refused for."""
    squeezer = zlib.compressobj(level=9, wbits=31)
    front = squeezer.compress(b"") + squeezer.flush(zlib.Z_FULL_FLUSH)
    block = squeezer.compress(bytes(1 << 20)) + squeezer.flush(zlib.Z_FULL_FLUSH)
    data = build_batch(
        read_header(encode([Record(0, NOW_MS, None, b"")])), front + block * mebibytes
    )
    data[22] |= GZIP
    seal(data, 0, read_header(data))
    return data


def test_a_batch_that_inflates_to_512_mebibytes_is_refused_within_bounds(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        bomb = gzip_of_zeros(512)
        assert len(bomb) < 1_000_000
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await produced(lone, request(bomb))
        assert result.error_code == 10
        assert result.error_message == "gzip records decompress to more than 67108864 bytes"
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
        assert grown_kib < 200 * 1024
        assert log_of(lone) == []

    told(tmp_path, story)


def test_a_batch_that_may_inflate_to_much_leaves_the_loop_to_others(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        lone.create_topic("payments")
        small_bomb = gzip_of_zeros(16)
        assert len(small_bomb) < 20_000
        hosted = lone.broker.replicas.named(TOPIC, 0)
        assert hosted is not None
        with occupied_workshop(lone):
            bomb = asyncio.ensure_future(produced(lone, request(small_bomb)))
            await until(lambda: lone.broker.workshop.is_busy_with(hosted.partition))
            # Answers of a connection leave in the order of its requests.
            other = Peer(lone.broker.host.network, ("127.0.0.1", lone.port), "other")
            answer = await other.ask(
                request(values(b"a"), topic="payments"), 11, timeout_ms=WAIT_MS
            )
            assert result_of(answer).error_code == 0
            other.close()
            assert not bomb.done()
        result = await bomb
        assert result.error_code == 87
        assert result.error_message == "the records are not valid gzip: the stream ends too early"

    told(tmp_path, story)


def test_a_newest_timestamp_that_is_not_true_is_set_right(tmp_path: Path) -> None:
    """Lookups by time and retention believe the header."""

    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        data = values(b"a", b"b")
        data[35:43] = (5).to_bytes(8, "big")
        seal(data, 0, read_header(data))
        assert (await produced(lone, request(data))).error_code == 0
        hosted = lone.broker.replicas.named(TOPIC, 0)
        assert hosted is not None
        (header,) = headers(hosted.log.read(0, END, 1 << 20))
        assert header.max_timestamp == NOW_MS
        assert len(log_of(lone)) == 2

    told(tmp_path, story)


def test_a_batch_larger_than_the_topic_takes_is_refused(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, max_message_bytes="1000")
        assert (await produced(lone, request(values(b"a" * 900)))).error_code == 0
        result = await produced(lone, request(values(b"a" * 1000)))
        assert result.error_code == 10
        assert result.error_message is not None
        assert "max.message.bytes is 1000" in result.error_message

    told(tmp_path, story)


def test_zstd_needs_a_client_that_knows_it(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        squeezed = encode([Record(0, NOW_MS, None, b"a")], codec=ZSTD)
        assert (await produced(lone, request(squeezed), 6)).error_code == 76
        assert (await produced(lone, request(squeezed), 7)).error_code == 0

    told(tmp_path, story)


def test_a_batch_that_was_worked_on_and_has_no_coordinator_is_refused_once(tmp_path: Path) -> None:
    """The question to its coordinator is answered before it is even sent: nobody is there."""

    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, compression_type="zstd")
        squeezed = encode(
            [Record(0, NOW_MS, None, b"a")],
            codec=GZIP,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        message = request(squeezed, acks=-1)
        message.transactional_id = "mine"
        result = await produced(lone, message)
        assert result.error_code == Error.NOT_ENOUGH_REPLICAS
        assert log_of(lone) == []

    told(tmp_path, story)


def test_a_transactional_batch_needs_a_transactional_id(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        records = values(b"a", producer=7, sequence=0, transactional=True)
        result = await produced(lone, request(records, acks=-1))
        assert result.error_code == 48
        assert result.error_message is not None
        assert "no transactional id" in result.error_message
        assert log_of(lone) == []

    told(tmp_path, story)


def test_too_few_replicas_in_sync_is_said_before_anything_about_the_batch(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2), isr=(1,), min_insync_replicas="2")
        assert (await produced(lone, request(broken("checksum"), acks=-1))).error_code == 19
        assert (await produced(lone, request(broken("checksum"), acks=1))).error_code == 2
        assert log_of(lone) == []

    told(tmp_path, story)


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, segment_bytes="1048576", max_message_bytes="4000000")
        result = await produced(lone, request(values(b"a" * 1_100_000)))
        assert result.error_code == 18

    told(tmp_path, story)


class FailingDisk(FileDisk):
    """Every write fails once the test says so, as a dying device does."""

    failing = False

    def open(self, path: str, *, create: bool = False):  # type: ignore[no-untyped-def]  # as given
        file = super().open(path, create=create)
        return FailingFile(file, self)


class FailingFile:
    def __init__(self, file, disk) -> None:  # type: ignore[no-untyped-def]  # as given
        self._file = file
        self._disk = disk

    def write(self, position, data) -> None:  # type: ignore[no-untyped-def]  # as given
        if self._disk.failing:
            raise OSError(5, "Input/output error")
        self._file.write(position, data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def test_a_disk_that_fails_is_a_storage_error_and_not_a_dropped_connection(tmp_path: Path) -> None:
    async def main() -> None:
        disk = FailingDisk(tmp_path)
        async with lone_broker(tmp_path, APIS, disk=disk) as lone:
            lone.create_topic(TOPIC)
            assert (await produced(lone, request(values(b"a")))).error_code == 0
            disk.failing = True
            for _ in range(2):
                result = await produced(lone, request(values(b"b")))
                assert result.error_code == 56
            assert lone.offline
            assert {type(each) for each in lone.offline} == {DirectoryOffline}

    run(main)


# ---- idempotence


def test_a_repeated_batch_is_answered_with_its_first_offset(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        for sequence in range(3):
            await produced(lone, request(values(b"a", producer=7, sequence=sequence)))
        again = await produced(lone, request(values(b"a", producer=7, sequence=1)))
        assert (again.error_code, again.base_offset) == (0, 1)
        assert len(log_of(lone)) == 3

    told(tmp_path, story)


def test_a_repeated_batch_waits_for_the_high_watermark_like_the_first(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2))
        both = [
            asyncio.ensure_future(
                produced(lone, request(values(b"a", producer=7, sequence=0), acks=-1))
            )
            for _ in range(2)
        ]
        await until(lambda: log_of(lone))
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in both)
        lone.follower_fetches(TOPIC, 2, 1)
        results = await asyncio.gather(*both)
        assert [(each.error_code, each.base_offset) for each in results] == [(0, 0), (0, 0)]
        assert len(log_of(lone)) == 1

    told(tmp_path, story)


def test_gaps_and_old_epochs_of_a_producer_are_refused(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        await produced(lone, request(values(b"a", producer=7, sequence=0)))
        gap = await produced(lone, request(values(b"a", producer=7, sequence=5)))
        assert gap.error_code == 45
        newer = encode(
            [Record(0, NOW_MS, None, b"b")], producer_id=7, producer_epoch=1, base_sequence=0
        )
        assert (await produced(lone, request(newer))).error_code == 0
        old = await produced(lone, request(values(b"a", producer=7, sequence=1)))
        assert old.error_code == 47

    told(tmp_path, story)


# ---- topics that look at records


def test_log_append_time_is_stamped_and_told(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, message_timestamp_type="LogAppendTime")
        result = await produced(lone, request(values(b"a", time_ms=5)))
        assert (result.error_code, result.log_append_time_ms) == (0, NOW_MS)
        assert [each.timestamp for each in log_of(lone)] == [NOW_MS]

    told(tmp_path, story)


def test_timestamps_too_far_in_the_future_name_the_guilty_records(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, message_timestamp_after_max_ms="1000")
        times = [NOW_MS, NOW_MS + 1001, NOW_MS + 1000, NOW_MS + 5000]
        records = encode([Record(n, time, None, b"x") for n, time in enumerate(times)])
        result = await produced(lone, request(records))
        assert result.error_code == 32
        assert [each.batch_index for each in result.record_errors] == [1, 3]
        assert log_of(lone) == []

    told(tmp_path, story)


def test_timestamps_too_old_are_refused_where_the_topic_has_a_limit(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, message_timestamp_before_max_ms="1000")
        old = await produced(lone, request(values(b"a", time_ms=NOW_MS - 1001)))
        assert (old.error_code, len(old.record_errors)) == (32, 1)
        assert (await produced(lone, request(values(b"a", time_ms=-1)))).error_code == 0
        assert (await produced(lone, request(values(b"a", time_ms=NOW_MS - 1000)))).error_code == 0

    told(tmp_path, story)


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_a_compacted_topic_wants_a_key_in_every_record(tmp_path: Path, codec: int) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, cleanup_policy="compact")
        mixed = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v")]
        result = await produced(lone, request(encode(mixed, codec=codec)))
        assert result.error_code == 87
        assert [each.batch_index for each in result.record_errors] == [1]
        good = await produced(lone, request(encode(mixed[:1], codec=codec)))
        assert (good.error_code, good.base_offset) == (0, 0)

    told(tmp_path, story)


@pytest.mark.parametrize(
    ("name", "codec"), [("gzip", GZIP), ("zstd", ZSTD), ("uncompressed", NONE)]
)
@pytest.mark.parametrize("sent", [NONE, LZ4])
def test_a_topic_with_a_codec_of_its_own_gets_it(
    tmp_path: Path, name: str, codec: int, sent: int
) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, compression_type=name)
        records = [Record(n, NOW_MS + n, b"k", b"value" * 20) for n in range(50)]
        message = encode(records, codec=sent, producer_id=7, producer_epoch=0, base_sequence=0)
        result = await produced(lone, request(message))
        again = await produced(lone, request(message))
        assert (result.error_code, again.error_code, again.base_offset) == (0, 0, 0)
        hosted = lone.broker.replicas.named(TOPIC, 0)
        assert hosted is not None
        (header,) = headers(hosted.log.read(0, END, 1 << 20))
        assert header.codec == codec
        assert log_of(lone) == records

    told(tmp_path, story)


def test_batches_of_a_partition_keep_their_order_while_one_is_looked_at(tmp_path: Path) -> None:
    """The first takes the slow way, the ones behind it are small: they may not overtake it."""

    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, cleanup_policy="compact")
        slow = encode(
            [Record(n, NOW_MS, b"k", b"v") for n in range(50_000)],
            codec=LZ4,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
        )
        quick = [
            encode(
                [Record(0, NOW_MS, b"k", b"v")],
                producer_id=7,
                producer_epoch=0,
                base_sequence=50_000 + n,
            )
            for n in range(5)
        ]
        hosted = lone.broker.replicas.named(TOPIC, 0)
        assert hosted is not None
        with occupied_workshop(lone):
            asked = [
                asyncio.ensure_future(produced(lone, request(each, acks=-1)))
                for each in (slow, *quick)
            ]
            await until(lambda: lone.broker.workshop.is_busy_with(hosted.partition))
        results = await asyncio.gather(*asked)
        assert [each.error_code for each in results] == [0] * 6
        assert [each.base_offset for each in results] == [0, *range(50_000, 50_005)]

    told(tmp_path, story)


def test_a_batch_whose_time_is_over_before_it_was_looked_at_is_neither_read_nor_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client sends it again. If every try was worked on, the queue would only get longer."""
    read: list[BatchHeader] = []
    perform = record_work.perform

    def noted(work: RecordWork, batch: Buffer, header: BatchHeader) -> Buffer:
        read.append(header)
        return perform(work, batch, header)

    monkeypatch.setattr(record_work, "perform", noted)

    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, cleanup_policy="compact")
        slow = encode([Record(n, NOW_MS, b"k", b"v") for n in range(50_000)], codec=LZ4)
        hosted = lone.broker.replicas.named(TOPIC, 0)
        assert hosted is not None
        with occupied_workshop(lone):
            asked = asyncio.ensure_future(produced(lone, request(slow, timeout_ms=1)))
            workshop = lone.broker.workshop
            await until(lambda: workshop.is_busy_with(hosted.partition))
            lone.pass_time(10)
            assert (await asked).error_code == 7
        await until(lambda: not workshop.is_busy_with(hosted.partition))
        assert log_of(lone) == []
        assert read == []

    told(tmp_path, story)


def test_the_first_three_versions_are_not_served(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        network = lone.broker.host.network
        connection = await network.connect("127.0.0.1", lone.port, timeout_ms=WAIT_MS)
        head = b"\x00\x00\x00\x02" + (1).to_bytes(4, "big") + b"\xff\xff"
        with pytest.raises(NetworkError):
            await answer_of(connection, [head], timeout_ms=WAIT_MS)

    told(tmp_path, story)


def test_endpoints_are_those_of_the_listener_the_request_came_through(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic("elsewhere", replicas=(2, 3), leader=3)
        answer = await lone.ask(request(values(b"a"), topic="elsewhere"), 10)
        assert isinstance(answer, ProduceResponse)
        assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(3, 3)]

    told(tmp_path, story)
