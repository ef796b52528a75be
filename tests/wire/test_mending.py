"""Brokers whose files have rotted: bad bytes are never served, and good ones are put back."""

import asyncio
from pathlib import Path

import pytest

from support import loopback
from support.fed_brokers import FedCluster, fed_brokers, partition_id, topic_id, topic_records
from support.lone_broker import LoneBroker, lone_broker
from support.scripted_controller import ALTER_PARTITION, ScriptedController, scripted_controller
from tidelog.broker.logs.mending import DAMAGED, UNREADABLE, Mending, Round
from tidelog.broker.replication.hosted import Hosted
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.replication.effects import Effect
from tidelog.core.replication.follower import FollowerReplica
from tidelog.storage.mending import Damage
from tidelog.wire.protocol.schemas.alter_partition_request import AlterPartitionRequest
from tidelog.wire.protocol.schemas.alter_partition_response import AlterPartitionResponse
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse
from tidelog.wire.records import Record, encode, iter_batches

TOPIC = "tides"
COUNT = 12
VALUE = b"v" * 200
MAGIC_AT = 16


def segment_file(data: Path, broker: int, base: int = 0) -> Path:
    return data / f"broker-{broker}" / f"{TOPIC}-0" / f"{base:020d}.log"


def flip(path: Path, offset: int, byte: int = 100) -> None:
    """One bit of the batch with this base offset: of its records, if not told otherwise."""
    content = bytearray(path.read_bytes())
    place = next(at for at, header in iter_batches(content) if header.base_offset == offset)
    content[place + byte] ^= 4
    with path.open("r+b") as file:
        file.write(content)


def request_at(offset: int) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(topics=[FetchTopic(topic_id=topic_id(TOPIC), partitions=[wanted])])


async def read_at(cluster: FedCluster, broker: int, offset: int) -> int:
    """The error of a consumer's fetch."""
    answer = await cluster.members[broker].ask(request_at(offset), 17)
    assert isinstance(answer, FetchResponse), answer
    ((data,),) = (topic.partitions for topic in answer.responses)
    return data.error_code


async def replicated(cluster: FedCluster, *brokers: int, isr: tuple[int, ...] = ()) -> None:
    cluster.commit(*topic_records(TOPIC, replicas=brokers, isr=isr or None))
    for number in range(COUNT):
        cluster.append(brokers[0], TOPIC, VALUE + b"%d" % number)
    members = isr or brokers
    await loopback.until(
        lambda: all(cluster.hosted(each, TOPIC).replica.high_watermark == COUNT for each in members)
    )


def kinds(cluster: FedCluster, broker: int) -> list[str]:
    return [each.kind for each in cluster[broker].host.findings.all()]


def test_a_batch_that_rotted_on_the_leader_is_put_back_and_read_in_the_end(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            await replicated(cluster, 1, 2)
            healthy = segment_file(tmp_path, 1).read_bytes()
            flip(segment_file(tmp_path, 1), 7)
            assert await read_at(cluster, 1, 6) == Error.NONE, "up to the damage"
            assert await read_at(cluster, 1, 7) == Error.KAFKA_STORAGE_ERROR
            assert cluster[1].mending.found_count == 1
            await loopback.until(lambda: cluster[1].mending.mended_count == 1)
            await loopback.until(lambda: not cluster[1].mending.damages)
            assert await read_at(cluster, 1, 7) == Error.NONE
            assert segment_file(tmp_path, 1).read_bytes() == healthy
            assert kinds(cluster, 1) == []
            assert cluster[1].replicas.problems == {}

    loopback.run(story)


def test_a_follower_that_could_not_go_on_behind_a_rotten_batch_catches_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, 3, replica_fetch_backoff_ms="50") as cluster:
            await cluster.members[3].hang_up()
            cluster[3].fetchers.drop(partition_id(TOPIC))
            await replicated(cluster, 1, 2)
            flip(segment_file(tmp_path, 1), 4)
            change = r.PartitionChange(0, topic_id(TOPIC), replicas=(1, 2, 3))
            cluster.commit(change)
            await loopback.until(lambda: cluster.log_end(3, TOPIC) == COUNT)
            assert segment_file(tmp_path, 3).read_bytes() == segment_file(tmp_path, 2).read_bytes()
            assert cluster[1].mending.mended_count == 1

    loopback.run(story)


