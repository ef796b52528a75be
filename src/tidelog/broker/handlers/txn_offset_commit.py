"""TxnOffsetCommit v0 to v5: offsets that count when the producer's transaction commits (KIP-447).

They are part of the transaction like any record: before the first of them enters the partition of
`__consumer_offsets`, the transaction's coordinator is asked whether it is open there. From v5 on
it is asked to add the partition (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS
from tidelog.broker.transactions.transaction_calls import FIRST_VERSION, SECOND_VERSION
from tidelog.broker.transactions.verifications import LONGEST_QUESTION_MS, Understanding, begin
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.records import CommittedOffset
from tidelog.core.groups.requests import (
    CommitResponse,
    CommitTransactionalOffsets,
    NewOffset,
)
from tidelog.core.replication.producers import is_in_transaction
from tidelog.core.transactions.requests import AddPartitions
from tidelog.core.types import PartitionId
from tidelog.wire.protocol.schemas.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
)
from tidelog.wire.protocol.schemas.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.broker.transactions.verifications import Verifications
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.host.node_host import NodeHost
    from tidelog.rpc import Call

FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS_PARTITIONS = 5


class Parts(NamedTuple):
    """What this handler uses."""

    metadata: LocalMetadata
    replicas: Replicas
    coordination: Coordination
    verifications: Verifications
    host: NodeHost


def handle(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, TxnOffsetCommitRequest), request
    commit = Commit(parts, call, request)
    if not commit.offsets:
        commit.finish()
        return
    if not request.group_id:
        commit.refuse(Error.INVALID_GROUP_ID)
        return
    index = parts.coordination.group_partition(request.group_id)
    if index is None:
        commit.refuse(Error.COORDINATOR_NOT_AVAILABLE)
    else:
        commit.begin(index)


class Commit:
    """One request on its way; the token of the group's coordinator."""

    __slots__ = ("_call", "_parts", "_places", "_request", "_topics", "offsets")

    def __init__(self, parts: Parts, call: Call, request: TxnOffsetCommitRequest) -> None:
        self._parts = parts
        self._call = call
        self._request = request
        self.offsets: list[NewOffset] = []
        self._places: list[TxnOffsetCommitResponsePartition] = []
        """Where the result of each of `offsets` belongs."""
        self._topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[self._take(topic.name, each) for each in topic.partitions],
            )
            for topic in request.topics
        ]

    def _take(
        self, topic: str, asked: TxnOffsetCommitRequestPartition
    ) -> TxnOffsetCommitResponsePartition:
        """Partitions that do not exist are refused one by one, and the others committed."""
        place = TxnOffsetCommitResponsePartition(partition_index=asked.partition_index)
        if not _exists(self._parts, topic, asked.partition_index):
            place.error_code = Error.UNKNOWN_TOPIC_OR_PARTITION
            return place
        value = CommittedOffset(
            asked.committed_offset,
            asked.committed_leader_epoch,
            asked.committed_metadata or "",
            self._parts.host.clock.wall_ms(),
        )
        self.offsets.append(NewOffset(TopicPartition(topic, asked.partition_index), value))
        self._places.append(place)
        return place

    def begin(self, index: int) -> None:
        hosted = self._parts.replicas.named(CONSUMER_OFFSETS, index)
        role = None if hosted is None else hosted.leader
        if hosted is None or role is None:
            self.refuse(Error.NOT_COORDINATOR)
        elif self._is_in_transaction(hosted):
            self._commit(hosted)
        else:
            self._verify(hosted, role)

    def _is_in_transaction(self, hosted: Hosted) -> bool:
        entry = hosted.log.producers.get(self._request.producer_id)
        return is_in_transaction(entry, self._request.producer_epoch)

    def _verify(self, hosted: Hosted, role: LeaderReplica) -> None:
        request, version = self._request, self._call.version
        adds = version >= FIRST_VERSION_THAT_ADDS_PARTITIONS
        question = AddPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            (TopicPartition(hosted.topic, hosted.index),),
            verify_only=not adds,
            version=SECOND_VERSION if adds else FIRST_VERSION,
        )
        token = begin(hosted, question)
        on_answer = partial(self._verified, hosted, role, token)
        self._parts.verifications.ask(question, LONGEST_QUESTION_MS, on_answer)

    def _verified(self, hosted: Hosted, role: LeaderReplica, token: int, error: Error) -> None:
        """No await from these checks to the append: they are about the log as it is then."""
        producer_id, producers = self._request.producer_id, hosted.log.producers
        entry = producers.get(producer_id)
        if error is not NO_ERROR:
            self._refuse_unverified(error)
        elif not role.leads():
            self.refuse(Error.NOT_COORDINATOR)
        elif entry is not None and entry.producer_epoch > self._request.producer_epoch:
            self.refuse(Error.INVALID_PRODUCER_EPOCH)
        elif not (
            producers.verifications.is_valid(producer_id, token)
            # Another request of the producer may have been first, with the same token.
            or self._is_in_transaction(hosted)
        ):
            self._refuse_unverified(Error.INVALID_TXN_STATE)
        else:
            self._commit(hosted)

    def _commit(self, hosted: Hosted) -> None:
        shards = self._parts.coordination.groups
        shards.request(hosted.index, self._transactional_offsets(), self)

    def _transactional_offsets(self) -> CommitTransactionalOffsets:
        request = self._request
        return CommitTransactionalOffsets(
            request.group_id,
            request.member_id,
            request.generation_id,
            request.group_instance_id,
            request.producer_id,
            request.producer_epoch,
            tuple(self.offsets),
        )

    # -- answers

    def answer(self, response: object) -> None:
        assert isinstance(response, CommitResponse), response
        errors = response.errors or (response.error,) * len(self._places)
        for place, error in zip(self._places, errors, strict=True):
            place.error_code = error
        self.finish()

    def refuse(self, error: Error) -> None:
        self.answer(CommitResponse(error))

    def finish(self) -> None:
        self._call.answer(TxnOffsetCommitResponse(topics=self._topics))

    def _refuse_unverified(self, error: Error) -> None:
        version = self._call.version
        understood = Understanding(
            abortable=version >= FIRST_VERSION_WITH_ABORTABLE,
            concurrent=version >= FIRST_VERSION_THAT_ADDS_PARTITIONS,
            not_now=Error.COORDINATOR_LOAD_IN_PROGRESS,
        )
        self.refuse(understood.translate(error))


def _exists(parts: Parts, topic: str, index: int) -> bool:
    topic_id = parts.metadata.image.topic_ids.get(topic)
    return (
        topic_id is not None
        and parts.metadata.image.partition(PartitionId(topic_id, index)) is not None
    )
