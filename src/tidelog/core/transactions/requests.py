"""What producers and brokers ask a transaction coordinator, and what they are told."""

from typing import NamedTuple

from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import Error
from tidelog.core.transactions.records import (
    NO_PRODUCER_EPOCH,
    TransactionState,
    TransactionValue,
)
from tidelog.core.types import NO_PRODUCER


class InitProducer(NamedTuple):
    """InitProducerId with a transactional id: from here on older instances are fenced."""

    transactional_id: str
    timeout_ms: int
    producer_id: int
    """NO_PRODUCER, or the identity the producer wants to go on with (KIP-360)."""
    producer_epoch: int
    fresh_producer_id: int
    """NO_PRODUCER unless `TransactionMachine.needs_producer_id` asked for one."""


class ProducerIdentity(NamedTuple):
    error: Error
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_PRODUCER_EPOCH


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn and AddOffsetsToTxn. From a leader that checks a batch (KIP-890),
    `verify_only` asks whether they are in, without adding; then nothing is written."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verify_only: bool
    version: int
    """Of the client's transactions: 2 if it relies on the epoch bump, else 1."""


class AddPartitionsResponse(NamedTuple):
    """`errors` has one entry per partition, in their order; empty if `error` speaks for all."""

    error: Error
    errors: tuple[Error, ...] = ()


class EndTransaction(NamedTuple):
    """EndTxn. Answered with the `ProducerIdentity` to go on with, as soon as the decision is
    committed: markers follow."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    version: int
    """2 (EndTxn v5 and later): bump the epoch and tell the new identity."""
    fresh_producer_id: int


class MarkersWritten(NamedTuple):
    """The shell reports: these partitions have the marker that `SendMarkers` ordered, or will
    never need it because they are gone. Nobody waits for an answer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """As in the order: reports about an earlier transaction are ignored."""
    partitions: tuple[TopicPartition, ...]
    decided_ms: int
    """As in the order."""


class SendMarkers(NamedTuple):
    """Order: write this end marker to every partition, and report with `MarkersWritten`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    version: int
    partitions: tuple[TopicPartition, ...]
    decided_ms: int
    """When it was decided: two transactions of an older client may share the epoch."""


class DescribeTransaction(NamedTuple):
    transactional_id: str


class DescribedTransaction(NamedTuple):
    error: Error
    value: TransactionValue | None = None


class ListTransactions(NamedTuple):
    """All of this shard; the shell filters and joins shards."""


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: TransactionState
    start_ms: int


class ListTransactionsResponse(NamedTuple):
    error: Error
    transactions: tuple[ListedTransaction, ...] = ()
