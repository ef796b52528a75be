"""Leaders change faster than fetches are answered: followers go on, whatever overtakes what."""

import asyncio
import random
from pathlib import Path

import pytest

from support import loopback
from support.fed_brokers import FedCluster, fed_brokers, topic_id, topic_records
from tidelog.core.metadata import records as r

BROKERS = (1, 2, 3)
FLAPS = 100
PARTITIONS = 60
MOVED_AT_ONCE = 6
PATIENT = {
    "replica_fetch_wait_max_ms": "100",
    "replica_lag_time_max_ms": "200000",
    "replica_socket_timeout_ms": "200000",
    "replica_fetch_backoff_ms": "100",
}
"""Nobody gets going again by a timeout or a second try within these stories."""


def hand_leadership_round(cluster: FedCluster, broker_id: int, *leaders: int) -> None:
    """This broker hears of one leader after the other."""
    for leader in leaders:
        change = r.PartitionChange(0, topic_id("tides"), leader=leader)
        cluster.commit_to(broker_id, change)


def test_a_late_answer_to_an_older_leader_epoch_does_not_stop_a_follower(tmp_path: Path) -> None:
    """Two fetches are under way when the first one is refused for its old epoch, and two again
    when the second one is. Neither refusal is about the epoch that the follower is in by then."""

    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, 3, **PATIENT) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2, 3)))
            cluster.commit(*topic_records("other", replicas=(1, 2)))
            await loopback.until(lambda: cluster[1].fetches.parked_count == 2)
            leader_hears, follower_hears = (3, 1, 3, 1), (3, 1)
            hand_leadership_round(cluster, 1, *leader_hears)
            hand_leadership_round(cluster, 2, *follower_hears)  # asks in an epoch that is over
            hand_leadership_round(cluster, 2, *follower_hears)  # and before it is refused: again
            hand_leadership_round(cluster, 3, *leader_hears)
            cluster.append(1, "tides", b"one")
            await loopback.until(lambda: cluster.hosted(1, "tides").replica.high_watermark == 1)
            assert cluster.log_end(2, "tides") == cluster.log_end(3, "tides") == 1

    loopback.run(story)


def test_a_follower_that_stood_aside_hears_the_high_watermark_it_missed(tmp_path: Path) -> None:
    """The leader answered while the follower did not fetch the partition, for want of space. Its
    session has told the high watermark then, and says it only once."""

    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, **PATIENT) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2, 3)))
            cluster.append(1, "tides", b"one")
            await loopback.until(lambda: cluster.log_end(2, "tides") == 1)
            await loopback.until(lambda: cluster[1].fetches.parked_count == 1)
            follower = cluster.hosted(2, "tides")
            cluster[2].fetchers.drop(follower.partition)
            cluster.commit(r.PartitionChange(0, topic_id("tides"), isr=(1, 2)))
            assert cluster.hosted(1, "tides").replica.high_watermark == 1
            (loop,) = cluster[2].fetchers._loops.values()
            await loopback.until(lambda: loop._in_flight == 0)  # and the answer was not heard
            assert follower.replica.high_watermark == 0
            cluster[2].fetchers.follow(follower)
            cluster[2].fetchers.wake_all()
            await loopback.until(lambda: follower.replica.high_watermark == 1)

    loopback.run(story)


def flap(leaders: dict[int, int], draw: random.Random) -> list[r.PartitionChange]:
    """Some partitions get other leaders, alone in the ISR: everybody has to join them again."""
    changes = []
    for index in draw.sample(list(leaders), MOVED_AT_ONCE):
        leaders[index] = leader = draw.choice([each for each in BROKERS if each != leaders[index]])
        changes.append(r.PartitionChange(index, topic_id("tides"), isr=(leader,), leader=leader))
    return changes


def grant_proposals(cluster: FedCluster, leaders: dict[int, int]) -> bool:
    """What leaders propose is committed; True when nobody is missing from any ISR."""
    whole = True
    for index, broker_id in leaders.items():
        leader = cluster.hosted(broker_id, "tides", index).leader
        assert leader is not None
        if leader.has_change_in_flight():
            isr = leader.isr_state.proposed_isr
            cluster.commit(r.PartitionChange(index, topic_id("tides"), isr=isr))
        whole = whole and len(leader.isr) == len(cluster.members)
    return whole


@pytest.mark.parametrize("seed", range(4))
def test_after_a_hundred_changes_of_leaders_every_replica_is_in_sync_again(
    tmp_path: Path, seed: int
) -> None:
    """Brokers hear of each change at different times, as when one of them stalls."""

    async def story() -> None:
        draw = random.Random(seed)
        leaders = dict.fromkeys(range(PARTITIONS), 1)
        unheard: dict[int, list[r.PartitionChange]] = {each: [] for each in BROKERS}
        async with fed_brokers(tmp_path, *BROKERS, **PATIENT) as cluster:
            cluster.commit(*topic_records("tides", replicas=BROKERS, partitions=PARTITIONS))
            for number in range(FLAPS):
                changes = flap(leaders, draw)
                for waiting in unheard.values():
                    waiting.extend(changes)
                is_last = number == FLAPS - 1
                for broker_id in draw.sample(BROKERS, 3 if is_last else draw.randrange(4)):
                    for change in unheard[broker_id]:
                        cluster.commit_to(broker_id, change)
                    unheard[broker_id].clear()
                    for _ in range(draw.randrange(6)):
                        await asyncio.sleep(0)
            await loopback.until(lambda: grant_proposals(cluster, leaders))

    loopback.run(story)
