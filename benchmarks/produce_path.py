"""What a produce request costs a broker, in microseconds of CPU time; best of several rounds.

    python benchmarks/produce_path.py [--profile]

From the frame of the request to the parts of its answer: decoding, the checks of the batch, the
append to a log on disk (page cache), the leader's rules, encoding. Sockets are left out. Small
batches of one turn of the event loop are appended together, so requests come in turns.
"""

import argparse
import asyncio
import cProfile
import pstats
import struct
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

from tidelog.broker.broker import Broker, BrokerPlace
from tidelog.broker.handlers import produce
from tidelog.broker.logs.directories import Directories
from tidelog.config.layers import Inputs
from tidelog.config.node_config import load_node_config
from tidelog.config.properties import parse_properties
from tidelog.core.metadata import records as r
from tidelog.core.types import LogEntry
from tidelog.host.clock import SystemClock
from tidelog.host.disk import FileDisk
from tidelog.host.entropy import SystemEntropy
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.workers import ThreadWorkers
from tidelog.rpc import ApiTable, serve
from tidelog.storage import LogConfig, LogDirectory
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.wire.protocol import Listener, RequestHeader, encode_request
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.records import Record, encode

ROUNDS = 7
REQUESTS_PER_ROUND = 3_000
REQUESTS_PER_TURN = 5
"""About as many as a turn brings for a partition with 32 connections on six of them."""
VERSION = 11
TOPIC_ID = b"benchmark-topic."
CONFIG = """\
process.roles=broker
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092
controller.listener.names=CONTROLLER
controller.quorum.voters=9@127.0.0.1:9093
ack.durability=page-cache
log.dirs={data}
"""


class NullConnection:
    """Stands for a connection whose answers are taken as fast as they come."""

    trusted = True
    peer = "nobody"
    congested = False

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None:
        raise AssertionError("the broker closed the connection")

    def fail(self, error: Exception) -> None:
        raise error


class NullSlot:
    def __init__(self) -> None:
        self.answers = 0
        self.last: Sequence[Any] = ()

    def answer(self, buffers: Sequence[Any]) -> None:
        self.answers += 1
        self.last = buffers

    def answer_nothing(self) -> None:
        self.answers += 1


def make_broker(data: Path, network: TcpNetwork) -> Broker:
    loaded = load_node_config(Inputs(parse_properties(CONFIG.format(data=data), "benchmark")))
    assert loaded.config is not None, loaded.problems
    host = NodeHost(SystemClock(), network.wheel, network, SystemEntropy(), lambda event: None)
    disk = FileDisk(data)
    format_directory(disk, MetaProperties("benchmark", 1, b"d" * 16))
    brokers: list[Broker] = []

    def log_config(topic: str) -> LogConfig:
        return brokers[0].replicas.log_config(topic)

    directory = LogDirectory.open(
        disk,
        log_config,
        cluster_id="benchmark",
        node_id=1,
    )
    place = BrokerPlace(loaded.config, "benchmark", lambda: None, -1)
    broker = Broker(place, Directories([directory], ThreadWorkers), host)
    brokers.append(broker)
    records: tuple[r.MetadataRecord, ...] = (
        r.RegisterBroker(1, b"i" * 16, 1, fenced=False),
        r.Topic("benchmark", TOPIC_ID),
        r.Partition(0, TOPIC_ID, (1,), (1,), leader=1),
    )
    broker.on_committed(LogEntry(0, 1, records))
    broker.begin_serving()
    return broker


def produce_frame(batch_bytes: int, acks: int) -> bytes:
    now_ms = SystemClock().wall_ms()
    value = bytes(batch_bytes // 8)
    batch = encode([Record(n, now_ms, b"key", value) for n in range(8)])
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="benchmark",
                partition_data=[PartitionProduceData(index=0, records=batch)],
            )
        ],
    )
    header = RequestHeader(0, VERSION, 7, "benchmark")
    return b"".join(bytes(part) for part in encode_request(header, request))


async def round_us(handler: Any, frame: bytes) -> float:
    """The frame is written anew each time: the log stamps it where it lies."""
    buffer = memoryview(bytearray(frame))
    slot = NullSlot()
    began = process_time()
    for number in range(REQUESTS_PER_ROUND):
        buffer[:] = frame
        handler.on_request(buffer, slot)
        if number % REQUESTS_PER_TURN == REQUESTS_PER_TURN - 1:
            await asyncio.sleep(0)
    spent = process_time() - began
    assert slot.answers == REQUESTS_PER_ROUND, slot.answers
    check_answer(slot.last)
    return spent / REQUESTS_PER_ROUND * 1e6


def check_answer(parts: Sequence[Any]) -> None:
    """The error code follows header, tags, counts, the topic's name and the index."""
    answer = b"".join(bytes(part) for part in parts)
    position = answer.index(b"benchmark") + len(b"benchmark") + 1
    _, error_code = struct.unpack_from(">ih", answer, position)
    assert error_code == 0, answer


async def main(profile: bool) -> None:
    network = TcpNetwork(SystemClock())
    with tempfile.TemporaryDirectory() as data:
        broker = make_broker(Path(data), network)
        table = ApiTable(Listener.CLIENT, {0: partial(produce.handle, broker)})
        handler = serve(table, "PLAINTEXT")(NullConnection())
        for batch_bytes in (1024, 16 * 1024):
            for acks in (1, -1):
                frame = produce_frame(batch_bytes, acks)
                best = min([await round_us(handler, frame) for _ in range(ROUNDS)])
                print(f"{batch_bytes:6} byte batch, acks={acks:2}: {best:6.1f} µs")
        if profile:
            frame = produce_frame(1024, 1)
            profiler = cProfile.Profile()
            with profiler:
                await round_us(handler, frame)
            pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
        broker.link.close()
    network.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", action="store_true", help="also say where the time goes")
    asyncio.run(main(parser.parse_args().profile))
