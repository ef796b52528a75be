"""What a replica may know of its log, and what the shell's log can do.

The state machines only look (`LogView`). They ask for changes with effects; the shell performs
those on the same object (`ReplicaLog`), so there is one owner of bytes and one of decisions.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.producers import ProducerStates
from tidelog.core.types import BatchHeader

BatchT = TypeVar("BatchT")


class LogView(Protocol):
    """Read-only face of a replica's log."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def durable_offset(self) -> int:
        """Everything below it survives a crash as `ack.durability` promises: it is synced, or
        it is the log end when the page cache is trusted. Only this counts as replicated."""
        ...

    @property
    def epochs(self) -> EpochHistory: ...
    @property
    def producers(self) -> ProducerStates: ...


class ReplicaLog(LogView, Protocol[BatchT]):
    """The whole log, for the shell. `core` never calls these."""

    def append_as_leader(self, batch: BatchT, leader_epoch: int) -> BatchHeader:
        """Stamp base offset and leader epoch, append; epochs and producers follow."""
        ...

    def append_as_follower(self, batches: Sequence[BatchT]) -> None:
        """Append as they come from the leader; epochs and producers follow."""
        ...

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """An epoch without a record need not survive a crash: a load forgets it."""
        ...

    def truncate_to(self, offset: int) -> None:
        """Whole batches: one that spans `offset` goes too. Epochs are truncated even when no
        batch goes (KAFKA-10706); producer state is rebuilt."""
        ...

    def truncate_fully_and_start_at(self, offset: int) -> None: ...
    def raise_log_start(self, offset: int) -> None: ...
    def read(self, from_offset: int, to_offset: int, max_bytes: int) -> Sequence[BatchT]:
        """Whole batches whose last offset is below `to_offset`, from the one that contains
        `from_offset`; at least one, if there is any, whatever its size."""
        ...

    def sync(self) -> None: ...
