"""What a transaction coordinator writes to `__transaction_state`, as values."""

from enum import IntEnum
from typing import NamedTuple

from tidelog.core.coordination import TopicPartition
from tidelog.core.types import NO_PRODUCER

NO_PRODUCER_EPOCH = -1


class TransactionState(IntEnum):
    """Kafka's numbers, as they stand in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


class TransactionValue(NamedTuple):
    """Everything about one transactional id. Times are wall clock."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...]
    """Sorted; empty unless ongoing or prepared."""
    last_update_ms: int
    start_ms: int
    """-1 before the first partition."""
    previous_producer_id: int = NO_PRODUCER
    """The id before an exhausted epoch made a new one necessary (KIP-360)."""
    next_producer_id: int = NO_PRODUCER
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    """While prepared, with KIP-890: whom the producer is when the transaction has ended."""
    version: int = 0
    """0 or 1: the epoch stays. 2: it is bumped with every transaction (KIP-890 part 2)."""


class Transaction(NamedTuple):
    transactional_id: str
    value: TransactionValue | None
