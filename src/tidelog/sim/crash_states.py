"""Every disk that a crash in the middle of a workload can leave behind (reliability.md §2.5).

The workload runs once on a recording disk. Its effects are then replayed one by one, and
after each the possible losses among the pending effects are enumerated. A loss that does
not touch the newest effect was already possible before it, so only those that keep the
newest are new; when the workload sets a mark, everything still possible is listed again,
because more is owed from then on.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tidelog.sim.disk import SECTOR_BYTES, SimDisk, tear_borders
from tidelog.sim.disk_state import (
    Effect,
    Extend,
    Mark,
    PendingEffect,
    SyncEffect,
    Write,
    is_data_effect,
)

Survivors = tuple[PendingEffect, ...]


class CrashLimits(NamedTuple):
    """How far to go. Beyond `max_subset_effects` pending effects not every subset is tried:
    all single drops, all suffix drops, and names against data."""

    max_subset_effects: int = 12
    tear_bytes: int = SECTOR_BYTES
    distinct: bool = True


DEFAULT_LIMITS = CrashLimits()


class CrashStates:
    """Iterates over the crash states of a workload; `count` says how many so far.

    Each is a fresh `SimDisk` with the workload's `marks` up to the crash and a `story`.
    """

    def __init__(
        self,
        workload: Callable[[SimDisk], None],
        *,
        start: SimDisk | None = None,
        limits: CrashLimits = DEFAULT_LIMITS,
    ) -> None:
        self._start = SimDisk() if start is None else start
        self._limits = limits
        recording = self._start.copy()
        recording.trace = []
        workload(recording)
        self.effects: Sequence[Effect] = recording.trace
        self.count = 0
        self.repeated = 0

    def __iter__(self) -> Iterator[SimDisk]:
        seen: set[tuple[bytes, int]] = set()
        for step, disk, survivors in self._all():
            state = disk.after_power_loss(survivors)
            if self._limits.distinct:
                key = (state.digest(), len(state.marks))
                if key in seen:
                    self.repeated += 1
                    continue
                seen.add(key)
            self.count += 1
            state.crashed_at = f"power loss after {step} of {len(self.effects)} effects"
            yield state

    def _all(self) -> Iterator[tuple[int, SimDisk, Survivors]]:
        disk = self._start.copy()
        for survivors in losses(disk.pending(), newest_kept=False, limits=self._limits):
            yield 0, disk, survivors
        for step, effect in enumerate(self.effects, 1):
            disk.replay(effect)
            if isinstance(effect, SyncEffect):
                continue
            newest_kept = type(effect) is not Mark
            for survivors in losses(disk.pending(), newest_kept=newest_kept, limits=self._limits):
                yield step, disk, survivors


def losses(
    pending: Sequence[PendingEffect], *, newest_kept: bool, limits: CrashLimits
) -> Iterator[Survivors]:
    """What may survive of the pending effects. With `newest_kept` at least a part of the
    last one does."""
    if not pending:
        yield ()
        return
    older, newest = tuple(pending[:-1]), pending[-1]
    few = len(pending) <= limits.max_subset_effects
    choices = subsets(older) if few else selected_losses(older)
    for kept in choices:
        yield (*kept, newest)
        if not newest_kept:
            yield kept
    yield from torn_losses(pending, newest_kept=newest_kept, limits=limits)


def torn_losses(
    pending: Sequence[PendingEffect], *, newest_kept: bool, limits: CrashLimits
) -> Iterator[Survivors]:
    """One write arrived in part, and all others with it or none; every write is tried, or
    the last one only when there are many."""
    places = [place for place, effect in enumerate(pending) if type(effect) is Write]
    if len(pending) > limits.max_subset_effects:
        places = places[-1:]
    for place in places:
        before, after = tuple(pending[:place]), tuple(pending[place + 1 :])
        newest = after[-1:] if newest_kept else ()
        for part in tears(pending[place], limits.tear_bytes):
            yield (*before, part, *after)
            yield (part, *newest)


def subsets(effects: Survivors) -> Iterator[Survivors]:
    """All of them, the full one first."""
    for mask in range((1 << len(effects)) - 1, -1, -1):
        yield tuple(effect for bit, effect in enumerate(effects) if mask >> bit & 1)


def selected_losses(effects: Survivors) -> Iterator[Survivors]:
    """The losses worth trying when there are too many subsets."""
    yield effects
    for place in range(len(effects)):
        yield effects[:place] + effects[place + 1 :]  # one is lost
        yield effects[:place]  # all from here on are lost
    yield tuple(effect for effect in effects if is_data_effect(effect))
    names = tuple(effect for effect in effects if not is_data_effect(effect))
    yield names
    for name in names:  # this name came before the data of its file, or alone
        yield tuple(e for e in effects if not (is_data_effect(e) and e.node == name.node))
        yield (name,)


def tears(effect: PendingEffect, tear_bytes: int) -> Iterator[PendingEffect]:
    """The parts of a write that may have arrived: up to a border, from a border on, or the
    size of the file alone."""
    if type(effect) is not Write:
        return
    for border in tear_borders(effect, tear_bytes):
        kept = border - effect.position
        yield effect._replace(data=effect.data[:kept])
        yield effect._replace(position=border, data=effect.data[kept:])
    yield Extend(effect.node, effect.path, effect.position + len(effect.data))
