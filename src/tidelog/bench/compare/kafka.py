"""Clusters of Apache Kafka: combined nodes with stock settings, and what had to be set.

Set are only addresses, directories and the members of the quorum, without which no cluster
starts; the replication of internal topics where there are fewer than three nodes; and
`min.insync.replicas`, so that acks=all promises the same as beside it. The options of the Java
machine are those of Kafka's own start script, with the heap that the comparison gives it.
"""

import asyncio
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.bench.compare.running import LocalCluster
from tidelog.bench.compare.system import KAFKA, SystemFailed
from tidelog.client import Client
from tidelog.cluster.free_ports import HOST, free_ports
from tidelog.cluster.readiness import listed_brokers

START_WITHIN_S = 120.0
STOP_WITHIN_S = 60.0
FORMAT_WITHIN_S = 120.0
POLL_S = 0.05
LAST_LINES = 5
CLUSTER_ID = "dGlkZWxvZy1iZW5jaC0wMA"

HEAP = ("-Xms512m", "-Xmx512m")
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""


class Place(NamedTuple):
    """Where one node is."""

    node_id: int
    port: int
    controller_port: int
    directory: Path

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "node.log"


def properties_of(place: Place, places: list[Place], settings: Mapping[str, str]) -> dict[str, str]:
    """The whole content of a node's server.properties."""
    voters = ",".join(f"{each.node_id}@{HOST}:{each.controller_port}" for each in places)
    factor = str(min(3, len(places)))
    least = str(min(2, len(places)))
    return {
        "process.roles": "broker,controller",
        "node.id": str(place.node_id),
        "listeners": f"PLAINTEXT://{HOST}:{place.port},CONTROLLER://{HOST}:{place.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "log.dirs": str(place.data),
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": least,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": least,
        "min.insync.replicas": least,
        **settings,
    }


class KafkaSystem:
    """Apache Kafka, from its jars."""

    __slots__ = ("_class_path", "_formatted", "_version")

    def __init__(self, class_path: str, version: str) -> None:
        self._class_path = class_path
        self._version = version
        self._formatted: dict[int, dict[int, dict[str, bytes]]] = {}

    @property
    def name(self) -> str:
        return KAFKA

    def start(
        self,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        client_settings: Mapping[str, str] | None = None,
    ) -> "KafkaCluster":
        cluster = KafkaCluster(
            self._class_path, nodes, settings or {}, client_settings=client_settings
        )
        try:
            self._format(cluster)
            cluster.start_all()
        except BaseException:
            cluster.close()
            raise
        return cluster

    def facts(self) -> Mapping[str, str]:
        return {
            "version": self._version,
            "heap": " ".join(HEAP),
            "jvm": " ".join(JVM_OPTIONS),
            "settings": "stock; listeners, log.dirs and quorum voters as needed, "
            "min.insync.replicas=2",
        }

    def _format(self, cluster: "KafkaCluster") -> None:
        """With Kafka's own tool, once for each size of cluster: it takes a second per node."""
        known = self._formatted.get(len(cluster.places))
        if known is None:
            cluster.format_all()
            self._formatted[len(cluster.places)] = {
                place.node_id: {each.name: each.read_bytes() for each in place.data.iterdir()}
                for place in cluster.places
            }
            return
        for place in cluster.places:
            place.data.mkdir()
            for name, content in known[place.node_id].items():
                (place.data / name).write_bytes(content)


