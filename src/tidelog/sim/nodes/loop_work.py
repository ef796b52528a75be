"""How much one callback of a node does on its event loop.

Processor time would differ from run to run. So what the world sees of a callback is counted, at a
price: disk operations on the loop, bytes sent, callbacks and tasks scheduled. The sum is the time
that an ordinary machine would need, in microseconds, and the same in every run of a seed. What
worker threads do is not counted: nobody waits for it.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from tidelog.sim.disk_state import (
    Create,
    Effect,
    FailedSync,
    MakeDirectory,
    Remove,
    Rename,
    SyncDirectory,
    SyncFile,
    Truncate,
    Write,
)

LONGEST_US: Final = 100_000
"""`observe.loop_watch` names whoever holds a real loop two and a half times as long. What a
callback only computes is not counted, so the bound is lower."""
CALLERS_TOLD: Final = 8

SYNC_US: Final = 2_000
NAME_US: Final = 50
WRITE_US: Final = 20
READ_US: Final = 10
SEND_US: Final = 15
SCHEDULE_US: Final = 2
BYTES_PER_US: Final = 256

_PRICES: Final[dict[type[Effect], int]] = {
    SyncFile: SYNC_US,
    FailedSync: SYNC_US,
    SyncDirectory: SYNC_US,
    Create: NAME_US,
    MakeDirectory: NAME_US,
    Rename: NAME_US,
    Remove: NAME_US,
    Truncate: NAME_US,
    Write: WRITE_US,
}

OnTooLong = Callable[[str], None]


class LoopWork:
    """The work of the callback that runs now. A `DiskWatcher` of the node's disks."""

    __slots__ = ("_where", "beside", "bound_us", "on_too_long", "trap", "us")

    def __init__(self) -> None:
        self.us = 0
        self.beside = False
        """A worker thread is at work, not the loop."""
        self.bound_us: int | None = None
        """None: nobody minds, because the node does not serve yet or any more."""
        self.on_too_long: OnTooLong = lambda text: None
        self.trap: Trap | None = None
        self._where = ""
        """What it was about when it became too much."""

    def settle(self, callback: object) -> None:
        """A callback is over."""
        bound_us = self.bound_us
        if bound_us is not None and self.us > bound_us:
            told = f"{name_of(callback)} held the loop for about {self.us // 1000} ms"
            self.on_too_long(f"{told}, {self._where or 'with what it sent'}")
        self.us = 0
        self._where = ""

    def forget(self) -> None:
        """Somebody else looked at the disk."""
        self.us = 0

    # -- DiskWatcher

    def before(self, effect: Effect) -> None:
        if self.trap is not None:
            self.trap.before(effect)
        if not self.beside:
            size_bytes = len(effect.data) if type(effect) is Write else 0
            self._charge(_PRICES.get(type(effect), 0) + size_bytes // BYTES_PER_US)

    def reading(self, size_bytes: int) -> None:
        if not self.beside:
            self._charge(READ_US + size_bytes // BYTES_PER_US)

    def _charge(self, price_us: int) -> None:
        self.us += price_us
        if self.bound_us is not None and self.us > self.bound_us and not self._where:
            self._where = _callers()


class Trap:
    """A crash that waits for its moment among the changes of a disk."""

    __slots__ = ("_crash", "_kinds", "_left", "_suffix")

    def __init__(
        self,
        crash: Callable[[], None],
        after: int,
        kinds: tuple[type[Effect], ...] = (),
        suffix: str = "",
    ) -> None:
        """`crash` is called before the change that follows so many others. `kinds`: only these
        count, of files whose names end so; all of them without."""
        self._crash = crash
        self._left = after
        self._kinds = kinds
        self._suffix = suffix

    def before(self, effect: Effect) -> None:
        if self._kinds and type(effect) not in self._kinds:
            return
        if self._suffix and not getattr(effect, "path", "").endswith(self._suffix):
            return
        self._left -= 1
        if self._left == -1:
            self._crash()


def name_of(callback: object) -> str:
    """Of a function, a method, or a step of a task: the coroutine that the task runs."""
    while isinstance(callback, partial):
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    get_coroutine = getattr(owner, "get_coro", None)
    named = get_coroutine() if get_coroutine is not None else callback
    return str(getattr(named, "__qualname__", type(named).__name__))


def _callers() -> str:
    """The functions of the node that have led here, the innermost first."""
    names: list[str] = []
    frame = sys._getframe(1)
    while frame is not None and len(names) < CALLERS_TOLD:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("tidelog.") and not module.startswith("tidelog.sim."):
            names.append(f"{module.removeprefix('tidelog.')}.{frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return "in " + " < ".join(names)
