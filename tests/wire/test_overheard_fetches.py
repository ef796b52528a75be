"""A leader tells what followers ask of it and what it answers, while somebody watches."""

from pathlib import Path

from support import loopback
from support.fed_brokers import FedCluster, fed_brokers, partition_id, topic_records
from tidelog.broker.fetch.overheard import MOST_WATCHED, WATCHED_MS, Overheard
from tidelog.core.types import PartitionId
from tidelog.host.clock import SystemClock
from tidelog.observe.views import OverheardMessage

WATCHED = partition_id("tides")


def told_of(cluster: FedCluster) -> list[OverheardMessage]:
    return list(cluster[1].fetches.overheard.watch(WATCHED))


def numbers_in(told: list[OverheardMessage]) -> list[tuple[int | None, ...]]:
    """Of an answer: from, to, high watermark. Of a fetch: offset, last epoch."""
    return [
        (each.offset, each.last_epoch)
        if each.high_watermark is None
        else (each.offset, each.end_offset, each.high_watermark)
        for each in told
    ]


def is_in_step(cluster: FedCluster, end: int) -> bool:
    marks = {cluster.hosted(broker, "tides").replica.high_watermark for broker in (1, 2)}
    return marks == {end}


def test_fetches_carry_their_last_epoch_and_answers_the_high_watermark(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, replica_fetch_wait_max_ms="20") as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            await loopback.until(lambda: cluster[1].fetches.parked_count)
            assert told_of(cluster) == []
            cluster.append(1, "tides", b"one", b"two")
            await loopback.until(lambda: is_in_step(cluster, 2))
            told = told_of(cluster)
            assert {each.replica for each in told} == {2}
            said = numbers_in(told)
            first = said.index((0, 2, 0)), said.index((2, 0)), said.index((2, 2, 2))
            assert sorted(first) == list(first), "records, their acknowledgement, then the news"
            numbers = [each.number for each in told]
            assert sorted(set(numbers)) == numbers

    loopback.run(story)


def test_what_says_nothing_new_is_not_told(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {"replica_fetch_wait_max_ms": "5", "replica_lag_time_max_ms": "2000"}
        async with fed_brokers(tmp_path, 1, 2, **settings) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            told_of(cluster)
            cluster.append(1, "tides", b"one")
            await loopback.until(lambda: is_in_step(cluster, 1))
            said = numbers_in(told_of(cluster))
            leader = cluster.hosted(1, "tides").leader
            assert leader is not None
            seen = leader.progress[2].last_fetch_ms
            await loopback.until(lambda: leader.progress[2].last_fetch_ms > seen)
            assert numbers_in(told_of(cluster)) == said, "it has asked again, for the same"

    loopback.run(story)


def test_nothing_is_kept_while_nobody_watches(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, replica_fetch_wait_max_ms="5") as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            cluster.append(1, "tides", b"one")
            await loopback.until(lambda: is_in_step(cluster, 1))
            overheard = cluster[1].fetches.overheard
            assert not overheard.partitions
            overheard.watch(WATCHED)
            assert WATCHED in overheard.partitions
            overheard.partitions[WATCHED].until_ms -= 2 * WATCHED_MS
            cluster.append(1, "tides", b"two")
            await loopback.until(lambda: not overheard.partitions)

    loopback.run(story)


def test_only_a_few_partitions_are_watched_at_once() -> None:
    overheard = Overheard(SystemClock())
    names = [PartitionId(WATCHED.topic_id, index) for index in range(MOST_WATCHED + 1)]
    for each in names[:-1]:
        overheard.watch(each)
    overheard.watch(names[0])  # again: now another is the oldest
    overheard.watch(names[-1])
    assert set(overheard.partitions) == set(names) - {names[1]}
