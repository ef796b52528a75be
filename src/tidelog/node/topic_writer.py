"""Writes a node's own records through the listener of brokers, like any other client."""

from collections.abc import Callable, Sequence
from functools import partial

from tidelog.client.admin import Admin, NewTopic
from tidelog.client.client import Client, LentNetwork, World
from tidelog.client.errors import KafkaError
from tidelog.client.producer import ALL, NewRecord, Producer
from tidelog.config.node_config import NodeConfig
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.host.node_host import NodeHost
from tidelog.observe.audit_topic import AUDIT_TOPIC
from tidelog.observe.event_topic import EVENTS_TOPIC, EventRecord

TIMEOUT_MS = 2_000
ACKS_LEADER = 1
DAY_MS = 24 * 3_600_000
AUDIT_KEPT_MS = 30 * DAY_MS


class TopicWriter:
    """The `Produce` of an `EventTopic` or an `AuditTopic`. Creates its topic when it is needed."""

    __slots__ = (
        "_acks",
        "_bootstrap",
        "_client",
        "_make_client",
        "_new_topic",
        "_producer",
        "_topic_is_there",
    )

    def __init__(
        self,
        config: NodeConfig,
        host: NodeHost,
        what: str,
        new_topic: Callable[[], NewTopic],
        bootstrap: Callable[[], str],
        *,
        acks: int,
    ) -> None:
        self._make_client = partial(
            Client,
            client_id=f"node-{config.node_id}-{what}",
            timeout_ms=TIMEOUT_MS,
            world=World(host.clock, LentNetwork(host.to_brokers)),
        )
        self._bootstrap = bootstrap
        self._client: Client | None = None
        self._producer: Producer | None = None
        self._new_topic = new_topic
        self._acks = acks
        self._topic_is_there = False

    async def produce(self, topic: str, records: Sequence[EventRecord]) -> None:
        if self._client is None or self._producer is None:
            self._client = self._make_client(self._bootstrap())
            self._producer = Producer(self._client, acks=self._acks)
        if not self._topic_is_there:
            await self._make_topic(self._client)
        new = [NewRecord(each.value, each.key, (), each.timestamp_ms) for each in records]
        try:
            await self._producer.write(topic, new)
        except KafkaError as error:
            if error.error == Error.UNKNOWN_TOPIC_OR_PARTITION:
                self._topic_is_there = False  # somebody has deleted it
            raise

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _make_topic(self, client: Client) -> None:
        try:
            await Admin(client).create_topic(self._new_topic())
        except KafkaError as error:
            if error.error != Error.TOPIC_ALREADY_EXISTS:
                raise
        self._topic_is_there = True


def own_address(config: NodeConfig) -> str:
    """Of a broker, for other nodes."""
    name = config.inter_broker_listener
    listener = next(each for each in config.broker_endpoints if each.name == name)
    return f"{listener.host}:{listener.port}"


def brokers_of(config: NodeConfig, image: MetadataImage | None) -> str:
    """Where a controller that is no broker finds them. ValueError if it knows of none."""
    brokers = () if image is None else image.brokers.values()
    known = [
        f"{endpoint.host}:{endpoint.port}"
        for broker in brokers
        if not broker.fenced
        for endpoint in broker.endpoints
        if endpoint.name == config.inter_broker_listener
    ]
    if not known:
        raise ValueError(f"no broker is up with a listener {config.inter_broker_listener}")
    return ",".join(known)


def event_writer(config: NodeConfig, host: NodeHost) -> TopicWriter:
    """A copy of what the node keeps anyway: nobody waits for its replicas."""
    configs = {"retention.ms": str(DAY_MS), "min.insync.replicas": "1"}
    new = NewTopic(EVENTS_TOPIC, 1, configs=configs)
    own = partial(own_address, config)
    return TopicWriter(config, host, "events", lambda: new, own, acks=ACKS_LEADER)


def audit_writer(
    config: NodeConfig, host: NodeHost, image: Callable[[], MetadataImage | None]
) -> TopicWriter:
    """Replicated like the offsets of groups; one broker less than all is enough to write."""

    def new_topic() -> NewTopic:
        wanted = config.coordinating.offsets_topic.replication_factor
        known = image()
        replicas = min(wanted, max(1, 0 if known is None else len(known.brokers)))
        configs = {
            "retention.ms": str(AUDIT_KEPT_MS),
            "min.insync.replicas": str(max(1, replicas - 1)),
        }
        return NewTopic(AUDIT_TOPIC, 1, replicas, configs)

    def bootstrap() -> str:
        return own_address(config) if config.is_broker else brokers_of(config, image())

    return TopicWriter(config, host, "audit", new_topic, bootstrap, acks=ALL)
