"""One real node among peers without manners: others are served, and its memory stays bounded."""

import contextlib
import random
import resource
import struct
import threading
import time

import confluent_kafka
import pytest

from support.hostile import (
    MEGABYTE,
    attackers,
    batch_of,
    bombs,
    framed,
    produce_of,
    raw_request,
)
from tidelog.bench.load import FAST, LibrdkafkaLoad
from tidelog.core.errors import Error
from tidelog.host.answers import LIMIT_BYTES
from tidelog.host.network import NODE_IN_FLIGHT_BYTES
from tidelog.testing import Cluster
from tidelog.wire.protocol import decode_response
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.records import Record, encode

WITHIN_S = 60
IDLE_CONNECTIONS = 2_000
MEMORY_MARGIN_BYTES = NODE_IN_FLIGHT_BYTES + LIMIT_BYTES
"""What requests in work and answers that nobody takes may keep; nothing else depends on peers."""
PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
STEADY, ORDINARY, COMPACTED, BIG = "steady", "ordinary", "compacted", "big"


class SteadyReader:
    """Reads what the steady writer writes."""

    def __init__(self, cluster):
        self.read = 0
        self._stopping = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "steady",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(STEADY, 0, 0)])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self):
        while not self._stopping.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.read += 1


class Node:
    """The node, its well-behaved client, and what it used when nobody else was there."""

    def __init__(self, cluster, load, reader):
        self.cluster = cluster
        self.load = load
        self.reader = reader
        host, port = cluster.bootstrap_servers.split(":")
        self.address = (host, int(port))
        self.idle_bytes = self.memory_bytes("VmRSS")

    def memory_bytes(self, name):
        with open(f"/proc/{self.cluster.pid(1)}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return int(lines[name].split()[0]) * 1024

    def serves_others(self, more=50):
        """The well-behaved client gets on, in both directions."""
        written, read = len(self.load.acks), self.reader.read
        self.cluster.wait(
            lambda: len(self.load.acks) >= written + more and self.reader.read >= read + more,
            WITHIN_S,
        )

    def assert_sound(self):
        self.serves_others()
        assert not self.load.failures, self.load.failures[:3]
        peak = self.memory_bytes("VmHWM")
        assert peak <= self.idle_bytes + MEMORY_MARGIN_BYTES, (peak, self.idle_bytes)
        assert "Traceback" not in self.cluster.log(1)


@contextlib.contextmanager
def many_files():
    """For this process and the nodes it starts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module")
def running():
    settings = {"max.connections.per.ip": IDLE_CONNECTIONS + 500}
    with many_files(), Cluster(brokers=1, config=settings) as cluster:
        for topic in (STEADY, ORDINARY, BIG):
            cluster.topic(topic)
        cluster.topic(COMPACTED, configs={"cleanup.policy": "compact"})
        load = LibrdkafkaLoad(cluster.bootstrap_servers, STEADY, 200, FAST)
        load.start()
        reader = SteadyReader(cluster)
        try:
            cluster.wait(lambda: reader.read > 20, WITHIN_S)
            yield Node(cluster, load, reader)
        finally:
            load.stop()
            reader.stop()


@pytest.fixture
def node(running):
    yield running
    running.assert_sound()


def test_bytes_that_are_no_request_end_the_connection(node):
    noise = random.Random(4711)
    first = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise.randbytes(200),
        *(struct.pack(">i", 200) + noise.randbytes(200) for _ in range(40)),
        *(raw_request(noise.randrange(90), noise.randrange(20), noise.randbytes(99), flexible=True)
          for _ in range(100)),
    ]  # fmt: skip
    for data in first:
        with attackers(node.address) as (attacker,):
            attacker.send(data)
    node.serves_others()


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 100 * MEGABYTE + 1], ids=str)
def test_a_length_that_cannot_be_is_not_believed(node, length):
    with attackers(node.address) as (attacker,):
        attacker.send(struct.pack(">i", length) + bytes(100))
        assert attacker.is_hung_up_on()


def test_frames_that_are_never_finished_hold_up_nobody(node):
    half = framed(ApiVersionsRequest(), 0)[:9]
    large = struct.pack(">i", 60_000) + bytes(100)
    with attackers(node.address, 200) as many:
        for index, attacker in enumerate(many):
            attacker.send(half if index % 2 else large)
        node.serves_others()


def test_thousands_of_idle_connections_hold_up_nobody(node):
    with attackers(node.address, IDLE_CONNECTIONS) as many:
        node.serves_others()
        assert many[-1].ask(ApiVersionsRequest(), 0) is not None


def fetch_of(topic, max_wait_ms):
    """Of all there is; with a time to wait, only when it is over."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MEGABYTE)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=50 * MEGABYTE if max_wait_ms else 0,
        max_bytes=50 * MEGABYTE,
        topics=[FetchTopic(topic=topic, partitions=[part])],
    )


