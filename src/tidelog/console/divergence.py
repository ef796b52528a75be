"""Where the log of a replica ceases to be that of its leader, by their epoch histories."""

from collections.abc import Sequence
from typing import NamedTuple

Epochs = Sequence[tuple[int, int]]


class LogShape(NamedTuple):
    """(leader epoch, start offset) ascending, and where the log begins and ends."""

    epochs: Epochs
    log_start: int
    log_end: int

    def epoch_at(self, offset: int) -> int | None:
        """None before the first known epoch."""
        found = None
        for epoch, start in self.epochs:
            if start > offset:
                break
            found = epoch
        return found


def diverges_at(replica: LogShape, leader: LogShape, leader_epoch: int) -> int | None:
    """The first offset that the replica has and the leader has not, or has from another epoch.

    A replica that is ahead in the leader's own epoch was only looked at later.
    """
    begin = max(replica.log_start, leader.log_start)
    for offset in _borders(replica, leader, begin):
        mine = replica.epoch_at(offset)
        if mine is None:
            continue
        if offset >= leader.log_end:
            if mine < leader_epoch:
                return offset
            continue
        theirs = leader.epoch_at(offset)
        if theirs is not None and theirs != mine:
            return offset
    return None


def _borders(replica: LogShape, leader: LogShape, begin: int) -> list[int]:
    """Between two of these nothing changes on either side."""
    starts = [start for _, start in (*replica.epochs, *leader.epochs)]
    candidates = {begin, leader.log_end, *starts}
    return sorted(each for each in candidates if begin <= each < replica.log_end)
