"""Waiting for a cluster: it is ready when every broker lists every broker."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from tidelog.client.admin import Admin
from tidelog.client.client import Client
from tidelog.client.errors import ClientError
from tidelog.client.links import ADMIN
from tidelog.cluster.layout import admin_properties
from tidelog.cluster.nodes import ClusterNodes, NodeFailed
from tidelog.cluster.state import NodeState
from tidelog.host.ports import NetworkError
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest
from tidelog.wire.protocol.schemas.metadata_response import MetadataResponse

POLL_SECONDS = 0.015
ANSWER_WITHIN_MS = 1_000
QUORUM_WITHIN_MS = 1_000


class Ready(NamedTuple):
    """One part of the cluster can be used."""

    part: str
    detail: str
    seconds: float
    """Since the start."""


OnReady = Callable[[Ready], None]


async def wait_ready(
    nodes: ClusterNodes,
    *,
    timeout_ms: int,
    on_ready: OnReady = lambda _: None,
    expected: Collection[int] | None = None,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Until the expected brokers (all) serve and know each other; NodeFailed if one does not.
    Without properties, a secured cluster is asked as its admin."""
    state = nodes.state
    wanted = [node for node in state.brokers if expected is None or node.id in expected]
    everybody = {node.id for node in wanted}
    begin = time.monotonic()
    if properties is None:
        properties = admin_properties(nodes.directory, state)
    async with Client(state.bootstrap_servers, properties=properties) as client:
        waits = [
            asyncio.ensure_future(_wait_broker(nodes, client, node, everybody)) for node in wanted
        ]
        told: set[int] = set()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                for done in asyncio.as_completed(waits):
                    node_id = await done
                    told.add(node_id)
                    if len(told) == 1:
                        await _tell_controllers(nodes, client, begin, on_ready)
                    address = f"{state.host}:{nodes.node(node_id).port}"
                    seconds = time.monotonic() - begin
                    on_ready(Ready(f"broker {node_id}", address, seconds))
        except TimeoutError:
            late = next((node.id for node in wanted if node.id not in told), None)
            if late is None:
                return  # the last one was just told of when the time was over
            seconds = timeout_ms / 1000
            reason = f"is not ready after {seconds:g} s"
            raise NodeFailed(late, reason, nodes.last_lines(late)) from None
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


async def listed_brokers(client: Client, address: tuple[str, int]) -> frozenset[int]:
    """Who is alive in the eyes of one broker; nobody if it does not answer."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    try:
        answer = await client.links.ask(
            address, request, MetadataResponse, purpose=ADMIN, timeout_ms=ANSWER_WITHIN_MS
        )
    except (NetworkError, ClientError):
        return frozenset()
    return frozenset(each.node_id for each in answer.brokers)


async def _wait_broker(
    nodes: ClusterNodes, client: Client, node: NodeState, everybody: Collection[int]
) -> int:
    address = (nodes.state.host, node.port)
    while not await listed_brokers(client, address) >= frozenset(everybody):
        if node.state == "gone":
            reason = nodes.exit_status(node.id)
            raise NodeFailed(node.id, reason, nodes.last_lines(node.id))
        await asyncio.sleep(POLL_SECONDS)
    return node.id


async def _tell_controllers(
    nodes: ClusterNodes, client: Client, begin: float, on_ready: OnReady
) -> None:
    who = ",".join(str(node.id) for node in nodes.state.controllers)
    label = "controllers" if "," in who else "controller"
    try:
        async with asyncio.timeout(QUORUM_WITHIN_MS / 1000):
            quorum = await Admin(client).quorum()
        detail = f"active controller {quorum.leader}, epoch {quorum.leader_epoch}"
    except (ClientError, NetworkError, TimeoutError):
        detail = "active"  # the quorum works, or nobody would be ready; it just cannot be asked
    on_ready(Ready(f"{label} {who}", detail, time.monotonic() - begin))
