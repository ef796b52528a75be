"""A world of its own for one test: machines, their time, and who lets it pass."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tidelog.client import Client
from tidelog.client import client as clients
from tidelog.host.network import TcpNetwork
from tidelog.sim.entropy import SeededEntropy
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.loop import VirtualLoop
from tidelog.testing.simulated.clock import POLL_US, Duration, microseconds, show
from tidelog.testing.simulated.machines import Machines
from tidelog.testing.simulated.program import NotInThisWorld, ProgramLoop, stepped_out

Result = TypeVar("Result")

NO_LIMIT = 1 << 62
ANSWER_WITHIN_US = 120_000_000
"""Our client gives up long before."""
LAST_WORDS_US = 5_000_000
ANSWERED = "the cluster has answered"


class ProgramClock(MachineClock):
    """Of a client that a test has: tells those who use it from the wrong place."""

    __slots__ = ("_loop",)

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop.kernel)
        self._loop = loop

    def monotonic_ms(self) -> int:
        running: Any = asyncio._get_running_loop()
        if running is not self._loop:
            raise NotInThisWorld(
                "a client of cluster.client() lives in virtual time: use it in a coroutine that"
                " you give to cluster.run()"
            )
        return super().monotonic_ms()


class World:
    """Time stands still unless one of these methods is called."""

    def __init__(self, seed: int, plan: ClusterPlan) -> None:
        self.seed = seed
        self.kernel = Kernel(seed)
        self.machines = Machines(self.kernel, seed, plan)
        self.program = self._add_program()
        self._operator = self._add_operator()
        self._running = False
        self._clients = 0

    def _add_program(self) -> ProgramLoop:
        machine = self.machines.add_machine("program")
        loop = ProgramLoop(self.kernel, machine, MachineClock(self.kernel), _log)
        self.machines.add_loop(loop)
        return loop

    def _add_operator(self) -> VirtualLoop:
        """Asks the cluster what the test wants to know."""
        machine = self.machines.add_machine("operator")
        loop = VirtualLoop(self.kernel, machine, MachineClock(self.kernel), _log)
        self.machines.add_loop(loop)
        return loop

    # -- time

    def drive(self, is_over: Callable[[], bool], until_us: int) -> bool:
        """Let time pass until it is over, or for so long; whether it is.

        If the program calls this itself, it stands still meanwhile, as whoever calls something
        that blocks."""
        program, kernel = self.program, self.kernel
        is_blocked = program.is_inside
        with self._alone():
            while not is_over():
                if not is_blocked and program.take_turn():
                    continue
                kernel.stop_reason = None
                if self._run_kernel(until_us):
                    return is_over()
        return True

    def _run_kernel(self, until_us: int) -> bool:
        self._running = True
        try:
            return self.kernel.run(until_us, NO_LIMIT)
        finally:
            self._running = False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._running:
            raise NotInThisWorld("this world runs already, in a callback or on another thread")
        with stepped_out(self.kernel):
            yield

    def advance(self, passing_us: int) -> None:
        self.drive(_never, self.kernel.now_us + passing_us)

    def wait(self, condition: Callable[[], object], timeout: Duration) -> None:
        deadline_us = self.kernel.now_us + microseconds(timeout)
        while not condition():
            if self.kernel.now_us >= deadline_us:
                raise TimeoutError(f"still not so after {show(timeout)} of virtual time")
            self.advance(POLL_US)

    def perform(self, work: Callable[[], Result]) -> Result:
        """What no time passes for, done to machines from outside."""
        with self._alone():
            return work()

    # -- programs

    def run(self, work: Coroutine[Any, Any, Result], limit: Duration) -> Result:
        """A coroutine of the test, to its end."""
        if self.program.is_inside:
            work.close()
            raise NotInThisWorld("this runs in cluster.run() already: await the coroutine")
        task = self.perform(lambda: self._begin(self.program, work))
        try:
            self.drive(task.done, self.kernel.now_us + microseconds(limit))
        except BaseException:
            task.cancel()
            raise
        if not task.done():
            where = _where(task)
            self.perform(task.cancel)
            self.drive(task.done, self.kernel.now_us + LAST_WORDS_US)
            raise TimeoutError(f"not done after {show(limit)} of virtual time, {where}")
        return task.result()

    def ask(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """What the operator finds out, while the world goes on."""

        def begin() -> asyncio.Task[Result]:
            task = self._begin(self._operator, work())
            task.add_done_callback(lambda _: self.kernel.stop(ANSWERED))
            return task

        task = self.perform(begin)
        if not self.drive(task.done, self.kernel.now_us + ANSWER_WITHIN_US):
            self.perform(task.cancel)
            raise TimeoutError(f"no answer after {ANSWER_WITHIN_US // 1_000_000} s of virtual time")
        return task.result()

    def _begin(self, loop: VirtualLoop, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        begun: list[asyncio.Task[Result]] = []
        loop.perform(lambda: begun.append(loop.create_task(work)))
        return begun[0]

    def new_client(self, client_id: str) -> Client:
        """For the program."""
        self._clients += 1
        name = f"client {self._clients} of the test"
        return self._make_client(self.program, ProgramClock(self.program), client_id, name)

    def new_operator(self, bootstrap: str, client_id: str) -> Client:
        """Called by a task of the operator, which closes it."""
        clock = MachineClock(self.kernel)
        entropy = SeededEntropy(self.seed, "operator")
        world = clients.World(clock, TcpNetwork(clock), entropy)
        return Client(bootstrap, client_id=client_id, world=world)

    def _make_client(
        self, loop: VirtualLoop, clock: MachineClock, client_id: str, name: str
    ) -> Client:
        made: list[Client] = []

        def make() -> None:
            world = clients.World(clock, TcpNetwork(clock), SeededEntropy(self.seed, name))
            made.append(Client(self.machines.bootstrap, client_id=client_id, world=world))

        if self.program.is_inside:
            make()
        else:
            self.perform(lambda: loop.perform(make))
        return made[0]

    # -- the end

    def close(self) -> None:
        """Tasks of the program that are left are cancelled; everything else goes without a word."""
        left = list(self.program.tasks)
        for task in left:
            self.perform(task.cancel)
        if left:
            self.drive(lambda: not self.program.tasks, self.kernel.now_us + LAST_WORDS_US)
        self.perform(self.machines.bury)


def _where(task: asyncio.Task[Any]) -> str:
    stack = task.get_stack(limit=1)
    if not stack:
        return "and has not begun"
    frame = stack[-1]
    return f"it waits in {frame.f_code.co_qualname}, line {frame.f_lineno}"


def _never() -> bool:
    return False


def _log(message: str, error: BaseException | None) -> None:
    """As asyncio tells of errors that nobody waits for."""
    logging.getLogger("asyncio").error("%s", message, exc_info=error)
