"""`KafkaContainer` without a container, for tests that were written for testcontainers.

    from tidelog.testing.containers import KafkaContainer
    with KafkaContainer() as kafka:
        producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})

What means something for a broker is done, what only means something for a container is accepted,
and what cannot be had is refused with a reason.
"""

from types import TracebackType
from typing import Any, NoReturn, Self

from tidelog.testing.cluster import THREAD, Cluster

KAFKA_PORT = 9093
"""The port inside of the container that clients are told to ask for."""
PREFIX = "KAFKA_"
DECIDED_HERE = frozenset(
    (
        "advertised.listeners",
        "broker.id",
        "cluster.id",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "process.roles",
        "zookeeper.connect",
    )
)
"""Keys that the image needs to know where it is. Here nobody needs to be told."""


class KafkaContainer:
    """One broker on a thread of this process. Any image and any port will do."""

    def __init__(self, image: str = "", port: int = KAFKA_PORT, **_options: object) -> None:
        self.image = image
        self.port = port
        self._config: dict[str, object] = {}
        self._cluster: Cluster | None = None

    # ---- life

    def start(self, timeout: float = 30) -> Self:
        """A broker serves within milliseconds, so nobody waits for `timeout`."""
        if self._cluster is None:
            self._cluster = Cluster(brokers=1, host=THREAD, config=self._config)
            self._cluster.__enter__()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # ---- asking

    @property
    def cluster(self) -> Cluster:
        """Everything that a container cannot do: `kafka.cluster.answer_next(…)`."""
        if self._cluster is None:
            raise RuntimeError("the broker does not run: `with KafkaContainer() as kafka:`")
        return self._cluster

    def get_bootstrap_server(self) -> str:
        return self.cluster.bootstrap_servers

    def get_container_host_ip(self) -> str:
        return self.cluster.address(1)[0]

    def get_exposed_port(self, port: int) -> int:
        if port != self.port:
            raise ValueError(f"there is no port {port} but {self.port}, the one of Kafka's clients")
        return self.cluster.address(1)[1]

    def get_logs(self) -> tuple[bytes, bytes]:
        """All of it is on the first of the two."""
        return self.cluster.log(1).encode(), b""

    def exec(self, command: object) -> NoReturn:
        raise NotImplementedError(f"there is no container to run {command!r} in: use a client")

    # ---- setting up

    def with_env(self, key: str, value: str) -> Self:
        """`KAFKA_…` is a setting of the broker; others meant the image."""
        if key.startswith(PREFIX):
            name = key.removeprefix(PREFIX).lower().replace("_", ".")
            if name not in DECIDED_HERE and not name.startswith(
                ("heap.", "jmx.", "opts", "log4j.")
            ):
                self._config[name] = value
        return self

    def with_kraft(self) -> Self:
        """It never ran with anything else."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        """Nobody asks for it; every cluster has one of its own."""
        return self

    def with_name(self, name: str) -> Self:
        return self

    def with_kwargs(self, **_options: object) -> Self:
        return self

    def with_exposed_ports(self, *_ports: int) -> Self:
        """The system chooses one: ask `get_exposed_port`."""
        return self

    def with_bind_ports(self, container: int, host: int | None = None) -> NoReturn:
        raise NotImplementedError("ports are chosen by the system: ask get_bootstrap_server()")

    def with_network(self, network: Any) -> NoReturn:
        raise NotImplementedError(
            "other containers cannot reach this broker: it listens on 127.0.0.1 alone. `tidelog up`"
            " with an address of this machine in its listeners can be reached by all"
        )

    with_network_aliases = with_network

    def with_volume_mapping(self, host: str, container: str, mode: str = "ro") -> NoReturn:
        raise NotImplementedError("there are no volumes: Cluster(disk=…) keeps records in files")

    def with_command(self, command: object) -> NoReturn:
        raise NotImplementedError("there is no image whose command could be another one")
