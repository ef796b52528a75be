"""What a story must never lose: every record that was committed once.

A record is committed when a leader's high watermark has passed it (replication.md §12, C(p)).
Records acknowledged with acks=1 are kept apart: those may be lost, and are told apart.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog.sim.scenario.words import StoryBatch


class Loss(NamedTuple):
    batch: StoryBatch
    found: StoryBatch | None
    """Another record that stands at its offset now."""


class Ledger:
    def __init__(self) -> None:
        self._committed: dict[int, StoryBatch] = {}
        self._acknowledged_by_leader: list[StoryBatch] = []

    def __len__(self) -> int:
        return sum(batch.record_count for batch in self._committed.values())

    def on_committed(self, log: Sequence[StoryBatch], high_watermark: int) -> None:
        """A leader may give out everything below its high watermark from now on."""
        for batch in log:
            if batch.last_offset < high_watermark:
                self._committed.setdefault(batch.base_offset, batch)

    def on_acknowledged_by_leader(self, batch: StoryBatch) -> None:
        self._acknowledged_by_leader.append(batch)

    def lost(self, log: Sequence[StoryBatch]) -> list[Loss]:
        """Committed records that this log does not hold as they were."""
        return _missing(self._committed.values(), log)

    def gone(self, log: Sequence[StoryBatch]) -> list[Loss]:
        """Records acknowledged with acks=1 that this log does not hold."""
        return _missing(self._acknowledged_by_leader, log)


def _missing(batches: Iterable[StoryBatch], log: Sequence[StoryBatch]) -> list[Loss]:
    losses: list[Loss] = []
    by_offset = {batch.base_offset: batch for batch in log}
    for batch in batches:
        found = by_offset.get(batch.base_offset)
        if found != batch:
            losses.append(Loss(batch, found))
    return losses
