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

from tidelog.bench.compare.kafka import KafkaCluster
from tidelog.client import Client
from tidelog.cluster.free_ports import HOST, free_ports
from tidelog.cluster.readiness import listed_brokers

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


@contextmanager
def run_by_kafka(class_path: str, home: Home | None, keep: Path) -> Iterator[str]:
    """Kafka on a copy of these directories, or on new ones; its bootstrap servers. What it leaves
    is in `keep`."""
    settings = {**SETTINGS, "log.cleaner.backoff.ms": "500"}
    with KafkaCluster(class_path, len(NODES), settings) as cluster:
        if home is None:
            cluster.format_all()
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
