"""All nodes are told to stop in the same moment, and come back with what they had."""

import asyncio
from pathlib import Path

from tidelog.client import Admin, Client, NewTopic
from tidelog.cluster import layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.nodes import LocalNodes
from tidelog.cluster.readiness import wait_ready

WITHIN_MS = 30_000


def start(nodes: LocalNodes) -> None:
    nodes.start(nodes.node_ids, attached=True)
    asyncio.run(wait_ready(nodes, timeout_ms=WITHIN_MS))


async def create_topic(bootstrap_servers: str, name: str) -> None:
    async with Client(bootstrap_servers) as client:
        await Admin(client).create_topic(NewTopic(name, 6, 3, {}))


async def isr_sizes(bootstrap_servers: str, topic: str) -> list[int]:
    async with Client(bootstrap_servers) as client:
        return [len(each.isr) for each in (await client.topic(topic)).partitions]


def test_a_cluster_stops_in_order_as_a_whole_and_starts_again(tmp_path: Path) -> None:
    nodes = LocalNodes(tmp_path, layout.create(tmp_path, "test", Shape(brokers=3)))
    try:
        start(nodes)
        servers = nodes.state.bootstrap_servers
        asyncio.run(create_topic(servers, "orders"))
        for round_number in (1, 2):
            stopped = nodes.stop(nodes.node_ids, timeout_ms=WITHIN_MS)
            assert [each for each in stopped if not each.in_time] == []
            for node_id in nodes.node_ids:
                text = nodes.log_text(node_id)
                assert text.count("stopped in order") == round_number, text
                assert "Traceback" not in text, text
            start(nodes)
            assert len(asyncio.run(isr_sizes(servers, "orders"))) == 6
    finally:
        for node_id in nodes.node_ids:
            nodes.kill(node_id)
        nodes.close()
