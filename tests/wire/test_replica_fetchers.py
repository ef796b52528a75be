"""Brokers that replicate over loopback, fed with metadata by the test."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from support import loopback
from support.batches import offsets
from support.checkpoint_writings import writings_of
from support.fed_brokers import (
    FedCluster,
    fed_brokers,
    partition_id,
    topic_id,
    topic_records,
)
from tidelog.broker.replication.fetchers import loop_number
from tidelog.core.metadata import records as r
from tidelog.core.types import PartitionId
from tidelog.storage.checkpoints import LOG_STARTS
from tidelog.wire.protocol.schemas.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.protocol.schemas.delete_records_response import DeleteRecordsResponse


def in_step(cluster: FedCluster, name: str, *brokers: int, index: int = 0) -> bool:
    """These brokers hold the same log and know that it is committed."""
    ends = {cluster.log_end(broker, name, index) for broker in brokers}
    marks = {cluster.hosted(broker, name, index).replica.high_watermark for broker in brokers}
    return ends == marks and len(ends) == 1


def bytes_of(cluster: FedCluster, broker: int, name: str, index: int = 0) -> bytes:
    log = cluster.hosted(broker, name, index).log
    return b"".join(bytes(run) for run in log.read(log.log_start_offset, 1 << 40, 1 << 30))


def elect(cluster: FedCluster, name: str, leader: int, *, at: tuple[int, ...] = ()) -> None:
    change = r.PartitionChange(0, topic_id(name), leader=leader)
    for broker in at or tuple(cluster.members):
        cluster.commit_to(broker, change)


@pytest.mark.parametrize("durability", ["fsync", "page-cache"])
def test_followers_hold_what_the_leader_appends(tmp_path: Path, durability: str) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, 3, ack_durability=durability) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2, 3), partitions=3))
            for round_number in range(20):
                for index in range(3):
                    cluster.append(1, "tides", b"%d" % round_number, b"x" * 100, index=index)
                await asyncio.sleep(0)
            for index in range(3):
                await loopback.until(lambda at=index: in_step(cluster, "tides", 1, 2, 3, index=at))
                assert cluster.log_end(1, "tides", index) == 40
                held = bytes_of(cluster, 1, "tides", index)
                assert bytes_of(cluster, 2, "tides", index) == held
                assert bytes_of(cluster, 3, "tides", index) == held

    loopback.run(story)


def test_the_high_watermark_waits_for_the_followers_sync(tmp_path: Path) -> None:
    """What a follower asks for it has on disk."""

    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, ack_durability="fsync") as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            leader = cluster.hosted(1, "tides")
            follower = cluster.hosted(2, "tides").log
            cluster.append(1, "tides", b"one")
            seen: set[bool] = set()
            while leader.replica.high_watermark < 1:
                acknowledged = leader.leader.progress[2].log_end_offset == 1
                seen.add(not acknowledged or follower.durable_offset == 1)
                await asyncio.sleep(0)
            assert seen == {True}

    loopback.run(story)


def test_a_new_leader_is_followed_at_once(tmp_path: Path) -> None:
    """Also by a loop whose request waits at that broker: it does not wait with it."""

    async def story() -> None:
        settings = {"replica_fetch_wait_max_ms": "20000", "replica_lag_time_max_ms": "60000"}
        async with fed_brokers(tmp_path, 1, 2, 3, **settings) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2, 3)))
            cluster.commit(*topic_records("other", replicas=(2, 3)))
            cluster.append(1, "tides", b"one")
            for follower in (2, 3):
                await loopback.until(lambda at=follower: cluster.log_end(at, "tides") == 1)
            await loopback.until(lambda: cluster[2].fetches.parked_count)
            elect(cluster, "tides", 2)
            cluster.append(2, "tides", b"two")
            await loopback.until(lambda: cluster.hosted(2, "tides").replica.high_watermark == 2)
            assert bytes_of(cluster, 3, "tides") == bytes_of(cluster, 1, "tides")

    loopback.run(story)


def test_a_follower_that_hears_of_the_leader_first_is_not_sent_away(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {"replica_fetch_wait_max_ms": "20000", "replica_fetch_backoff_ms": "20000"}
        async with fed_brokers(tmp_path, 1, 2, **settings) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            await loopback.until(lambda: cluster[1].fetches.parked_count)
            elect(cluster, "tides", 2, at=(1,))
            await loopback.until(lambda: cluster[2].fetches.parked_count)
            elect(cluster, "tides", 2, at=(2,))
            cluster[2].committed.on_applied(cluster[2].metadata.offset + 1)
            cluster.append(2, "tides", b"one")
            await loopback.until(lambda: cluster.hosted(2, "tides").replica.high_watermark == 1)

    loopback.run(story)


def test_what_a_follower_acknowledged_to_a_leader_that_did_not_know_it_yet_counts(
    tmp_path: Path,
) -> None:
    """Otherwise a producer that repeats its last batch waits until the fetch times out."""

    async def story() -> None:
        settings = {
            "replica_fetch_wait_max_ms": "90000",
            "replica_lag_time_max_ms": "200000",
            "replica_socket_timeout_ms": "200000",
        }
        async with fed_brokers(tmp_path, 1, 2, 3, **settings) as cluster:
            cluster.commit(*topic_records("tides", replicas=(3, 1, 2)))
            cluster.append(3, "tides", b"one")
            await loopback.until(lambda: cluster.hosted(3, "tides").replica.high_watermark == 1)
            assert cluster.hosted(2, "tides").replica.high_watermark == 0
            change = r.PartitionChange(0, topic_id("tides"), isr=(1, 2), leader=2)
            cluster.commit_to(1, change)
            await loopback.until(lambda: cluster[2].fetches.parked_count)
            cluster.commit_to(2, change)
            cluster[2].committed.on_applied(cluster[2].metadata.offset + 1)
            await loopback.until(lambda: cluster.hosted(2, "tides").replica.high_watermark == 1)

    loopback.run(story)


def test_a_deposed_leader_cuts_what_nobody_else_has(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            cluster.append(1, "tides", b"kept")
            await loopback.until(lambda: cluster.hosted(1, "tides").replica.high_watermark == 1)
            elect(cluster, "tides", 2, at=(2,))
            cluster.append(2, "tides", b"two", b"three")
            cluster.append(1, "tides", b"lost")
            elect(cluster, "tides", 2, at=(1,))
            await loopback.until(lambda: in_step(cluster, "tides", 1, 2))
            assert cluster.log_end(1, "tides") == 3
            assert bytes_of(cluster, 1, "tides") == bytes_of(cluster, 2, "tides")

    loopback.run(story)


def test_a_replica_whose_next_record_is_gone_starts_where_the_leader_does(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, replica_fetch_backoff_ms="10") as cluster:
            cluster.commit(*topic_records("tides", replicas=(1,)))
            for number in range(10):
                cluster.append(1, "tides", b"%d" % number)
            cluster.hosted(1, "tides").log.raise_log_start(7)
            cluster.commit(
                r.PartitionChange(0, topic_id("tides"), replicas=(1, 2), adding_replicas=(2,))
            )
            await loopback.until(lambda: in_step(cluster, "tides", 1, 2))
            log = cluster.hosted(2, "tides").log
            assert (log.log_start_offset, log.log_end_offset) == (7, 10)
            assert offsets(log.read(7, 10, 1 << 20)) == [(7, 7), (8, 8), (9, 9)]

    loopback.run(story)


def test_log_starts_of_many_partitions_are_stored_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the leader and by its follower, which hears of all of them in a few answers."""
    count = 30

    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2), partitions=count))
            for index in range(count):
                cluster.append(1, "tides", b"first", index=index)
            followed = partial(in_step, cluster, "tides", 1, 2)
            await loopback.until(lambda: all(followed(index=each) for each in range(count)))
            await loopback.until(lambda: cluster[1].fetches.parked_count == 1)
            written = writings_of(LOG_STARTS, monkeypatch)
            asked = [
                DeleteRecordsPartition(partition_index=each, offset=1) for each in range(count)
            ]
            topic = DeleteRecordsTopic(name="tides", partitions=asked)
            request = DeleteRecordsRequest(topics=[topic], timeout_ms=30_000)
            answer = await cluster.members[1].ask(request, 2)
            assert isinstance(answer, DeleteRecordsResponse)
            results = answer.topics[0].partitions
            assert [(each.error_code, each.low_watermark) for each in results] == [(0, 1)] * count
            everywhere = {("tides", index): 1 for index in range(count)}
            assert written[0] == written[-1] == everywhere
            assert len(written) < 5, "one writing for each of the answers that told of them"

    loopback.run(story)