def test_what_has_rotted_everywhere_is_named_with_its_offsets_and_a_way_on(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            await replicated(cluster, 1, 2)
            flip(segment_file(tmp_path, 1), 7)
            flip(segment_file(tmp_path, 2), 7)
            assert await read_at(cluster, 1, 7) == Error.KAFKA_STORAGE_ERROR
            await loopback.until(lambda: UNREADABLE in kinds(cluster, 1))
            finding = next(e for e in cluster[1].host.findings.all() if e.kind == UNREADABLE)
            assert finding.subject == f"{TOPIC}-0"
            assert finding.text.startswith("offset 7 cannot be read here")
            assert finding.text.endswith("nor on brokers 2")
            assert f"tidelog topic trim {TOPIC} -p 0 --before 8 --yes" in finding.advice
            assert await read_at(cluster, 1, 7) == Error.KAFKA_STORAGE_ERROR
            assert await read_at(cluster, 1, 8) == Error.NONE, "readers may go on behind it"
            await loopback.until(lambda: UNREADABLE in kinds(cluster, 2))
            assert cluster[1].leaving_isr.damaged == {}, "it would help nobody"

    loopback.run(story)


def test_the_scrub_finds_what_nobody_has_read_yet(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            await replicated(cluster, 1, 2)
            healthy = segment_file(tmp_path, 2).read_bytes()
            flip(segment_file(tmp_path, 2), 9)
            cluster[2].scrubbing.start()
            await loopback.until(lambda: cluster[2].mending.mended_count == 1)
            assert segment_file(tmp_path, 2).read_bytes() == healthy
            assert cluster[2].scrubbing.scrubbed_bytes > 0
            cluster[1].scrubbing.start()
            await loopback.until(lambda: cluster[1].scrubbing.rounds == 1)
            assert cluster[1].scrubbing.scrubbed_bytes == len(healthy)
            assert cluster[1].mending.found_count == 0

    loopback.run(story)


def test_a_scrub_that_began_before_there_were_logs_comes_to_them_soon(tmp_path: Path) -> None:
    """A broker hosts nothing when it starts: a round over nothing is no round."""

    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            cluster[2].scrubbing.start()
            await loopback.until(lambda: cluster[2].scrubbing.rounds == 1)
            await replicated(cluster, 1, 2)
            flip(segment_file(tmp_path, 2), 9)
            await loopback.until(lambda: cluster[2].mending.mended_count == 1)

    loopback.run(story)


def append_keyed(cluster: FedCluster, number: int) -> None:
    """A batch of two records, of which only the second survives compaction."""
    hosted = cluster.hosted(1, TOPIC)
    assert hosted.leader is not None
    batch = encode([Record(0, 1, b"same", VALUE), Record(1, 1, b"%d" % number, VALUE)])
    hosted.log.append_as_leader(batch, 0)
    cluster[1].replicas.perform(hosted, hosted.leader.on_appended(cluster[1].now_ms()))
    cluster[1].fetches.wake(hosted.partition)


def test_a_log_that_the_leader_has_compacted_is_cut_and_fetched_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            end = await keyed_in_two_segments(cluster)
            compact(cluster, 1, end)
            flip(segment_file(tmp_path, 2), 6)
            cluster[2].scrubbing.start()
            await loopback.until(lambda: cluster[2].leaving_isr.damaged)
            assert cluster.log_end(2, TOPIC) == end, "nothing is cut while it is in sync"
            cluster.commit(r.PartitionChange(0, topic_id(TOPIC), isr=(1,)))
            await is_fetched_again(cluster, 2, end)

    loopback.run(story)


def test_a_leader_whose_records_have_another_form_elsewhere_hands_over_and_fetches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to say that nobody had them, and led on without them."""
    ask_all, answered = Mending._ask_all, []

    async def noted(self: Mending, hosted: Hosted, damage: Damage) -> Round:
        answered.append(await ask_all(self, hosted, damage))
        return answered[-1]

    monkeypatch.setattr(Mending, "_ask_all", noted)

    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            end = await keyed_in_two_segments(cluster)
            compact(cluster, 2, end)
            flip(segment_file(tmp_path, 1), 6)
            cluster[1].scrubbing.start()
            await loopback.until(lambda: cluster[1].leaving_isr.damaged)
            await loopback.until(lambda: answered)
            assert kinds(cluster, 1) == [DAMAGED]
            cluster.commit(r.PartitionChange(0, topic_id(TOPIC), isr=(2,), leader=2))
            await is_fetched_again(cluster, 1, end)

    loopback.run(story)


async def keyed_in_two_segments(cluster: FedCluster) -> int:
    """Brokers 1 and 2 have the same log, of which much can be compacted; its end."""
    cluster.commit(
        *topic_records(TOPIC, replicas=(1, 2)),
        r.Config(r.RESOURCE_TOPIC, TOPIC, "cleanup.policy", "compact"),
        r.Config(r.RESOURCE_TOPIC, TOPIC, "min.cleanable.dirty.ratio", "0"),
    )
    for number in range(COUNT):
        append_keyed(cluster, number)
    end = 2 * COUNT
    await loopback.until(
        lambda: all(cluster.hosted(n, TOPIC).replica.high_watermark == end for n in (1, 2))
    )
    for broker in (1, 2):
        cluster.hosted(broker, TOPIC).log.roll()
    append_keyed(cluster, COUNT)
    await loopback.until(
        lambda: all(cluster.hosted(n, TOPIC).replica.high_watermark == end + 2 for n in (1, 2))
    )
    return end + 2


async def is_fetched_again(cluster: FedCluster, broker: int, end: int) -> None:
    await loopback.until(lambda: cluster[broker].mending.mended_count == 1)
    await loopback.until(lambda: cluster.log_end(broker, TOPIC) == end)
    for offset in range(6, end, 2):
        assert await read_at(cluster, broker, offset) == Error.NONE
    assert kinds(cluster, broker) == []


def compact(cluster: FedCluster, broker: int, high_watermark: int) -> None:
    directory = cluster[broker].replicas.directories.all[0]
    before = cluster.hosted(broker, TOPIC).log.size_bytes
    clock = cluster[broker].host.clock
    while (
        progress := directory.compact_once(
            wall_ms=clock.wall_ms(),
            monotonic_ms=clock.monotonic_ms(),
            high_watermarks={(TOPIC, 0): high_watermark},
        )
    ) is not None:
        if progress.finished:
            break
    assert cluster.hosted(broker, TOPIC).log.size_bytes < before, "nothing was compacted"


def test_a_leader_with_a_damaged_log_hands_over(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2, 3))
        hosted = lone.broker.replicas.named(TOPIC, 0)
        assert hosted is not None
        for _ in range(3):
            hosted.log.append_as_leader(encode([Record(0, 1, None, VALUE)]), 5)
        lone.follower_fetches(TOPIC, 2, 3)
        lone.follower_fetches(TOPIC, 3, 3)
        flip(tmp_path / f"{TOPIC}-0" / f"{0:020d}.log", 1)
        answer = await lone.ask(request_at(1), 17)
        assert isinstance(answer, FetchResponse)
        (finding,) = lone.broker.host.findings.all()
        assert (finding.kind, finding.subject) == (DAMAGED, f"{TOPIC}-0")
        assert finding.text.startswith(f"offset 1 cannot be read from {TOPIC}-0/{0:020d}.log, byte")
        await lone.until(lambda: controller.asked(ALTER_PARTITION))
        (request, *_) = controller.asked(ALTER_PARTITION)
        assert isinstance(request, AlterPartitionRequest)
        ((asked,),) = (topic.partitions for topic in request.topics)
        assert [member.broker_id for member in asked.new_isr_with_epochs] == [2, 3]

    async def main() -> None:
        async with (
            scripted_controller() as controller,
            lone_broker(tmp_path, (1,), voters=f"9@127.0.0.1:{controller.port}") as lone,
        ):
            controller.usual[ALTER_PARTITION] = AlterPartitionResponse()
            await story(lone, controller)
            await asyncio.sleep(0)

    loopback.run(main)


def test_a_damaged_tail_that_is_not_committed_is_cut_by_the_next_follower(tmp_path: Path) -> None:
    """Nobody else has it, and nobody was promised it: it goes with the leadership."""

    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, 3) as cluster:
            await replicated(cluster, 1, 2, 3)
            for broker in (2, 3):
                cluster[broker].fetchers.drop(partition_id(TOPIC))
            cluster.append(1, TOPIC, VALUE)
            flip(segment_file(tmp_path, 1), COUNT)
            cluster[1].scrubbing.start()
            await loopback.until(lambda: cluster[1].leaving_isr.damaged)
            change = r.PartitionChange(0, topic_id(TOPIC), isr=(2, 3), leader=2)
            cluster.commit(change)
            cluster.append(2, TOPIC, b"instead")
            await loopback.until(lambda: cluster[1].mending.mended_count == 1)
            await loopback.until(lambda: cluster.log_end(1, TOPIC) == COUNT + 1)
            await loopback.until(
                lambda: (
                    segment_file(tmp_path, 1).read_bytes() == segment_file(tmp_path, 2).read_bytes()
                )
            )

    loopback.run(story)


def test_a_deposed_leader_with_damage_below_the_cut_is_mended_before_it_cuts(
    tmp_path: Path,
) -> None:
    """It is in the ISR: to cut at the damage would take back what it has promised to hold."""

    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, replica_fetch_backoff_ms="50") as cluster:
            await replicated(cluster, 1, 2)
            elected = r.PartitionChange(0, topic_id(TOPIC), leader=2)
            cluster.commit_to(2, elected)
            cluster.append(2, TOPIC, b"instead")
            cluster.append(1, TOPIC, b"lost")
            flip(segment_file(tmp_path, 1), 4, byte=MAGIC_AT)
            cluster.commit_to(1, elected)
            await loopback.until(lambda: cluster[1].mending.mended_count == 1)
            assert cluster.log_end(1, TOPIC) == COUNT + 1, "nothing was cut"
            await loopback.until(
                lambda: (
                    segment_file(tmp_path, 1).read_bytes() == segment_file(tmp_path, 2).read_bytes()
                )
            )
            await loopback.until(lambda: not cluster[1].mending.damages)
            assert kinds(cluster, 1) == []

    loopback.run(story)


def test_an_eligible_leader_replica_is_mended_and_never_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was restarted, so it knows of less that is committed than it has. It may be elected at
    any moment: what it cuts would be lost if the leader does not come back."""
    cuts: list[int] = []
    cut_damaged = FollowerReplica.cut_damaged

    def noted(self: FollowerReplica, offset: int, now_ms: int) -> list[Effect]:
        cuts.append(offset)
        return cut_damaged(self, offset, now_ms)

    monkeypatch.setattr(FollowerReplica, "cut_damaged", noted)

    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            await replicated(cluster, 1, 2)
            healthy = segment_file(tmp_path, 2).read_bytes()
            cluster[2].fetchers.drop(partition_id(TOPIC))
            cluster.commit(r.PartitionChange(0, topic_id(TOPIC), isr=(1,), elr=(2,)))
            cluster.hosted(2, TOPIC).replica.high_watermark = 5
            flip(segment_file(tmp_path, 2), 7)
            cluster[2].scrubbing.start()
            await loopback.until(lambda: cluster[2].mending.mended_count == 1)
            assert cuts == []
            assert segment_file(tmp_path, 2).read_bytes() == healthy

    loopback.run(story)
