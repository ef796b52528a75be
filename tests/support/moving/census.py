"""Everything that clients can see of a cluster, asked over the wire: the same before and after."""

import asyncio
import time
from typing import Any, NamedTuple

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from tidelog.client import Client
from tidelog.client.transactions import TransactionAdmin

WITHIN_S = 60


class Census(NamedTuple):
    topic_ids: dict[str, str]
    configs: dict[str, dict[str, str]]
    """What somebody set, per topic."""
    records: dict[tuple[str, int], list[tuple[Any, ...]]]
    """Of a compacted topic the newest of each key: what else is there changes by itself."""
    committed: dict[tuple[str, int], list[int]]
    """The offsets that a reader of committed records sees."""
    group_offsets: dict[str, dict[tuple[str, int], tuple[int, str]]]
    transactions: dict[str, tuple[Any, ...]]


def take(servers: str) -> Census:
    admin = AdminClient({"bootstrap.servers": servers})
    names = sorted(each for each in admin.list_topics(timeout=WITHIN_S).topics)
    described = admin.describe_topics(TopicCollection(names))
    topics = {name: future.result(WITHIN_S) for name, future in described.items()}
    mine = {name: topic for name, topic in topics.items() if not name.startswith("__")}
    partitions = [
        TopicPartition(name, each.id) for name, topic in mine.items() for each in topic.partitions
    ]
    configs = _configs(admin, names)
    everything, committed = (
        {
            place: _newest(messages) if "cleanup.policy" in configs[place[0]] else messages
            for place, messages in _read(servers, partitions, isolation).items()
        }
        for isolation in ("read_uncommitted", "read_committed")
    )
    return Census(
        {name: str(topic.topic_id) for name, topic in topics.items()},
        configs,
        {
            place: [
                (each.offset(), each.timestamp(), each.key(), each.value(), each.headers())
                for each in messages
            ]
            for place, messages in everything.items()
        },
        {place: [each.offset() for each in messages] for place, messages in committed.items()},
        _group_offsets(admin),
        asyncio.run(_transactions(servers)),
    )


def _newest(messages: list[Any]) -> list[Any]:
    newest = {each.key(): each for each in messages}
    return sorted(newest.values(), key=lambda each: each.offset())


def _configs(admin: AdminClient, topics: list[str]) -> dict[str, dict[str, str]]:
    wanted = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    answers = {
        resource.name: future.result(WITHIN_S)
        for resource, future in admin.describe_configs(wanted).items()
    }
    return {
        name: {
            entry.name: entry.value
            for entry in answer.values()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        for name, answer in answers.items()
    }


def _read(
    servers: str, partitions: list[TopicPartition], isolation: str
) -> dict[tuple[str, int], list[Any]]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "census",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    found: dict[tuple[str, int], list[Any]] = {
        (each.topic, each.partition): [] for each in partitions
    }
    consumer.assign([TopicPartition(each.topic, each.partition, 0) for each in partitions])
    ended: set[tuple[str, int]] = set()
    deadline = time.monotonic() + WITHIN_S
    while ended < found.keys():
        assert time.monotonic() < deadline, f"{sorted(found.keys() - ended)} were not read"
        for message in consumer.consume(5_000, 0.5):
            place = message.topic(), message.partition()
            if message.error() is None:
                found[place].append(message)
            else:
                ended.add(place)
    consumer.close()
    return found


def _group_offsets(admin: AdminClient) -> dict[str, dict[tuple[str, int], tuple[int, str]]]:
    groups = [each.group_id for each in admin.list_consumer_groups().result(WITHIN_S).valid]
    offsets = {}
    for group in sorted(groups):
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        answer = asked[group].result(WITHIN_S)
        offsets[group] = {
            (each.topic, each.partition): (each.offset, each.metadata or "")
            for each in answer.topic_partitions
        }
    return offsets


async def _transactions(servers: str) -> dict[str, tuple[Any, ...]]:
    async with Client(servers) as client:
        admin = TransactionAdmin(client)
        listed = [each.transactional_id for each in await admin.list_transactions()]
        views = [await admin.describe(each) for each in listed]
    return {
        each.transactional_id: (
            each.state,
            each.producer_id,
            each.producer_epoch,
            each.timeout_ms,
            each.partitions,
        )
        for each in views
    }
