"""What every process of a node does, on any host."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tidelog.config.node_config import NodeConfig
from tidelog.host import tasks
from tidelog.host.failures import CannotGoOn
from tidelog.host.frames import FrameLimits
from tidelog.host.gate import GatedNetwork
from tidelog.host.network import TcpNetwork
from tidelog.host.ports import Clock
from tidelog.host.reports import FailureReport
from tidelog.host.server import ConnectionLimits
from tidelog.node.lab_gate import LabGate
from tidelog.node.node import Node

STOPPED, CANNOT_GO_ON = 0, 3
USUAL_CONNECTIONS = ConnectionLimits()

_LOGGER = logging.getLogger("tidelog.node")


def new_network(
    config: NodeConfig, clock: Clock, on_failure: Callable[[FailureReport], None] | None = None
) -> TcpNetwork:
    """With the limits that the configuration sets. Without `on_failure`, requests whose handling
    failed are told to the journal."""
    settings = config.network
    return TcpNetwork(
        clock,
        on_failure=on_failure,
        frame_limits=FrameLimits(
            frame_bytes=settings.request_max_bytes,
            idle_timeout_ms=max(settings.connection_idle_max_ms, 0),
        ),
        connection_limits=ConnectionLimits(
            total=min(settings.connections_max, USUAL_CONNECTIONS.total),
            per_address=min(settings.connections_per_ip_max, USUAL_CONNECTIONS.total),
            reserve=USUAL_CONNECTIONS.reserve,
        ),
    )


def new_gate(config: NodeConfig, network: TcpNetwork) -> GatedNetwork | None:
    """Only where somebody wants to play: requests between nodes take a longer way through it."""
    wanted = config.chaos_enabled or config.lab_enabled
    return GatedNetwork(network, network.wheel) if wanted else None


def new_lab(config: NodeConfig, gate: GatedNetwork | None) -> LabGate | None:
    """Only in a lab: fetches of this broker wait until somebody releases them."""
    if gate is None or not config.lab_enabled:
        return None
    _LOGGER.warning("this node is part of a lab: it replicates nothing that /lab does not release")
    return LabGate(config.node_id, gate)


async def until_the_end(node: Node, stop: asyncio.Future[None]) -> int:
    """Until `stop` is done, or the node cannot go on; the exit code of its process."""
    failed = tasks.begin(node.failed())
    await _first(stop, failed)
    if not failed.done():
        _LOGGER.info("stopping: leaders first, then connections, then files")
        stopping = tasks.begin(node.stop())
        await _first(stopping, failed)
        if node.has_failed:
            await failed
        if not failed.done():
            failed.cancel()
            stopping.result()
            _LOGGER.info("stopped in order")
            return STOPPED
        stopping.cancel()
    error = failed.result()
    _LOGGER.error("this node cannot go on: %s", error)
    if isinstance(error, CannotGoOn):
        _LOGGER.error("try: %s", error.advice)
    return CANNOT_GO_ON  # without a word to the disk: nothing on it may be trusted now


async def _first(*awaited: asyncio.Future[Any]) -> None:
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
