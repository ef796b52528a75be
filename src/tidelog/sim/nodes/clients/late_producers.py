"""Producers whose requests come when it is too late for them, in both versions of transactions.

Our own client never says anything twice, and speaks version 2 alone. Networks repeat and delay what
clients say, and old clients keep their epoch from one transaction to the next (KIP-890): then only
the order of requests tells transactions apart.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.client import KafkaError, NewRecord
from tidelog.client.errors import check
from tidelog.client.links import PRODUCE, Address, Links
from tidelog.client.offsets import leader_of
from tidelog.client.producer import ALL, Written
from tidelog.client.transactional_producer import (
    MUST_ABORT,
    NOTHING_OPEN,
    OPEN,
    TransactionalProducer,
)
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.protocol.schemas.add_partitions_to_txn_response import (
    AddPartitionsToTxnResponse,
)
from tidelog.wire.protocol.schemas.end_txn_request import EndTxnRequest
from tidelog.wire.protocol.schemas.end_txn_response import EndTxnResponse
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse
from tidelog.wire.records import Record
from tidelog.wire.records import encode as encode_batch

Identity = tuple[int, int]
"""Producer id and epoch."""

LAST_OF_FIRST_VERSION: Final[Mapping[int, int]] = {0: 11, 24: 3, 25: 3, 26: 4, 28: 4}
"""Produce, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and TxnOffsetCommit: later versions are
those of version 2 of transactions."""

GAP: Final = 7
"""Batches that are missing before one that is sent."""
TOO_LATE: Final = (
    Error.INVALID_TXN_STATE,
    Error.TRANSACTION_ABORTABLE,
    Error.INVALID_PRODUCER_EPOCH,
    Error.PRODUCER_FENCED,
    Error.INVALID_PRODUCER_ID_MAPPING,
    Error.NOT_ENOUGH_REPLICAS,
)
"""How a leader refuses a batch: it is in no log. The last one also means, to old clients, that the
end of the transaction is still being written."""


class FirstVersionLinks(Links):
    """Of a client from before KIP-890."""

    __slots__ = ()

    async def version_for(self, address: Address, key: int, timeout_ms: int) -> int:
        version = await super().version_for(address, key, timeout_ms)
        return min(version, LAST_OF_FIRST_VERSION.get(key, version))


class LateProducer(TransactionalProducer):
    """Repeats what belongs to transactions that are over."""

    __slots__ = ()

    async def end_late(self, identity: Identity) -> None:
        """An EndTxn of this epoch arrives now. Whatever is open by now must not hear of it."""
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=True,
        )
        try:
            await self._coordinator.ask_once(request, EndTxnResponse, _end_verdict)
        except KafkaError:
            return

    async def write_late(self, identity: Identity, topic: str, index: int, value: bytes) -> None:
        """A batch of this epoch arrives now, without a transaction that it belongs to. Sent once:
        a copy of it could get into the next transaction."""
        is_current = identity == self._producer
        sequence = self._sequences.get((topic, index), 0) if is_current else 0
        error = await self._write_once(identity, sequence, topic, index, value)
        if error in TOO_LATE:
            return
        if not is_current and error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return  # the end of its transaction had not come there yet, and 0 was written before
        check(error, f"{topic}-{index}")
        if is_current:  # the end of its transaction had not come there yet
            self._sequences[topic, index] = sequence + 1

    async def write_after_gap(self, topic: str, index: int, value: bytes) -> None:
        """A batch of the open transaction, and the one before it never came."""
        assert self._producer is not None, "it has written"
        sequence = self._sequences[topic, index] + GAP
        error = await self._write_once(self._producer, sequence, topic, index, value)
        if error != Error.OUT_OF_ORDER_SEQUENCE_NUMBER:
            check(error, f"{topic}-{index}")

    async def _write_once(
        self, identity: Identity, sequence: int, topic: str, index: int, value: bytes
    ) -> int:
        batch = encode_batch(
            [Record(0, self._client.now_ms(), None, value)],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=index, records=batch)
        request = ProduceRequest(
            transactional_id=self._name,
            acks=ALL,
            timeout_ms=self._client.timeout_ms,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        leader, _ = await leader_of(self._client, topic, index)
        answer = await self._client.ask_broker(leader, request, ProduceResponse, purpose=PRODUCE)
        return answer.responses[0].partition_responses[0].error_code


class FirstVersionProducer(LateProducer):
    """Adds partitions before it writes to them, and keeps its epoch when a transaction ends.

    A copy of its EndTxn that comes late would end its next transaction. So it does not ask again if
    it was not answered: whoever uses it has to begin anew with `init`, which raises the epoch.
    """

    __slots__ = ("_added",)

    async def begin(self) -> None:
        await super().begin()
        self._added: set[tuple[str, int]] = set()

    async def write(self, topic: str, records: Sequence[NewRecord]) -> list[Written]:
        self._expect(OPEN, "write")
        self._touched = True
        self._state = MUST_ABORT
        indexes = sorted({record.partition or 0 for record in records})
        await self._add(topic, [each for each in indexes if (topic, each) not in self._added])
        self._state = OPEN
        return await super().write(topic, records)

    async def _add(self, topic: str, indexes: list[int]) -> None:
        if not indexes:
            return
        producer_id, producer_epoch = await self._identity()
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=indexes)],
        )

        def verdict(answer: AddPartitionsToTxnResponse) -> None:
            for each in answer.results_by_topic_v3_and_below:
                for result in each.results_by_partition:
                    check(result.partition_error_code, f"{each.name}-{result.partition_index}")

        await self._coordinator.ask(request, AddPartitionsToTxnResponse, verdict)
        self._added.update((topic, each) for each in indexes)

    async def _end(self, *, committed: bool) -> None:
        if self._touched:
            producer_id, producer_epoch = await self._identity()
            request = EndTxnRequest(
                transactional_id=self._name,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=committed,
            )
            await self._end_carefully(request)
        self._state = NOTHING_OPEN
        self._touched = False

    async def _check_version(self) -> None:
        """Every cluster has it."""

    async def _end_carefully(self, request: EndTxnRequest) -> None:
        """Again after a refusal that passes, never after silence."""
        attempts = self._client.attempts()
        while True:
            try:
                await self._coordinator.ask_once(request, EndTxnResponse, _end_verdict)
            except KafkaError as error:
                if not attempts.allow(error) or not await attempts.pause():
                    raise
            else:
                return


def _end_verdict(answer: EndTxnResponse) -> None:
    check(answer.error_code)
