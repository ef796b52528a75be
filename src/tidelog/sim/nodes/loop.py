"""The event loop of one simulated process.

All loops share one kernel. A loop is the running one while events of its process run, so production
code finds it by `asyncio.get_running_loop`. Callbacks of a process run in the order in which they
were scheduled, as on a real loop.

A process that is killed never runs again: the kernel revokes what was scheduled, and `kill` keeps
its tasks alive and unfinished, so that no `finally` block of them runs either.
"""

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from contextvars import Context
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeVar, cast

from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.loop_work import SCHEDULE_US, LoopWork, name_of
from tidelog.sim.nodes.tcp import Connected, Internet, Listening, Machine, ProtocolFactory

Item = TypeVar("Item")
Result = TypeVar("Result")

OnError = Callable[[str, BaseException | None], None]


def running_owner() -> int | None:
    """Whose process runs now; None if it was killed in the middle of what it does."""
    loop: Any = asyncio._get_running_loop()
    return loop.owner if loop.alive else None


class VirtualHandle(asyncio.TimerHandle):
    """A callback that waits for its turn. Without asyncio's debugging, which would ask the loop
    for its mode each time that one is made or cancelled."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        when: float = 0.0,
    ) -> None:
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._context = context
        self._when = when
        self._cancelled = False

    def cancel(self) -> None:
        """It is skipped when its time comes."""
        self._cancelled = True
        self._callback = None
        self._args = ()

    def __repr__(self) -> str:
        return f"<VirtualHandle {self._callback!r}>"


class VirtualLoop:
    """As much of an event loop as nodes and clients use. asyncio takes it for one."""

    def __init__(
        self,
        kernel: Kernel,
        machine: Machine,
        clock: MachineClock,
        on_error: OnError,
        work: LoopWork | None = None,
    ) -> None:
        self.kernel = self._kernel = kernel
        self.owner = machine.owner
        self._machine = machine
        self._internet: Internet = machine.internet
        self._clock = clock
        self._on_error = on_error
        self._unfinished: tuple[asyncio.Task[Any], ...] = ()
        self.work = LoopWork() if work is None else work
        self._as_loop = cast(asyncio.AbstractEventLoop, self)
        self._run = self._run_handle
        self.alive = True
        kernel.add_loop(self.owner, self, asyncio._set_running_loop)

    @property
    def machine(self) -> Machine:
        return self._machine

    # -- running

    def perform(self, callback: Callable[[], object]) -> None:
        """Call it as this process would."""
        if not self.alive:
            return
        if self._kernel.running_loop is self:
            callback()
        else:
            self._perform_from_outside(callback)
        if self.work.us:
            self.work.settle(callback)

    def _perform_from_outside(self, callback: Callable[[], object]) -> None:
        """The world calls, or the test: whoever runs now goes on afterwards."""
        kernel = self._kernel
        before, kernel.running_loop = cast(VirtualLoop | None, kernel.running_loop), self
        asyncio._set_running_loop(self._as_loop)
        try:
            callback()
        finally:
            kernel.running_loop = before
            asyncio._set_running_loop(None if before is None else before._as_loop)

    def kill(self) -> None:
        """As SIGKILL does: nothing more of this process happens."""
        self.alive = False
        self._unfinished = tuple(asyncio.all_tasks(self._as_loop))

    def bury(self) -> None:
        """At the end of a run: drop what the killed process had begun, without a word."""
        for task in (*self._unfinished, *asyncio.all_tasks(self._as_loop)):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is no surprise
            coroutine = task.get_coro()
            # A `finally` block may meet a world that is gone.
            with suppress(Exception, asyncio.CancelledError):
                coroutine.close()
            _forget(task)
        self._unfinished = ()

    def _run_handle(self, handle: VirtualHandle) -> None:
        callback, args, context = handle._callback, handle._args, handle._context
        if callback is None or not self.alive:
            return
        try:
            if context is None:
                callback(*args)
            else:
                context.run(callback, *args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # as asyncio does: the loop goes on
            message = f"Exception in callback {name_of(callback)}"
            self.call_exception_handler({"message": message, "exception": error})
        if self.work.us:
            self.work.settle(callback)

    # -- what asyncio asks of a loop

    def time(self) -> float:
        return self._clock.monotonic_us() / 1_000_000

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = VirtualHandle(callback, args, context)
        if self.alive:
            self.work.us += SCHEDULE_US
            kernel = self._kernel
            kernel.call_at(kernel.now_us, self.owner, self._run, handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = VirtualHandle(callback, args, context, when)
        if self.alive:
            self.work.us += SCHEDULE_US
            local_us = max(0, round(when * 1_000_000) - self._clock.monotonic_us())
            delay_us = self._clock.kernel_us(local_us)
            kernel = self._kernel
            kernel.call_at(kernel.now_us + delay_us, self.owner, self._run, handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._as_loop)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Result],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Result]:
        return asyncio.Task(coro, loop=self._as_loop, context=context)

    get_debug = bool
    """Always False: `bool()`. Every future asks, and this costs no frame."""

    def is_running(self) -> bool:
        return self.alive

    def is_closed(self) -> bool:
        return not self.alive

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.alive:
            self._on_error(str(context.get("message")), context.get("exception"))

    # -- connections

    async def getaddrinfo(
        self, host: Any, port: Any, **_: Any
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(0, 0, 0, "", (host, port))]

    async def create_server(
        self, factory: ProtocolFactory, host: str, port: int, **_: Any
    ) -> Listening:
        if not self.alive:
            raise OSError(errno.ENETDOWN, "the process is dead and does not know it")
        return self._internet.listen(self._machine, self, factory, port)

    async def create_connection(
        self, factory: ProtocolFactory, host: str, port: int, **_: Any
    ) -> Connected:
        return await self._internet.connect(self._machine, self, factory, (host, port))

    def remove_reader(self, fd: Any) -> bool:
        return False  # a closed server accepts nothing, and there is no turn in between


class Order(NamedTuple):
    """Work that somebody waits for."""

    begin_us: int
    work: Callable[[], Any]
    future: asyncio.Future[Any]


class VirtualWorkers:
    """The `Workers` port: a piece of work is done, all at once, at a drawn moment of its time.

    Usually that is its end. Now and then it is earlier, and the loop hears of it later: a crash
    can then find work done that nobody knows of.
    """

    __slots__ = (
        "_delay_us",
        "_early",
        "_free_at_us",
        "_kernel",
        "_loop",
        "_orders",
        "_owner",
    )

    def __init__(
        self, loop: VirtualLoop, threads: int, delay_us: Callable[[], int], entropy: Random
    ) -> None:
        self._kernel = loop.kernel
        self._loop = loop
        self._owner = loop.owner
        self._delay_us = delay_us
        self._early = entropy
        self._free_at_us = [0] * threads
        self._orders: dict[asyncio.Future[Any], Order] = {}
        """Neither done nor dropped."""

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """A pool of one thread does its work in order; of more threads, in any order."""
        future: asyncio.Future[Result] = self._loop.create_future()
        if not self._loop.alive:
            return future
        free_at_us = min(self._free_at_us)
        begin_us = max(self._kernel.now_us, free_at_us)
        end_us = begin_us + self._delay_us()
        self._free_at_us[self._free_at_us.index(free_at_us)] = end_us
        order = self._orders[future] = Order(begin_us, work, future)
        early = self._early.getrandbits(3) == 0
        done_us = begin_us + (end_us - begin_us) // 2 if early else end_us
        self._kernel.call_at(done_us, self._owner, self._do, (order, end_us))
        return future

    def stall(self, until_us: int) -> None:
        """One of the threads does nothing more until then; work that has begun is finished."""
        first = self._free_at_us.index(min(self._free_at_us))
        self._free_at_us[first] = max(self._free_at_us[first], until_us)

    def release(self) -> None:
        """Nothing hangs any more: what waits is done now, in its order."""
        if not self._loop.alive:
            return
        now_us = self._kernel.now_us
        self._free_at_us = [now_us] * len(self._free_at_us)
        for order in self._orders.values():
            self._kernel.call_at(now_us, self._owner, self._do, (order, now_us))

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return map(work, items)

    def close(self, *, wait: bool = True) -> None:
        """What has begun is finished, now if somebody waits for it. The rest is dropped."""
        orders, self._orders = self._orders, {}
        for future, order in orders.items():
            if order.begin_us > self._kernel.now_us:
                self._loop.call_soon(future.cancel)
            elif wait:
                self._report(self._perform(order))
            else:
                self._orders[future] = order

    def _do(self, due: tuple[Order, int]) -> None:
        order, end_us = due
        if self._orders.pop(order.future, None) is None:
            return
        settle = self._perform(order)
        if end_us > self._kernel.now_us:
            self._kernel.call_at(end_us, self._owner, self._report, settle)
        else:
            self._report(settle)

    def _perform(self, order: Order) -> Callable[[], object]:
        """Do it; what is to be told on the loop."""
        self._loop.work.beside = True
        try:
            result = order.work()
        except Exception as error:
            return partial(_fail, order.future, error)
        else:
            return partial(_finish, order.future, result)
        finally:
            self._loop.work.beside = False

    def _report(self, settle: Callable[[], object]) -> None:
        self._loop.call_soon(settle)


def _forget(task: asyncio.Task[Any]) -> None:
    """Whoever keeps tasks while they run drops them by a callback. A killed task never calls it,
    and a set of a module outlives its process here: all of a run would stay in memory."""
    for callback, _ in task._callbacks or ():
        if isinstance(getattr(callback, "__self__", None), set):
            callback(task)


def _finish(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def drawn_delays(entropy: Random) -> Callable[[int], int]:
    """Most take about as long as usual, one in sixteen takes up to twenty times as long."""

    def draw(usual_us: int) -> int:
        delay_us = 1 + entropy.randrange(usual_us)
        return delay_us * (1 + entropy.randrange(20)) if entropy.randrange(16) == 0 else delay_us

    return draw
