"""What a story must never lose: every record that was committed once.

A record is committed when a leader's high watermark has passed it (replication.md §12, C(p)).
Records acknowledged with acks=1 are kept apart: those may be lost, and are told apart.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.sim.sim_log import SimBatch, SimLog


class Loss(NamedTuple):
    batch: SimBatch
    found: SimBatch | None
    """Another record that stands at its offset now."""


class Ledger:
    def __init__(self) -> None:
        self._committed: dict[int, SimBatch] = {}
        self._acknowledged_by_leader: list[SimBatch] = []

    def __len__(self) -> int:
        return sum(batch.record_count for batch in self._committed.values())

    def on_committed(self, log: SimLog, high_watermark: int) -> None:
        """A leader may give out everything below its high watermark from now on."""
        for batch in log.batches:
            if batch.last_offset < high_watermark:
                self._committed.setdefault(batch.base_offset, batch)

    def on_acknowledged_by_leader(self, batch: SimBatch) -> None:
        self._acknowledged_by_leader.append(batch)

    def lost(self, log: SimLog) -> list[Loss]:
        """Committed records that this log does not hold as they were."""
        return _missing(self._committed.values(), log)

    def gone(self, log: SimLog) -> list[Loss]:
        """Records acknowledged with acks=1 that this log does not hold."""
        return _missing(self._acknowledged_by_leader, log)


def _missing(batches: Iterable[SimBatch], log: SimLog) -> list[Loss]:
    losses: list[Loss] = []
    for batch in batches:
        found = log.batch_at(batch.base_offset)
        if found != batch:
            losses.append(Loss(batch, found))
    return losses
