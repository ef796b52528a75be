"""The event loop that coroutines of a test run on: virtual time, driven from outside.

A node's callbacks run while the kernel runs. Those of a test must not: a test calls methods of the
cluster that let the world go on until something is answered, and the kernel cannot be entered
twice. So the kernel only hands the callbacks of this loop over and stops, and whoever drives the
world runs them then, at the same virtual moment (`World.drive`).
"""

import asyncio
import sys
from asyncio.tasks import _enter_task, _leave_task  # asyncio has no public way
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any, NoReturn, TypeVar

from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.loop import OnError, VirtualHandle, VirtualLoop
from tidelog.sim.nodes.tcp import Machine

Result = TypeVar("Result")

TURN = "the program has something to do"
WORLDLY = (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_datagram_endpoint",
    "create_unix_connection",
    "create_unix_server",
    "getnameinfo",
    "run_forever",
    "run_in_executor",
    "run_until_complete",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_sendall",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
)
"""What a loop can do in the real world. Time would stand still while somebody waits for it."""


class NotInThisWorld(RuntimeError):  # noqa: N818 - it names what is so
    """Something that virtual time does not have. Its message says what to use instead."""


class ProgramLoop(VirtualLoop):
    """Runs what a test gives to `cluster.run`, and what that begins."""

    def __init__(
        self, kernel: Kernel, machine: Machine, clock: MachineClock, on_error: OnError
    ) -> None:
        super().__init__(kernel, machine, clock, on_error)
        self._ready: deque[VirtualHandle] = deque()
        self.is_inside = False
        """A callback of it runs now."""
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Not done yet, in the order in which they were begun."""

    def create_task(
        self,
        coro: Coroutine[Any, Any, Result],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Result]:
        task = super().create_task(coro, context=context)
        if name is not None:
            task.set_name(str(name))
        self.tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def _run_handle(self, handle: VirtualHandle) -> None:
        """Called by the kernel."""
        self._ready.append(handle)
        self.kernel.stop(TURN)

    def take_turn(self) -> bool:
        """Run what is due. False if nothing is."""
        ready, self._ready = self._ready, deque()
        self.is_inside = True
        try:
            for handle in ready:
                self.perform(partial(super()._run_handle, handle))
        finally:
            self.is_inside = False
        return bool(ready)


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(_self: ProgramLoop, *_arguments: object, **_named: object) -> NoReturn:
        raise NotInThisWorld(
            f"loop.{name}: what runs in cluster.run() has virtual time, so there are no threads,"
            " processes and sockets of the real world. Await asyncio's sleeps, timeouts, tasks and"
            " queues, and clients of cluster.client()"
        )

    return refuse


for _name in WORLDLY:
    setattr(ProgramLoop, _name, _refusal(_name))


@contextmanager
def stepped_out(kernel: Kernel) -> Iterator[None]:
    """Whoever runs on an event loop of this thread, real or virtual, stands still meanwhile."""
    loop: Any = asyncio._get_running_loop()
    task = None if loop is None else asyncio.current_task(loop)
    virtual, hooks = kernel.running_loop, sys.get_asyncgen_hooks()
    if task is not None:
        _leave_task(loop, task)
    kernel.running_loop = None
    asyncio._set_running_loop(None)
    sys.set_asyncgen_hooks(None, None)  # those of the loop outside
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(*hooks)
        kernel.running_loop = virtual
        asyncio._set_running_loop(loop)
        if task is not None:
            _enter_task(loop, task)
