"""What clients do with a cluster before it moves, and how they go on where they were."""

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

WITHIN_S = 60
ORDERS, CHANGES, IDLE = "orders", "changes", "idle"
GROUPS = {"billing": {}, "audit": {"group.protocol": "consumer"}}
OPEN = "import-open"
"""The transactional id of a producer that dies in the middle of a transaction."""
RECORDS = 12_000
CHANGE_RECORDS = 4_000


def live(servers: str) -> None:
    """Topics with settings, records of every kind, groups of both protocols, transactions that
    were committed, aborted and left open."""
    _make_topics(servers)
    _write_plain(servers)
    _write_changes(servers)
    for number in range(4):
        _write_in_transactions(servers, f"import-{number}", abort_first=number % 2 == 0)
    leave_transaction_open(servers)
    for group, settings in GROUPS.items():
        read_as_member(servers, group, settings, records=1_500)


def go_on(servers: str) -> None:
    """The same producers and groups, on the other side: the open transaction is aborted by its own
    producer, which then writes; groups continue behind what they had committed."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": OPEN})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    for number in range(50):
        producer.produce(ORDERS, key=f"again-{number}", value=b"after the move")
    producer.commit_transaction(WITHIN_S)
    for number in range(4):
        _write_in_transactions(servers, f"import-{number}", abort_first=number % 2 == 1)
    leave_transaction_open(servers)
    for group, settings in GROUPS.items():
        read_as_member(servers, group, settings, records=500)


def _make_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [
        NewTopic(ORDERS, 4, 3, config={"retention.ms": "987654321", "segment.bytes": "1048576"}),
        NewTopic(
            CHANGES,
            2,
            3,
            config={
                "cleanup.policy": "compact",
                "segment.bytes": "1048576",
                "min.cleanable.dirty.ratio": "0.01",
            },
        ),
        NewTopic(IDLE, 1, 2),
    ]
    for future in admin.create_topics(topics).values():
        future.result(WITHIN_S)
    altered = ConfigResource(
        ResourceType.TOPIC,
        IDLE,
        incremental_configs=[
            ConfigEntry("max.message.bytes", "200000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    for future in admin.incremental_alter_configs([altered]).values():
        future.result(WITHIN_S)


def _write_plain(servers: str) -> None:
    now_ms = int(time.time() * 1_000)
    for codec, numbers in (("none", range(RECORDS)), ("lz4", range(RECORDS, RECORDS + 2_000))):
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": codec == "none",
                "compression.type": codec,
                "batch.size": 4_000,
                "linger.ms": 2,
            }
        )
        for number in numbers:
            producer.produce(
                ORDERS,
                key=f"customer-{number % 200}",
                value=b"." * 100 + str(number).encode(),
                headers=[("number", str(number).encode()), ("none", None)],
                timestamp=now_ms + number,
            )
            producer.poll(0)
        assert producer.flush(WITHIN_S) == 0


def _write_changes(servers: str) -> None:
    """Several segments of the same few keys. No ids: the last batch of a producer that has one
    would stay, whatever supersedes its records."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 2, "batch.size": 20_000})
    for number in range(CHANGE_RECORDS):
        producer.produce(
            CHANGES, key=f"k{number % 40}", value=b"%06d" % number + b"." * 1_000, partition=0
        )
        producer.poll(0)
    for number in range(500):
        producer.produce(
            CHANGES, key=f"k{number % 40}", value=None if number % 7 == 0 else b"v", partition=1
        )
    assert producer.flush(WITHIN_S) == 0


def until_compacted(servers: str) -> None:
    """The first segments of the first partition of changes are nearly empty."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "looking"})
        consumer.assign([TopicPartition(CHANGES, 0, 0)])
        first = consumer.consume(1, WITHIN_S)
        consumer.close()
        if first and first[0].offset() > CHANGE_RECORDS // 10:
            return
        assert time.monotonic() < deadline, f"{CHANGES} is not compacted"
        time.sleep(0.5)


def _write_in_transactions(servers: str, name: str, *, abort_first: bool) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(WITHIN_S)
    for abort in (abort_first, not abort_first):
        producer.begin_transaction()
        for number in range(30):
            producer.produce(
                ORDERS, key=name, value=f"{'no' if abort else 'yes'} {number}".encode()
            )
        assert producer.flush(WITHIN_S) == 0
        if abort:
            producer.abort_transaction(WITHIN_S)
        else:
            producer.commit_transaction(WITHIN_S)


def leave_transaction_open(servers: str) -> None:
    """Its producer says nothing any more; the coordinator waits for ten minutes."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": OPEN,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(ORDERS, partition=number % 4, value=b"never committed")
    assert producer.flush(WITHIN_S) == 0


def read_as_member(
    servers: str, group: str, settings: dict[str, str], *, records: int
) -> dict[int, int]:
    """Reads so many, from where its group stands, and commits; the first offsets it read."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([ORDERS])
    first: dict[int, int] = {}
    read, deadline = 0, time.monotonic() + WITHIN_S
    while read < records:
        assert time.monotonic() < deadline, f"{group} read {read} of {records} records"
        for message in consumer.consume(records - read, 1.0):
            assert message.error() is None, message.error()
            first.setdefault(message.partition(), message.offset())
            read += 1
    consumer.commit(asynchronous=False)
    before = {
        each.partition: each.offset
        for each in consumer.committed([TopicPartition(ORDERS, each) for each in first], WITHIN_S)
    }
    assert all(before[partition] > offset for partition, offset in first.items())
    consumer.close()
    return first