class KafkaCluster(LocalCluster):
    """Its data lies in a temporary directory, and goes when it is closed."""

    __slots__ = ("_children", "_class_path", "_directory", "_ready_after_s", "places")

    def __init__(
        self,
        class_path: str,
        nodes: int,
        settings: Mapping[str, str],
        *,
        ports: Sequence[int] | None = None,
        client_settings: Mapping[str, str] | None = None,
    ) -> None:
        """`ports`: two for each node, for its clients and for the other controllers."""
        super().__init__(client_settings)
        self._class_path = class_path
        self._directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-kafka-"))
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._ready_after_s = 0.0
        ports = free_ports(2 * nodes) if ports is None else ports
        self.places = [
            Place(each + 1, ports[2 * each], ports[2 * each + 1], self._directory / f"{each + 1}")
            for each in range(nodes)
        ]
        (self._directory / "log4j2.properties").write_text(LOGGING, "utf-8")
        for place in self.places:
            place.directory.mkdir()
            values = properties_of(place, self.places, settings)
            text = "".join(f"{key}={value}\n" for key, value in values.items())
            (place.directory / "server.properties").write_text(text, "utf-8")

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{place.port}" for place in self.places)

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(place.node_id for place in self.places)

    @property
    def ready_after_s(self) -> float:
        return self._ready_after_s

    def format_all(self, *options: str) -> None:
        """All nodes at once, by Kafka's own tool."""
        words = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, *options, "-c"]
        formatting = [
            self._spawn(place, [*words, str(place.directory / "server.properties")])
            for place in self.places
        ]
        for place, child in zip(self.places, formatting, strict=True):
            code = child.wait(FORMAT_WITHIN_S)
            if code:
                raise self._failure(place, f"cannot be formatted, exit code {code}")

    def start_all(self) -> None:
        """Returns when every node serves and knows the others."""
        begin = time.monotonic()
        for place in self.places:
            self._start(place)
        self._wait_ready(self.places)
        self._ready_after_s = time.monotonic() - begin

    def pid(self, node_id: int) -> int:
        return self._children[node_id].pid

    def kill(self, node_id: int) -> None:
        self._children[node_id].kill()
        self._children[node_id].wait()

    def stop(self, node_id: int) -> None:
        child = self._children[node_id]
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill(node_id)

    def stop_all(self) -> None:
        """At the same time: the last of them would wait in vain for a quorum."""
        for child in self._children.values():
            child.send_signal(signal.SIGTERM)
        for node_id in self._children:
            self.stop(node_id)

    def restart(self, node_id: int) -> None:
        place = self._place(node_id)
        self.stop(node_id)
        self._start(place)
        self._wait_ready([place])

    def log_dirs(self) -> tuple[str, ...]:
        return tuple(str(place.data) for place in self.places)

    def close(self) -> None:
        for node_id in self._children:
            self.kill(node_id)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _place(self, node_id: int) -> Place:
        return next(place for place in self.places if place.node_id == node_id)

    def _start(self, place: Place) -> None:
        words = [*HEAP, *JVM_OPTIONS, "kafka.Kafka", str(place.directory / "server.properties")]
        self._children[place.node_id] = self._spawn(place, words)

    def _spawn(self, place: Place, words: list[str]) -> subprocess.Popen[bytes]:
        """Ends with us: the kernel kills it when its parent is gone."""
        logging = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}"
        command = ["java", "-cp", self._class_path, logging, *words]
        if shutil.which("setpriv") is not None:
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        with place.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - a command that we write ourselves
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # Ctrl-C is for us
            )

    def _wait_ready(self, places: list[Place]) -> None:
        asyncio.run(self._until_ready(places))

    async def _until_ready(self, places: list[Place]) -> None:
        everybody = frozenset(place.node_id for place in places)
        deadline = time.monotonic() + START_WITHIN_S
        async with Client(self.bootstrap_servers, properties=self.client_settings) as client:
            for place in places:
                while not await listed_brokers(client, (HOST, place.port)) >= everybody:
                    code = self._children[place.node_id].poll()
                    if code is not None:
                        raise self._failure(place, f"ended with exit code {code}")
                    if time.monotonic() >= deadline:
                        raise self._failure(place, f"is not ready after {START_WITHIN_S:g} s")
                    await asyncio.sleep(POLL_S)

    def _failure(self, place: Place, what: str) -> SystemFailed:
        lines = place.log.read_text("utf-8", "replace").splitlines()[-LAST_LINES:]
        return SystemFailed(f"Kafka's node {place.node_id} {what}: {' | '.join(lines)}")
