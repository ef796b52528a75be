"""Files of a broker that is down are damaged. What it does about that when it starts again."""

import re

import pytest

from support import live
from tidelog.testing import Cluster

SETTINGS = {"auto.leader.rebalance.enable": False, "min.insync.replicas": 1}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3, config=SETTINGS) as cluster:
        yield cluster


def test_every_file_that_is_repaired_at_a_start_has_a_warning_in_the_journal(cluster):
    topic = cluster.topic("repaired", assignment=[[1, 2, 3]])
    live.write(cluster, topic, live.numbered("record", 20), acks="all")
    cluster.stop(3)
    data = cluster.data_dir(3)
    damaged = [
        f"{topic}-0/{'0' * 20}.timeindex",
        "replication-offset-checkpoint",
        "__cluster_metadata-0/leader-epoch-checkpoint",
    ]
    for path in damaged:
        (data / path).write_bytes(b"garbage")
    before = len(cluster.log(3))
    cluster.restart(3)
    cluster.wait(lambda: live.in_sync(cluster, topic, [1, 2, 3]))
    lines = [line for line in cluster.log(3)[before:].splitlines() if "repaired in" in line]
    assert [re.search(r"repaired in \S+: (\S+), (byte|line) \d+: ", line)[1] for line in lines] == [
        damaged[2],
        damaged[1],
        damaged[0],
    ]
    assert all(" WARN " in line for line in lines)
