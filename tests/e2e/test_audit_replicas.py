"""`tidelog audit replicas` over the files of a running cluster."""

import json

from click.testing import CliRunner

from support.data_directories import flip
from tidelog.cli.main import cli
from tidelog.client import Client, NewRecord, Producer
from tidelog.testing import Cluster


def audit(cluster: Cluster, *more: str, asks: bool = True):
    arguments = [f"--dir={node}={cluster.data_dir(node)}" for node in cluster.brokers]
    if asks:
        arguments += ["-b", cluster.bootstrap_servers]
    return CliRunner().invoke(cli, ["audit", "replicas", *arguments, *more])


def write(cluster: Cluster, topic: str, batches: int) -> None:
    async def produce(client: Client) -> None:
        producer = Producer(client)
        for number in range(batches):
            values = [b"%d" % (10 * number + each) for each in range(10)]
            await producer.write(topic, [NewRecord(value, partition=0) for value in values])

    cluster.ask(produce)


def test_one_flipped_byte_of_a_follower_is_found_while_the_cluster_runs(tmp_path) -> None:
    with Cluster(brokers=3, directory=tmp_path / "dev") as cluster:
        topic = cluster.topic("orders", partitions=1, replication_factor=3)
        other = cluster.topic("parcels", partitions=2, replication_factor=3)
        write(cluster, topic, 20)
        write(cluster, other, 5)
        healthy = audit(cluster)
        assert healthy.exit_code == 0, healthy.output
        assert "0 diverging; high watermarks from brokers" in healthy.stdout
        assert "GB/s" in healthy.stdout

        arguments = ["audit", "replicas", "--data-dir", str(tmp_path), "--topic", "parcels"]
        found = CliRunner().invoke(cli, arguments)
        assert found.exit_code == 0, found.output
        assert "2 partitions: 2 identical" in found.stdout, "the local cluster is found by itself"

        leader = cluster.partition(topic, 0).leader
        victim = next(node for node in cluster.brokers if node != leader)
        segment = cluster.data_dir(victim) / "orders-0" / f"{0:020}.log"
        size = segment.stat().st_size
        flip(segment, size // 2)
        found = audit(cluster, "-o", "json")
        assert found.exit_code == 5, found.output
        document = json.loads(found.stdout)
        assert (document["verdict"], document["high_watermarks_from"]) == ("diverging", "brokers")
        damaged = [each for each in document["partitions"] if each["findings"]]
        assert [(each["topic"], each["partition"]) for each in damaged] == [("orders", 0)]
        [finding] = damaged[0]["findings"]
        assert (finding["kind"], finding["brokers"]) == ("checksum", [victim])
        assert finding["first_offset"] == 100
        assert finding["position"] < size // 2

        for node in cluster.brokers:
            cluster.kill(node)
        offline = audit(cluster, asks=False)
        assert "high watermarks from checkpoints" in offline.stdout
        assert "Traceback" not in offline.output
