"""A cluster of real processes for one test, gone without a trace afterwards."""

import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog.client import Admin, Client, KafkaError, NewTopic, PartitionView
from tidelog.client.loop_thread import LoopThread
from tidelog.cluster import faults, layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.node_http import http_of
from tidelog.cluster.node_state import partition_in, read_state
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import wait_ready
from tidelog.core.errors import Error

Result = TypeVar("Result")

START_WITHIN_MS = 30_000
STOP_WITHIN_MS = 10_000
POLL_SECONDS = 0.02
WAIT_SECONDS = 30.0
"""What nobody's test should need, on a machine that does much else."""
LAST_LINES = 20


class Events:
    """What the nodes said happened, from their logs."""

    __slots__ = ("_nodes",)

    def __init__(self, nodes: LocalNodes) -> None:
        self._nodes = nodes

    def lines(self) -> list[str]:
        """Of all nodes, in order of time: every line begins with it."""
        return sorted(
            line
            for node_id in self._nodes.node_ids
            for line in self._nodes.log_text(node_id).splitlines()
        )

    def saw(self, *texts: str) -> bool:
        """Whether each of these texts is in some line."""
        lines = self.lines()
        return all(any(text in line for line in lines) for text in texts)


class Cluster:
    """`with Cluster(brokers=3, config={"min.insync.replicas": 2}) as cluster: …`

    Every node is a process of its own in a temporary directory. They end with the block, and with
    this process however it ends. An error that leaves the block carries the last lines of every
    node's log as a note.
    """

    __slots__ = (
        "_asked",
        "_client",
        "_directory",
        "_keeps_data",
        "_loop",
        "_nodes",
        "_shape",
        "events",
    )

    def __init__(
        self,
        brokers: int = 3,
        *,
        config: Mapping[str, object] | None = None,
        controllers: int | None = None,
        separate: bool = False,
        racks: Sequence[str] = (),
        directory: Path | None = None,
        secure: bool = False,
    ) -> None:
        """So many brokers, of which so many are controllers too; `separate` makes the controllers
        processes of their own. In `directory`, if given, data is kept; otherwise it goes when the
        block ends. `secure` is `tidelog up --secure`: `client_properties` has the login then."""
        texts = {key: _text(value) for key, value in (config or {}).items()}
        self._shape = Shape(
            brokers, controllers, tuple(racks), texts, separate=separate, secure=secure
        )
        self._keeps_data = directory is not None
        self._directory = directory or Path(tempfile.mkdtemp(prefix="tidelog-"))
        self._nodes = LocalNodes(
            self._directory, layout.create(self._directory, "test", self._shape)
        )
        if secure:
            from tidelog.cluster.securing import secure as make_keys  # noqa: PLC0415 - an extra

            make_keys(self._directory, self._nodes.state)
        self._loop: LoopThread | None = None
        self._client: Client | None = None
        self._asked: tuple[int, ...] = ()
        self.events = Events(self._nodes)

    def __enter__(self) -> Self:
        self._loop = LoopThread()
        try:
            self._nodes.start(self._nodes.node_ids, attached=True)
            self.wait_ready()
        except BaseException as error:
            self._note(error)
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._note(error)
        self.close()

    def close(self) -> None:
        """End every process. May be called twice."""
        loop, self._loop = self._loop, None
        client, self._client = self._client, None
        if loop is not None:
            if client is not None:
                loop.run(client.close())
            loop.close()
        for node_id in self._nodes.node_ids:
            self._nodes.kill(node_id)  # what is worth testing about a clean stop is `stop`
        self._nodes.close()
        if not self._keeps_data:
            shutil.rmtree(self._directory, ignore_errors=True)

    # ---- reading ----

    @property
    def bootstrap_servers(self) -> str:
        return self._nodes.state.bootstrap_servers

    @property
    def client_properties(self) -> dict[str, str]:
        """How a client connects, in the words of Java's clients: address, TLS and login."""
        security = layout.admin_properties(self._directory, self._nodes.state)
        return {**security, "bootstrap.servers": self.bootstrap_servers}

    @property
    def brokers(self) -> list[int]:
        return [node.id for node in self._nodes.state.brokers]

    @property
    def controllers(self) -> list[int]:
        return [node.id for node in self._nodes.state.controllers]

    def address(self, node_id: int) -> tuple[str, int]:
        """Where clients reach a broker."""
        return self._nodes.state.host, self._nodes.node(node_id).port

    def pid(self, node_id: int) -> int | None:
        process = self._nodes.node(node_id).process
        return process.pid if process is not None and process.is_alive() else None

    def http_port(self, node_id: int) -> int:
        return self._nodes.node(node_id).http_port

    def data_dir(self, node_id: int) -> Path:
        return layout.data_directory(self._directory, node_id)

    def state(self, node_id: int) -> dict[str, Any]:
        """What a node says of itself over HTTP (`/state`); empty if it does not answer."""
        return read_state(http_of(self._nodes, node_id)) or {}

    def replica(self, node_id: int, topic: str, partition: int = 0) -> dict[str, Any]:
        """What a broker says of its own replica; empty if it says nothing."""
        return partition_in(self.state(node_id), topic, partition)

    def log(self, node_id: int) -> str:
        """Everything the node has said."""
        return self._nodes.log_text(node_id)

    def partition(self, topic: str, partition: int) -> PartitionView:
        """As the cluster has it now: leader, leader_epoch, isr, replicas."""

        async def look(client: Client) -> PartitionView:
            found = await client.topic(topic)
            for each in found.partitions:
                if each.partition == partition:
                    return each
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")

        return self.ask(look)

    def alive(self) -> list[int]:
        """The brokers that the cluster counts on now."""

        async def look(client: Client) -> list[int]:
            registered = await Admin(client).registered_brokers()
            return [each.id for each in registered if not each.fenced]

        return self.ask(look)

    def wait(self, condition: Callable[[], object], timeout: float = WAIT_SECONDS) -> None:
        """Until it is so; TimeoutError after so many seconds."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() >= deadline:
                raise TimeoutError(f"still not so after {timeout:g} s")
            time.sleep(POLL_SECONDS)

    def wait_ready(self, brokers: Sequence[int] | None = None) -> None:
        """Until these brokers (all) serve and know each other."""
        assert self._loop is not None, "outside of its with block"
        self._loop.run(wait_ready(self._nodes, timeout_ms=START_WITHIN_MS, expected=brokers))

    def ask(self, work: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
        """Whatever a client of ours can ask, of the brokers that run."""
        assert self._loop is not None, "outside of its with block"
        return self._loop.run(self._ask(work))

    # ---- changing ----

    def topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        *,
        assignment: Sequence[Sequence[int]] = (),
    ) -> str:
        """Make a topic and wait until every partition has a leader; its name.

        An assignment gives each partition its replicas, the preferred leader first."""
        factor = -1 if replication_factor is None else replication_factor
        texts = {key: _text(value) for key, value in (configs or {}).items()}
        new = NewTopic(name, partitions, factor, texts, dict(enumerate(assignment)))
        count = len(assignment) or partitions

        async def create(client: Client) -> None:
            await Admin(client).create_topic(new)

        self.ask(create)
        self.wait(lambda: self._is_led(name, count))
        return name

    def kill(self, node_id: int) -> None:
        """As a crash."""
        self._nodes.kill(node_id)

    def stop(self, node_id: int) -> None:
        """In order: SIGTERM, and wait until it is gone."""
        self._nodes.stop([node_id], timeout_ms=STOP_WITHIN_MS)

    def pause(self, node_id: int) -> None:
        self._nodes.pause(node_id)

    def resume(self, node_id: int) -> None:
        self._nodes.resume(node_id)

    def start(self, *node_ids: int) -> None:
        """Start them again, all at once, without waiting until they serve."""
        self._nodes.start(node_ids, attached=True)

    def restart(self, node_id: int) -> None:
        """Start it again, after a clean stop if it runs; a broker serves when this returns, and
        a cut that concerns it is still one."""
        self._nodes.stop([node_id], timeout_ms=STOP_WITHIN_MS)
        self._nodes.start([node_id], attached=True)
        if node_id in self.brokers:
            self.wait_ready([node_id])
        node = self._nodes.node(node_id)
        if node.blocked or node.latency_ms:
            faults.tell(self._nodes, [node_id])

    def partition_off(self, *groups: Sequence[int]) -> None:
        """Cut groups of nodes from each other; one group is cut from all others."""
        parts = [list(group) for group in groups]
        if len(parts) == 1:
            parts.append([each for each in self._nodes.node_ids if each not in parts[0]])
        faults.cut(self._nodes, parts)

    def slow(self, node_id: int, latency_ms: int) -> None:
        faults.slow(self._nodes, node_id, latency_ms)

    def heal(self) -> None:
        faults.heal(self._nodes)

    def report(self) -> str:
        """The last lines of every node's log."""
        parts = []
        for node_id in self._nodes.node_ids:
            state = self._nodes.node(node_id).state
            parts.append(f"--- node {node_id}, {state}")
            parts += self._nodes.last_lines(node_id, LAST_LINES)
        return "\n".join(parts)

    async def _ask(self, work: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
        """A paused broker takes connections and answers nothing: it must not be asked first."""
        state = self._nodes.state
        running = [node for node in state.brokers if node.state == "running"] or state.brokers
        asked = tuple(node.id for node in running)
        if self._client is None or asked != self._asked:
            if self._client is not None:
                await self._client.close()
            addresses = ",".join(f"{state.host}:{node.port}" for node in running)
            self._client = Client(
                addresses, client_id="tidelog.testing", properties=self.client_properties
            )
            self._asked = asked
        return await work(self._client)

    def _is_led(self, topic: str, partitions: int) -> bool:
        async def look(client: Client) -> bool:
            found = await client.topic(topic)
            led = [each for each in found.partitions if each.leader is not None]
            return len(led) == partitions

        return self.ask(look)

    def _note(self, error: BaseException) -> None:
        if isinstance(error, NodeFailed):
            error.add_note(f"in {self._directory}")
        error.add_note(self.report())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
