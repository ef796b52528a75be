"""A cluster of three combined nodes on given data directories, run by either system."""

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tidelog.bench.compare.kafka import KafkaCluster
from tidelog.client import Client
from tidelog.cluster.free_ports import HOST, free_ports
from tidelog.cluster.readiness import listed_brokers
from tidelog.storage.uuids import uuid_text

NODES = (1, 2, 3)
WITHIN_S = 120
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}

Home = Mapping[int, Path]
"""The data directory of every node."""


def copied(home: Home, directory: Path) -> Home:
    """What is moved is always a copy: the other system keeps what it had."""
    return {
        node: Path(shutil.copytree(data, directory / f"{node}" / "data"))
        for node, data in home.items()
    }


class Kafka(NamedTuple):
    """How Kafka is run. With `ports` its voters are in the log (kraft.version 1), with addresses
    that must stay as they are. Without, they are in the configuration."""

    class_path: str
    ports: tuple[int, ...] | None = None

    def cluster(self) -> KafkaCluster:
        settings = {**SETTINGS, "log.cleaner.backoff.ms": "500"}
        if self.ports is not None:
            asked = ",".join(f"{HOST}:{port}" for port in self.ports[1::2])
            settings |= {
                "controller.quorum.voters": "",
                "controller.quorum.bootstrap.servers": asked,
            }
        return KafkaCluster(self.class_path, len(NODES), settings, ports=self.ports)

    def format(self, cluster: KafkaCluster) -> None:
        if self.ports is None:
            cluster.format_all()
            return
        voters = ",".join(
            f"{place.node_id}@{HOST}:{place.controller_port}:{_directory_id(place.node_id)}"
            for place in cluster.places
        )
        cluster.format_all("--initial-controllers", voters)


def _directory_id(node: int) -> str:
    return uuid_text(b"directory of %03d" % node)


@contextmanager
def run_by_kafka(kafka: Kafka, home: Home | None, keep: Path) -> Iterator[str]:
    """Kafka on a copy of these directories, or on new ones; its bootstrap servers. What it leaves
    is in `keep`."""
    with kafka.cluster() as cluster:
        if home is None:
            kafka.format(cluster)
        else:
            for place in cluster.places:
                shutil.copytree(home[place.node_id], place.data)
        try:
            cluster.start_all()
            yield cluster.bootstrap_servers
            cluster.stop_all()
        finally:
            for place in cluster.places:
                target = keep / str(place.node_id)
                shutil.copytree(place.data, target / "data")
                shutil.copy(place.log, target / "kafka.log")


@contextmanager
def run_by_tidelog(home: Home, directory: Path) -> Iterator[str]:
    """Tidelog on these directories; its bootstrap servers. Stopped in order at the end."""
    ports = free_ports(2 * len(NODES))
    clients = dict(zip(NODES, ports[:3], strict=True))
    controllers = dict(zip(NODES, ports[3:], strict=True))
    voters = ",".join(f"{node}@{HOST}:{controllers[node]}" for node in NODES)
    running = {}
    try:
        for node, data in home.items():
            values = SETTINGS | {
                "process.roles": "broker,controller",
                "node.id": str(node),
                "listeners": f"PLAINTEXT://{HOST}:{clients[node]},"
                f"CONTROLLER://{HOST}:{controllers[node]}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "log.dirs": str(data),
            }
            config = directory / f"{node}.properties"
            config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            running[node] = _start(config, directory / f"{node}.log")
        asyncio.run(_until_ready(running, clients, directory))
        yield ",".join(f"{HOST}:{port}" for port in clients.values())
        for child in running.values():
            child.send_signal(signal.SIGTERM)
        codes = {node: child.wait(WITHIN_S) for node, child in running.items()}
        assert set(codes.values()) == {0}, _told(directory)
    finally:
        for child in running.values():
            child.kill()
            child.wait()


def _start(config: Path, log: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tidelog", "node", "start", "--config", str(config)]
    with log.open("ab") as told:
        return subprocess.Popen(words, stdout=told, stderr=subprocess.STDOUT)


async def _until_ready(
    running: Mapping[int, subprocess.Popen[bytes]], ports: Mapping[int, int], directory: Path
) -> None:
    deadline = time.monotonic() + WITHIN_S
    everybody = frozenset(ports)
    async with Client(f"{HOST}:{ports[NODES[0]]}") as client:
        for node, port in ports.items():
            while not await listed_brokers(client, (HOST, port)) >= everybody:
                assert running[node].poll() is None, _told(directory)
                assert time.monotonic() < deadline, _told(directory)
                await asyncio.sleep(0.05)


def _told(directory: Path) -> str:
    return "\n".join(log.read_text()[-3_000:] for log in sorted(directory.glob("*.log")))
