"""Who holds the event loop: named in the journal with what it was about.

Everything a node does shares one loop, heartbeats and fetches too. Whoever holds it for seconds
makes the node look dead, and costs it its leaderships. The loop leaves a beat five times a second,
and each beat puts off an alarm of the process. The alarm goes off when the beat is overdue, in the
middle of what the loop is doing, and notes what that is; while all is well it never does. When the
loop beats again, it tells for how long it was held, and by whom.
"""

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from tidelog.host.work import Work
from tidelog.observe.counts import LoopDelay

BEAT_S: Final = 0.2
"""An idle node is woken by little else: every beat counts."""
HELD_S: Final = 0.35
OVERDUE_S: Final = 0.25
"""After the last beat. From then on the alarm goes off, at least once before HELD_S."""
LOOK_AGAIN_S: Final = 0.1
SHOWN_FRAMES: Final = 4
OWN_CODE: Final = "/tidelog/"
LOOP_BEGINS: Final = "/asyncio/runners.py"
"""What is called further out is how the process was started."""

_LOGGER = logging.getLogger("tidelog.node")


class LoopWatch:
    """Of the event loop of a process, on its main thread. Also feeds `LoopDelay`."""

    __slots__ = (
        "_clock",
        "_delay",
        "_handle",
        "_last_cpu_s",
        "_last_s",
        "_seen",
        "_usual_handler",
        "_work",
    )

    def __init__(
        self, work: Work, delay: LoopDelay, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._work = work
        self._delay = delay
        self._clock = clock
        self._last_s = clock()
        self._last_cpu_s = time.thread_time()
        self._seen: list[tuple[str, str]] = []
        self._handle: asyncio.TimerHandle | None = None
        self._usual_handler: Any = signal.SIG_DFL

    def start(self) -> None:
        """On the loop that is watched."""
        self._last_s, self._last_cpu_s = self._clock(), time.thread_time()
        self._usual_handler = signal.signal(signal.SIGALRM, self._on_alarm)
        signal.siginterrupt(signal.SIGALRM, False)  # whoever is in a call stays there
        self._plan(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._usual_handler)

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        def on_time() -> None:
            self.beat()
            self._plan(loop)

        signal.setitimer(signal.ITIMER_REAL, OVERDUE_S, LOOK_AGAIN_S)
        self._handle = loop.call_later(BEAT_S, on_time)

    def beat(self) -> None:
        """The loop is free. If it was not for long, say who had it."""
        now_s, cpu_s = self._clock(), time.thread_time()
        passed_s, used_s = now_s - self._last_s, cpu_s - self._last_cpu_s
        self._last_s, self._last_cpu_s = now_s, cpu_s
        self._delay.note(max(0.0, passed_s - BEAT_S))
        seen, self._seen = self._seen, []
        if passed_s < HELD_S:
            return
        self._delay.note_hold(passed_s)
        _LOGGER.warning(
            "%s held the event loop for %.2f s, with %.2f s of processor",
            who(seen),
            passed_s,
            used_s,
        )

    def look(self, frame: FrameType | None) -> None:
        """What is the loop doing, if its beat is overdue? `frame` is where it stands."""
        if self._clock() - self._last_s >= OVERDUE_S:
            self._seen.append((str(self._work), place_of(frame)))

    def _on_alarm(self, _number: int, frame: FrameType | None) -> None:
        self.look(frame)


def who(seen: list[tuple[str, str]]) -> str:
    """The name and the place that were seen most often."""
    if not seen:
        return "something that was over before we looked"
    work = Counter(work for work, _ in seen).most_common(1)[0][0]
    place = Counter(place for name, place in seen if name == work).most_common(1)[0][0]
    if not work and not place:
        return "nothing of this node (the machine was busy or the process stood still)"
    return " in ".join(filter(None, (work, place)))


def place_of(frame: FrameType | None) -> str:
    """The innermost functions of ours, from the outside in; empty if the loop only waits."""
    found: list[str] = []
    while frame is not None and not frame.f_code.co_filename.endswith(LOOP_BEGINS):
        name = frame.f_code.co_filename
        if OWN_CODE in name and len(found) < SHOWN_FRAMES:
            short = name.rpartition(OWN_CODE)[2].removesuffix(".py").replace("/", ".")
            found.append(f"{short}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " > ".join(reversed(found))
