"""A node as a process: signals in, an exit code out."""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable

from tidelog.config.node_config import NodeConfig
from tidelog.host import event_loop
from tidelog.host.clock import SystemClock
from tidelog.host.disk_space import disk_space
from tidelog.host.entropy import SystemEntropy
from tidelog.host.failures import CannotGoOn
from tidelog.host.frames import FrameLimits
from tidelog.host.gate import GatedNetwork
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.server import ConnectionLimits
from tidelog.node.node import Node
from tidelog.node.observation import Observation
from tidelog.observe.counts import LoopDelay
from tidelog.observe.journal import JournalHandler, install
from tidelog.observe.loop_watch import LoopWatch
from tidelog.observe.stream import EventStream
from tidelog.wire import kernel

STOPPED, CANNOT_GO_ON = 0, 3
USUAL_CONNECTIONS = ConnectionLimits()
COLLECT_AFTER = (50_000, 20, 100)
"""New objects before the youngest generation is looked at, and how often each looks before the
next older one is: rings hold a few megabytes at most until they are found."""

_LOGGER = logging.getLogger("tidelog.node")


Ready = Callable[[int | None], None]
"""Called when the node serves, with the port of its HTTP listener if it has one."""


def run(config: NodeConfig, ready: Ready) -> int:
    """Run a node until SIGTERM or SIGINT, or until it cannot go on; the exit code. CannotStart if
    it cannot."""
    assert sys.flags.optimize == 0, "assertions guard the data: do not run with -O"
    return event_loop.run(_main(config, ready))


async def _main(config: NodeConfig, ready: Ready) -> int:
    clock = SystemClock()
    handler = JournalHandler(sys.stderr.write, clock)
    uninstall = install(handler)
    _mention_the_kernel()
    network = TcpNetwork(
        clock, frame_limits=_frame_limits(config), connection_limits=_connection_limits(config)
    )
    gate = _gate(config, network)
    try:
        stream = EventStream(config.node_id, clock, network.wheel)
        host = NodeHost(
            clock,
            network.wheel,
            gate or network,
            SystemEntropy(),
            stream.emit,
            disk_space=disk_space,
        )
        node = Node(config, host)
        delay = LoopDelay()
        watch = LoopWatch(host.work, delay)
        observation = Observation(node, stream, handler, network, gate, delay=delay)
        stop = _stop_signals()
        watch.start()
        try:
            await observation.start()
            await node.start(lambda: ready(observation.http_port))
            _collect_seldom()
            return await _until_the_end(node, stop)
        finally:
            watch.stop()
            await observation.stop()
    finally:
        if gate is not None:
            gate.close()
        network.close()
        uninstall()


def _mention_the_kernel() -> None:
    """A node that was installed without its compiled kernels works, and is slow: no other sign."""
    reason = kernel.why_python()
    if reason is not None:
        _LOGGER.warning("record batches are handled by Python, several times slower: %s", reason)


def _collect_seldom() -> None:
    """What a request makes is freed when the last one drops it, which waits for no collection. At
    Python's usual thresholds a few thousand parked produces start one after the other, each over
    everything that was imported: 7 % of the time of a busy broker."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _gate(config: NodeConfig, network: TcpNetwork) -> GatedNetwork | None:
    """Only where somebody wants to play: requests between nodes take a longer way through it."""
    return GatedNetwork(network, network.wheel) if config.chaos_enabled else None


def _stop_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _until_the_end(node: Node, stop: asyncio.Event) -> int:
    stopped = asyncio.ensure_future(stop.wait())
    failed = asyncio.ensure_future(node.failed())
    await asyncio.wait([stopped, failed], return_when=asyncio.FIRST_COMPLETED)
    if failed.done():
        stopped.cancel()
        error = failed.result()
        _LOGGER.error("this node cannot go on: %s", error)
        if isinstance(error, CannotGoOn):
            _LOGGER.error("try: %s", error.advice)
        return CANNOT_GO_ON  # without a word to the disk: nothing on it may be trusted now
    failed.cancel()
    _LOGGER.info("stopping: leaders first, then connections, then files")
    await node.stop()
    _LOGGER.info("stopped in order")
    return STOPPED


def _frame_limits(config: NodeConfig) -> FrameLimits:
    return FrameLimits(
        frame_bytes=config.network.request_max_bytes,
        idle_timeout_ms=max(config.network.connection_idle_max_ms, 0),
    )


def _connection_limits(config: NodeConfig) -> ConnectionLimits:
    return ConnectionLimits(
        total=min(config.network.connections_max, USUAL_CONNECTIONS.total),
        per_address=min(config.network.connections_per_ip_max, USUAL_CONNECTIONS.total),
        reserve=USUAL_CONNECTIONS.reserve,
    )
