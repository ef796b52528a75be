"""Writing all of it or nothing: a producer whose records count when its transaction commits.

It speaks version 2 of transactions alone (KIP-890 part 2): leaders tell the coordinator of
new partitions by themselves, and every end of a transaction gives the producer its next epoch.
"""

from collections.abc import Mapping, Sequence

from tidelog.client.batch_producer import BatchProducer, Feeds
from tidelog.client.client import Client
from tidelog.client.coordinator import OF_GROUP, OF_TRANSACTION, Coordinator
from tidelog.client.errors import KafkaError, check
from tidelog.client.producer import NewRecord, Written
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas import txn_offset_commit_request as offsets_request
from tidelog.wire.protocol.schemas.end_txn_request import EndTxnRequest
from tidelog.wire.protocol.schemas.end_txn_response import EndTxnResponse
from tidelog.wire.protocol.schemas.init_producer_id_request import InitProducerIdRequest
from tidelog.wire.protocol.schemas.init_producer_id_response import InitProducerIdResponse
from tidelog.wire.protocol.schemas.txn_offset_commit_response import TxnOffsetCommitResponse
from tidelog.wire.records import NONE

TopicPartition = tuple[str, int]

TIMEOUT_MS = 60_000
INTRODUCTION_TIMEOUT_MS = 15_000
"""Each introduction makes a new identity, which has to be committed. Whoever comes again before
that waits anew, and where a commit takes longer than that he never gets one."""
SECOND_VERSION_ENDS_WITH = 5
"""EndTxn from this version on is that of version 2."""
NOTHING_OPEN, OPEN, MUST_ABORT = "nothing open", "open", "must abort"


class TransactionalProducer(BatchProducer):
    """`begin`, `write` as often as needed, then `commit` or `abort`, one transaction at a time.

    Whoever has the same transactional id and came later fences this one: everything it asks is
    refused with PRODUCER_FENCED or INVALID_PRODUCER_EPOCH from then on.
    """

    __slots__ = ("_coordinator", "_name", "_state", "_timeout_ms", "_touched")

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        codec: int = NONE,
    ) -> None:
        """`timeout_ms` is how long a transaction may stay open before it is aborted."""
        super().__init__(client, codec=codec)
        self._transactional_id = self._name = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator = Coordinator(client, OF_TRANSACTION, transactional_id)
        self._state = NOTHING_OPEN
        self._touched = False

    @property
    def identity(self) -> tuple[int, int] | None:
        """Producer id and epoch; None before `init`."""
        return self._producer

    async def init(self) -> None:
        """Become the one producer of the transactional id. What an earlier one left open is
        aborted when this returns."""
        await self._client.retrying(self._check_version)
        self._producer = await self._introduce()
        self._sequences.clear()
        self._state = NOTHING_OPEN
        self._touched = False

    async def begin(self) -> None:
        if self._producer is None:
            await self.init()
        self._expect(NOTHING_OPEN, "begin")
        self._state = OPEN

    async def write(self, topic: str, records: Sequence[NewRecord]) -> list[Written]:
        """As part of the open transaction. After a refusal it can only be aborted."""
        self._expect(OPEN, "write")
        self._touched = True
        self._state = MUST_ABORT  # unless all of it is written
        written = await super().write(topic, records)
        self._state = OPEN
        return written

    async def write_batches(self, feeds: Feeds) -> list[Written]:
        """As part of the open transaction. After a refusal it can only be aborted."""
        self._expect(OPEN, "write")
        self._touched = True
        self._state = MUST_ABORT
        written = await super().write_batches(feeds)
        self._state = OPEN
        return written

    async def add_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        member_id: str = "",
        generation: int = -1,
    ) -> None:
        """Commit offsets of a group together with the records."""
        self._expect(OPEN, "add offsets")
        request = self._offsets_message(group_id, offsets, member_id, generation)

        def verdict(answer: TxnOffsetCommitResponse) -> None:
            for topic in answer.topics:
                for each in topic.partitions:
                    check(each.error_code, f"{topic.name}-{each.partition_index}")

        self._touched = True
        self._state = MUST_ABORT
        group = Coordinator(self._client, OF_GROUP, group_id)
        await group.ask(request, TxnOffsetCommitResponse, verdict)
        self._state = OPEN

    async def commit(self) -> None:
        """Decided when this returns; readers see it when the markers are written, soon after. If
        nobody answers, the outcome is not known: `init` aborts it unless it was committed."""
        self._expect(OPEN, "commit")
        await self._end(committed=True)

    async def abort(self) -> None:
        """Nothing of it counts when this returns."""
        if self._state == NOTHING_OPEN:
            self._expect(OPEN, "abort")
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        if self._touched:  # otherwise the coordinator has never heard of it
            producer_id, producer_epoch = await self._identity()
            request = EndTxnRequest(
                transactional_id=self._name,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=committed,
            )
            answer = await self._coordinator.ask(request, EndTxnResponse, self._end_verdict)
            self._producer = (answer.producer_id, answer.producer_epoch)
            self._sequences.clear()
        self._state = NOTHING_OPEN
        self._touched = False

    async def _check_version(self) -> None:
        """Better before than after everything is written."""
        client = self._client
        address = await client.address_of(await self._coordinator.broker())
        version = await client.links.version_for(
            address, EndTxnRequest.__api_key__, client.timeout_ms
        )
        if version < SECOND_VERSION_ENDS_WITH:
            raise KafkaError(
                Error.UNSUPPORTED_VERSION, "the cluster has no transactions of version 2"
            )

    def _end_verdict(self, answer: EndTxnResponse) -> None:
        check(answer.error_code, f"transactional id {self._name}")
        if answer.producer_id < 0:
            raise KafkaError(
                Error.UNSUPPORTED_VERSION, "the cluster has no transactions of version 2"
            )

    async def _introduce(self) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=self._name, transaction_timeout_ms=self._timeout_ms
        )

        def verdict(answer: InitProducerIdResponse) -> None:
            check(answer.error_code, f"transactional id {self._name}")

        answer = await self._coordinator.ask(
            request,
            InitProducerIdResponse,
            verdict,
            timeout_ms=min(INTRODUCTION_TIMEOUT_MS, self._client.timeout_ms),
        )
        return answer.producer_id, answer.producer_epoch

    def _offsets_message(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        member_id: str,
        generation: int,
    ) -> offsets_request.TxnOffsetCommitRequest:
        assert self._producer is not None, self._state
        by_topic: dict[str, list[offsets_request.TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in sorted(offsets.items()):
            part = offsets_request.TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
            by_topic.setdefault(topic, []).append(part)
        return offsets_request.TxnOffsetCommitRequest(
            transactional_id=self._name,
            group_id=group_id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            generation_id=generation,
            member_id=member_id,
            topics=[
                offsets_request.TxnOffsetCommitRequestTopic(name=topic, partitions=parts)
                for topic, parts in by_topic.items()
            ],
        )

    def _expect(self, state: str, what: str) -> None:
        if self._state != state:
            raise KafkaError(
                Error.INVALID_TXN_STATE, f"cannot {what}: the transaction is {self._state}"
            )
