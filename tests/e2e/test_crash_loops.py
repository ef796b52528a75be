"""Nodes of a real cluster die, one after the other or all at once: what was acknowledged stays."""

import pytest

from support.live_load import (
    aiokafka_load,
    assert_kept,
    librdkafka_load,
    running,
    wait_for_progress,
    wait_in_sync,
)
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3) as made:
        yield made


def two_loads(cluster, name):
    """Of two client libraries, each on its own topic."""
    for suffix in ("c", "python"):
        cluster.topic(f"{name}-{suffix}", partitions=1, replication_factor=3)
    return [librdkafka_load(cluster, f"{name}-c"), aiokafka_load(cluster, f"{name}-python")]


def test_leaders_that_are_killed_three_times_in_a_row_lose_nothing(cluster):
    loads = two_loads(cluster, "killed")
    with running(cluster, *loads):
        for turn in range(3):
            leader = cluster.partition(loads[turn % 2].topic, 0).leader
            cluster.kill(leader)
            for load in loads:
                wait_for_progress(cluster, load)
            cluster.restart(leader)
            wait_in_sync(cluster, *(load.topic for load in loads))
    for load in loads:
        assert_kept(cluster, load)


def test_a_rolling_restart_under_load_fails_no_write(cluster):
    loads = two_loads(cluster, "rolling")
    with running(cluster, *loads):
        for broker in cluster.brokers:
            cluster.restart(broker)
            wait_in_sync(cluster, *(load.topic for load in loads))
            for load in loads:
                wait_for_progress(cluster, load)
    for load in loads:
        assert_kept(cluster, load)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)], ids=str)
def test_all_killed_at_once_are_back_with_everything_in_any_order(cluster, order):
    """The load goes on through it: it has to wait, and loses nothing either."""
    topic = cluster.topic("-".join(map(str, ("all", *order))), 1, replication_factor=3)
    load = librdkafka_load(cluster, topic)
    with running(cluster, load):
        for broker in cluster.brokers:
            cluster.kill(broker)
        for broker in order:
            cluster.start(broker)
        cluster.wait_ready()
        wait_in_sync(cluster, topic)
        wait_for_progress(cluster, load)
    assert_kept(cluster, load)
