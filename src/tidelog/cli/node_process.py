"""A node as a process of the operating system: signals in, an exit code out."""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable

from tidelog.config.node_config import NodeConfig
from tidelog.host import event_loop
from tidelog.host.clock import SystemClock
from tidelog.host.disk_space import SwitchedSpace, disk_space
from tidelog.host.entropy import SystemEntropy
from tidelog.host.node_host import NodeHost
from tidelog.node.life import new_gate, new_network, until_the_end
from tidelog.node.node import Node
from tidelog.node.observation import Observation
from tidelog.observe.counts import LoopDelay
from tidelog.observe.journal import JournalHandler, install
from tidelog.observe.loop_watch import LoopWatch
from tidelog.observe.stream import EventStream
from tidelog.wire import kernel

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
    network = new_network(config, clock)
    gate = new_gate(config, network)
    try:
        stream = EventStream(config.node_id, clock, network.wheel)
        host = NodeHost(
            clock,
            network.wheel,
            gate or network,
            SystemEntropy(),
            stream.emit,
            disk_space=disk_space if gate is None else SwitchedSpace(),
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
            return await until_the_end(node, stop)
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


def _stop_signals() -> asyncio.Future[None]:
    """Done when the first one comes."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop
