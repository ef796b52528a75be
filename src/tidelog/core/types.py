"""The words every state machine shares.

State is mutable, slotted and has exactly one owner. Inputs, effects and events are
immutable NamedTuples: cheap to build, safe to keep, readable when printed.
"""

from typing import NamedTuple, Protocol

NO_LEADER = -1
"""A partition without a leader; also "no node" in the quorum."""

NO_EPOCH = -1
"""An epoch that is absent or unknown. Never compare it, test for it."""

NO_OFFSET = -1
"""An offset that is absent or unknown."""

NO_PRODUCER = -1
"""Producer id of a batch that is not idempotent."""

NEVER_MS = (1 << 63) - 1
"""A deadline for "nothing to do until something arrives"."""


class PartitionId(NamedTuple):
    """Names one partition for as long as its topic exists: a recreated topic has a new id."""

    topic_id: bytes
    partition: int


class EpochEnd(NamedTuple):
    """Answer to "where does this leader epoch end?": the largest known epoch not above the
    one asked for, and the offset after its last record. Both are -1 when it is undefined."""

    leader_epoch: int
    end_offset: int


UNDEFINED_EPOCH_END = EpochEnd(NO_EPOCH, NO_OFFSET)


class BatchHeader(Protocol):
    """What `core` may know of a record batch; the records themselves stay opaque bytes."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...


class LogEntry(NamedTuple):
    """One atomic batch of the metadata log; it occupies `offset .. last_offset`.

    `records` are opaque to the quorum unless `control` is set.
    """

    offset: int
    epoch: int
    records: tuple[object, ...]
    control: bool = False

    @property
    def last_offset(self) -> int:
        return self.offset + len(self.records) - 1

    @property
    def next_offset(self) -> int:
        return self.offset + len(self.records)
