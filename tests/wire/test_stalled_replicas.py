"""Replication that stands still says so, and goes on when it can."""

from pathlib import Path

from support import loopback
from support.fed_brokers import FedCluster, fed_brokers, topic_id, topic_records
from tidelog.broker.broker import Broker
from tidelog.broker.replication.stalled_replicas import NAMED_MAX, OTHERS, StalledReplicas
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.replication.follower import ASKING, FETCHING

QUICK = {
    "replica_lag_time_max_ms": "20",
    "replica_fetch_wait_max_ms": "10",
    "replica_fetch_backoff_ms": "10",
}


def findings(cluster: FedCluster, broker_id: int) -> dict[tuple[str, str], str]:
    return {(each.kind, each.subject): each.text for each in cluster[broker_id].host.findings.all()}


def look_until(cluster: FedCluster, broker_id: int, watch: StalledReplicas, *subjects: str):
    """A condition: looked at again and again, exactly these have a finding."""

    def met() -> bool:
        while watch.look_on():
            pass
        return {subject for _, subject in findings(cluster, broker_id)} == set(subjects)

    return met


def stalled_on(broker: Broker) -> StalledReplicas:
    return StalledReplicas(broker.replicas, broker.fetchers, broker.host)


def test_a_leader_tells_of_a_follower_that_makes_no_progress(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, **QUICK) as cluster:
            watch = stalled_on(cluster[1])
            await cluster.members[1].hang_up()
            cluster.commit(*topic_records("tides", replicas=(1, 2), isr=(1,)))
            cluster.append(1, "tides", b"one")
            await loopback.until(look_until(cluster, 1, watch, "tides-0 on broker 2"))
            ((kind, _), text), *_ = findings(cluster, 1).items()
            assert kind == "follower-stalled"
            assert "has never fetched" in text
            assert "the ISR is [1]" in text
            await cluster.members[1].listen()
            await loopback.until(look_until(cluster, 1, watch))

    loopback.run(story)


def test_a_follower_tells_of_a_leader_that_it_cannot_fetch_from(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, 3, **QUICK) as cluster:
            watch = stalled_on(cluster[2])
            cluster.commit(*topic_records("tides", replicas=(1, 2, 3)))
            change = r.PartitionChange(0, topic_id("tides"), leader=3)
            cluster.commit_to(2, change)  # broker 3 does not know that it leads
            await loopback.until(look_until(cluster, 2, watch, "tides-0"))
            ((kind, _), text), *_ = findings(cluster, 2).items()
            assert kind == "replica-cannot-fetch"
            assert "broker 3" in text
            assert Error.UNKNOWN_LEADER_EPOCH.name in text
            cluster.commit_to(3, change)
            cluster[3].committed.on_applied(cluster[3].metadata.offset + 1)
            await loopback.until(look_until(cluster, 2, watch))

    loopback.run(story)


def test_when_a_whole_broker_stands_still_only_some_partitions_are_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, **QUICK) as cluster:
            watch = stalled_on(cluster[1])
            await cluster.members[1].hang_up()
            partitions = NAMED_MAX + 5
            cluster.commit(
                *topic_records("tides", replicas=(1, 2), isr=(1,), partitions=partitions)
            )

            def others_are_counted() -> bool:
                while watch.look_on():
                    pass
                return len(findings(cluster, 1)) == NAMED_MAX + 1

            await loopback.until(others_are_counted)
            assert "5 more" in findings(cluster, 1)["follower-stalled", OTHERS]
            cluster.commit(r.RemoveTopic(topic_id("tides")))
            await loopback.until(look_until(cluster, 1, watch))

    loopback.run(story)


def test_a_follower_whose_question_got_lost_goes_on_by_itself(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, **QUICK) as cluster:
            watch = stalled_on(cluster[2])
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            await loopback.until(lambda: cluster[1].fetches.parked_count)
            follower = cluster.hosted(2, "tides").follower
            assert follower is not None
            follower.phase = ASKING  # and nobody has asked
            cluster.append(1, "tides", b"one")

            def goes_on() -> bool:
                while watch.look_on():
                    pass
                return follower.phase == FETCHING and cluster.log_end(2, "tides") == 1

            await loopback.until(goes_on)

    loopback.run(story)


def test_a_loop_that_nobody_woke_goes_on_by_itself(tmp_path: Path) -> None:
    """An answer that could not be dealt with, or one that never comes, is not the end of it."""

    async def story() -> None:
        settings = {**QUICK, "replica_socket_timeout_ms": "20"}
        async with fed_brokers(tmp_path, 1, 2, **settings) as cluster:
            watch = stalled_on(cluster[2])
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            await loopback.until(lambda: cluster[1].fetches.parked_count)
            (loop,) = cluster[2].fetchers._loops.values()
            loop._generation += 1  # the answer to what is under way is not heard
            cluster.append(1, "tides", b"one")

            def goes_on() -> bool:
                while watch.look_on():
                    pass
                return cluster.log_end(2, "tides") == 1

            await loopback.until(goes_on)

    loopback.run(story)
