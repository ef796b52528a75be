"""A simulated machine that runs one production node, and what can happen to it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Protocol

from tidelog.config.node_config import NodeConfig
from tidelog.core.events import Event
from tidelog.host.gate import GatedNetwork
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import Entropy, Network
from tidelog.host.reports import FailureReport
from tidelog.host.timers import TimerWheel
from tidelog.node.disks import CannotStart
from tidelog.node.formatting import format_node
from tidelog.node.life import CANNOT_GO_ON, new_gate, new_network, until_the_end
from tidelog.node.node import Node
from tidelog.observe.stream import EventStream
from tidelog.sim.entropy import SeededEntropy, stream
from tidelog.sim.kernel import WORLD, Kernel
from tidelog.sim.nodes.bearer_tokens import token_keys
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.files import MachineFiles
from tidelog.sim.nodes.loop import VirtualLoop, VirtualWorkers, drawn_delays
from tidelog.sim.nodes.loop_work import LONGEST_US, LoopWork, Trap
from tidelog.sim.nodes.tcp import Machine
from tidelog.sim.nodes.watching import Watching

CLUSTER_ID = "simulated"
NOBODY: Mapping[str, Sequence[str]] = {}


class NetworkWithWheel(Network, Protocol):
    """A network that drives the timers of its node."""

    @property
    def wheel(self) -> TimerWheel: ...


OnEvent = Callable[[int, Event], None]
OnProblem = Callable[[int, str], None]
OnLife = Callable[[int, str], None]


class Server:
    """One node: its machine, its disks, and its process while it runs."""

    __slots__ = (
        "_buried",
        "_delays",
        "_entropy",
        "_errors_before",
        "_kernel",
        "_on_event",
        "_on_life",
        "_on_problem",
        "_seed",
        "_slow",
        "_stop",
        "_watching",
        "_workers",
        "clock",
        "config",
        "files",
        "loop",
        "machine",
        "node",
        "node_id",
        "on_gone",
        "ready",
        "starts",
        "sync_us",
        "told_to_stop",
        "work",
    )

    def __init__(
        self, kernel: Kernel, machine: Machine, config: NodeConfig, clock: MachineClock, seed: int
    ) -> None:
        self._kernel = kernel
        self.config = config
        self.clock = clock
        self._seed = seed
        self.machine = machine
        self.node_id = config.node_id
        self.work = LoopWork()
        self.files = MachineFiles(self.work)
        self.starts = 0
        self.loop: VirtualLoop | None = None
        self.node: Node | None = None
        self.ready = False
        self.told_to_stop = False
        """By SIGTERM, and perhaps paused before it could hear of it."""
        self.sync_us = 3_000
        """A usual sync of its disks takes up to so long."""
        self._slow = 1
        self._watching: Watching | None = None
        self._stop: asyncio.Future[None] | None = None
        """Of the present process: done when it is to stop."""
        self._buried: list[VirtualLoop] = []
        self._workers: list[VirtualWorkers] = []
        self._errors_before = (0, 0)
        """Errors and failed syncs of its disks when the process began."""
        self._delays = drawn_delays(self._stream("sync"))
        self._entropy = self._stream("early work")
        self.on_gone: Callable[[Server], None] = lambda server: None
        """Its process has ended because of its disk: somebody has to start it again."""
        self._on_event: OnEvent = lambda node_id, event: None
        self._on_problem: OnProblem = lambda node_id, text: None
        self._on_life: OnLife = lambda node_id, what: None

    def report_to(
        self, on_event: OnEvent, on_problem: OnProblem, on_life: OnLife | None = None
    ) -> None:
        """`on_life` hears of processes that start and end."""
        self._on_event = on_event
        self._on_problem = on_problem
        self._on_life = on_life or self._on_life

    def _stream(self, name: str) -> Random:
        return stream(self._seed, f"{name} of node {self.node_id}")

    # -- life

    @property
    def running(self) -> bool:
        return self.loop is not None

    @property
    def works(self) -> bool:
        """It runs, and is not paused."""
        return self.loop is not None and not self._kernel.is_paused(self.machine.owner)

    def start(self) -> None:
        """A new process on what the disks hold. A machine without power boots first."""
        if self.loop is not None:
            return
        if not self.machine.up:
            self.machine.boot()
        self.starts += 1
        self.ready = self.told_to_stop = False
        self._errors_before = (self.files.errors, self.files.failed_syncs)
        self._workers = []
        self._watching = None
        self.loop = loop = VirtualLoop(
            self._kernel, self.machine, self.clock, self._on_error, self.work
        )
        self._stop = loop.create_future()
        self._on_life(self.node_id, "starts")
        loop.perform(lambda: loop.create_task(self._main(loop)))

    async def _main(self, loop: VirtualLoop) -> None:
        """What `cli.node_process` does, with this machine as its host."""
        network, stop = self._make_network(loop), self._stop
        assert stop is not None, "it has not begun"
        events = EventStream(self.node_id, self.clock, network.wheel)
        gate = new_gate(self.config, network) if isinstance(network, TcpNetwork) else None
        host = NodeHost(
            self.clock,
            network.wheel,
            gate or network,
            self._make_entropy(),
            partial(self._emit, loop, events),
            disk_space=self.files.space,
            filesystem=self.files,
            make_workers=self._make_workers,
            fetch=partial(token_keys, self._stream(f"issuer, start {self.starts}")),
        )
        try:
            self.node = node = Node(self.config, host)
            if isinstance(network, TcpNetwork):
                await self._watch(node, events, network, gate)
            await node.start(partial(self._on_ready, loop))
            ended = await until_the_end(node, stop)
        except CannotStart as error:
            self._give_up(loop, "cannot start", error)
            return
        if ended == CANNOT_GO_ON:
            self._give_up(loop, "cannot go on", await node.failed())
        else:
            if self._watching is not None:
                await self._watching.stop()
            self._kernel.call_in(0, self.machine.owner, self._exit, node)

    async def _watch(
        self, node: Node, events: EventStream, network: TcpNetwork, gate: GatedNetwork | None
    ) -> None:
        entropy = self._stream(f"questions of an operator, start {self.starts}")
        self._watching = watching = Watching(node, events, network, gate, entropy)
        await watching.start()

    def _give_up(self, loop: VirtualLoop, what: str, error: Exception) -> None:
        """The process ends itself, as `cli.node_process` does. Only a broken disk explains that."""
        if not loop.alive:
            return
        errors, failed_syncs = self._errors_before
        if self.files.errors == errors:
            self._on_problem(self.node_id, f"{what}: {error}")
            return
        self._kernel.call_in(
            0, WORLD, self._end_itself, (loop, self.files.failed_syncs > failed_syncs)
        )

    def _end_itself(self, ended: tuple[VirtualLoop, bool]) -> None:
        """After a failed sync the page cache holds what will never reach the disk, and no process
        can tell. Whoever mends such a disk starts the machine anew."""
        loop, sync_failed = ended
        if self.loop is not loop:
            return
        self.kill()
        if sync_failed:
            self._lose_unsynced()
        self.on_gone(self)

    def kill(self) -> None:
        """SIGKILL: the operating system closes connections, and keeps what was written."""
        self._end(power_lost=False)

    def lose_power(self) -> None:
        """The machine is gone with whatever was not synced, and tells nobody."""
        self._end(power_lost=True)
        self._lose_unsynced()

    def _lose_unsynced(self) -> None:
        self.files.lose_power(self._stream(f"power loss at {self._kernel.now_us}").randrange)

    def set_trap(self, trap: Trap | None) -> None:
        """A crash that waits for a change of its disks."""
        self.work.trap = trap

    def crash_now(self, *, power_lost: bool) -> None:
        """In the middle of a callback, which does not notice: it goes on to its end, and whatever
        it does reaches nobody."""
        self.set_trap(None)
        if power_lost:
            self.lose_power()
        else:
            self.kill()
            self.files.detach()

    def _end(self, *, power_lost: bool) -> None:
        self.set_trap(None)
        ended, self.loop = self.loop, None
        if ended is not None:
            ended.kill()
            self._buried.append(ended)
            self._on_life(self.node_id, "loses its power" if power_lost else "is gone")
        self.node = None
        self.ready = False
        self._workers = []
        self.work.bound_us = None
        self._kernel.revoke(self.machine.owner)
        self.machine.on_process_gone(power_lost=power_lost)
        self.files.release_locks()

    def stop(self) -> None:
        """SIGTERM: it hands over its leaderships, syncs and exits."""
        stop = self._stop
        if self.loop is not None and stop is not None and not self.told_to_stop:
            self.told_to_stop = True
            self.work.bound_us = None
            self.loop.perform(lambda: stop.set_result(None))

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
        """So many times slower. When it is as quick as ever, nothing waits any longer that was
        begun before."""
        self._slow = factor
        if factor == 1:
            for workers in self._workers:
                workers.release()

    def stall_worker(self, choice: int, duration_us: int) -> VirtualWorkers | None:
        """A thread of one of its pools hangs. None if it has none."""
        if not self._workers:
            return None
        workers = self._workers[choice % len(self._workers)]
        workers.stall(self._kernel.now_us + duration_us)
        return workers

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return tuple(self.config.log_dirs) if self.config.is_broker else ()

    @property
    def can_lose_data(self) -> bool:
        """Its records are on disks of their own. Who loses the metadata log with them forgets
        its vote, and no quorum promises anything then."""
        return bool(self.log_dirs) and self.config.metadata_log_dir not in self.log_dirs

    def replace_data(self) -> None:
        """New log directories, formatted as an operator would. No process may run."""
        assert self.loop is None, "it still uses them"
        before = {path: self.files.open(path) for path in self.log_dirs}
        for path in before:
            self.files.add(path)
        self.format_directories()
        for path, disk in before.items():
            self.files.open(path).take_over(disk)

    def format_directories(self, users: Mapping[str, Sequence[str]] = NOBODY) -> None:
        """What `tidelog format` does: directories that are formatted already stay as they are.
        Users are by the mechanism that they log in with."""
        entropy = SeededEntropy(self._seed, f"{self._kernel.now_us} format of node {self.node_id}")
        added = [
            f"{mechanism}=[name={user},password=of {user}]"
            for mechanism, names in users.items()
            for user in names
        ]
        format_node(self.config, CLUSTER_ID, self.files, entropy, users=added)

    def bury(self) -> None:
        """The run is over: let everything go."""
        if self.loop is not None:
            self._end(power_lost=False)
        for loop in self._buried:
            loop.bury()

    # -- what the host needs

    def _make_network(self, loop: VirtualLoop) -> NetworkWithWheel:
        return new_network(self.config, self.clock, partial(self._on_request_failed, loop))

    def _make_entropy(self) -> Entropy:
        return SeededEntropy(self._seed, f"start {self.starts} of node {self.node_id}")

    def _make_workers(self, _name: str, threads: int) -> VirtualWorkers:
        assert self.loop is not None, "workers of a process that is gone"
        workers = VirtualWorkers(self.loop, threads, self._work_us, self._entropy)
        self._workers.append(workers)
        return workers

    def _work_us(self) -> int:
        return self._delays(self.sync_us) * self._slow

    def _emit(self, loop: VirtualLoop, events: EventStream, event: Event) -> None:
        if loop.alive:
            self._on_event(self.node_id, event)
            events.emit(event)

    def _on_ready(self, loop: VirtualLoop) -> None:
        if loop.alive:
            self.ready = True
            self.work.bound_us = None if self.told_to_stop else LONGEST_US

    def _on_request_failed(self, loop: VirtualLoop, report: FailureReport) -> None:
        """Production hangs up and goes on; here it is as bad as any other callback that fails."""
        if loop.alive:
            self._on_error(f"a request of {report.peer}", report.error)

    def _on_error(self, message: str, error: BaseException | None) -> None:
        """An error that nobody has caught. One that a node meets after it has said that it cannot
        go on, in what is left of that callback, is an echo."""
        if self.node is not None and self.node.has_failed:
            return
        if not isinstance(error, asyncio.CancelledError):
            self._on_problem(self.node_id, f"{message}: {error!r}")
