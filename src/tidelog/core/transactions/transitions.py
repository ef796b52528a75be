"""The states of a transactional id, and every way from one to the next.

    (nothing) ─ registered → EMPTY
    EMPTY, COMPLETE_* ─ reidentified → EMPTY
    EMPTY, COMPLETE_*, ONGOING ─ extended → ONGOING
    ONGOING ─ decided, fenced → PREPARE_*
    EMPTY, COMPLETE_* ─ decided → PREPARE_ABORT, without partitions (KIP-890)
    PREPARE_* ─ completed → COMPLETE_*

Each makes the next value; who may ask for it is judged in `rules`. Every value is written later
than the one before, also when the wall clock of this coordinator is behind that of the last: so
the time of a decision names it.
"""

from tidelog.core.coordination import TopicPartition
from tidelog.core.transactions import rules
from tidelog.core.transactions.records import (
    NO_PRODUCER_EPOCH,
    TransactionState,
    TransactionValue,
)
from tidelog.core.transactions.requests import EndTransaction, InitProducer
from tidelog.core.types import NO_PRODUCER

NO_START_MS = -1


def registered(request: InitProducer, wall_ms: int) -> TransactionValue:
    assert request.fresh_producer_id != NO_PRODUCER, f"no producer id for {request}"
    return TransactionValue(
        producer_id=request.fresh_producer_id,
        producer_epoch=0,
        timeout_ms=request.timeout_ms,
        state=TransactionState.EMPTY,
        partitions=(),
        last_update_ms=wall_ms,
        start_ms=NO_START_MS,
    )


def reidentified(value: TransactionValue, request: InitProducer, wall_ms: int) -> TransactionValue:
    """The next epoch fences every older instance; past the last one it is a new producer."""
    assert rules.is_settled(value), f"{value.state.name} is taken over"
    producer_id, producer_epoch = value.producer_id, value.producer_epoch + 1
    if rules.is_exhausted(value.producer_epoch):
        assert request.fresh_producer_id != NO_PRODUCER, f"no producer id for {request}"
        producer_id, producer_epoch = request.fresh_producer_id, 0
    goes_on = request.producer_id != NO_PRODUCER
    return value._replace(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=request.timeout_ms,
        state=TransactionState.EMPTY,
        last_update_ms=_later(value, wall_ms),
        start_ms=NO_START_MS,
        previous_producer_id=value.producer_id if goes_on else NO_PRODUCER,
        version=0,
    )


def extended(
    value: TransactionValue, partitions: tuple[TopicPartition, ...], version: int, wall_ms: int
) -> TransactionValue:
    """More partitions; the first ones begin the transaction."""
    assert not rules.is_prepared(value), f"{value.state.name} gets partitions"
    return value._replace(
        state=TransactionState.ONGOING,
        partitions=tuple(sorted(dict.fromkeys(value.partitions + partitions))),
        last_update_ms=_later(value, wall_ms),
        start_ms=value.start_ms if rules.is_ongoing(value) else wall_ms,
        # Whoever begins a transaction knows who it is: late requests of before are fenced.
        previous_producer_id=NO_PRODUCER,
        version=version,
    )


def decided(value: TransactionValue, request: EndTransaction, wall_ms: int) -> TransactionValue:
    """Its producer ends it. With KIP-890 the marker carries the next epoch, and so does the
    producer from now on."""
    assert not rules.is_prepared(value), f"{value.state.name} is decided again"
    prepared = value._replace(
        state=(
            TransactionState.PREPARE_COMMIT if request.commit else TransactionState.PREPARE_ABORT
        ),
        last_update_ms=_later(value, wall_ms),
        previous_producer_id=NO_PRODUCER,
        version=request.version,
    )
    if not rules.bumps_epoch(request.version):
        return prepared
    prepared = prepared._replace(
        producer_epoch=value.producer_epoch + 1, previous_producer_id=value.producer_id
    )
    if rules.is_exhausted(value.producer_epoch):
        assert request.fresh_producer_id != NO_PRODUCER, f"no producer id for {request}"
        prepared = prepared._replace(
            next_producer_id=request.fresh_producer_id, next_producer_epoch=0
        )
    return prepared


def fenced(value: TransactionValue, *, goes_on: bool, wall_ms: int) -> TransactionValue:
    """Aborted by the coordinator: no producer has the epoch of the marker, nor ever gets it.
    `goes_on`: its own producer asked for it, and may have the epoch after that."""
    assert rules.is_ongoing(value), f"{value.state.name} is fenced"
    assert not value.producer_epoch > rules.LARGEST_CLIENT_EPOCH, f"epoch of {value}"
    return value._replace(
        producer_epoch=value.producer_epoch + 1,
        state=TransactionState.PREPARE_ABORT,
        last_update_ms=_later(value, wall_ms),
        previous_producer_id=value.producer_id if goes_on else NO_PRODUCER,
        version=1,
    )


def completed(value: TransactionValue, wall_ms: int) -> TransactionValue:
    """Every partition has its marker."""
    assert rules.is_prepared(value), f"{value.state.name} is completed"
    producer_id, producer_epoch = rules.identity(value)
    return value._replace(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        state=(
            TransactionState.COMPLETE_COMMIT
            if rules.is_commit(value)
            else TransactionState.COMPLETE_ABORT
        ),
        partitions=(),
        last_update_ms=_later(value, wall_ms),
        next_producer_id=NO_PRODUCER,
        next_producer_epoch=NO_PRODUCER_EPOCH,
    )


def _later(value: TransactionValue, wall_ms: int) -> int:
    return max(wall_ms, value.last_update_ms + 1)
