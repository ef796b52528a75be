"""What a test asks of its cluster, with our own client and over HTTP."""

import http.client
from typing import NamedTuple

from tidelog.client import Client, ClusterUnreachable, Consumer, KafkaError, Read, TopicView
from tidelog.client.client import as_view
from tidelog.client.groups import GroupAdmin, GroupMember
from tidelog.client.links import ADMIN
from tidelog.client.offsets import EARLIEST, LATEST, find_offsets
from tidelog.cluster.node_http import NodeHttp
from tidelog.core.errors import Error
from tidelog.host.tls import TlsError
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.metadata_response import MetadataResponse

ANSWER_WITHIN_SECONDS = 5
READ_WAIT_MS = 100

TopicPartition = tuple[str, int]


class GroupPicture(NamedTuple):
    """A consumer group as it is now."""

    group_id: str
    state: str
    """Kafka's word for it: `Stable`, `Empty`, `PreparingRebalance`, …"""
    members: tuple[GroupMember, ...]
    committed: dict[TopicPartition, int]
    lag: dict[TopicPartition, int]
    """Records after what was committed."""


async def records(
    client: Client, topic: str, partition: int | None, *, committed: bool
) -> list[Read]:
    """Up to where the partitions end when this is asked."""
    found = await client.topic(topic)
    numbers = [each.partition for each in found.partitions]
    if partition is not None and partition not in numbers:
        raise ValueError(f"{topic} has no partition {partition}: it has {len(numbers)}")
    wanted = [(topic, each) for each in numbers if partition in (None, each)]
    starts = await find_offsets(client, dict.fromkeys(wanted, EARLIEST))
    ends = await find_offsets(client, dict.fromkeys(wanted, LATEST), isolation=int(committed))
    consumer = Consumer(
        client, {where: each.offset for where, each in starts.items()}, committed=committed
    )
    reads: list[Read] = []
    while any(consumer.positions[where] < ends[where].offset for where in wanted):
        for where, fetched in (await consumer.read(max_wait_ms=READ_WAIT_MS)).items():
            end = ends[where].offset
            reads += [each for each in fetched.reads if each.record.offset < end]
    return sorted(reads, key=lambda each: (each.partition, each.record.offset))


async def topic_from(client: Client, address: tuple[str, int], name: str) -> TopicView:
    """As this broker knows it, or any other if it does not answer."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )

    async def look() -> TopicView:
        answer = await client.links.ask(
            address,
            request,
            MetadataResponse,
            purpose=ADMIN,
            timeout_ms=ANSWER_WITHIN_SECONDS * 1000,
        )
        found = as_view(answer).topics.get(name)
        if found is None or found.error:
            error = found.error if found else Error.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(error, f"there is no topic {name}")
        return found

    try:
        return await client.retrying(look, timeout_ms=ANSWER_WITHIN_SECONDS * 1000)
    except ClusterUnreachable:
        return await client.topic(name)


async def group(client: Client, group_id: str) -> GroupPicture:
    admin = GroupAdmin(client)
    seen = await admin.describe(group_id)
    committed = {where: each.offset for where, each in (await admin.committed(group_id)).items()}
    ends = await find_offsets(client, dict.fromkeys(committed, LATEST)) if committed else {}
    lag = {where: ends[where].offset - offset for where, offset in committed.items()}
    return GroupPicture(group_id, seen.state, seen.members, committed, lag)


def metrics(node: NodeHttp) -> dict[str, float]:
    """ConnectionError if the node does not answer."""
    try:
        connection = node.connect(ANSWER_WITHIN_SECONDS)
        try:
            connection.request("GET", "/metrics", headers=node.login())
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
    except (OSError, TlsError, http.client.HTTPException) as reason:
        raise ConnectionError(f"port {node.port} does not tell its metrics: {reason}") from None
    return parse_metrics(text)


def parse_metrics(text: str) -> dict[str, float]:
    found = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name and not line.startswith("#"):
            found[name] = float(value)
    return found
