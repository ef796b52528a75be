"""The second half of a produce: batches that came for one log are judged, written and parked.

The leader judges each batch by what the log has of its producer. The first batch of a transaction
in a partition waits for the word of its coordinator (`verifications`); the check that finds it is
the one every batch goes through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.broker.produce import record_work
from tidelog.broker.produce.open_produce import OpenPartition
from tidelog.broker.transactions.transaction_calls import FIRST_VERSION, SECOND_VERSION
from tidelog.broker.transactions.verifications import Candidate, Understanding, Verdict
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.inputs import ACKS_ALL
from tidelog.core.transactions.requests import AddPartitions
from tidelog.storage.errors import BatchLargerThanSegment, NoSpace, StorageError
from tidelog.wire.records import BatchHeader, stamp_log_append_time

if TYPE_CHECKING:
    from tidelog.broker.fetch.fetches import Fetches
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.broker.transactions.verifications import Verifications
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.core.replication.producers import AppendedBatch
    from tidelog.host.ports import Clock
    from tidelog.observe.traffic import Traffic

FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS_PARTITIONS = 12
"""KIP-890: the first batch makes its partition part of the transaction."""

REFUSALS = {
    Error.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: "the batch does not continue its producer's sequence",
    Error.INVALID_PRODUCER_EPOCH: "a newer instance of this producer has written already",
    Error.INVALID_TXN_STATE: "the partition is not part of an open transaction of this producer",
    Error.TRANSACTION_ABORTABLE: "the partition is not part of the transaction: abort it, go on",
    Error.CONCURRENT_TRANSACTIONS: "the end of the last transaction is still being written",
    Error.KAFKA_STORAGE_ERROR: "the broker cannot write to its disk; its log says why",
}


class LeaderWrites:
    """Appends what clients produced to the logs that this broker leads. One per broker."""

    __slots__ = ("_clock", "_fetches", "_now_ms", "_replicas", "_traffic", "_verifications")

    def __init__(
        self,
        replicas: Replicas,
        fetches: Fetches,
        verifications: Verifications,
        traffic: Traffic,
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._fetches = fetches
        self._verifications = verifications
        self._traffic = traffic
        self._clock = clock
        self._now_ms = clock.monotonic_ms

    def append_all(self, hosted: Hosted, offered: Sequence[OpenPartition]) -> None:
        """What came for one log in a turn, in one write if it can be."""
        role = self.present_leader(hosted)
        if role is None:
            for partition in offered:
                partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
            return
        ready: list[OpenPartition] = []
        producers: set[int] = set()
        for partition in offered:
            producer_id = partition.header.producer_id
            if producer_id >= 0:
                if ready and producer_id in producers:
                    # A batch is judged by what the log has of its producer.
                    self._write(hosted, role, ready)
                    ready, producers = [], set()
                producers.add(producer_id)
            if self._may_append(role, partition):
                ready.append(partition)
        if ready:
            self._write(hosted, role, ready)

    def append_late(
        self, role: LeaderReplica, partition: OpenPartition, token: int | None = None
    ) -> None:
        """One batch whose request has been waiting for it."""
        if self._may_append(role, partition, token):
            self._write(partition.hosted, role, [partition])

    def present_leader(self, hosted: Hosted) -> LeaderReplica | None:
        """None if it leads no more, or is hosted no more."""
        is_hosted = self._replicas.hosted.get(hosted.partition) is hosted
        return hosted.leader if is_hosted else None

    def _may_append(
        self, role: LeaderReplica, partition: OpenPartition, token: int | None = None
    ) -> bool:
        """Otherwise its answer is decided, or waits."""
        header = partition.header
        verified = token is not None and _still_holds(partition.hosted, header, token)
        check = role.check_produce(header, partition.produce.acks, verified=verified)
        if check.error is not NO_ERROR:
            if check.error is Error.INVALID_TXN_STATE and header.is_transactional:
                self._outside_transaction(role, partition, token)
            else:
                partition.refuse(check.error, REFUSALS.get(check.error))
            return False
        if check.duplicate is not None:
            self._acknowledge_duplicate(partition, role, check.duplicate)
            return False
        return True

    def _write(self, hosted: Hosted, role: LeaderReplica, ready: Sequence[OpenPartition]) -> None:
        if hosted.topic_settings.timestamp_type == record_work.LOG_APPEND_TIME:
            _stamp_time(ready, self._clock.wall_ms())
        batches = [partition.batch for partition in ready]
        try:
            headers = hosted.log.append_all_as_leader(batches, hosted.replica.leader_epoch)
        except (BatchLargerThanSegment, NoSpace) as error:
            if len(ready) == 1:
                self._refuse_unwritten(hosted, ready, error)
            else:
                for partition in ready:  # those that fit by themselves
                    self._write(hosted, role, [partition])
            return
        except StorageError as error:
            self._refuse_unwritten(hosted, ready, error)
            return
        traffic, replicas, now_ms = self._traffic, self._replicas, self._now_ms()
        replicas.note_appended(hosted, headers[0].base_offset)
        effects = role.on_appended(now_ms)
        if effects:
            replicas.perform(hosted, effects)
        log_start_offset = hosted.log.log_start_offset
        for partition, header in zip(ready, headers, strict=True):
            traffic.messages_in += header.record_count
            traffic.bytes_in += header.size_bytes
            partition.batch = b""  # or a frame would be kept as long as its answer waits
            result = partition.result
            result.base_offset = header.base_offset
            result.log_start_offset = log_start_offset
            if partition.produce.acks == ACKS_ALL:
                partition.park(role)
                effects = role.await_commit(partition, header.next_offset, now_ms)
                if effects:
                    replicas.perform(hosted, effects)
        self._fetches.wake(hosted.partition, len(ready))

    def _refuse_unwritten(
        self, hosted: Hosted, ready: Sequence[OpenPartition], error: StorageError
    ) -> None:
        self._replicas.directories.on_error(hosted.directory, error)
        for partition in ready:
            partition.result.log_append_time_ms = -1
            partition.refuse(error.kafka_error, REFUSALS.get(error.kafka_error, str(error)))

    def _acknowledge_duplicate(
        self, partition: OpenPartition, role: LeaderReplica, original: AppendedBatch
    ) -> None:
        produce, hosted, result = partition.produce, partition.hosted, partition.result
        result.base_offset = original.first_offset
        result.log_start_offset = hosted.log.log_start_offset
        if hosted.topic_settings.timestamp_type == record_work.LOG_APPEND_TIME:
            result.log_append_time_ms = original.timestamp
        if produce.acks != ACKS_ALL:
            return
        partition.park(role)
        effects = role.await_duplicate(partition, original, self._now_ms())
        self._replicas.perform(hosted, effects)

    # ---- transactions

    def _outside_transaction(
        self, role: LeaderReplica, partition: OpenPartition, token: int | None
    ) -> None:
        """The producer has no transaction open in this log: ask its coordinator. With a token that
        was done, and the end of the transaction came while the answer was on its way."""
        produce, header = partition.produce, partition.header
        if produce.transactional_id is None:
            message = "the batch is transactional, the request has no transactional id"
            partition.refuse(Error.INVALID_TXN_STATE, message)
            return
        if token is not None:
            _refuse_unverified(partition, Error.INVALID_TXN_STATE)
            return
        version = produce.version
        adds = version >= FIRST_VERSION_THAT_ADDS_PARTITIONS
        question = AddPartitions(
            produce.transactional_id,
            header.producer_id,
            header.producer_epoch,
            (TopicPartition(partition.hosted.topic, partition.hosted.index),),
            verify_only=not adds,
            version=SECOND_VERSION if adds else FIRST_VERSION,
        )
        partition.wait()
        candidate = Candidate(partition, bytearray(partition.batch), header, question)
        self._verifications.submit(candidate, role, self._verified)

    def _verified(self, candidate: Candidate, verdict: Verdict | None) -> None:
        """Much may have happened meanwhile: look at everything again. A token is worth nothing
        after the tenure it was given in."""
        partition = candidate.partition
        role = self.present_leader(partition.hosted)
        partition.waits = False
        if role is None or (verdict is not None and role is not verdict.role):
            partition.refuse(Error.NOT_LEADER_OR_FOLLOWER)
        elif verdict is not None and verdict.error is not NO_ERROR:
            _refuse_unverified(partition, verdict.error)
        else:
            partition.batch, partition.header = candidate.batch, candidate.header
            self.append_late(role, partition, None if verdict is None else verdict.token)
        partition.decided()


def _stamp_time(ready: Sequence[OpenPartition], wall_ms: int) -> None:
    for partition in ready:
        batch = partition.batch
        assert not isinstance(batch, bytes), "frames and results of work are writable"
        partition.result.log_append_time_ms = wall_ms
        stamp_log_append_time(batch, 0, wall_ms)


def _still_holds(hosted: Hosted, header: BatchHeader, token: int) -> bool:
    return hosted.log.producers.verifications.is_valid(header.producer_id, token)


def _refuse_unverified(partition: OpenPartition, error: Error) -> None:
    version = partition.produce.version
    understood = Understanding(
        abortable=version >= FIRST_VERSION_WITH_ABORTABLE,
        concurrent=version >= FIRST_VERSION_THAT_ADDS_PARTITIONS,
        not_now=Error.NOT_ENOUGH_REPLICAS,
    ).translate(error)
    if understood is Error.NOT_ENOUGH_REPLICAS:
        partition.refuse(understood, f"the coordinator of the transaction says {error.name}")
    else:
        partition.refuse(understood, REFUSALS.get(understood))
