"""Settings of a topic on a real process: small segments, retention, alterations, a restart."""

from confluent_kafka.admin import ResourceType

from support import live
from tidelog.testing import Cluster

MIB = 1 << 20
VALUE = "x" * 100_000
"""Ten of them, each in a batch of its own, fill a segment of 1 MiB."""
QUICK = {"log.retention.check.interval.ms": 100, "log.segment.delete.delay.ms": 0}


def segments(cluster: Cluster, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in (cluster.data_dir(1) / f"{topic}-0").glob("*.log"))


def write(cluster: Cluster, topic: str, count: int) -> None:
    live.write(cluster, topic, [VALUE] * count, acks="all", batch_num_messages=1)


def test_altered_settings_roll_and_delete_segments_and_outlive_a_restart():
    with Cluster(brokers=1, config=QUICK) as cluster:
        topic = cluster.topic("small", replication_factor=1)
        write(cluster, topic, 15)
        assert segments(cluster, topic) == [0]
        live.configure(cluster, ResourceType.TOPIC, topic, {"segment.bytes": str(MIB)})
        write(cluster, topic, 25)
        assert segments(cluster, topic) == [0, 15, 25, 35]
        cluster.stop(1)
        cluster.restart(1)
        write(cluster, topic, 10)
        assert segments(cluster, topic) == [0, 15, 25, 35, 45]
        live.configure(cluster, ResourceType.TOPIC, topic, {"retention.bytes": str(MIB)})
        live.until(lambda: segments(cluster, topic) == [35, 45])
