"""A cluster for one test, gone without a trace afterwards."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from tidelog.client import Admin, Client, KafkaError, NewTopic, PartitionView, Read
from tidelog.client.loop_thread import LoopThread
from tidelog.cluster import faults, layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.node_http import http_of
from tidelog.cluster.node_state import partition_in, read_state
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import wait_ready
from tidelog.cluster.state import NodeState
from tidelog.core.errors import Error
from tidelog.node.scripted_answers import OWN_CLIENT, Script
from tidelog.testing import reading, report
from tidelog.testing.events import Events
from tidelog.testing.in_process import InProcessNodes
from tidelog.testing.scripted import error_of, key_of
from tidelog.testing.thread_nodes import ThreadNodes

if TYPE_CHECKING:
    from tidelog.testing.simulated.clock import Duration, SimClock

Result = TypeVar("Result")

START_WITHIN_MS = 60_000
STOP_WITHIN_MS = 10_000
POLL_SECONDS = 0.02
WAIT_SECONDS = 30.0
"""What nobody's test should need, on a machine that does much else."""
LAST_LINES = 20
PROCESS, THREAD, SIM = "process", "thread", "sim"


class Cluster:
    """`with Cluster(brokers=3, config={"min.insync.replicas": 2}) as cluster: …`

    Nodes are processes of their own, or threads of this one: `host="thread"` starts in a tenth of
    the time and keeps its records in memory. Both serve any Kafka client on loopback, and end with
    the block. `host="sim"` is another world, with a time of its own (`testing.simulated`): the same
    `seed` does the same again. An error that leaves the block carries what the nodes said as a
    note.
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

    def __new__(cls, brokers: int = 3, *, host: str = PROCESS, **arguments: Any) -> Self:
        if cls is Cluster and host == SIM:
            from tidelog.testing.simulated.cluster import SimCluster  # noqa: PLC0415 - many modules

            return super().__new__(SimCluster)  # type: ignore[return-value] # it is a Cluster
        return super().__new__(cls)

    def __init__(
        self,
        brokers: int = 3,
        *,
        host: str = PROCESS,
        seed: int | None = None,
        config: Mapping[str, object] | None = None,
        controllers: int | None = None,
        separate: bool = False,
        racks: Sequence[str] = (),
        directory: Path | None = None,
        disk: Path | None = None,
        secure: bool = False,
    ) -> None:
        """So many brokers, of which so many are controllers too; `separate` makes the controllers
        nodes of their own. In `disk` (or `directory`), if given, data is kept; otherwise it goes
        when the block ends: processes have a temporary directory, threads have memory. `secure`
        is `tidelog up --secure`: `client_properties` has the login then."""
        _check(brokers, host, seed, secure=secure)
        if disk is not None and directory is not None:
            raise ValueError("disk and directory are two names of one thing: give one of them")
        directory = directory or disk
        texts = settings_of(config)
        self._shape = Shape(
            brokers, controllers, tuple(racks), texts, separate=separate, secure=secure
        )
        self._keeps_data = directory is not None
        self._directory: Path | None = directory
        self._nodes: LocalNodes | InProcessNodes
        if host == THREAD:
            self._nodes = ThreadNodes(self._shape, directory)
        else:
            self._directory = directory or Path(tempfile.mkdtemp(prefix="tidelog-"))
            self._nodes = _processes(self._directory, self._shape)
        self._loop: LoopThread | None = None
        self._client: Client | None = None
        self._asked: tuple[int, ...] = ()
        self.events = Events(self._nodes)

    def __enter__(self) -> Self:
        self._loop = LoopThread()
        try:
            self._nodes.start(self._nodes.node_ids)
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

    async def __aenter__(self) -> Self:
        """The same: nodes run elsewhere, so nothing of it needs the loop of the test."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def close(self) -> None:
        """End every node. May be called twice."""
        loop, self._loop = self._loop, None
        client, self._client = self._client, None
        if loop is not None:
            if client is not None:
                loop.run(client.close())
            loop.close()
        for node_id in self._nodes.node_ids:
            self._nodes.kill(node_id)  # what is worth testing about a clean stop is `stop`
        self._nodes.close()
        if not self._keeps_data and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    # ---- reading ----

    @property
    def host(self) -> str:
        """`process`, `thread` or `sim`."""
        return PROCESS if isinstance(self._nodes, LocalNodes) else THREAD

    @property
    def clock(self) -> "SimClock":
        """Of a simulated cluster: `now()`, `advance("30s")`, `until(condition)`."""
        _needs_virtual_time("clock")

    def run(self, work: Coroutine[Any, Any, Result], limit: "Duration" = "10min") -> Result:
        """Run a coroutine in the world of a simulated cluster."""
        work.close()
        _needs_virtual_time("run()")

    def client(self, client_id: str = "test") -> Client:
        """Our own client, for coroutines of `run`."""
        _needs_virtual_time("client()")

    @property
    def bootstrap_servers(self) -> str:
        return self._nodes.state.bootstrap_servers

    @property
    def client_properties(self) -> dict[str, str]:
        """How a client connects, in the words of Java's clients: address, TLS and login."""
        security = layout.admin_properties(self._nodes.directory, self._nodes.state)
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
        """None if it does not run, or not as a process of its own."""
        process = self._nodes.node(node_id).process
        return process.pid if process is not None and process.is_alive() else None

    def http_port(self, node_id: int) -> int:
        return self._nodes.node(node_id).http_port

    def data_dir(self, node_id: int) -> Path:
        if self._directory is None:
            raise ValueError("this cluster keeps its records in memory: give it a disk=")
        return layout.data_directory(self._directory, node_id)

    def running(self) -> list[int]:
        """Nodes that neither stand still nor are gone."""
        nodes = self._nodes
        return [each for each in nodes.node_ids if nodes.node(each).state == "running"]

    def state(self, node_id: int) -> dict[str, Any]:
        """What a node says of itself over HTTP (`/state`); empty if it does not answer."""
        return read_state(http_of(self._nodes, node_id)) or {}

    def replica(self, node_id: int, topic: str, partition: int = 0) -> dict[str, Any]:
        """What a broker says of its own replica; empty if it says nothing."""
        return partition_in(self.state(node_id), topic, partition)

    def logs(self, topic: str, partition: int = 0) -> dict[int, dict[str, Any]]:
        """Every replica that runs, by broker: `log_start_offset`, `log_end_offset`,
        `high_watermark`, `role`, `lag` and more."""
        found = {node_id: self.replica(node_id, topic, partition) for node_id in self.running()}
        return {node_id: replica for node_id, replica in found.items() if replica}

    def log(self, node_id: int) -> str:
        """Everything the node has said."""
        return self._nodes.log_text(node_id)

    def metrics(self, node_id: int) -> dict[str, float]:
        """What a node measures of itself, by `name{label="value"}`."""
        return reading.metrics(http_of(self._nodes, node_id))

    def partition(self, topic: str, partition: int = 0) -> PartitionView:
        """As the cluster has it now: leader, leader_epoch, isr, replicas. The broker is asked that
        has applied most of what the controllers have committed: one that was just resumed knows
        for a moment what was so before."""
        newest = self._newest_broker()

        async def look(client: Client) -> PartitionView:
            if newest is None:
                found = await client.topic(topic)
            else:
                found = await reading.topic_from(client, self._broker_address(newest), topic)
            for each in found.partitions:
                if each.partition == partition:
                    return each
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")

        return self.ask(look)

    def _newest_broker(self) -> int | None:
        """None if nobody says how far it is."""
        applied: dict[int, int] = {}
        for node in self._asked_nodes():
            said = self.state(node.id)
            if said:
                applied[node.id] = int(said["quorum"]["applied_offset"])
        return max(applied, key=applied.__getitem__, default=None)

    def _broker_address(self, node_id: int) -> tuple[str, int]:
        return self.address(node_id)

    def records(
        self, topic: str, partition: int | None = None, *, committed: bool = False
    ) -> list[Read]:
        """All that can be read now, in order of partition and offset: `record.key`,
        `record.value`, `record.headers`. `committed` leaves aborted transactions out."""

        async def read(client: Client) -> list[Read]:
            return await reading.records(client, topic, partition, committed=committed)

        return self.ask(read)

    def group(self, group_id: str) -> "reading.GroupPicture":
        """Its state, members, committed offsets and lag."""

        async def look(client: Client) -> reading.GroupPicture:
            return await reading.group(client, group_id)

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
        if isinstance(self._nodes, LocalNodes):
            self._loop.run(wait_ready(self._nodes, timeout_ms=START_WITHIN_MS, expected=brokers))
        else:
            wanted = self.brokers if brokers is None else brokers
            self._nodes.wait_ready(wanted, START_WITHIN_MS / 1000)

    def ask(self, work: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
        """Whatever a client of ours can ask, of the brokers that run."""
        assert self._loop is not None, "outside of its with block"
        return self._loop.run(self._ask(work))

    def check(self) -> None:
        """`InvariantBroken` if the cluster did what it must never do, whatever was done to it:
        replicas agree below the high watermark, and what was committed is there."""
        from tidelog.testing import invariants  # noqa: PLC0415 - what it reads files with

        if isinstance(self._nodes, LocalNodes):
            directories = {node_id: self.data_dir(node_id) for node_id in self.brokers}
            broken = self.ask(lambda client: invariants.broken_in_files(client, directories))
        else:
            broken = invariants.broken_in_process(self._nodes)
        if broken:
            raise invariants.InvariantBroken(broken)

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
        """Make a topic and wait until every partition has a leader; its name. As many partitions
        as `num.partitions` says if it is -1.

        An assignment gives each partition its replicas, the preferred leader first."""
        factor = -1 if replication_factor is None else replication_factor
        new = NewTopic(name, partitions, factor, settings_of(configs), dict(enumerate(assignment)))
        count = len(assignment) or partitions

        async def create(client: Client) -> None:
            await Admin(client).create_topic(new)

        self.ask(create)
        self.wait(lambda: self._is_led(name, count))
        return name

    def delete_topic(self, name: str) -> None:
        self.ask(lambda client: Admin(client).delete_topic(name))

    def kill(self, node_id: int) -> None:
        """As a crash: connections are reset, and nobody is told. A process leaves what it wrote to
        the operating system; the memory of a thread keeps what was synced, and nothing else."""
        self._nodes.kill(node_id)

    def stop(self, node_id: int) -> None:
        """In order: SIGTERM, or its like for a thread; wait until it is gone."""
        self._nodes.stop([node_id], timeout_ms=STOP_WITHIN_MS)

    def pause(self, node_id: int) -> None:
        self._nodes.pause(node_id)

    def resume(self, node_id: int) -> None:
        self._nodes.resume(node_id)

    def start(self, *node_ids: int) -> None:
        """Start them again, all at once, without waiting until they serve."""
        self._nodes.start(node_ids)

    def restart(self, node_id: int) -> None:
        """Start it again, after a clean stop if it runs; a broker serves when this returns, and
        a cut that concerns it is still one."""
        self._nodes.stop([node_id], timeout_ms=STOP_WITHIN_MS)
        self._nodes.start([node_id])
        if node_id in self.brokers:
            self.wait_ready([node_id])
        self._remind(node_id)

    def _remind(self, node_id: int) -> None:
        """Of the wires that are cut."""
        node = self._nodes.node(node_id)
        if node.blocked or node.latency_ms:
            faults.tell(self._nodes, [node_id])

    def partition_off(self, *groups: Sequence[int]) -> None:
        """Cut groups of nodes from each other; one group is cut from all others."""
        faults.cut(self._nodes, self._parts(groups))

    def _parts(self, groups: Sequence[Sequence[int]]) -> list[list[int]]:
        parts = [list(group) for group in groups]
        if len(parts) == 1:
            parts.append([each for each in self._nodes.node_ids if each not in parts[0]])
        return parts

    def slow(self, node_id: int, latency_ms: int) -> None:
        """Everything between this node and others takes so much longer; 0 takes it back."""
        faults.slow(self._nodes, node_id, latency_ms)

    def heal(self) -> None:
        faults.heal(self._nodes)

    def answer_next(
        self,
        api: str,
        error: str,
        times: int = 1,
        *,
        node: int | None = None,
        topic: str | None = None,
    ) -> None:
        """The next `times` requests of this API get this error, by Kafka's names, and are not
        carried out: `answer_next("Produce", "NOT_ENOUGH_REPLICAS", times=2)`. Only those that a
        client sends to `node`, if given, and only those that concern `topic`. Processes do not
        count together: several of them want a `node`."""
        key, code = key_of(api), error_of(error)
        if times < 1:
            raise ValueError(f"times={times}: at least one request has to fail")
        if node is not None and node not in self.brokers:
            raise ValueError(f"node={node} is no broker of this cluster, which has {self.brokers}")
        if not isinstance(self._nodes, LocalNodes):
            self._nodes.script(Script(key.key, code, times, topic), node)
            return
        if node is None and len(self.brokers) > 1:
            raise ValueError("which broker? Processes do not count together: give node=")
        document = {"api": key.name, "error": code.name, "times": times, "topic": topic}
        faults.script(self._nodes, node or self.brokers[0], document)

    def answer_as_usual(self) -> None:
        """What `answer_next` asked for and was not answered yet is forgotten."""
        if not isinstance(self._nodes, LocalNodes):
            self._nodes.clear_scripts()
            return
        for node_id in self.running():
            faults.clear_scripts(self._nodes, node_id)

    # ---- telling ----

    @property
    def replay(self) -> str:
        """How a simulated cluster does the same again."""
        _needs_virtual_time("replay")

    def report(self) -> str:
        """The last lines of every node's log."""
        parts = []
        for node_id in self._nodes.node_ids:
            state = self._nodes.node(node_id).state
            parts.append(f"--- node {node_id}, {state}")
            parts += self._nodes.last_lines(node_id, LAST_LINES)
        return "\n".join(parts)

    def state_table(self) -> str:
        """Nodes and partitions as they are now."""
        nodes, host = self._nodes, self._nodes.state.host
        rows = []
        for node_id in nodes.node_ids:
            node = nodes.node(node_id)
            cut, slow = ",".join(map(str, node.blocked)), sorted(node.latency_ms.items())
            late = " ".join(f"{other}:{ms}ms" for other, ms in slow)
            rows.append((node_id, node.state, f"{host}:{node.port}", cut or "-", late or "-"))
        states = {node_id: self.state(node_id) for node_id in self.running()}
        lines = report.table(report.NODE_COLUMNS, rows)
        partitions = report.partition_rows(states)
        if partitions:
            lines += ["", *report.table(report.PARTITION_COLUMNS, partitions)]
        return "\n".join(lines)

    def last_events(self) -> list[str]:
        """What the report of a failed test shows of them."""
        return report.last_events(self.events.all())

    def write_trace(self, path: Path) -> Path:
        """Every event of every node that can be had, as JSON lines."""
        return report.write_trace(path, self.events.all())

    async def _ask(self, work: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
        state = self._nodes.state
        running = self._asked_nodes()
        asked = tuple(node.id for node in running)
        if self._client is None or asked != self._asked:
            if self._client is not None:
                await self._client.close()
            addresses = ",".join(f"{state.host}:{node.port}" for node in running)
            self._client = Client(
                addresses, client_id=OWN_CLIENT, properties=self.client_properties
            )
            self._asked = asked
        return await work(self._client)

    def _asked_nodes(self) -> list[NodeState]:
        """A paused broker takes connections and answers nothing, and one that is cut off from most
        others knows what was so before: they must not be asked first."""
        state = self._nodes.state
        running = [node for node in state.brokers if node.state == "running"] or state.brokers
        return [node for node in running if 2 * len(node.blocked) < len(state.nodes)] or running

    def _is_led(self, topic: str, partitions: int) -> bool:
        async def look(client: Client) -> bool:
            found = await client.topic(topic)
            led = [each for each in found.partitions if each.leader is not None]
            return len(led) == (len(found.partitions) if partitions < 0 else partitions) > 0

        return self.ask(look)

    def _note(self, error: BaseException) -> None:
        if isinstance(error, NodeFailed):
            error.add_note(f"in {self._nodes.directory}")
        error.add_note(self.report())


def _check(brokers: int, host: str, seed: int | None, *, secure: bool) -> None:
    if host not in (PROCESS, THREAD):
        raise ValueError(f'host={host!r}: it is "process", "thread" or "sim"')
    if seed is not None:
        raise ValueError(f'seed={seed} needs host="sim": in real time nothing happens twice')
    if brokers < 1:
        raise ValueError(f"brokers={brokers}: at least one")
    if secure and host == THREAD:
        raise ValueError('secure=True needs host="process": nodes with TLS read their keys there')


def _processes(directory: Path, shape: Shape) -> LocalNodes:
    nodes = LocalNodes(directory, layout.create(directory, "test", shape))
    if shape.secure:
        from tidelog.cluster.securing import secure as make_keys  # noqa: PLC0415 - an extra

        make_keys(directory, nodes.state)
    return nodes


def settings_of(config: Mapping[str, object] | None) -> dict[str, str]:
    """Values as properties files have them."""
    return {key: _text(value) for key, value in (config or {}).items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _needs_virtual_time(what: str) -> NoReturn:
    raise ValueError(f'{what} needs a cluster with virtual time: Cluster(host="sim")')
