"""Files of a broker that is down are damaged. What it does about that when it starts again."""

import json
import re

import pytest

from support import live
from tidelog.host.disk import FileDisk
from tidelog.storage.checkpoints import LOG_STARTS, read_offsets, write_offsets
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


SMALL = {"segment.bytes": 1 << 20}
VALUES = [f"{number:03d}" + "x" * 100_000 for number in range(25)]
"""Ten of them fill a segment."""


def segment_files(cluster, broker, topic):
    return sorted((cluster.data_dir(broker) / f"{topic}-0").glob("*.log"))


def findings(cluster, broker):
    return json.loads(live.http_get(cluster, broker, "/healthz"))["findings"]


def test_a_missing_segment_is_fetched_again_and_nobody_deletes_their_own(cluster):
    """The broker used to start its log at the next file. Once it led, the others did so too."""
    topic = cluster.topic("missing", configs=SMALL, assignment=[[1, 2, 3]])
    live.write(cluster, topic, VALUES, acks="all", batch_num_messages=1)
    whole = live.log_bytes(cluster, 2, topic)
    cluster.stop(1)
    first, *others = segment_files(cluster, 1, topic)
    assert len(others) == 2
    first.unlink()
    before = len(cluster.log(1))
    cluster.restart(1)
    cluster.wait(lambda: live.in_sync(cluster, topic, [1, 2, 3]))
    cluster.wait(lambda: "repaired in" in cluster.log(1)[before:])
    assert "records 0 to 9 are gone" in cluster.log(1)[before:]
    assert "fetched again from the leader" in cluster.log(1)[before:]
    for broker in (1, 2, 3):
        assert cluster.replica(broker, topic)["log_start_offset"] == 0
        assert live.log_bytes(cluster, broker, topic) == whole
    assert live.read(cluster, topic) == VALUES


def test_a_missing_segment_of_the_only_replica_is_a_finding_until_somebody_decides(cluster):
    topic = cluster.topic("alone", configs=SMALL, assignment=[[2]])
    live.write(cluster, topic, VALUES, acks="all", batch_num_messages=1)
    cluster.stop(2)
    segment_files(cluster, 2, topic)[0].unlink()
    cluster.restart(2)
    cluster.wait(lambda: findings(cluster, 2))
    (finding,) = findings(cluster, 2)
    assert (finding["kind"], finding["subject"]) == ("log-refused", f"{topic}-0")
    assert "records 0 to 9 are gone" in finding["text"]
    assert f"`{topic} 0 10` into {LOG_STARTS}" in finding["advice"]

    cluster.stop(2)
    disk = FileDisk(cluster.data_dir(2))
    write_offsets(disk, LOG_STARTS, {**read_offsets(disk, LOG_STARTS), (topic, 0): 10})
    cluster.restart(2)
    with live.reading(cluster, topic, 10) as consumer:
        assert live.take(consumer, 15) == VALUES[10:]
    assert findings(cluster, 2) == []
