"""A replica's log at byte depth: the face of `SimLog`, on a real `storage.Log`.

Every operation is performed on the storage engine, reads are decoded from the bytes it serves,
and offsets, epochs and producers are its own. Beside it stands a *shadow*: the same story on
objects. Rules look at the shadow, because looking must not find what the node has not found;
and after every operation the two must agree. A restart makes the shadow anew from the bytes.
"""

from collections.abc import Sequence

from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.producers import ProducerStates
from tidelog.sim.batch_bytes import LARGEST_BATCH_BYTES, decoded, encoded
from tidelog.sim.recovery_facts import Written
from tidelog.sim.sim_log import Aborted, SimBatch, SimLog
from tidelog.storage.errors import CorruptSegment
from tidelog.storage.log import Log

EVERYTHING = 1 << 40
_NOTHING_CUT = 1 << 62


class ByteLog:
    """Owner of the shadow of one log. Satisfies `sim.node_log.NodeLog`."""

    __slots__ = ("_arriving", "_cut_to", "_log", "_restart_at", "_shadow", "fsync", "rotten_from")

    def __init__(self, log: Log) -> None:
        self.fsync = log.config.durability == "fsync"
        self.rotten_from: int | None = None
        """The first offset of a batch in which a bit has flipped, or of a segment whose file is
        lost, until it is cut away."""
        self._log = log
        self._shadow = _shadow_of(log)
        self._be_idle()

    def _be_idle(self) -> None:
        """No operation is under way: one that raises leaves what it wanted for `written`."""
        self._arriving: Sequence[SimBatch] = ()
        self._cut_to = _NOTHING_CUT
        self._restart_at = -1

    # -- what the storage engine says

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def durable_offset(self) -> int:
        return self._log.durable_offset

    @property
    def synced_offset(self) -> int:
        return self._log.recovery_point

    @property
    def epochs(self) -> EpochHistory:
        return self._log.epochs

    @property
    def producers(self) -> ProducerStates:
        return self._log.producers

    @property
    def may_have_gaps(self) -> bool:
        return False

    def read(self, from_offset: int, to_offset: int, max_batches: int) -> tuple[SimBatch, ...]:
        """As `SimLog.read`, but only up to the end of a segment, as a fetch is answered."""
        if from_offset >= to_offset:
            return ()
        max_bytes = 1 if max_batches == 1 else max_batches * LARGEST_BATCH_BYTES
        return tuple(decoded(self._log.read(from_offset, to_offset, max_bytes), max_batches))

    def aborted(self, from_offset: int, to_offset: int) -> tuple[Aborted, ...]:
        return tuple(
            Aborted(each.producer_id, each.first_offset, each.last_offset)
            for each in self._log.aborted_transactions(from_offset, to_offset)
        )

    # -- what the rules look at

    @property
    def batches(self) -> list[SimBatch]:
        return self._shadow.batches

    def batch_at(self, offset: int) -> SimBatch | None:
        return self._shadow.batch_at(offset)

    def chain_at(self, offset: int) -> int | None:
        return self._shadow.chain_at(offset)

    # -- appending

    def append_as_leader(self, batch: SimBatch, leader_epoch: int) -> SimBatch:
        base = self._log.log_end_offset
        stamped = batch._replace(
            base_offset=base, last_offset=base + batch.record_count - 1, leader_epoch=leader_epoch
        )
        self._arriving = (stamped,)
        try:
            header = self._log.append_as_leader(encoded(batch), leader_epoch)
        finally:
            self._follow_append()
        assert header.base_offset == base, (header.base_offset, base)
        return stamped

    def append_as_follower(self, batches: Sequence[SimBatch]) -> None:
        """On NoSpace the batches that fit are kept."""
        self._arriving = batches
        try:
            self._log.append_as_follower([encoded(batch) for batch in batches])
        finally:
            self._follow_append()

    def _follow_append(self) -> None:
        """What the storage took, the shadow takes. What it did not take may still be on disk
        if the storage failed: that is known after recovery."""
        end = self._log.log_end_offset
        self._shadow.append_as_follower([b for b in self._arriving if b.last_offset < end])
        self._agree()
        self._arriving = [batch for batch in self._arriving if batch.last_offset >= end]

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        self._log.assign_epoch(leader_epoch, start_offset)
        self._shadow.assign_epoch(leader_epoch, start_offset)
        self._agree()

    # -- cutting

    def truncate_to(self, offset: int) -> None:
        """CorruptSegment when a bad batch was met on the way: then more is gone than was asked
        for, and this replica may not pretend that it holds what it has acknowledged."""
        end = self._shadow.end_after_cut(offset)
        self._cut_to = end
        self._log.truncate_to(offset)
        found = self._log.log_end_offset
        if found < end:
            assert self.rotten_from is not None, f"{self._log} cut to {found} instead of {end}"
            self._cut_to = found
            raise CorruptSegment(
                self._log.directory, position=0, offset=found, reason=f"met on the way to {end}"
            )
        self._shadow.truncate_to(offset)
        self._forget_rot()
        self._agree()
        self._be_idle()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._cut_to, self._restart_at = 0, offset
        self._log.truncate_fully_and_start_at(offset)
        self._shadow.truncate_fully_and_start_at(offset)
        self.rotten_from = None
        self._agree()
        self._be_idle()

    def raise_log_start(self, offset: int) -> None:
        offset = min(offset, self._log.log_end_offset)
        self._restart_at = max(offset, self._log.log_start_offset)
        self._log.raise_log_start(offset)
        self._shadow.raise_log_start(offset)
        self._agree()
        self._be_idle()

    def _forget_rot(self) -> None:
        if self.rotten_from is not None and self._log.log_end_offset <= self.rotten_from:
            self.rotten_from = None

    def _agree(self) -> None:
        """Our bug, in the storage or in the shadow, if they do not."""
        log, shadow = self._log, self._shadow
        assert log.log_end_offset == shadow.log_end_offset, (log, shadow.log_end_offset)
        assert log.log_start_offset == shadow.log_start_offset, (log, shadow.log_start_offset)
        assert log.epochs.entries == shadow.epochs.entries, (log.epochs, shadow.epochs.entries)

    # -- durability and restarts

    def sync(self) -> None:
        self._log.sync()

    def written(self, *, power_loss: bool) -> Written:
        """Asked when the process is gone. Without power what was synced must be there, else
        everything; but not what was being cut, nor anything from a flipped bit on."""
        end = self.synced_offset if power_loss else self.log_end_offset
        owed_end = min(end, self._cut_to)
        if self.rotten_from is not None:
            owed_end = min(owed_end, self.rotten_from)
        starts: tuple[int, ...] = (self._shadow.log_start_offset,)
        if self._restart_at >= 0:
            starts = (*starts, self._restart_at)
        return Written([*self._shadow.batches, *self._arriving], owed_end, starts)

    def is_as_stored(self) -> bool:
        """Do the bytes say what the shadow says?"""
        return _shadow_of(self._log).batches == self._shadow.batches

    def reopened(self, log: Log) -> None:
        """A new process has opened it. With a flipped bit in it the shadow is only cut: to read
        everything back would find what nobody has read."""
        self._log = log
        self._forget_rot()
        if self.rotten_from is None:
            self._shadow = _shadow_of(log)
        else:
            self._shadow.truncate_to(log.log_end_offset)
        self._be_idle()


def _shadow_of(log: Log) -> SimLog:
    """The log as objects, from nothing but its bytes."""
    batches: list[SimBatch] = []
    start, end = log.log_start_offset, log.log_end_offset
    offset = start
    while offset < end:
        batches += decoded(log.read(offset, end, EVERYTHING), EVERYTHING)
        assert batches[-1].last_offset >= offset, f"{log}: nothing to read at {offset}"
        offset = batches[-1].last_offset + 1
    shadow = SimLog(fsync=False, start_offset=batches[0].base_offset if batches else start)
    shadow.append_as_follower(batches)
    shadow.raise_log_start(start)
    return shadow