def test_a_deletion_does_not_wait_for_fetches_that_are_parked(tmp_path: Path) -> None:
    """Followers of a quiet partition would hear of the new log start minutes later."""
    waits = {"replica_fetch_wait_max_ms": "300000", "replica_lag_time_max_ms": "400000"}

    async def story() -> None:
        async with fed_brokers(
            tmp_path, 1, 2, 3, replica_socket_timeout_ms="400000", **waits
        ) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2, 3)))
            for number in range(5):
                cluster.append(1, "tides", b"%d" % number)
            leader = cluster.hosted(1, "tides").replica
            await loopback.until(lambda: leader.high_watermark == 5)
            await loopback.until(lambda: cluster[1].fetches.parked_count == 2)
            asked = DeleteRecordsPartition(partition_index=0, offset=3)
            topic = DeleteRecordsTopic(name="tides", partitions=[asked])
            request = DeleteRecordsRequest(topics=[topic], timeout_ms=300_000)
            answer = await cluster.members[1].ask(request, 2)
            assert isinstance(answer, DeleteRecordsResponse)
            (result,) = answer.topics[0].partitions
            assert (result.error_code, result.low_watermark) == (0, 3)
            assert [cluster.hosted(each, "tides").log.log_start_offset for each in (2, 3)] == [3, 3]

    loopback.run(story)


