"""Something large happens to a cluster of three, and every broker is asked every 20 ms meanwhile.

Each phase ends when its work is done on every node, on disk too. The longest stretch without an
answer is a broker's silence in that phase.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from tidelog.bench.compare import processes
from tidelog.bench.failover import longest_gap_ms
from tidelog.bench.silence import prober
from tidelog.client import Admin, Client
from tidelog.client.admin import BROKER_RESOURCE, TOPIC_RESOURCE
from tidelog.client.errors import check
from tidelog.cluster import layout
from tidelog.cluster.nodes import LocalNodes
from tidelog.wire.protocol.schemas import create_topics_request, delete_topics_request
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse
from tidelog.wire.protocol.schemas.delete_topics_response import DeleteTopicsResponse
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.metadata_response import MetadataResponse

PREFIX = "silence-"
WITHIN_MS = 180_000
POLL_S = 0.2
CALM_S = 1.0
"""What a phase leaves behind is still its own."""
FENCED = " fenced"
"""How journals end the line that tells of it."""


class Sizes(NamedTuple):
    topics: int
    partitions: int
    names: int
    """In the one large Metadata request."""


class Phase(NamedTuple):
    name: str
    took_s: float
    silence_ms: Mapping[int, float]
    """The longest stretch without an answer, by broker."""
    cpu_s: float
    """Of all nodes together."""
    machine_ms: float
    """How late the prober itself was woken, at worst: silence that nobody can be blamed for."""


class Outcome(NamedTuple):
    phases: list[Phase]
    fenced: list[str]
    """Journal lines about brokers that were fenced."""
    holds: list[str]
    """Journal lines about what held an event loop."""

    @property
    def worst_ms(self) -> float:
        return max(silence for phase in self.phases for silence in phase.silence_ms.values())


class Stretch(NamedTuple):
    """A phase that is over, before the prober told what it saw."""

    name: str
    begin: float
    end: float
    cpu_s: float


class NotDone(Exception):  # noqa: N818 - it names what is so
    """The cluster did not finish what it was asked for."""


async def run(nodes: LocalNodes, sizes: Sizes, on_phase: Callable[[str], None]) -> Outcome:
    """On a cluster that is ready. It still runs afterwards."""
    host = nodes.state.host
    addresses = {node.id: f"{host}:{node.port}" for node in nodes.state.brokers}
    child = _start_prober(list(addresses.values()))
    try:
        async with Client(nodes.state.bootstrap_servers, timeout_ms=WITHIN_MS) as client:
            work = Work(nodes, client, sizes)
            stretches = []
            for name, do in work.phases().items():
                on_phase(name)
                stretches.append(await _measured(name, do, nodes))
        said, _ = await asyncio.to_thread(child.communicate)
    finally:
        child.kill()
        child.wait()
    seen = {node_id: json.loads(said)[address] for node_id, address in addresses.items()}
    return Outcome(
        [_as_phase(each, seen) for each in stretches],
        _journal_lines(nodes, lambda line: line.endswith(FENCED)),
        _journal_lines(nodes, lambda line: "held the event loop" in line),
    )


def _start_prober(addresses: list[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", prober.__name__, *addresses],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


async def _measured(name: str, do: Callable[[], Awaitable[None]], nodes: LocalNodes) -> Stretch:
    begin, cpu_before_s = time.monotonic(), _cpu_seconds(nodes)
    await do()
    await asyncio.sleep(CALM_S)
    return Stretch(name, begin, time.monotonic(), _cpu_seconds(nodes) - cpu_before_s)


def _as_phase(stretch: Stretch, seen: Mapping[int, Mapping[str, list[list[float]]]]) -> Phase:
    begin, end = stretch.begin, stretch.end
    silence_ms, late_ms = {}, 0.0
    for node_id, found in seen.items():
        answers: list[float] = found["answers"]  # type: ignore[assignment]  # the flat one
        silence_ms[node_id] = longest_gap_ms(answers, begin, end)
        late = [late_s for at, late_s in found["lateness"] if begin <= at <= end]
        late_ms = max(late_ms, 1000 * max(late, default=0.0))
    return Phase(stretch.name, end - begin - CALM_S, silence_ms, stretch.cpu_s, late_ms)


def _cpu_seconds(nodes: LocalNodes) -> float:
    running = [nodes.node(node_id).process for node_id in nodes.node_ids]
    return sum(processes.cpu_seconds(each.pid) for each in running if each is not None)


def _journal_lines(nodes: LocalNodes, wanted: Callable[[str], bool]) -> list[str]:
    return [
        f"{node_id}: {line}"
        for node_id in nodes.node_ids
        for line in nodes.log_text(node_id).splitlines()
        if wanted(line)
    ]


class Work:
    """The large things, one after the other."""

    __slots__ = ("_client", "_names", "_nodes", "_sizes")

    def __init__(self, nodes: LocalNodes, client: Client, sizes: Sizes) -> None:
        self._nodes = nodes
        self._client = client
        self._sizes = sizes
        self._names = [f"{PREFIX}{number}" for number in range(sizes.topics)]

    def phases(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "create": self._create,
            "alter topic": self._alter_topic,
            "alter broker": self._alter_broker,
            "metadata": self._metadata,
            "delete": self._delete,
        }

    async def _create(self) -> None:
        """All topics with one request."""
        request = create_topics_request.CreateTopicsRequest(
            topics=[
                create_topics_request.CreatableTopic(
                    name=name, num_partitions=self._sizes.partitions, replication_factor=-1
                )
                for name in self._names
            ],
            timeout_ms=WITHIN_MS,
        )
        await self._client.ask_controller(request, CreateTopicsResponse, _check_created)
        expected = self._sizes.topics * self._sizes.partitions
        await self._until(lambda: all(n == expected for n in self._on_disk()), "made its logs")

    async def _alter_topic(self) -> None:
        """One topic among many is to be compacted."""
        changes = {"cleanup.policy": "compact"}
        await Admin(self._client).alter_configs(TOPIC_RESOURCE, self._names[0], changes)

    async def _alter_broker(self) -> None:
        """All topics of one broker are to be compacted."""
        broker_id = self._nodes.state.brokers[0].id
        changes = {"log.cleanup.policy": "compact"}
        await Admin(self._client).alter_configs(BROKER_RESOURCE, str(broker_id), changes)

    async def _metadata(self) -> None:
        """Very many names that nobody has, and every one may be created."""
        names = (f"{PREFIX[0]}{number:07d}" for number in range(self._sizes.names))
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        broker_id = self._nodes.state.brokers[0].id
        await self._client.ask_broker(
            broker_id, request, MetadataResponse, timeout_ms=WITHIN_MS, purpose="large"
        )

    async def _delete(self) -> None:
        """All topics with one request."""
        states = [delete_topics_request.DeleteTopicState(name=name) for name in self._names]
        request = delete_topics_request.DeleteTopicsRequest(
            topics=states, topic_names=self._names, timeout_ms=WITHIN_MS
        )
        await self._client.ask_controller(request, DeleteTopicsResponse, _check_deleted)
        await self._until(lambda: not any(self._on_disk()), "removed its logs")

    def _on_disk(self) -> list[int]:
        """How many directories of our topics there are, node by node."""
        directories = [
            layout.data_directory(self._nodes.directory, node.id)
            for node in self._nodes.state.brokers
        ]
        return [sum(each.startswith(PREFIX) for each in os.listdir(path)) for path in directories]

    async def _until(self, is_done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_MS / 1000
        while not is_done():
            if time.monotonic() >= deadline:
                raise NotDone(f"not every broker has {what} after {WITHIN_MS // 1000} s")
            await asyncio.sleep(POLL_S)


def _check_created(answer: CreateTopicsResponse) -> None:
    for each in answer.topics:
        check(each.error_code, each.error_message)


def _check_deleted(answer: DeleteTopicsResponse) -> None:
    for each in answer.responses:
        check(each.error_code, each.error_message)
