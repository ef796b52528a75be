"""A simulated machine that runs one production node, and what can happen to it."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Protocol

from tidelog.config.node_config import NodeConfig
from tidelog.core.events import Event
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import Entropy, Network
from tidelog.host.timers import TimerWheel
from tidelog.node.disks import CannotStart
from tidelog.node.node import Node
from tidelog.sim.entropy import SeededEntropy, stream
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.files import MachineFiles
from tidelog.sim.nodes.loop import VirtualLoop, VirtualWorkers, drawn_delays
from tidelog.sim.nodes.tcp import Machine

SYNC_US = 3_000
"""A usual sync of the simulated disks takes up to so long."""


class NetworkWithWheel(Network, Protocol):
    """A network that drives the timers of its node."""

    @property
    def wheel(self) -> TimerWheel: ...


OnEvent = Callable[[int, Event], None]
OnProblem = Callable[[int, str], None]


class Server:
    """One node: its machine, its disks, and its process while it runs."""

    __slots__ = (
        "_buried",
        "_clock",
        "_config",
        "_delays",
        "_kernel",
        "_on_event",
        "_on_problem",
        "_seed",
        "_slow",
        "files",
        "loop",
        "machine",
        "node",
        "node_id",
        "ready",
        "starts",
        "told_to_stop",
    )

    def __init__(
        self, kernel: Kernel, machine: Machine, config: NodeConfig, clock: MachineClock, seed: int
    ) -> None:
        self._kernel = kernel
        self._config = config
        self._clock = clock
        self._seed = seed
        self.machine = machine
        self.node_id = config.node_id
        self.files = MachineFiles()
        self.starts = 0
        self.loop: VirtualLoop | None = None
        self.node: Node | None = None
        self.ready = False
        self.told_to_stop = False
        """By SIGTERM, and perhaps paused before it could hear of it."""
        self._slow = 1
        self._buried: list[VirtualLoop] = []
        self._delays = drawn_delays(self._stream("sync"), SYNC_US)
        self._on_event: OnEvent = lambda node_id, event: None
        self._on_problem: OnProblem = lambda node_id, text: None

    def report_to(self, on_event: OnEvent, on_problem: OnProblem) -> None:
        self._on_event = on_event
        self._on_problem = on_problem

    def _stream(self, name: str) -> Random:
        return stream(self._seed, f"{name} of node {self.node_id}")

    # -- life

    @property
    def running(self) -> bool:
        return self.loop is not None

    def start(self) -> None:
        """A new process on what the disks hold. A machine without power boots first."""
        if self.loop is not None:
            return
        if not self.machine.up:
            self.machine.boot()
        self.starts += 1
        self.ready = self.told_to_stop = False
        self.loop = loop = VirtualLoop(self._kernel, self.machine, self._clock, self._on_error)
        loop.perform(lambda: loop.create_task(self._main(loop)))

    async def _main(self, loop: VirtualLoop) -> None:
        """What `node.process` does, with this machine as its host."""
        network = self._make_network(loop)
        host = NodeHost(
            self._clock,
            network.wheel,
            network,
            self._make_entropy(),
            self._emit,
            filesystem=self.files,
            make_workers=self._make_workers,
        )
        try:
            self.node = node = Node(self._config, host)
            await node.start(self._on_ready)
        except CannotStart as error:
            self._on_problem(self.node_id, f"cannot start: {error}")
            return
        failure = await node.failed()
        self._on_problem(self.node_id, f"cannot go on: {failure}")
        loop.call_soon(self.kill)

    def kill(self) -> None:
        """SIGKILL: the operating system closes connections, and keeps what was written."""
        self._end(power_lost=False)

    def lose_power(self) -> None:
        """The machine is gone with whatever was not synced, and tells nobody."""
        self._end(power_lost=True)
        self.files.lose_power(self._stream(f"power loss {self.starts}").randrange)

    def _end(self, *, power_lost: bool) -> None:
        if self.loop is not None:
            self.loop.kill()
            self._buried.append(self.loop)
        self.loop = self.node = None
        self.ready = False
        self._kernel.revoke(self.machine.owner)
        self.machine.on_process_gone(power_lost=power_lost)
        self.files.release_locks()

    def stop(self) -> None:
        """SIGTERM: it hands over its leaderships, syncs and exits."""
        node, loop = self.node, self.loop
        if loop is not None and node is not None and not self.told_to_stop:
            self.told_to_stop = True
            loop.perform(lambda: loop.create_task(self._leave(node)))

    async def _leave(self, node: Node) -> None:
        await node.stop()
        self._kernel.call_in(0, self.machine.owner, self._exit, node)

    def _exit(self, node: Node) -> None:
        if self.node is node:
            self.kill()

    def pause(self) -> None:
        """SIGSTOP: nothing of the process runs until `resume`."""
        if self.loop is not None:
            self._kernel.pause(self.machine.owner)

    def resume(self) -> None:
        self._kernel.resume(self.machine.owner)

    def slow_disk(self, factor: int) -> None:
        self._slow = factor

    def bury(self) -> None:
        """The run is over: let everything go."""
        if self.loop is not None:
            self._end(power_lost=False)
        for loop in self._buried:
            loop.bury()

    # -- what the host needs

    def _make_network(self, loop: VirtualLoop) -> NetworkWithWheel:
        return TcpNetwork(self._clock)

    def _make_entropy(self) -> Entropy:
        return SeededEntropy(self._seed, f"start {self.starts} of node {self.node_id}")

    def _make_workers(self, _name: str, threads: int) -> VirtualWorkers:
        assert self.loop is not None, "workers of a process that is gone"
        owner = self.machine.owner
        return VirtualWorkers(self._kernel, self.loop, owner, threads, self._work_us)

    def _work_us(self) -> int:
        return self._delays() * self._slow

    def _emit(self, event: Event) -> None:
        self._on_event(self.node_id, event)

    def _on_ready(self) -> None:
        self.ready = True

    def _on_error(self, message: str, error: BaseException | None) -> None:
        if not isinstance(error, asyncio.CancelledError):
            self._on_problem(self.node_id, f"{message}: {error!r}")
