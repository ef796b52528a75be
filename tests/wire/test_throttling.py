"""Quotas on real sockets: who has to wait, and that others do not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.batches import batch
from support.controller_node import controller_node
from support.lone_broker import LoneBroker, lone_broker
from support.loopback import run
from tidelog.core.errors import Error
from tidelog.core.metadata.records import ClientQuota
from tidelog.core.security.quotas import Quotas, Windows
from tidelog.core.types import LogEntry
from tidelog.node.throttling import Throttling
from tidelog.rpc import ApiTable, Call, Peer, serve
from tidelog.wire.protocol import Listener
from tidelog.wire.protocol.schemas.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse
from tidelog.wire.protocol.schemas.list_offsets_request import ListOffsetsRequest
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse

ANONYMOUS = (("user", "ANONYMOUS"),)
WAIT_MS = 60_000


class Metered:
    """A broker whose table is metered, as a node does it."""

    def __init__(self) -> None:
        self.throttling: Any = None
        self.request_takes = 0.0
        self._now = 0.0

    def _seconds(self) -> float:
        """Asked before and after every request."""
        self._now += self.request_takes
        return self._now

    def wrap(self, broker, handlers):
        keys = (0, 1, 2, 19, 20, 37)
        table = ApiTable(Listener.CLIENT, {key: handlers[key] for key in keys})
        self.throttling = Throttling(Quotas(), broker.host, self._seconds)
        self.throttling.meter_clients(table)
        self.throttling.traffic = broker.traffic

        def serve_as_it_is_now(call: Call) -> None:
            table.handlers[call.header.api_key](call)

        return dict.fromkeys(keys, serve_as_it_is_now)

    def set(self, key: str, value: float | None, entity=ANONYMOUS) -> None:
        self.throttling.on_committed(LogEntry(0, 1, (ClientQuota(entity, key, value),)))


def tell(tmp_path: Path, story) -> None:
    async def told() -> None:
        metered = Metered()
        async with lone_broker(tmp_path, (0, 1, 2), wrap=metered.wrap) as s:
            s.create_topic("t")
            await story(s, metered)

    run(told)


async def produced(s: LoneBroker, size: int, version: int = 9, peer: Peer | None = None) -> int:
    records = PartitionProduceData(index=0, records=batch(b"x" * size))
    topic = TopicProduceData(name="t", partition_data=[records])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    answer = await (peer or s.client).ask(request, version, timeout_ms=WAIT_MS)
    assert isinstance(answer, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == Error.NONE
    return answer.throttle_time_ms


async def is_muted(s: LoneBroker) -> bool:
    """A small question on the same connection is not answered until time passes."""
    asked = asyncio.ensure_future(s.client.ask(ListOffsetsRequest(), 5, timeout_ms=10 * WAIT_MS))
    for _ in range(20):
        await asyncio.sleep(0.001)
    muted = not asked.done()
    await s.until(asked.done, step_ms=500)
    return muted


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_producer_over_its_quota_is_told_and_not_read_for_so_long(tmp_path: Path, version):
    async def story(s: LoneBroker, metered: Metered) -> None:
        assert await produced(s, 50_000, version) == 0
        metered.set("producer_byte_rate", 1_000.0)
        throttle_ms = await produced(s, 30_000, version)
        assert 20_000 <= throttle_ms < 21_000
        assert await is_muted(s)
        assert s.broker.traffic.throttled_produces == 1
        assert s.broker.traffic.throttled_ms == throttle_ms
        metered.set("producer_byte_rate", None)
        assert await produced(s, 50_000, version) == 0
        assert not await is_muted(s)

    tell(tmp_path, story)


def test_the_quota_of_one_client_is_not_that_of_another(tmp_path: Path) -> None:
    async def story(s: LoneBroker, metered: Metered) -> None:
        metered.set("producer_byte_rate", 1_000.0, (("client-id", "other"),))
        other = Peer(s.broker.host.network, ("127.0.0.1", s.port), "other")
        assert await produced(s, 50_000) == 0
        assert await produced(s, 50_000, peer=other) > 0
        other.close()

    tell(tmp_path, story)


def test_a_consumer_over_its_quota_waits_for_more(tmp_path: Path) -> None:
    async def story(s: LoneBroker, metered: Metered) -> None:
        await produced(s, 40_000)
        wanted = FetchTopic(topic="t", partitions=[FetchPartition(partition_max_bytes=1 << 20)])
        request = FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=[wanted])
        metered.set("consumer_byte_rate", 2_000.0)
        answer = await s.ask(request, 11)
        assert isinstance(answer, FetchResponse)
        assert len(answer.responses[0].partitions[0].records or b"") > 40_000
        assert 10_000 <= answer.throttle_time_ms < 11_000
        assert await is_muted(s)

    tell(tmp_path, story)


def topics(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    wanted = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names
    ]
    return CreateTopicsRequest(topics=wanted)


@pytest.mark.parametrize("version", [5, 7])
def test_topics_beyond_the_quota_of_mutations_are_refused(version: int) -> None:
    """Clients that know the error are refused; others only hear how long to wait."""

    async def story() -> None:
        async with controller_node() as node:
            await node.start_brokers(1)
            table = ApiTable(Listener.CLUSTER, node.controller.handlers)
            throttling = Throttling(Quotas(Windows(2, 1_000)), node.controller.host)
            throttling.meter_mutations(table, lambda: node.image)
            quota = ClientQuota(ANONYMOUS, "controller_mutation_rate", 1.0)
            throttling.on_committed(LogEntry(0, 1, (quota,)))
            node.port = (await node.listen(serve(table, "CONTROLLER"))).port
            answer = await node.ask(topics("a", "b", partitions=4), version, CreateTopicsResponse)
            refused = Error.THROTTLING_QUOTA_EXCEEDED if version >= 6 else Error.NONE
            assert {each.name: each.error_code for each in answer.topics} == {
                "a": Error.NONE,
                "b": refused,
            }
            assert answer.throttle_time_ms == (2_000 if version >= 6 else 6_000)
            node.pass_time(8_500)
            answer = await node.ask(topics("c"), version, CreateTopicsResponse)
            assert answer.topics[0].error_code == Error.NONE
            assert answer.throttle_time_ms == 0

    run(story)


class Incoming:
    """A connection, as far as accepting one goes."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.log: list[str] = []

    def pause(self) -> None:
        self.log.append("paused")

    def resume(self) -> None:
        self.log.append("resumed")


