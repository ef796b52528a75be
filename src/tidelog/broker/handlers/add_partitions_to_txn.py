"""AddPartitionsToTxn v0 to v5: partitions that a transaction writes to (KIP-98).

v0 to v3 come from producers, about one transaction. v4 and v5 are meant for brokers, about many:
before the first batch of a transaction enters a log, its leader asks whether the coordinator
knows of it (`verify_only`), or adds the partition on the producer's behalf (KIP-890). Some clients
send them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.coordination.pending_call import Gathering
from tidelog.broker.replication.broker_connections import is_on_a_line
from tidelog.broker.transactions import transaction_calls
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.transactions.requests import AddPartitions, AddPartitionsResponse
from tidelog.core.types import PartitionId
from tidelog.wire.protocol.schemas.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.protocol.schemas.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.transactions.transaction_calls import TransactionCalls
    from tidelog.rpc import Call

FIRST_VERSION_OF_BROKERS = 4
FENCED_SINCE = 2


class Asked(NamedTuple):
    """One transaction of a request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: Sequence[AddPartitionsToTxnTopic]

    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(
            TopicPartition(topic.name, index) for topic in self.topics for index in topic.partitions
        )


class Parts(NamedTuple):
    """What this handler uses."""

    metadata: LocalMetadata
    transaction_calls: TransactionCalls


def handle(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, AddPartitionsToTxnRequest), request
    transactions = _asked(request, call.version)
    gathering: Gathering[AddPartitionsToTxnResult] = Gathering(
        len(transactions), partial(_finish, call)
    )
    for position, asked in enumerate(transactions):
        to_result = partial(_result, call.version, asked)
        partitions = asked.partitions()
        unknown = _unknown(parts, partitions)
        if unknown:
            gathering.put(position, to_result(AddPartitionsResponse(NO_ERROR, unknown)))
            continue
        token = gathering.part(position, to_result, partial(_refused, call.version, asked))
        version_of_brokers = call.version >= FIRST_VERSION_OF_BROKERS
        question = AddPartitions(
            asked.transactional_id,
            asked.producer_id,
            asked.producer_epoch,
            partitions,
            asked.verify_only,
            transaction_calls.SECOND_VERSION
            if version_of_brokers
            else transaction_calls.FIRST_VERSION,
        )
        # Questions of other producers wait behind those of a broker: it is patient itself.
        at_once = asked.verify_only or is_on_a_line(call)
        calls = parts.transaction_calls
        ask = calls.ask if at_once else calls.ask_patiently
        ask(asked.transactional_id, question, token)


def _asked(request: AddPartitionsToTxnRequest, version: int) -> list[Asked]:
    if version < FIRST_VERSION_OF_BROKERS:
        return [
            Asked(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                False,
                request.v3_and_below_topics,
            )
        ]
    return [
        Asked(
            each.transactional_id,
            each.producer_id,
            each.producer_epoch,
            each.verify_only,
            each.topics,
        )
        for each in request.transactions
    ]


def _unknown(parts: Parts, partitions: tuple[TopicPartition, ...]) -> tuple[Error, ...]:
    """All or nothing: if one does not exist, none is added. Empty if all of them do."""
    image = parts.metadata.image
    errors = []
    for topic, index in partitions:
        topic_id = image.topic_ids.get(topic)
        known = topic_id is not None and image.partition(PartitionId(topic_id, index)) is not None
        errors.append(Error.OPERATION_NOT_ATTEMPTED if known else Error.UNKNOWN_TOPIC_OR_PARTITION)
    return tuple(errors) if Error.UNKNOWN_TOPIC_OR_PARTITION in errors else ()


def _result(
    version: int, asked: Asked, response: AddPartitionsResponse
) -> AddPartitionsToTxnResult:
    error = transaction_calls.in_words_of(version, response.error, fenced_since=FENCED_SINCE)
    errors = iter(response.errors or (error,) * len(asked.partitions()))
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=next(errors)
                )
                for index in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=topics)


def _refused(version: int, asked: Asked, error: Error) -> AddPartitionsToTxnResult:
    return _result(version, asked, AddPartitionsResponse(error))


def _finish(call: Call, results: list[AddPartitionsToTxnResult]) -> None:
    if call.version >= FIRST_VERSION_OF_BROKERS:
        call.answer(AddPartitionsToTxnResponse(results_by_transaction=results))
    else:
        (result,) = results
        call.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results))
