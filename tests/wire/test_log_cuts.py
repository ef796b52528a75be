"""Many logs parted from their leader's at once: one of them is cut in each turn of the loop."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import loopback
from support.fed_brokers import FedCluster, fed_brokers, topic_id, topic_records
from tidelog.core.metadata import records as r
from tidelog.storage.log import Log

TOPIC = "tides"
PARTITIONS = 12
LEADER, FOLLOWER = 1, 2


def leaders(cluster: FedCluster, broker_id: int, *leaders: int) -> None:
    """This broker hears of one leader of all partitions after the other."""
    for leader in leaders:
        cluster.commit_to(
            broker_id,
            *(
                r.PartitionChange(index, topic_id(TOPIC), leader=leader)
                for index in range(PARTITIONS)
            ),
        )


@contextmanager
def cuts_per_turn(monkeypatch: pytest.MonkeyPatch, method: str) -> Iterator[Counter[int]]:
    """How many logs were cut like this in each turn of the loop."""
    counts: Counter[int] = Counter()
    loop, turn, original = asyncio.get_running_loop(), 0, getattr(Log, method)

    def tick() -> None:
        nonlocal turn, handle
        turn += 1
        handle = loop.call_soon(tick)

    def counted(log: Log, offset: int) -> None:
        if offset != log.log_end_offset:
            counts[turn] += 1
        original(log, offset)

    monkeypatch.setattr(Log, method, counted)
    handle = loop.call_soon(tick)
    try:
        yield counts
    finally:
        handle.cancel()


def ends(cluster: FedCluster, broker_id: int) -> list[int]:
    return [cluster.log_end(broker_id, TOPIC, index) for index in range(PARTITIONS)]


def test_a_follower_truncates_one_log_per_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, LEADER, FOLLOWER) as cluster:
            cluster.commit(
                *topic_records(TOPIC, replicas=(LEADER, FOLLOWER), partitions=PARTITIONS)
            )
            await loopback.until(lambda: cluster[LEADER].fetches.parked_count == 1)
            leaders(cluster, FOLLOWER, FOLLOWER)
            for index in range(PARTITIONS):
                cluster.append(FOLLOWER, TOPIC, b"of no majority", index=index)
            with cuts_per_turn(monkeypatch, "truncate_to") as counts:
                leaders(cluster, LEADER, FOLLOWER, LEADER)
                leaders(cluster, FOLLOWER, LEADER)
                await loopback.until(lambda: ends(cluster, FOLLOWER) == [0] * PARTITIONS)
            assert counts.total() == PARTITIONS
            assert set(counts.values()) == {1}
            for index in range(PARTITIONS):
                cluster.append(LEADER, TOPIC, b"new", index=index)
            await loopback.until(lambda: ends(cluster, FOLLOWER) == [1] * PARTITIONS)

    loopback.run(story)


def test_a_follower_begins_one_log_anew_per_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, LEADER, FOLLOWER) as cluster:
            cluster.commit(*topic_records(TOPIC, replicas=(LEADER,), partitions=PARTITIONS))
            await loopback.until(lambda: len(cluster[LEADER].replicas.hosted) == PARTITIONS)
            for index in range(PARTITIONS):
                for value in (b"1", b"2", b"3"):
                    cluster.append(LEADER, TOPIC, value, index=index)
            await loopback.until(
                lambda: all(
                    each.log.durable_offset == each.log.log_end_offset
                    for each in cluster[LEADER].replicas.hosted.values()
                )
            )
            for hosted in cluster[LEADER].replicas.hosted.values():
                hosted.log.raise_log_start(2)
            with cuts_per_turn(monkeypatch, "truncate_fully_and_start_at") as counts:
                both = (LEADER, FOLLOWER)
                cluster.commit(
                    *(
                        r.PartitionChange(
                            index, topic_id(TOPIC), replicas=both, adding_replicas=(FOLLOWER,)
                        )
                        for index in range(PARTITIONS)
                    )
                )
                await loopback.until(
                    lambda: (
                        len(cluster[FOLLOWER].replicas.hosted) == PARTITIONS
                        and ends(cluster, FOLLOWER) == ends(cluster, LEADER)
                    )
                )
            assert counts.total() == PARTITIONS
            assert set(counts.values()) == {1}

    loopback.run(story)
