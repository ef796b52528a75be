"""Topics read from files beside a running cluster: nobody is read further than it goes."""

import pytest

from tidelog.client import Client, NewRecord, Producer
from tidelog.spark.connection import close_all
from tidelog.spark.failure import DataLoss
from tidelog.spark.segments.planning import plan_groups
from tidelog.spark.segments.ranges import SegmentsPlan
from tidelog.spark.segments.reading import read_segments
from tidelog.spark.source_options import source_options
from tidelog.testing import Cluster


def write(cluster: Cluster, topic: str, values: range) -> None:
    async def produce(client: Client) -> None:
        records = [NewRecord(str(value).encode(), partition=0) for value in values]
        await Producer(client).write(topic, records)

    cluster.ask(produce)


def values(cluster: Cluster, nodes: list[int], **options: str) -> list[int]:
    """Of the topic orders in the directories of these brokers, with live bounds."""
    running = [f"127.0.0.1:{cluster.address(node)[1]}" for node in cluster.alive()]
    given = {
        "path": ",".join(str(cluster.data_dir(node)) for node in nodes),
        "subscribe": "orders",
        "kafka.bootstrap.servers": ",".join(running),
    } | options
    chosen = source_options(given, streaming=False)
    plan = SegmentsPlan(("value",), chosen.committed, chosen.fail_on_data_loss)
    return [
        int(value)
        for group in plan_groups(chosen)
        for piece in read_segments(group, plan)
        for value in piece.column(0).to_pylist()
    ]


def test_a_replica_that_is_behind_is_read_as_far_as_the_leader_shares_it() -> None:
    with Cluster(brokers=3) as cluster:
        cluster.topic("orders", replication_factor=3)
        write(cluster, "orders", range(10))
        leader = cluster.partition("orders", 0).leader
        assert leader is not None
        behind, third = (node for node in cluster.brokers if node != leader)
        cluster.wait(lambda: cluster.replica(behind, "orders").get("log_end_offset") == 10)
        cluster.kill(behind)
        cluster.wait(lambda: behind not in cluster.partition("orders", 0).isr)
        write(cluster, "orders", range(10, 30))
        assert values(cluster, [behind, leader]) == list(range(30))
        assert values(cluster, [third]) == list(range(30))
        with pytest.raises(DataLoss, match=r"committed up to offset 30, and .* reach to 10"):
            values(cluster, [behind])
        assert values(cluster, [behind], failOnDataLoss="false") == list(range(10))
        some = {"endingOffsets": '{"orders":{"0":7}}'}
        assert values(cluster, [behind], **some) == list(range(7))
        close_all()