@pytest.fixture(scope="module")
def big(running):
    """A topic with 14 MB to read."""
    with attackers(running.address) as (writer,):
        payload = encode([Record(0, 0, None, random.Random(1).randbytes(900_000))])
        for _ in range(16):
            answer = writer.ask(produce_of(BIG, payload), 9)
            assert error_of(answer, PRODUCE, 9) == Error.NONE
        running.cluster.wait(
            lambda: len(writer.ask(fetch_of(BIG, 0), 11)) > 16 * len(payload), WITHIN_S
        )
    return BIG


@pytest.mark.parametrize(("count", "max_wait_ms"), [(30, 0), (30, 500), (300, 0)])
def test_who_does_not_read_a_large_answer_holds_up_nobody(node, big, count, max_wait_ms):
    request = framed(fetch_of(big, max_wait_ms), 11)
    with attackers(node.address, count, receive_bytes=4096) as many:
        for attacker in many:
            attacker.send(4 * request)
        node.serves_others(200)


def test_who_asks_and_asks_and_never_reads_is_not_heard_any_more(node):
    question = framed(MetadataRequest(topics=None), 9) * 1_000
    with attackers(node.address, receive_bytes=4096) as (attacker,):
        attacker.socket.setblocking(False)
        sent, quiet_since = 0, time.monotonic()
        while time.monotonic() < quiet_since + 0.5:
            try:
                sent += attacker.socket.send(question)
                quiet_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        assert sent < 64 * MEGABYTE
        node.serves_others()


def test_counts_larger_than_their_frame_are_not_believed(node):
    count = struct.pack(">i", 2**31 - 1)
    for api_key, version, body, flexible in (
        (METADATA, 1, count, False),
        (METADATA, 9, b"\xff\xff\xff\xff\x0f", True),
        (PRODUCE, 7, struct.pack(">hhi", -1, -1, 1000) + count, False),
        (FETCH, 4, struct.pack(">iiiib", -1, 0, 0, 1000, 0) + count, False),
        (METADATA, 1, struct.pack(">ih", 1, 32_767) + b"short", False),
    ):
        with attackers(node.address) as (attacker,):
            attacker.send(raw_request(api_key, version, body, flexible=flexible))
            assert attacker.is_hung_up_on(), (api_key, version)


def test_ten_thousand_tagged_fields_are_skipped_or_refused(node):
    tags = b"".join(varint(tag) + b"\x01x" for tag in range(10_000))
    body = b"\x02a\x02b" + varint(10_000) + tags
    with attackers(node.address) as (attacker,):
        attacker.send(raw_request(API_VERSIONS, 3, body, flexible=True))
        assert attacker.socket.recv(1) in (b"", b"\0")


@pytest.mark.parametrize("topic", [ORDINARY, COMPACTED])
def test_a_batch_that_unpacks_to_gigabytes_is_not_unpacked(node, topic):
    with attackers(node.address) as (attacker,):
        for codec, payload in bombs().items():
            assert len(payload) < MEGABYTE
            batch = batch_of(payload, codec=codec)
            for _ in range(3):
                answer = attacker.ask(produce_of(topic, batch), 9)
                error = error_of(answer, PRODUCE, 9)
                assert topic == ORDINARY or error != Error.NONE, (codec, error)
        node.serves_others()


@pytest.mark.parametrize("topic", [ORDINARY, COMPACTED])
@pytest.mark.parametrize("codec", [0, 4])
def test_a_batch_that_claims_a_billion_records_is_refused(node, topic, codec):
    batch = batch_of(b"\x10" + bytes(60), codec=codec, records=1_000_000_000)
    with attackers(node.address) as (attacker,):
        answer = attacker.ask(produce_of(topic, batch), 9)
        assert error_of(answer, PRODUCE, 9) == Error.MESSAGE_TOO_LARGE


def test_ten_thousand_topics_in_one_question_hold_up_nobody(node):
    names = [MetadataRequestTopic(name=f"nobody-has-{index}") for index in range(10_000)]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    with attackers(node.address) as (attacker,):
        for _ in range(5):
            assert attacker.ask(request, 9) is not None
        node.serves_others()


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def error_of(answer, api_key, version):
    assert answer is not None, "hung up"
    _, response = decode_response(memoryview(answer), api_key, version)
    return response.responses[0].partition_responses[0].error_code
