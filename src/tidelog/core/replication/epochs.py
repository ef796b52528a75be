"""Epoch history: at which offset each leader epoch began (replication.md §3, KIP-101, KIP-279).

Every batch carries the epoch of the leader that first wrote it. The history is that fact in
short, and it answers the one question reconciliation needs: where does an epoch end here?

Two rules keep it sound. Epochs and start offsets both strictly increase. An entry may start
at the log end: a leader is entered the moment it is elected, before it has written anything.
"""

from bisect import bisect_right
from collections.abc import Iterable

from tidelog.core.types import NO_EPOCH, UNDEFINED_EPOCH_END, EpochEnd

_LARGEST_OFFSET = (1 << 63) - 1


class EpochHistory:
    """Leader epoch → start offset. The log owns it and sees to it that a crash loses no epoch
    without its records."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.entries: list[tuple[int, int]] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def __repr__(self) -> str:
        return f"EpochHistory({self.entries})"

    @property
    def latest_epoch(self) -> int:
        return self.entries[-1][0] if self.entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Enter an epoch. True when the history changed.

        Entries the new one contradicts are dropped from the tail: those of an equal or later
        epoch, and those that start at or after it (epochs that never wrote a record).
        """
        assert epoch >= 0, f"leader epoch {epoch} assigned at offset {start_offset}"
        assert start_offset >= 0, f"leader epoch {epoch} assigned at offset {start_offset}"
        entries = self.entries
        if entries:
            latest_epoch, latest_start = entries[-1]
            if epoch == latest_epoch and start_offset >= latest_start:
                return False
            while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
                entries.pop()
        entries.append((epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest known epoch not above the one asked for, and where it ends.

        Undefined for no epoch at all and for epochs later than any known here.
        """
        entries = self.entries
        if epoch == NO_EPOCH or not entries or epoch > entries[-1][0]:
            return UNDEFINED_EPOCH_END
        if epoch == entries[-1][0]:
            return EpochEnd(epoch, log_end_offset)
        return self.past_epoch_end(epoch)

    def past_epoch_end(self, epoch: int) -> EpochEnd:
        """KIP-279: answer with the epoch that really wrote the records before that offset,
        not with the one asked for; the follower then knows whether it shares it."""
        entries = self.entries
        later = bisect_right(entries, (epoch, _LARGEST_OFFSET))
        assert later < len(entries), f"epoch {epoch} is not before {entries[-1][0]}"
        end_offset = entries[later][1]
        return EpochEnd(entries[later - 1][0] if later else epoch, end_offset)

    def epoch_at(self, offset: int) -> int:
        """Leader epoch of the record at this offset; NO_EPOCH when it precedes the history."""
        for epoch, start_offset in reversed(self.entries):
            if start_offset <= offset:
                return epoch
        return NO_EPOCH

    def span_at(self, offset: int) -> tuple[int, int]:
        """The epoch of the record at this offset, and the offset at which the next one begins."""
        end = _LARGEST_OFFSET
        for epoch, start_offset in reversed(self.entries):
            if start_offset <= offset:
                return epoch, end
            end = start_offset
        return NO_EPOCH, end

    def truncate_from_end(self, offset: int) -> bool:
        """Forget epochs that start at or after the new log end. True when any did.

        Called even when no byte goes: an epoch without records may still have to be forgotten
        or reconciliation would never end (KAFKA-10706).
        """
        entries = self.entries
        length = len(entries)
        while entries and entries[-1][1] >= offset:
            entries.pop()
        return len(entries) != length

    def truncate_from_start(self, offset: int) -> bool:
        """Forget epochs whose records are all gone; the first kept record's epoch now starts
        at `offset`. True when something changed."""
        entries = self.entries
        kept = 0
        while kept < len(entries) and entries[kept][1] <= offset:
            kept += 1
        if kept == 0 or (kept == 1 and entries[0][1] == offset):
            return False
        entries[:kept] = [(entries[kept - 1][0], offset)]
        return True

    def clear(self) -> None:
        self.entries.clear()
