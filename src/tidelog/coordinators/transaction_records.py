"""Records of `__transaction_state`: the core's words and Kafka's."""

from itertools import groupby

from tidelog.coordinators.record_forms import Form, Forms
from tidelog.core.coordination import TopicPartition
from tidelog.core.transactions import records as r
from tidelog.wire.protocol import Message
from tidelog.wire.protocol import coordinator_schemas as s
from tidelog.wire.records import InvalidRecord


def _value(record: r.Transaction) -> Message | None:
    value = record.value
    if value is None:
        return None
    topics = None
    # Kafka reads no partitions in this state alone. In any other, null stops it from loading
    # the log, even where there are none.
    if value.state is not r.TransactionState.EMPTY:
        topics = [
            s.TransactionTopic(topic=topic, partition_ids=[each.partition for each in some])
            for topic, some in groupby(sorted(value.partitions), key=lambda each: each.topic)
        ]
    return s.TransactionLogValue(
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        producer_epoch=value.producer_epoch,
        transaction_timeout_ms=value.timeout_ms,
        transaction_status=value.state,
        transaction_partitions=topics,
        transaction_last_update_timestamp_ms=value.last_update_ms,
        transaction_start_timestamp_ms=value.start_ms,
        client_transaction_version=value.version,
    )


def _transaction(key: s.TransactionLogKey, value: s.TransactionLogValue | None) -> r.Transaction:
    if value is None:
        return r.Transaction(key.transactional_id, None)
    try:
        state = r.TransactionState(value.transaction_status)
    except ValueError as reason:
        raise InvalidRecord(f"{key.transactional_id!r}: {reason}") from reason
    return r.Transaction(
        key.transactional_id,
        r.TransactionValue(
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            state=state,
            partitions=tuple(
                TopicPartition(each.topic, partition)
                for each in value.transaction_partitions or ()
                for partition in each.partition_ids
            ),
            last_update_ms=value.transaction_last_update_timestamp_ms,
            start_ms=value.transaction_start_timestamp_ms,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            next_producer_epoch=value.next_producer_epoch,
            version=value.client_transaction_version,
        ),
    )


TRANSACTION_RECORDS = Forms(
    {
        r.Transaction: Form(
            0,
            s.TransactionLogKey,
            s.TransactionLogValue,
            1,
            lambda record: s.TransactionLogKey(transactional_id=record.transactional_id),
            _value,
            _transaction,
        )
    }
)
