"""One timer for a whole process instead of one per parked request.

Most deadlines never come: the answer is there first. So adding and cancelling must be cheap and a
cancelled timer must be gone immediately, not when its time would have come: at 50 000 requests per
second with 30 s deadlines that would be 1.5 million dead entries. Deadlines are rounded up to
ticks; all timers of a tick share a bucket, and only buckets are kept in order.
"""

import asyncio
import heapq
from collections.abc import Callable

from tidelog.host import tasks
from tidelog.host.ports import Clock

TICK_MS = 5


class Timer:
    """A deadline that has not come. `cancel` may be called at any time, also afterwards."""

    __slots__ = ("_bucket", "_callback")

    def __init__(self, bucket: "dict[Timer, None]", callback: Callable[[], None]) -> None:
        self._bucket: dict[Timer, None] | None = bucket
        self._callback = callback

    @property
    def pending(self) -> bool:
        return self._bucket is not None

    def cancel(self) -> None:
        bucket, self._bucket = self._bucket, None
        if bucket is not None:
            self._callback = _nothing  # who waits often has us, and is what we would call
            del bucket[self]

    def _fire(self) -> None:
        if self._bucket is not None:  # else an earlier timer of the same tick cancelled it
            self._bucket = None
            callback, self._callback = self._callback, _nothing
            callback()


def _nothing() -> None:
    """What an ended timer calls."""


class TimerWheel:
    """Deadlines on a clock. Never fires early; late by less than a tick, plus what the loop adds.

    Somebody must call `fire_due` at `next_deadline_ms`: a `LoopDriver`, or a test that owns the
    clock. `on_earlier` hears when that time moves forward.
    """

    __slots__ = ("_buckets", "_order", "_tick_ms", "clock", "now_ms", "on_earlier")

    def __init__(self, clock: Clock, *, tick_ms: int = TICK_MS) -> None:
        assert tick_ms > 0, tick_ms
        self.clock = clock
        self.now_ms = clock.monotonic_ms
        self.on_earlier: Callable[[int], None] | None = None
        self._tick_ms = tick_ms
        self._buckets: dict[int, dict[Timer, None]] = {}
        self._order: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    @property
    def next_deadline_ms(self) -> int | None:
        return self._order[0] * self._tick_ms if self._order else None

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        tick = -(-deadline_ms // self._tick_ms)
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = {}
            heapq.heappush(self._order, tick)
            if self._order[0] == tick and self.on_earlier is not None:
                self.on_earlier(tick * self._tick_ms)
        timer = Timer(bucket, callback)
        bucket[timer] = None
        return timer

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self.add(self.now_ms() + delay_ms, callback)

    def fire_due(self) -> None:
        """Everything whose time has come, in order of deadline; what the callbacks add waits for
        the next call. A callback that fails does not keep the others from running; the failures
        are raised together at the end."""
        last_tick = self.now_ms() // self._tick_ms
        due: list[Timer] = []
        while self._order and self._order[0] <= last_tick:
            due.extend(self._buckets.pop(heapq.heappop(self._order)))
        errors: list[Exception] = []
        for timer in due:
            try:
                timer._fire()
            except Exception as error:
                errors.append(error)
        self._drop_cancelled()
        if errors:
            raise ExceptionGroup("timers failed", errors)

    def _drop_cancelled(self) -> None:
        """Nobody need wake up for a tick whose timers are all cancelled, as most are."""
        while self._order and not self._buckets[self._order[0]]:
            del self._buckets[heapq.heappop(self._order)]


class LoopDriver:
    """Fires a wheel from an event loop, which sees a single timer."""

    __slots__ = ("_fire", "_handle", "_loop", "_wheel")

    def __init__(
        self,
        wheel: TimerWheel,
        loop: asyncio.AbstractEventLoop,
        fire: Callable[[], None] | None = None,
    ) -> None:
        """`fire` does what has to be done around `wheel.fire_due`."""
        assert wheel.on_earlier is None, "a wheel has one driver"
        self._wheel = wheel
        self._loop = loop
        self._fire = fire or wheel.fire_due
        self._handle: asyncio.TimerHandle | None = None
        wheel.on_earlier = self._wake_at
        if wheel.next_deadline_ms is not None:
            self._wake_at(wheel.next_deadline_ms)

    def close(self) -> None:
        self._wheel.on_earlier = None
        if self._handle is not None:
            self._handle.cancel()

    def _wake_at(self, deadline_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        delay_ms = max(0, deadline_ms - self._wheel.now_ms())
        self._handle = self._loop.call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._handle = None
        try:
            self._fire()
        finally:
            if self._wheel.on_earlier is not None and self._handle is None:
                deadline_ms = self._wheel.next_deadline_ms
                if deadline_ms is not None:
                    self._wake_at(deadline_ms)


async def pause(timers: TimerWheel, delay_ms: int) -> None:
    """Sleep by the clock of the wheel."""
    over: asyncio.Future[None] = tasks.promise()
    timer = timers.after(delay_ms, lambda: tasks.fulfil(over))
    try:
        await over
    finally:
        timer.cancel()
