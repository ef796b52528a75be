"""A node as a process: signals in, an exit code out."""

import asyncio
import signal
import sys
from collections.abc import Callable

from tidelog.config.node_config import NodeConfig
from tidelog.core.events import Event
from tidelog.host import event_loop
from tidelog.host.clock import SystemClock
from tidelog.host.entropy import SystemEntropy
from tidelog.host.frames import FrameLimits
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.server import ConnectionLimits
from tidelog.node.node import Node

STOPPED, DISK_FAILED = 0, 3
DEFAULT_CONNECTIONS = ConnectionLimits()


def run(
    config: NodeConfig,
    *,
    say: Callable[[str], None],
    emit: Callable[[Event], None],
) -> int:
    """Run a node until SIGTERM or SIGINT, or until its disk fails. CannotStart if it cannot."""
    assert sys.flags.optimize == 0, "assertions guard the data: do not run with -O"
    return event_loop.run(_main(config, say, emit))


async def _main(
    config: NodeConfig, say: Callable[[str], None], emit: Callable[[Event], None]
) -> int:
    clock = SystemClock()
    network = TcpNetwork(
        clock, frame_limits=_frame_limits(config), connection_limits=_connection_limits(config)
    )
    try:
        host = NodeHost(clock, network.wheel, network, SystemEntropy(), emit)
        node = Node(config, host)
        stop = _stop_signals()
        await node.start()
        return await _until_the_end(node, stop, say)
    finally:
        network.close()


def _stop_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _until_the_end(node: Node, stop: asyncio.Event, say: Callable[[str], None]) -> int:
    stopped = asyncio.ensure_future(stop.wait())
    failed = asyncio.ensure_future(node.failed())
    await asyncio.wait([stopped, failed], return_when=asyncio.FIRST_COMPLETED)
    if failed.done():
        stopped.cancel()
        say(f"this node cannot go on: {failed.result()}")
        return DISK_FAILED  # without a word to the disk: nothing on it may be trusted now
    failed.cancel()
    say("stopping: leaders first, then connections, then files")
    await node.stop()
    say("stopped in order")
    return STOPPED


def _frame_limits(config: NodeConfig) -> FrameLimits:
    return FrameLimits(
        frame_bytes=config.network.request_max_bytes,
        idle_timeout_ms=max(config.network.connection_idle_max_ms, 0),
    )


def _connection_limits(config: NodeConfig) -> ConnectionLimits:
    usual = DEFAULT_CONNECTIONS
    return ConnectionLimits(
        total=min(config.network.connections_max, usual.total),
        per_address=min(config.network.connections_per_ip_max, usual.total),
        reserve=usual.reserve,
    )
