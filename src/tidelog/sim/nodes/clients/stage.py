"""What all clients of a run share: topics, processes, and when to come to an end."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from tidelog.client import ClientError
from tidelog.host import tasks
from tidelog.host.ports import NetworkError
from tidelog.sim.entropy import stream
from tidelog.sim.kernel import WORLD
from tidelog.sim.nodes.clients.history import History
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.cluster import BROKER_PORT, CONTROLLER_PORT, NodeCluster, machine_name
from tidelog.sim.nodes.loop import OnError
from tidelog.sim.nodes.server import Server

TRANSFERS: Final = "transfers"
INPUTS: Final = "inputs"
OUTPUTS: Final = "outputs"
GAMBLES: Final = "gambles"
"""Its leaders may be elected uncleanly."""
INPUTS_WRITER: Final = "i0"
"""The only client that writes `inputs`."""

FAILURES: Final = (ClientError, NetworkError)
"""What a client may be told while things are broken."""
PAUSE_AFTER_FAILURE_S: Final = 0.1

Program = Callable[[ClientProcess], Coroutine[Any, Any, None]]


class Stage:
    """Starts the processes of clients, and knows which of them still run."""

    __slots__ = (
        "_cluster",
        "_on_error",
        "_running",
        "_seed",
        "drained",
        "history",
        "partitions",
        "stopped",
    )

    def __init__(
        self, cluster: NodeCluster, seed: int, partitions: dict[str, int], on_error: OnError
    ) -> None:
        """`partitions` of every topic that clients write."""
        self._cluster = cluster
        self._seed = seed
        self._on_error = on_error
        self._running: dict[ClientProcess, tuple[str, asyncio.Task[None]]] = {}
        self.history = History()
        self.partitions = partitions
        self.stopped = False
        """Nothing new is written any more, and nobody does mischief."""
        self.drained = False
        """Groups have read everything: their members may go."""

    def stream(self, name: str) -> Random:
        """What the client of this name draws."""
        return stream(self._seed, f"client {name}")

    def server(self, node_id: int) -> Server:
        return self._cluster.servers[node_id]

    def any_listener(self, entropy: Random) -> tuple[str, int]:
        """Some port that some node listens on."""
        plan = self._cluster.plan
        if entropy.random() < 0.2:
            return machine_name(entropy.choice(plan.voter_ids)), CONTROLLER_PORT
        return machine_name(entropy.choice(plan.broker_ids)), BROKER_PORT

    def new_process(self) -> ClientProcess:
        return ClientProcess(self._cluster, self._on_error)

    def start(self, name: str, program: Program) -> ClientProcess:
        """A new process that runs this program to its end."""
        process = self.new_process()
        self._running[process] = (name, process.spawn(program(process)))
        return process

    def start_later(self, delay_ms: int, name: str, program: Program) -> None:
        def begin(_: None) -> None:
            self.start(name, program)

        self._cluster.kernel.call_in(delay_ms * 1000, WORLD, begin, None)

    async def vanish(self, process: ClientProcess, *, power_lost: bool) -> None:
        """Called by a program of this process: nothing of it happens after this."""
        del self._running[process]
        self._cluster.kernel.call_in(0, WORLD, process.kill, power_lost)
        await tasks.promise()

    async def stand_still(self, process: ClientProcess, duration_ms: int) -> None:
        """Called by a program of this process: it runs nothing for a while, as after SIGSTOP."""
        self._cluster.kernel.call_in(0, WORLD, process.pause, None)
        self._cluster.kernel.call_in(duration_ms * 1000, WORLD, process.resume, None)
        await asyncio.sleep(0.001)

    def still_writes_inputs(self) -> str | None:
        """What keeps `inputs` from being complete, in words."""
        for name, task in self._running.values():
            if name == INPUTS_WRITER and not task.done():
                return f"client {name} has not come to its end"
        return None

    def still_running(self) -> str | None:
        """A client that has not come to its end, in words."""
        for process, (name, task) in list(self._running.items()):
            if not task.done():
                return f"client {name} has not come to its end"
            del self._running[process]
            error = task.exception()
            if error is not None:
                self._on_error(f"client {name} failed", error)
        return None


def pause_s(entropy: Random, most_ms: int) -> float:
    return entropy.randrange(most_ms * 1000) / 1_000_000
