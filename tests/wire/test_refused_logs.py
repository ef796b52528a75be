"""A broker that is elected though its log was refused gets the lost records back, and leads."""

from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from support import loopback
from support.fed_brokers import FedCluster, fed_brokers, partition_id, topic_records
from tidelog.broker.logs.refused_logs import KIND

TOPIC = "tides"
COUNT = 12
SYNCED = {"ack_durability": "fsync"}


def segments(data: Path, broker: int) -> list[Path]:
    return sorted((data / f"broker-{broker}" / f"{TOPIC}-0").glob("*.log"))


def all_have(cluster: FedCluster, end: int) -> bool:
    return all(cluster.hosted(each, TOPIC).replica.high_watermark == end for each in (1, 2))


async def write_everywhere(data: Path, *, gaps: bool = False) -> None:
    """Both brokers have everything, and stop. With `gaps` broker 1 has compacted its log once."""
    async with fed_brokers(data, 1, 2, **SYNCED) as cluster:
        cluster.commit(*topic_records(TOPIC, replicas=(1, 2)))
        for end in (COUNT // 2, COUNT):
            for number in range(COUNT // 2):
                cluster.append(1, TOPIC, b"%d before %d" % (number, end))
            await loopback.until(partial(all_have, cluster, end))
            for broker in (1, 2):
                cluster.hosted(broker, TOPIC).log.roll()
        if gaps:
            cluster.hosted(1, TOPIC).log.allow_gaps()
        for broker in (1, 2):
            replicas = cluster[broker].replicas
            (directory,) = replicas.directories.all
            directory.sync_dirty()
            cluster.hosted(broker, TOPIC).log.store_epochs()
            directory.checkpoint_recovery_points()
            directory.checkpoint_log_starts()
            directory.checkpoint_high_watermarks(replicas.high_watermarks())


def is_refused(cluster: FedCluster, broker: int) -> bool:
    return KIND in [each.kind for each in cluster[broker].host.findings.all()]


def restarted(data: Path) -> AbstractAsyncContextManager[FedCluster]:
    """Broker 1 is alone in the ISR, and leads."""
    known = topic_records(TOPIC, replicas=(1, 2), isr=(1,))
    return fed_brokers(data, 1, 2, known=known, **SYNCED)


def test_the_last_known_leader_without_its_first_segment_gets_it_back_and_leads(
    tmp_path: Path,
) -> None:
    """Nobody could read or write for good: followers got KAFKA_STORAGE_ERROR from it."""

    async def story() -> None:
        await write_everywhere(tmp_path)
        first, *others = segments(tmp_path, 1)
        healthy = first.read_bytes()
        assert others
        first.unlink()
        async with restarted(tmp_path) as cluster:
            assert is_refused(cluster, 1)
            await loopback.until(lambda: cluster[1].replicas.named(TOPIC, 0) is not None)
            hosted = cluster.hosted(1, TOPIC)
            assert hosted.leader is not None
            assert (hosted.log.log_start_offset, hosted.log.log_end_offset) == (0, COUNT)
            assert first.read_bytes() == healthy
            assert not is_refused(cluster, 1)
            assert cluster[1].replicas.problems == {}

    loopback.run(story)


def test_a_replica_that_does_not_answer_is_asked_again_until_it_does(tmp_path: Path) -> None:
    async def story() -> None:
        await write_everywhere(tmp_path)
        segments(tmp_path, 1)[0].unlink()
        async with restarted(tmp_path) as cluster:
            away = cluster.members[2]
            await away.hang_up()
            await loopback.until(lambda: cluster[1].restoring.rounds > 0)
            assert is_refused(cluster, 1), "told until it is over"
            assert partition_id(TOPIC) not in cluster[1].replicas.hosted
            await away.listen()
            await loopback.until(lambda: cluster[1].replicas.named(TOPIC, 0) is not None)
            assert not is_refused(cluster, 1)

    loopback.run(story)


def test_a_leader_with_a_rotten_batch_in_a_compacted_log_gets_it_back_and_leads(
    tmp_path: Path,
) -> None:
    """Each broker compacts for itself, so the others may have the batch in another form. If one
    has it as it was, it is put back."""

    async def story() -> None:
        await write_everywhere(tmp_path, gaps=True)
        path = segments(tmp_path, 1)[1]
        healthy = path.read_bytes()
        rotten = bytearray(healthy)
        rotten[-3] ^= 1
        path.write_bytes(rotten)
        async with restarted(tmp_path) as cluster:
            assert is_refused(cluster, 1)
            await loopback.until(lambda: cluster[1].replicas.named(TOPIC, 0) is not None)
            assert cluster.hosted(1, TOPIC).log.log_end_offset == COUNT
            assert path.read_bytes() == healthy
            assert not is_refused(cluster, 1)

    loopback.run(story)


def test_the_last_known_leader_of_a_compacted_log_gets_its_first_segment_back_and_leads(
    tmp_path: Path,
) -> None:
    """It stayed refused for good, though another replica had everything."""

    async def story() -> None:
        await write_everywhere(tmp_path, gaps=True)
        segments(tmp_path, 1)[0].unlink()
        async with restarted(tmp_path) as cluster:
            assert is_refused(cluster, 1)
            await loopback.until(lambda: cluster[1].replicas.named(TOPIC, 0) is not None)
            hosted = cluster.hosted(1, TOPIC)
            assert hosted.leader is not None
            assert (hosted.log.log_start_offset, hosted.log.log_end_offset) == (0, COUNT)
            assert not is_refused(cluster, 1)
            assert cluster[1].replicas.problems == {}

    loopback.run(story)
