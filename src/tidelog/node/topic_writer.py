"""Writes what a node has to tell through its own front door, like any other client."""

from collections.abc import Callable, Sequence

from tidelog.client.admin import Admin, NewTopic
from tidelog.client.client import Client, LentNetwork, World
from tidelog.client.errors import KafkaError
from tidelog.client.producer import ALL, NewRecord, Producer
from tidelog.config.node_config import NodeConfig
from tidelog.core.errors import Error
from tidelog.host.node_host import NodeHost
from tidelog.observe.audit_topic import AUDIT_TOPIC
from tidelog.observe.event_topic import EVENTS_TOPIC, EventRecord

TIMEOUT_MS = 2_000
ACKS_LEADER = 1
DAY_MS = 24 * 3_600_000
AUDIT_KEPT_MS = 30 * DAY_MS


class TopicWriter:
    """The `Produce` of an `EventTopic` or an `AuditTopic`. Creates its topic when it is needed."""

    __slots__ = ("_client", "_new_topic", "_producer", "_topic_is_there")

    def __init__(
        self,
        config: NodeConfig,
        host: NodeHost,
        what: str,
        new_topic: Callable[[], NewTopic],
        *,
        acks: int,
    ) -> None:
        name = config.inter_broker_listener
        listener = next(each for each in config.broker_endpoints if each.name == name)
        self._client = Client(
            f"{listener.host}:{listener.port}",
            client_id=f"node-{config.node_id}-{what}",
            timeout_ms=TIMEOUT_MS,
            world=World(host.clock, LentNetwork(host.to_brokers)),
        )
        self._new_topic = new_topic
        self._producer = Producer(self._client, acks=acks)
        self._topic_is_there = False

    async def produce(self, topic: str, records: Sequence[EventRecord]) -> None:
        if not self._topic_is_there:
            await self._make_topic()
        new = [NewRecord(each.value, each.key, (), each.timestamp_ms) for each in records]
        try:
            await self._producer.write(topic, new)
        except KafkaError as error:
            if error.error == Error.UNKNOWN_TOPIC_OR_PARTITION:
                self._topic_is_there = False  # somebody has deleted it
            raise

    async def close(self) -> None:
        await self._client.close()

    async def _make_topic(self) -> None:
        try:
            await Admin(self._client).create_topic(self._new_topic())
        except KafkaError as error:
            if error.error != Error.TOPIC_ALREADY_EXISTS:
                raise
        self._topic_is_there = True


def event_writer(config: NodeConfig, host: NodeHost) -> TopicWriter:
    """A copy of what the node keeps anyway: nobody waits for its replicas."""
    configs = {"retention.ms": str(DAY_MS), "min.insync.replicas": "1"}
    new = NewTopic(EVENTS_TOPIC, 1, configs=configs)
    return TopicWriter(config, host, "events", lambda: new, acks=ACKS_LEADER)


def audit_writer(config: NodeConfig, host: NodeHost, brokers: Callable[[], int]) -> TopicWriter:
    """Replicated like the offsets of groups; one broker less than all is enough to write."""

    def new_topic() -> NewTopic:
        wanted = config.coordinating.offsets_topic.replication_factor
        replicas = min(wanted, max(1, brokers()))
        configs = {
            "retention.ms": str(AUDIT_KEPT_MS),
            "min.insync.replicas": str(max(1, replicas - 1)),
        }
        return NewTopic(AUDIT_TOPIC, 1, replicas, configs)

    return TopicWriter(config, host, "audit", new_topic, acks=ALL)
