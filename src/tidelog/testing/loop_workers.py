"""Workers without threads: for nodes whose disks are memory, where nothing ever waits."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Order = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class LoopWorkers:
    """The `Workers` port: work is done in the next turn of the loop that asked for it, in order.

    A thread would cost a start, two hand-overs of the interpreter and a wake-up for every sync,
    and a test has hundreds of them.
    """

    __slots__ = ("_orders",)

    def __init__(self, _name: str, _threads: int) -> None:
        self._orders: deque[Order] = deque()

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._orders.append((work, future))
        loop.call_soon(self._do_next)
        return future

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return map(work, items)

    def close(self, *, wait: bool = True) -> None:
        """Nothing has begun that is not done, so there is nothing to wait for."""
        orders, self._orders = self._orders, deque()
        for _, future in orders:
            future.cancel()

    def _do_next(self) -> None:
        if not self._orders:
            return  # closed in the meantime
        work, future = self._orders.popleft()
        if future.cancelled():
            return
        try:
            result = work()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