def test_connections_that_come_too_fast_from_one_address_wait(tmp_path: Path) -> None:
    async def story(s: LoneBroker, metered: Metered) -> None:
        metered.set("connection_creation_rate", 1.0, (("ip", None),))
        served: list[Any] = []
        accept = metered.throttling.slow_down(served.append)
        connections = [Incoming("10.0.0.7") for _ in range(12)]
        for each in connections:
            accept(each)
        stranger = Incoming("10.0.0.8")
        accept(stranger)
        assert served == [*connections, stranger]
        assert [len(each.log) for each in connections] == [0] * 10 + [1, 1]
        assert stranger.log == []
        s.pass_time(1_000)
        assert [each.log for each in connections[10:]] == [["paused", "resumed"], ["paused"]]
        s.pass_time(1_000)
        assert connections[11].log == ["paused", "resumed"]

    tell(tmp_path, story)


def test_requests_that_take_too_long_make_the_next_ones_wait(tmp_path: Path) -> None:
    async def story(s: LoneBroker, metered: Metered) -> None:
        metered.set("request_percentage", 10.0)
        metered.request_takes = 3.0  # of 10 s, of which a tenth is allowed
        assert await produced(s, 10) == 0
        assert await produced(s, 10) == Quotas().windows.size_ms
        assert s.broker.traffic.throttled_requests == 1
        metered.set("request_percentage", None)  # or the question whether it waits would wait
        assert await is_muted(s)
        assert await produced(s, 10) == 0
        assert not await is_muted(s)

    tell(tmp_path, story)


def test_a_share_of_the_time_that_is_not_used_up_costs_nothing(tmp_path: Path) -> None:
    async def story(s: LoneBroker, metered: Metered) -> None:
        metered.set("request_percentage", 10.0)
        metered.request_takes = 0.3
        assert [await produced(s, 10) for _ in range(4)] == [0, 0, 0, 0]
        assert await produced(s, 10) > 0

    tell(tmp_path, story)
