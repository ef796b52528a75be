"""A small client for our own tools: finds brokers, controller and leaders, and asks again.

It speaks to any Kafka. It is made inside a running event loop and closed there:
`async with Client("localhost:9092") as client: …`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

from tidelog.client.errors import MOVED, PASSING, ClusterUnreachable, KafkaError
from tidelog.client.links import ADMIN, Address, Answered, ApiSpan, Links, show
from tidelog.client.security import secured
from tidelog.client.view import BrokerView, ClusterView, PartitionView, TopicView
from tidelog.core.errors import Error
from tidelog.host import tasks
from tidelog.host.clock import SystemClock
from tidelog.host.entropy import SystemEntropy
from tidelog.host.network import TcpNetwork
from tidelog.host.ports import Clock, Entropy, Network, NetworkError, PeerRefused, RequestTimedOut
from tidelog.wire.protocol import Message
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Result = TypeVar("Result")

TIMEOUT_MS = 15_000
ONE_TRY_MS = 5_000
KNOCK_TIMEOUT_MS = 500
"""A broker that is silent for so long is left for another one."""
UNKNOWN_GRACE_MS = 500
"""A topic that was just created is not known everywhere at once."""
FIRST_PAUSE_MS = 10
LONGEST_PAUSE_MS = 250

_ADDRESS = re.compile(r"(?:[A-Z_]+://)?(\[[0-9a-fA-F:.%]+\]|[^\[\]:/,\s]+)(?::([0-9]{1,5}))?")
DEFAULT_PORT = 9092


def parse_bootstrap(text: str) -> list[Address]:
    """`host:port,host:port`; ValueError says what is wrong."""
    addresses = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = _ADDRESS.fullmatch(part)
        port = int(match.group(2) or DEFAULT_PORT) if match else 0
        if match is None or not 0 < port < 65_536:
            raise ValueError(f"{part!r} is not host:port with a port from 1 to 65535")
        addresses.append((match.group(1).strip("[]"), port))
    if not addresses:
        raise ValueError("there is no address")
    return addresses


class ClientNetwork(Network, Protocol):
    """A network that belongs to one client."""

    def close(self) -> None: ...


class LentNetwork:
    """A network that somebody else closes: the node that a client is part of."""

    __slots__ = ("connect", "listen", "soon")

    def __init__(self, network: Network) -> None:
        self.listen = network.listen
        self.connect = network.connect
        self.soon = network.soon

    def close(self) -> None: ...


class World(NamedTuple):
    """What a client takes from its surroundings."""

    clock: Clock
    network: ClientNetwork
    entropy: Entropy = SystemEntropy()


def system_world() -> World:
    clock = SystemClock()
    return World(clock, TcpNetwork(clock))


class Attempts:
    """One deadline for everything that an operation tries."""

    __slots__ = ("_clock", "_pause_ms", "_unknown_until_ms", "deadline_ms")

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._pause_ms = FIRST_PAUSE_MS
        self.deadline_ms = clock.monotonic_ms() + timeout_ms
        self._unknown_until_ms = clock.monotonic_ms() + UNKNOWN_GRACE_MS

    @property
    def left_ms(self) -> int:
        return max(1, self.deadline_ms - self._clock.monotonic_ms())

    def allow(self, error: KafkaError) -> bool:
        """Whether this refusal may pass."""
        if error.error == Error.UNKNOWN_TOPIC_OR_PARTITION:
            return self._clock.monotonic_ms() < self._unknown_until_ms
        return error.error in PASSING

    async def pause(self) -> bool:
        """Wait a little; False when the time is over."""
        if self._clock.monotonic_ms() + self._pause_ms >= self.deadline_ms:
            return False
        await tasks.pause(self._pause_ms)
        self._pause_ms = min(LONGEST_PAUSE_MS, self._pause_ms * 2)
        return True


class Client:
    """Questions to a cluster. Raises KafkaError for a refusal, ClusterUnreachable for silence."""

    __slots__ = ("_bootstrap", "_clock", "_network", "_view", "links", "timeout_ms")

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "tidelog",
        timeout_ms: int = TIMEOUT_MS,
        world: World | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """`world` is where it finds time and peers; sockets and the system's clock by default.
        `properties` say how connections are secured, in the words of Kafka's clients
        (`security.protocol`, `sasl.…`, `ssl.…`); BadProperties if they cannot be."""
        self._bootstrap = parse_bootstrap(bootstrap)
        world = world or system_world()
        self._clock, self._network = world.clock, world.network
        self._view: ClusterView | None = None
        self.links = Links(secured(world, properties or {}, client_id), client_id)
        self.timeout_ms = timeout_ms

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self.links.close()
        await tasks.pause(0)  # the transports hear of it before the loop ends
        self._network.close()

    def now_ms(self) -> int:
        return self._clock.wall_ms()

    def attempts(self, timeout_ms: int | None = None) -> Attempts:
        return Attempts(self._clock, self.timeout_ms if timeout_ms is None else timeout_ms)

    # ---- what the cluster looks like ----

    async def view(self, *, timeout_ms: int | None = None) -> ClusterView:
        """Brokers and all topics, asked for now."""
        self._view = await self._metadata(MetadataRequest(topics=None), timeout_ms)
        return self._view

    async def brokers(self, *, timeout_ms: int | None = None) -> ClusterView:
        """Brokers and controller alone, asked for now."""
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        view = await self._metadata(request, timeout_ms)
        self._learn(view)
        return view

    async def refused_by(self, brokers: Iterable[BrokerView]) -> tuple[int, ...]:
        """Which of these refuse connections: their processes are gone, whatever the metadata say.
        One that cannot be reached may be well."""
        asked = list(brokers)
        refused = await asyncio.gather(*(self._is_refused(each.address) for each in asked))
        return tuple(each.id for each, gone in zip(asked, refused, strict=True) if gone)

    async def _is_refused(self, address: tuple[str, int]) -> bool:
        try:
            connection = await self._network.connect(*address, timeout_ms=KNOCK_TIMEOUT_MS)
        except PeerRefused:
            return True
        except NetworkError:
            return False
        connection.close()
        return False

    async def topics(
        self, names: Iterable[str], *, create: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicView]:
        """The topics of these names, each with its error, asked for now."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=create,
        )
        view = await self._metadata(request, timeout_ms)
        self._learn(view)
        return view.topics

    async def topic(self, name: str, *, create: bool = False) -> TopicView:
        """One topic; KafkaError if there is none."""

        async def look() -> TopicView:
            found = await self.topics([name], create=create)
            topic = found.get(name)
            if topic is None or topic.error:
                raise KafkaError(
                    topic.error if topic else Error.UNKNOWN_TOPIC_OR_PARTITION,
                    f"there is no topic {name}",
                )
            return topic

        return await self.retrying(look)

    async def known_topic(self, name: str, *, create: bool = False) -> TopicView:
        """One topic as the cached view has it, or as the cluster says now."""
        known = self._view.topics.get(name) if self._view is not None else None
        if known is not None and not known.error:
            return known
        return await self.topic(name, create=create)

    async def partition(self, topic: str, index: int) -> PartitionView:
        """One partition as the cached view has it, or as the cluster says now."""
        known = self._view.topics.get(topic) if self._view is not None else None
        if known is None or index >= len(known.partitions):
            known = await self.topic(topic)
        for partition in known.partitions:
            if partition.partition == index:
                return partition
        last = len(known.partitions) - 1
        raise KafkaError(
            Error.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has the partitions 0 to {last}"
        )

    def forget(self, topic: str) -> None:
        """Look it up again before it is used again."""
        if self._view is not None:
            self._view.topics.pop(topic, None)

    # ---- asking ----

    async def ask_any(
        self, request: Message, expected: type[Answered], *, timeout_ms: int | None = None
    ) -> Answered:
        """Whoever answers first of those we know."""
        attempts = self.attempts(timeout_ms)
        while True:
            reasons = []
            for address in self._everybody():
                try:
                    return await self.links.ask(
                        address,
                        request,
                        expected,
                        purpose=ADMIN,
                        timeout_ms=min(ONE_TRY_MS, attempts.left_ms),
                    )
                except NetworkError as error:
                    reasons.append(reason_of(error, address))
            if not await attempts.pause():
                everybody = ",".join(show(each) for each in self._bootstrap)
                raise ClusterUnreachable(everybody, "; ".join(dict.fromkeys(reasons)))

    async def ask_broker(
        self,
        broker_id: int,
        request: Message,
        expected: type[Answered],
        *,
        purpose: str = ADMIN,
        timeout_ms: int = ONE_TRY_MS,
    ) -> Answered:
        """One broker, once; NetworkError if it does not answer."""
        address = await self.address_of(broker_id)
        return await self.links.ask(
            address, request, expected, purpose=purpose, timeout_ms=timeout_ms
        )

    async def ask_controller(
        self,
        request: Message,
        expected: type[Answered],
        verdict: Callable[[Answered], None],
        *,
        timeout_ms: int | None = None,
    ) -> Answered:
        """Whoever takes requests for the controller. `verdict` raises what the answer refuses."""

        async def ask() -> Answered:
            view = self._view or await self.brokers(timeout_ms=timeout_ms)
            if view.controller in view.brokers:
                answer = await self.ask_broker(
                    view.controller, request, expected, timeout_ms=timeout_ms or self.timeout_ms
                )
            else:
                answer = await self.ask_any(request, expected, timeout_ms=timeout_ms)
            verdict(answer)
            return answer

        return await self.retrying(ask, timeout_ms=timeout_ms)

    async def retrying(
        self, operation: Callable[[], Awaitable[Result]], *, timeout_ms: int | None = None
    ) -> Result:
        """Until it succeeds, is refused for good, or the time is over."""
        attempts = self.attempts(timeout_ms)
        while True:
            try:
                return await operation()
            except KafkaError as error:
                if not attempts.allow(error) or not await attempts.pause():
                    raise
                if error.error in MOVED or error.error == Error.UNKNOWN_TOPIC_OR_PARTITION:
                    self._view = None
            except NetworkError as error:
                self._view = None
                if not await attempts.pause():
                    if isinstance(error, RequestTimedOut):  # it is there, and has not done it
                        raise KafkaError(Error.REQUEST_TIMED_OUT, str(error)) from None
                    everybody = ",".join(show(each) for each in self._bootstrap)
                    raise ClusterUnreachable(everybody, str(error)) from None

    async def address_of(self, broker_id: int) -> Address:
        view = self._view
        if view is None or broker_id not in view.brokers:
            view = await self.brokers()
        broker = view.brokers.get(broker_id)
        if broker is None:
            alive = ", ".join(str(each) for each in sorted(view.brokers)) or "nobody"
            raise KafkaError(
                Error.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not there; alive: {alive}"
            )
        return broker.address

    async def offers(self, *, timeout_ms: int | None = None) -> dict[int, dict[int, ApiSpan]]:
        """What each broker says it can do, by broker and API key."""
        view = await self.brokers(timeout_ms=timeout_ms)
        return {
            broker.id: await self.links.offers(broker.address, timeout_ms or self.timeout_ms)
            for broker in view.brokers.values()
        }

    async def _metadata(self, request: MetadataRequest, timeout_ms: int | None) -> ClusterView:
        answer = await self.ask_any(request, MetadataResponse, timeout_ms=timeout_ms)
        if answer.error_code:
            raise KafkaError(answer.error_code)
        return as_view(answer)

    def _learn(self, view: ClusterView) -> None:
        """Brokers are those of the newest answer; topics are added to those known."""
        known = self._view.topics if self._view is not None else {}
        self._view = view._replace(topics={**known, **view.topics})

    def _everybody(self) -> list[Address]:
        known = self._view.brokers.values() if self._view is not None else ()
        return list(dict.fromkeys([*self._bootstrap, *(broker.address for broker in known)]))


def as_view(answer: MetadataResponse) -> ClusterView:
    brokers = {
        each.node_id: BrokerView(each.node_id, each.host, each.port, each.rack)
        for each in answer.brokers
    }
    topics = {each.name: _as_topic(each) for each in answer.topics if each.name is not None}
    return ClusterView(answer.cluster_id, answer.controller_id, brokers, topics)


def _as_topic(topic: MetadataResponseTopic) -> TopicView:
    name = topic.name or ""
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    return TopicView(
        name,
        topic.topic_id,
        topic.is_internal,
        tuple(_as_partition(name, each) for each in partitions),
        topic.error_code,
    )


def _as_partition(topic: str, partition: MetadataResponsePartition) -> PartitionView:
    return PartitionView(
        topic,
        partition.partition_index,
        partition.leader_id if partition.leader_id >= 0 else None,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        partition.error_code,
    )


def reason_of(error: NetworkError, address: Address) -> str:
    text = str(error)
    return text if show(address) in text or repr(address) in text else f"{show(address)}: {text}"
