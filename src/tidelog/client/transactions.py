"""Transactions from outside: which are open, what they hold, ending those that nobody will end."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tidelog.client.client import Client
from tidelog.client.coordinator import OF_TRANSACTION, Coordinator, ask_every_broker
from tidelog.client.errors import check
from tidelog.client.offsets import leader_of
from tidelog.wire.protocol.schemas import describe_producers_request as producers_request
from tidelog.wire.protocol.schemas import write_txn_markers_request as markers_request
from tidelog.wire.protocol.schemas.describe_producers_response import DescribeProducersResponse
from tidelog.wire.protocol.schemas.describe_transactions_request import (
    DescribeTransactionsRequest,
)
from tidelog.wire.protocol.schemas.describe_transactions_response import (
    DescribeTransactionsResponse,
)
from tidelog.wire.protocol.schemas.init_producer_id_request import InitProducerIdRequest
from tidelog.wire.protocol.schemas.init_producer_id_response import InitProducerIdResponse
from tidelog.wire.protocol.schemas.list_transactions_request import ListTransactionsRequest
from tidelog.wire.protocol.schemas.list_transactions_response import ListTransactionsResponse
from tidelog.wire.protocol.schemas.write_txn_markers_response import WriteTxnMarkersResponse

TopicPartition = tuple[str, int]

ONGOING, PREPARE_COMMIT, PREPARE_ABORT = "Ongoing", "PrepareCommit", "PrepareAbort"
OPEN_STATES = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
NO_TRANSACTION = -1


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionView(NamedTuple):
    transactional_id: str
    state: str
    """Kafka's words: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, …"""
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """Wall clock; None while no transaction is open."""
    partitions: tuple[TopicPartition, ...]
    coordinator: int

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES

    @property
    def aborted_at_ms(self) -> int | None:
        """When its coordinator will abort it, if nobody has decided by then."""
        if self.state != ONGOING or self.start_ms is None:
            return None
        return self.start_ms + self.timeout_ms


class OpenProducer(NamedTuple):
    """A producer as a partition's leader knows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    """Of the last marker; -1 before the first."""
    start_offset: int | None
    """Of its open transaction in this partition; None if it has none."""


class TransactionAdmin:
    """What an administrator asks about transactions, through one client."""

    __slots__ = ("client",)

    def __init__(self, client: Client) -> None:
        self.client = client

    async def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = ()
    ) -> list[ListedTransaction]:
        """Those of all brokers, in order of their ids; all, if nothing is chosen."""
        request = ListTransactionsRequest(state_filters=states, producer_id_filters=producer_ids)
        return sorted(await ask_every_broker(self.client, partial(self._listed_by, request)))

    async def describe(
        self, transactional_id: str, *, coordinator: int | None = None
    ) -> TransactionView:
        """TRANSACTIONAL_ID_NOT_FOUND if there is none."""

        def verdict(answer: DescribeTransactionsResponse) -> None:
            code = answer.transaction_states[0].error_code
            check(code, f"there is no transactional id {transactional_id}")

        asked = Coordinator(self.client, OF_TRANSACTION, transactional_id, broker=coordinator)
        answer = await asked.ask(
            DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            DescribeTransactionsResponse,
            verdict,
        )
        found = answer.transaction_states[0]
        started = found.transaction_start_time_ms
        return TransactionView(
            transactional_id,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            started if started >= 0 and found.transaction_state in OPEN_STATES else None,
            tuple(
                sorted((each.topic, index) for each in found.topics for index in each.partitions)
            ),
            await asked.broker(),
        )

    async def producers(self, topic: str, index: int) -> list[OpenProducer]:
        """Whom the leader of a partition remembers."""
        request = producers_request.DescribeProducersRequest(
            topics=[producers_request.TopicRequest(name=topic, partition_indexes=[index])]
        )

        async def ask() -> DescribeProducersResponse:
            leader, _ = await leader_of(self.client, topic, index)
            answer = await self.client.ask_broker(leader, request, DescribeProducersResponse)
            found = answer.topics[0].partitions[0]
            check(found.error_code, found.error_message or f"{topic}-{index}")
            return answer

        answer = await self.client.retrying(ask)
        return [
            OpenProducer(
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                None
                if each.current_txn_start_offset == NO_TRANSACTION
                else each.current_txn_start_offset,
            )
            for each in answer.topics[0].partitions[0].active_producers
        ]

    async def fence(self, transaction: TransactionView) -> None:
        """Have its coordinator abort what is open, and refuse the producer from now on. Returns
        when the abort is complete."""
        request = InitProducerIdRequest(
            transactional_id=transaction.transactional_id,
            transaction_timeout_ms=transaction.timeout_ms,
        )

        def verdict(answer: InitProducerIdResponse) -> None:
            check(answer.error_code, f"transactional id {transaction.transactional_id}")

        asked = Coordinator(self.client, OF_TRANSACTION, transaction.transactional_id)
        await asked.ask(request, InitProducerIdResponse, verdict)

    async def abort_in_partition(self, topic: str, index: int, producer: OpenProducer) -> None:
        """Write an abort marker into one partition, past every coordinator: for a transaction
        that none of them knows."""
        marker = markers_request.WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[markers_request.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )

        async def ask() -> None:
            leader, _ = await leader_of(self.client, topic, index)
            answer = await self.client.ask_broker(
                leader,
                markers_request.WriteTxnMarkersRequest(markers=[marker]),
                WriteTxnMarkersResponse,
            )
            check(answer.markers[0].topics[0].partitions[0].error_code, f"{topic}-{index}")

        await self.client.retrying(ask)

    async def _listed_by(
        self, request: ListTransactionsRequest, broker: int
    ) -> list[ListedTransaction]:
        answer = await self.client.ask_broker(broker, request, ListTransactionsResponse)
        check(answer.error_code, f"the transactions of broker {broker}")
        return [
            ListedTransaction(
                each.transactional_id, each.producer_id, each.transaction_state, broker
            )
            for each in answer.transaction_states
        ]
