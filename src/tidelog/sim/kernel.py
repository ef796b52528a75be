"""The simulated timeline: one heap, one clock, one step at a time.

A step is one callback that really ran. Events of one owner at the same microsecond run in the
order in which they were scheduled. Whose events come first at that microsecond is drawn from the
seed, and again for every microsecond; a kernel without a seed keeps the order of scheduling.

Every event belongs to an owner (a node, a client, or WORLD). A crash revokes all that was
scheduled for its owner by raising the owner's incarnation: stale entries are skipped when
they reach the top of the heap, never searched for. A pause holds the owner's events back;
they run all at once and in order when it ends, which is what SIGSTOP looks like from inside.

The event loop of an owner is asyncio's running one while events of that owner run. The kernel
switches, because it knows when the next event belongs to another owner: telling asyncio costs more
than many a callback does.
"""

from collections import defaultdict
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVar

from tidelog.sim.digest import RunDigest
from tidelog.sim.entropy import stream

WORLD = -1
"""Owner of what happens to the cluster from outside: faults, phases, the judge."""

Argument = TypeVar("Argument")
Entry = tuple[int, int, int, int, Callable[[Any], None], Any]
"""(at_us, turn and sequence, owner, incarnation, callback, argument)"""

FLUSH_EVERY_STEPS = 512
TURN_BITS = 0x3FF
TURN_SHIFT = 40
"""A run schedules far fewer events than 2 to this power."""


class _Salts(dict[int, int]):
    """A number for every owner, by which its turn at a microsecond is worked out."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self._seed = seed

    def __missing__(self, owner: int) -> int:
        drawn = 0 if self._seed is None else stream(self._seed, f"turns of {owner}").getrandbits(31)
        self[owner] = drawn
        return drawn


class Kernel:
    """Owner of virtual time. Nothing else in a run may move it."""

    __slots__ = (
        "_enter",
        "_incarnations",
        "_interval_callback",
        "_interval_steps",
        "_loops",
        "_paused",
        "_queue",
        "_salts",
        "_sequence",
        "_turn_of",
        "digest",
        "now_us",
        "running_loop",
        "steps",
        "stop_reason",
    )

    def __init__(self, seed: int | None = None) -> None:
        self.now_us = 0
        self.steps = 0
        self.stop_reason: str | None = None
        self.digest = RunDigest()
        self.running_loop: object | None = None
        self._loops: dict[int, object] = {}
        self._enter: Callable[[Any], None] = _enter_nothing
        self._turn_of: int | None = None
        """Whose event loop is the running one."""
        self._queue: list[Entry] = []
        self._sequence = 0
        self._salts = _Salts(seed)
        self._incarnations: defaultdict[int, int] = defaultdict(int)
        self._paused: dict[int, list[Entry]] = {}
        self._interval_steps = FLUSH_EVERY_STEPS
        self._interval_callback: Callable[[], None] | None = None

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    def add_loop(self, owner: int, loop: object, enter: Callable[[Any], None]) -> None:
        """Events of this owner run on this loop from now on. `enter(loop)` is called before they
        do, and `enter(None)` before those of an owner without a loop."""
        self._loops[owner] = loop
        self._enter = enter
        self._turn_of = None

    def call_at(
        self, at_us: int, owner: int, callback: Callable[[Argument], None], argument: Argument
    ) -> None:
        """Run `callback(argument)` at this time unless its owner crashes first."""
        assert at_us >= self.now_us, f"scheduled at {at_us} µs, now is {self.now_us} µs"
        self._sequence = sequence = self._sequence + 1
        turn = at_us * self._salts[owner] >> 12 & TURN_BITS
        order = turn << TURN_SHIFT | sequence
        heappush(self._queue, (at_us, order, owner, self._incarnations[owner], callback, argument))

    def call_in(
        self, delay_us: int, owner: int, callback: Callable[[Argument], None], argument: Argument
    ) -> None:
        self.call_at(self.now_us + delay_us, owner, callback, argument)

    def revoke(self, owner: int) -> None:
        """A crash: nothing scheduled for this owner so far will happen. Also ends its pause."""
        assert owner != WORLD, "the world cannot crash"
        self._incarnations[owner] += 1
        self._paused.pop(owner, None)

    def pause(self, owner: int) -> None:
        """Hold this owner's events back until `resume`. Pausing twice is pausing once."""
        assert owner != WORLD, "the world cannot be paused"
        self._paused.setdefault(owner, [])

    def resume(self, owner: int) -> None:
        """What was held back happens now, in its order; no effect if nothing is paused."""
        incarnation = self._incarnations[owner]
        for held in self._paused.pop(owner, ()):
            if held[3] == incarnation:
                self.call_at(self.now_us, owner, held[4], held[5])

    def is_paused(self, owner: int) -> bool:
        return owner in self._paused

    def every_steps(self, steps: int, callback: Callable[[], None]) -> None:
        """Call back after each so many steps, between two steps (not itself a step)."""
        assert steps > 0, f"an interval of {steps} steps"
        self._interval_steps = steps
        self._interval_callback = callback

    def stop(self, reason: str) -> None:
        """End the run after the step in progress. The first reason stays."""
        if self.stop_reason is None:
            self.stop_reason = reason

    def run(self, until_us: int, step_limit: int) -> bool:
        """Run everything due up to and including `until_us`; True if that time was reached.

        Returns early (False) when `stop` was called or when `steps`, counted since the
        kernel was made, has reached `step_limit`.
        """
        assert until_us >= self.now_us, f"asked to run to {until_us}, now is {self.now_us}"
        reached = False
        while not reached and self.stop_reason is None and self.steps < step_limit:
            interval = self._interval_steps
            next_border = self.steps - self.steps % interval + interval
            try:
                reached = self._run_some(until_us, min(step_limit, next_border))
            finally:
                self._give_turn(WORLD)
            if self.steps == next_border:
                self.digest.flush()
                if self._interval_callback is not None:
                    self._interval_callback()
        if reached:
            self.now_us = until_us
        return reached

    def _run_some(self, until_us: int, step_limit: int) -> bool:
        """The hot loop. True if nothing due up to `until_us` is left."""
        queue = self._queue
        incarnations = self._incarnations
        paused = self._paused
        digest = self.digest.add
        steps = self.steps
        while queue:
            entry = heappop(queue)
            at_us, order, owner, incarnation, callback, argument = entry
            if incarnation != incarnations[owner]:
                continue
            if at_us > until_us or steps >= step_limit:
                heappush(queue, entry)
                return at_us > until_us
            if paused and owner in paused:
                paused[owner].append(entry)
                continue
            self.now_us = at_us
            self.steps = steps = steps + 1
            digest(at_us)
            digest(order)
            if owner != self._turn_of:
                self._give_turn(owner)
            callback(argument)
            if self.stop_reason is not None:
                return False
        return True

    def _give_turn(self, owner: int) -> None:
        self._turn_of = owner
        self.running_loop = loop = self._loops.get(owner)
        self._enter(loop)


def _enter_nothing(_: object) -> None:
    """Nobody has an event loop."""
