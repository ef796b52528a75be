"""Who may do what with a transaction: one function per rule (KIP-98, KIP-360, KIP-890).

Functions of the value that stands in the log and of what is asked; nothing changes here.
"""

from enum import Enum

from tidelog.core.coordination import ProducerStamp
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.transactions.records import (
    NO_PRODUCER_EPOCH,
    TransactionState,
    TransactionValue,
)
from tidelog.core.transactions.requests import EndTransaction, InitProducer, MarkersWritten
from tidelog.core.transactions.settings import TransactionSettings
from tidelog.core.types import NO_PRODUCER

LARGEST_CLIENT_EPOCH = (1 << 15) - 2
"""Producers get no larger one: the one above is kept for the marker that ends their last
transaction, and then they go on with another producer id."""

BUMPING_VERSION = 2
"""From this transaction version on, every end raises the producer epoch (KIP-890 part 2)."""

_DECISIONS = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class Verdict(Enum):
    """What to make of an EndTransaction."""

    DECIDE = "it decides the transaction"
    REPEATED = "it asks for what has happened"
    UNDER_WAY = "a decision is being carried out"
    IMPOSSIBLE = "nothing is ongoing, or the other decision was made"


END_ERRORS = {
    Verdict.REPEATED: NO_ERROR,
    Verdict.UNDER_WAY: Error.CONCURRENT_TRANSACTIONS,
    Verdict.IMPOSSIBLE: Error.INVALID_TXN_STATE,
}


# ---- states ----


def is_ongoing(value: TransactionValue) -> bool:
    return value.state is TransactionState.ONGOING


def is_prepared(value: TransactionValue) -> bool:
    """Decided, and not every partition is known to have its marker."""
    return value.state in _PREPARED


def is_settled(value: TransactionValue) -> bool:
    """Nothing is under way."""
    return not is_ongoing(value) and not is_prepared(value)


def is_commit(value: TransactionValue) -> bool:
    assert value.state in _DECISIONS, f"{value.state.name} is no decision"
    return _DECISIONS[value.state]


def bumps_epoch(version: int) -> bool:
    return version >= BUMPING_VERSION


def is_exhausted(producer_epoch: int) -> bool:
    """The next epoch would be more than a producer may have (KIP-360)."""
    return producer_epoch >= LARGEST_CLIENT_EPOCH


# ---- identities ----


def identity(value: TransactionValue) -> ProducerStamp:
    """Who the producer is; while a decision is carried out, who it is from then on."""
    if value.next_producer_id != NO_PRODUCER:
        return ProducerStamp(value.next_producer_id, value.next_producer_epoch)
    return ProducerStamp(value.producer_id, value.producer_epoch)


def is_fenced(value: TransactionValue, producer_epoch: int) -> bool:
    """Exactly the current epoch counts. KAFKA-17754: with a lower one, the message is of an
    earlier transaction; a higher one was never given out."""
    return producer_epoch != identity(value).producer_epoch or producer_epoch > LARGEST_CLIENT_EPOCH


def check_identity(value: TransactionValue | None, producer_id: int, producer_epoch: int) -> Error:
    if value is None or producer_id != identity(value).producer_id:
        return Error.INVALID_PRODUCER_ID_MAPPING
    if is_fenced(value, producer_epoch):
        return Error.PRODUCER_FENCED
    return NO_ERROR


def was_identity(value: TransactionValue, producer_id: int, producer_epoch: int) -> bool:
    """The producer itself asked for its current identity, and before that it was this one: it
    may not know yet, if the answer was lost."""
    if value.previous_producer_id != producer_id or producer_id == NO_PRODUCER:
        return False
    if producer_id == value.producer_id:
        return producer_epoch == value.producer_epoch - 1
    return value.producer_epoch == 0 and producer_epoch == LARGEST_CLIENT_EPOCH


# ---- InitProducerId ----


def check_init(request: InitProducer, settings: TransactionSettings) -> Error:
    if not request.transactional_id:
        return Error.INVALID_REQUEST
    if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return Error.INVALID_REQUEST
    if not 0 < request.timeout_ms <= settings.max_timeout_ms:
        return Error.INVALID_TRANSACTION_TIMEOUT
    return NO_ERROR


def may_take_over(value: TransactionValue, request: InitProducer) -> bool:
    """A new instance always may. One that goes on (KIP-360) only if nobody came after it."""
    if request.producer_id == NO_PRODUCER:
        return True
    stamp = (request.producer_id, request.producer_epoch)
    return stamp == identity(value) or was_identity(value, *stamp)


def is_repeated_init(value: TransactionValue, request: InitProducer) -> bool:
    """It has its identity already, and asks again because it did not hear of it."""
    return value.state is TransactionState.EMPTY and was_identity(
        value, request.producer_id, request.producer_epoch
    )


# ---- EndTxn ----


def is_repeated_end(value: TransactionValue, request: EndTransaction) -> bool:
    """KIP-890: the epoch was raised by the first copy of this request."""
    return (
        bumps_epoch(request.version)
        and bumps_epoch(value.version)
        and value.state in _DECISIONS
        and was_identity(value, request.producer_id, request.producer_epoch)
    )


def judge_end(value: TransactionValue, request: EndTransaction) -> Verdict:
    """The producer is who it has to be: what becomes of its request?"""
    if is_ongoing(value):
        return Verdict.DECIDE
    same = _DECISIONS.get(value.state) is request.commit
    of_last_transaction = not bumps_epoch(request.version) or is_repeated_end(value, request)
    if is_prepared(value):
        return Verdict.UNDER_WAY if same or not of_last_transaction else Verdict.IMPOSSIBLE
    if of_last_transaction:
        return Verdict.REPEATED if same else Verdict.IMPOSSIBLE
    # It does not know whether a partition was added before the failure that made it abort.
    return Verdict.IMPOSSIBLE if request.commit else Verdict.DECIDE


# ---- markers, time ----


def is_about(value: TransactionValue, report: MarkersWritten) -> bool:
    """Transactions of older clients share an epoch: the time of the decision tells them apart."""
    return is_prepared(value) and (
        value.producer_id,
        value.producer_epoch,
        value.last_update_ms,
    ) == (
        report.producer_id,
        report.producer_epoch,
        report.decided_ms,
    )


def is_expired(value: TransactionValue, settings: TransactionSettings, wall_ms: int) -> bool:
    idle_ms = wall_ms - value.last_update_ms
    return is_settled(value) and idle_ms >= settings.transactional_id_expiration_ms
