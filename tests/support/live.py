"""Real clients of a real cluster: librdkafka for what anybody sees, raw questions for the rest."""

import http.client
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from prometheus_client.parser import text_string_to_metric_families

from tidelog.testing import Cluster
from tidelog.wire.protocol import RequestHeader, decode_response, encode_request
from tidelog.wire.protocol.schemas import fetch_request, list_offsets_request
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse, PartitionData
from tidelog.wire.protocol.schemas.list_offsets_response import ListOffsetsResponse

GUARD_S = 30
"""No story may hang for ever. Nothing is measured against it."""

LATEST = -1
FETCH_VERSION = 13
FETCH_VERSION_BEFORE = 12
"""The last whose senders do not all understand OFFSET_NOT_AVAILABLE."""
POLL_S = 0.1
FETCH_MAX_BYTES = 1024 * 1024


def mend(cluster: Cluster) -> None:
    """After a story: whatever it broke works again. What the nodes said is for a failed story."""
    print(cluster.report())
    for node_id in (*cluster.brokers, *cluster.controllers):
        cluster.resume(node_id)
    cluster.heal()
    for node_id in (*cluster.controllers, *cluster.brokers):
        if cluster.pid(node_id) is None:
            cluster.restart(node_id)
    cluster.wait_ready()


# ---- what anybody sees ----


class Writer:
    """A producer of librdkafka that remembers what it was told, in order."""

    def __init__(self, cluster: Cluster, topic: str, **settings: object) -> None:
        base = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1}
        self.topic = topic
        self.acknowledged: list[str] = []
        self.errors: list[str] = []
        self._producer = Producer({**base, **_dotted(settings)})

    def write(self, *values: str) -> None:
        for value in values:
            self._producer.produce(self.topic, value, partition=0, on_delivery=self._delivered)
            self._producer.poll(0)

    def await_acknowledged(self, count: int) -> None:
        until(lambda: self._producer.poll(0.01) >= 0 and len(self.acknowledged) >= count)

    def flush(self) -> None:
        assert self._producer.flush(GUARD_S) == 0, "records without an answer"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error.name())
        else:
            self.acknowledged.append((message.value() or b"").decode())


def write(cluster: Cluster, topic: str, values: Iterable[str], **settings: object) -> None:
    """All of them, acknowledged."""
    writer = Writer(cluster, topic, **settings)
    writer.write(*values)
    writer.flush()
    assert not writer.errors, writer.errors


def refusal(cluster: Cluster, topic: str, **settings: object) -> str:
    """The name of the error that one record is refused with, without another try."""
    writer = Writer(cluster, topic, retries=0, **settings)
    writer.write("refused")
    writer.flush()
    assert len(writer.errors) == 1, f"acknowledged: {writer.acknowledged}"
    return writer.errors[0]


@contextmanager
def reading(
    cluster: Cluster, topic: str, offset: int = 0, **settings: object
) -> Iterator[Consumer]:
    """A consumer of librdkafka that would fail rather than jump to another offset."""
    base = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "nobody",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 20,
        "topic.metadata.refresh.interval.ms": 1000,
    }
    consumer = Consumer({**base, **_dotted(settings)})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        yield consumer
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[str]:
    """The next records. An error is an error: nothing here is allowed to be out of range."""
    values: list[str] = []
    deadline = time.monotonic() + GUARD_S
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} of {count} records"
        message = consumer.poll(POLL_S)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.retriable() or error.code() in PASSING, error
            continue
        values.append((message.value() or b"").decode())
    return values


PASSING = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)


def read(cluster: Cluster, topic: str, **settings: object) -> list[str]:
    """Everything that is committed, from the beginning."""
    with reading(cluster, topic, **settings) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=GUARD_S)
        return take(consumer, end)


def configure(
    cluster: Cluster, kind: ResourceType, name: str, changes: Mapping[str, str | None]
) -> None:
    """Set what has a value, take back what has None."""
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        for key, value in changes.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(GUARD_S)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + GUARD_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


# ---- what clients hide ----


class Question:
    """A request in one version that lies in the socket of a broker, whether or not it looks."""

    def __init__(self, cluster: Cluster, broker: int, request: Any, version: int) -> None:
        header = RequestHeader(request.__api_key__, version, 1, "live")
        frame = b"".join(encode_request(header, request))
        self._asked = request.__api_key__, version
        self._socket = socket.create_connection(cluster.address(broker), timeout=GUARD_S)
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def answer(self) -> Any:
        with self._socket, self._socket.makefile("rb") as stream:
            frame = stream.read(int.from_bytes(stream.read(4), "big"))
        return decode_response(frame, *self._asked)[1]


def ask(cluster: Cluster, broker: int, request: Any, version: int) -> Any:
    """One question in one version to one broker, and no second try."""
    return Question(cluster, broker, request, version).answer()


def fetch(
    cluster: Cluster,
    broker: int,
    topic: str,
    offset: int,
    *,
    version: int = FETCH_VERSION,
    rack: str = "",
) -> PartitionData:
    """What a consumer would be answered at once."""
    topic_id = cluster.ask(lambda client: client.topic(topic)).topic_id
    part = fetch_request.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=FETCH_MAX_BYTES
    )
    request = fetch_request.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=FETCH_MAX_BYTES,
        topics=[fetch_request.FetchTopic(topic=topic, topic_id=topic_id, partitions=[part])],
        rack_id=rack,
    )
    answer = ask(cluster, broker, request, version)
    assert isinstance(answer, FetchResponse), answer
    return answer.responses[0].partitions[0]


def latest(cluster: Cluster, broker: int, topic: str, *, version: int = 7) -> tuple[int, int]:
    """(error, offset) of ListOffsets."""
    part = list_offsets_request.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = list_offsets_request.ListOffsetsRequest(
        replica_id=-1,
        topics=[list_offsets_request.ListOffsetsTopic(name=topic, partitions=[part])],
    )
    answer = ask(cluster, broker, request, version)
    assert isinstance(answer, ListOffsetsResponse), answer
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset


def log_bytes(cluster: Cluster, broker: int, topic: str) -> bytes:
    """The records of partition 0 as they lie on the broker's disk."""
    directory = cluster.data_dir(broker) / f"{topic}-0"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def numbered(word: str, count: int, start: int = 0) -> list[str]:
    return [f"{word} {number}" for number in range(start, start + count)]


def in_sync(cluster: Cluster, topic: str, brokers: Sequence[int]) -> bool:
    """Whether exactly these are, whatever the order."""
    return sorted(cluster.partition(topic, 0).isr) == sorted(brokers)


def _dotted(settings: Mapping[str, object]) -> dict[str, object]:
    return {key.replace("_", "."): value for key, value in settings.items()}


def http_get(cluster: Cluster, node_id: int, path: str) -> str:
    """What a node says over HTTP."""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.http_port(node_id), timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def metric(cluster: Cluster, broker: int, name: str) -> float:
    """The sum of all samples of one metric."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(http_get(cluster, broker, "/metrics"))
        for sample in family.samples
        if sample.name == name
    )
