"""Running later: the event loop, as everything above `host` sees it.

Callers run on the loop of their node, real or simulated, and stay on it. No code above this layer
asks asyncio for a loop, because a loop can also run threads, sockets and clocks that a simulated
host would not know about.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


def begin(work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Run it beside its caller, from the next turn of the loop on. The caller keeps the task:
    the loop alone does not."""
    return asyncio.get_running_loop().create_task(work)


def soon(callback: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
    """Call it in the next turn of the loop."""
    asyncio.get_running_loop().call_soon(callback, *arguments)


def promise() -> asyncio.Future[Any]:
    """Something to wait for, which somebody else will set."""
    return asyncio.get_running_loop().create_future()


def fulfil(promise: asyncio.Future[None]) -> None:
    """Wake whoever waits for it. Nothing happens if that was done before, or if the waiter was
    cancelled: until its task runs again, a timer may still fire for it."""
    if not promise.done():
        promise.set_result(None)


async def pause(pause_ms: float) -> None:
    """Let others run for so long; 0: for one turn of the loop."""
    await asyncio.sleep(pause_ms / 1000)


def within(limit_ms: float) -> asyncio.Timeout:
    """`async with`: TimeoutError if what is inside takes longer."""
    return asyncio.timeout(limit_ms / 1000)


def seconds() -> float:
    """Of the loop's own clock: for how long something took."""
    return asyncio.get_running_loop().time()


def report(message: str, error: Exception) -> None:
    """An error that nobody waits for. The loop's owner hears of it."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