def test_a_broken_connection_is_made_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, replica_fetch_backoff_ms="10") as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            await loopback.until(lambda: cluster[1].fetches.parked_count)
            await cluster.members[1].hang_up()
            cluster.append(1, "tides", b"one")
            await cluster.members[1].listen()
            await loopback.until(lambda: in_step(cluster, "tides", 1, 2))
            assert len(cluster[1].fetches.sessions) == 1

    loopback.run(story)


def test_a_leader_that_forgot_our_session_is_told_everything_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2), partitions=5))
            await loopback.until(lambda: cluster[1].fetches.parked_count)
            sessions = cluster[1].fetches.sessions
            for session_id in sessions.ids():
                sessions.close(session_id)
            cluster.append(1, "tides", b"one", index=4)
            await loopback.until(lambda: in_step(cluster, "tides", 1, 2, index=4))

    loopback.run(story)


def test_a_partition_that_is_deleted_leaves_the_session(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            cluster.commit(*topic_records("waves", replicas=(1, 2)))
            await loopback.until(lambda: cluster[1].fetches.watched_count == 2)
            cluster.commit(r.RemoveTopic(topic_id("waves")))
            cluster.append(1, "tides", b"one")
            await loopback.until(lambda: cluster[1].fetches.watched_count == 1)
            await loopback.until(lambda: in_step(cluster, "tides", 1, 2))

    loopback.run(story)


def test_a_throttled_follower_leaves_out_what_it_lags_in(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2), isr=(1,)))
            rate = r.Config(r.RESOURCE_BROKER, "2", "follower.replication.throttled.rate", "1")
            name = "follower.replication.throttled.replicas"
            listed = r.Config(r.RESOURCE_TOPIC, "tides", name, "0:2")
            cluster.commit(rate, listed)
            for _ in range(3):
                cluster.append(1, "tides", b"x" * 900_000)
            await loopback.until(lambda: cluster.log_end(2, "tides") == 1)
            cluster.commit(*topic_records("waves", replicas=(1, 2)))
            cluster.append(1, "waves", b"one")
            await loopback.until(lambda: in_step(cluster, "waves", 1, 2))
            assert (cluster.log_end(2, "tides"), cluster[1].fetches.watched_count) == (1, 1)
            cluster.commit(r.Config(r.RESOURCE_TOPIC, "tides", name, None))
            await loopback.until(lambda: cluster.log_end(2, "tides") == 3)

    loopback.run(story)


def test_an_answer_that_is_no_batch_is_not_appended(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, replica_fetch_backoff_ms="10") as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            cluster.append(1, "tides", b"one" * 50)
            await loopback.until(lambda: in_step(cluster, "tides", 1, 2))
            (path,) = (tmp_path / "broker-1").glob("tides-0/*.log")
            sound = path.read_bytes()
            cluster.append(1, "tides", b"two" * 50)
            whole = path.read_bytes()
            path.write_bytes(sound + bytes(len(whole) - len(sound)))
            await loopback.until(lambda: partition_id("tides") in cluster[1].replicas.problems)
            assert cluster.log_end(2, "tides") == 1
            path.write_bytes(whole)
            await loopback.until(lambda: in_step(cluster, "tides", 1, 2))

    loopback.run(story)


def test_a_partition_is_always_in_the_same_loop() -> None:
    partitions = [PartitionId(bytes([n]) * 16, n) for n in range(64)]
    assert [loop_number(each, 4) for each in partitions[:8]] == [1, 0, 2, 3, 3, 2, 0, 1]
    assert {loop_number(each, 4) for each in partitions} == {0, 1, 2, 3}


def test_several_loops_share_the_partitions_of_a_leader(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, num_replica_fetchers="3") as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2), partitions=12))
            for index in range(12):
                cluster.append(1, "tides", b"one", index=index)
            for index in range(12):
                await loopback.until(lambda at=index: in_step(cluster, "tides", 1, 2, index=at))
            assert len(cluster[1].fetches.sessions) == 3
            assert cluster.hosted(2, "tides").follower.lag == 0

    loopback.run(story)
