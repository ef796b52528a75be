"""The clock of a simulated cluster: time passes only while somebody lets it."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from datetime import timedelta
from typing import TYPE_CHECKING

from tidelog.config.quantities import parse_duration_ms

if TYPE_CHECKING:
    from tidelog.testing.simulated.world import World

Duration = str | float | timedelta
"""`"30s"`, `"500ms"`, `"2min"`; a number of seconds; a timedelta."""

POLL_US = 10_000


def microseconds(duration: Duration) -> int:
    """ValueError for one that is negative or cannot be read."""
    if isinstance(duration, str):
        return parse_duration_ms(duration) * 1000
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{duration!r} is not a time that can pass")
    return round(seconds * 1_000_000)


class Passed:
    """Time that has passed already: may be awaited, and need not be."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class SimClock:
    """`cluster.clock`."""

    __slots__ = ("_world",)

    def __init__(self, world: "World") -> None:
        self._world = world

    def now(self) -> float:
        """Seconds since the cluster was made."""
        return self._world.kernel.now_us / 1_000_000

    def advance(self, duration: Duration) -> Awaitable[None]:
        """Let so much time pass: `clock.advance("30s")`. It has passed when this returns, and
        `await` changes nothing. In a coroutine of `cluster.run` it passes while it is awaited,
        and the other tasks of the program go on."""
        passing_us = microseconds(duration)
        if self._world.program.is_inside:
            return asyncio.sleep(passing_us / 1_000_000)
        self._world.advance(passing_us)
        return Passed()

    def until(self, condition: Callable[[], object], timeout: Duration = "30s") -> Awaitable[None]:
        """Let time pass until it is so; TimeoutError after so much of it. To be awaited in a
        coroutine of `cluster.run`, as `advance` is."""
        if self._world.program.is_inside:
            return self._poll(condition, timeout)
        self._world.wait(condition, timeout)
        return Passed()

    async def _poll(self, condition: Callable[[], object], timeout: Duration) -> None:
        deadline_us = self._world.kernel.now_us + microseconds(timeout)
        while not condition():
            if self._world.kernel.now_us >= deadline_us:
                raise TimeoutError(f"still not so after {show(timeout)} of virtual time")
            await asyncio.sleep(POLL_US / 1_000_000)


def show(duration: Duration) -> str:
    return f"{duration:g} s" if isinstance(duration, int | float) else str(duration)
