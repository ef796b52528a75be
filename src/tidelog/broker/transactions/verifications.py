"""Asks coordinators whether a transaction is open before its first batch is appended (KIP-890).

A batch that came late, after its transaction was ended, would open one that nobody ever ends. So
the first batch of a producer in a partition waits for the coordinator's word; producers of the
second transaction version have the partition added with the same question. Batches of the same
producer that come meanwhile queue behind it: they must enter the log in the order they came.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.coordination.internal_topics import TRANSACTION_STATE
from tidelog.broker.transactions.concurrent_requests import PATIENCE_MS
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.verification import NO_SEQUENCE
from tidelog.core.transactions.requests import AddPartitions, AddPartitionsResponse
from tidelog.host.ports import NetworkError
from tidelog.rpc import Answer
from tidelog.wire.protocol.schemas.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.protocol.schemas.add_partitions_to_txn_response import (
    AddPartitionsToTxnResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.broker.produce.open_produce import OpenPartition
    from tidelog.broker.replication.broker_connections import BrokerConnections
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.transactions.transaction_calls import TransactionCalls
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.core.types import PartitionId
    from tidelog.host.timers import TimerWheel
    from tidelog.wire.records import BatchHeader

ADD_PARTITIONS_VERSION = 5
PAUSE_MS = 5
LONGEST_QUESTION_MS = 5_000
"""A client whose batch is refused then comes again; its batches do not pile up here."""

OnAnswer = Callable[[Error], None]

_NOT_NOW = (
    Error.BROKER_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_COORDINATOR,
    Error.REQUEST_TIMED_OUT,
)
"""The coordinator did not say anything about the transaction."""

_NOT_INSIDE = (Error.TRANSACTION_ABORTABLE, Error.INVALID_TXN_STATE)


class Candidate(NamedTuple):
    """A batch of a client that waits for the word of its coordinator. The bytes are a copy: the
    frame they came in is used again."""

    partition: OpenPartition
    batch: bytearray
    header: BatchHeader
    question: AddPartitions


class Verdict(NamedTuple):
    """What the coordinator said, and the token that tells whether it still holds."""

    error: Error
    role: LeaderReplica
    token: int


Resume = Callable[[Candidate, Verdict | None], None]
"""How a batch goes on. None: nothing is known about it, begin again."""


class Queue:
    """The batches of one producer in one partition while one question is open."""

    __slots__ = ("asker", "role", "token", "waiting")

    def __init__(self, asker: Candidate, role: LeaderReplica, token: int) -> None:
        self.asker = asker
        self.role = role
        self.token = token
        self.waiting = [asker]

    def is_answered_for(self, candidate: Candidate, error: Error) -> bool:
        """Does the answer to the first one speak for this one too? Between them the transaction
        may have ended and the next one begun. If the first was let in, it needs no answer."""
        if candidate is self.asker:
            return True
        is_about_first_alone = error is NO_ERROR or error in _NOT_INSIDE
        return candidate.question == self.asker.question and not is_about_first_alone


class Verifications:
    """Owner of the questions to coordinators and of what waits for them. One per broker."""

    __slots__ = ("_calls", "_coordination", "_lines", "_own_id", "_queues", "timers")

    def __init__(
        self,
        own_id: int,
        coordination: Coordination,
        calls: TransactionCalls,
        lines: BrokerConnections,
        timers: TimerWheel,
    ) -> None:
        self._own_id = own_id
        self._coordination = coordination
        self._calls = calls
        self._lines = lines
        self.timers = timers
        self._queues: dict[tuple[PartitionId, int], Queue] = {}

    @property
    def open_count(self) -> int:
        """Producers in partitions that wait now."""
        return len(self._queues)

    def close(self) -> None:
        self._lines.close()

    # -- batches

    def submit(self, candidate: Candidate, role: LeaderReplica, resume: Resume) -> None:
        """`resume` is called with it, in the order of submission; perhaps before this returns."""
        hosted, header = candidate.partition.hosted, candidate.header
        key = hosted.partition, header.producer_id
        queue = self._queues.get(key)
        if queue is not None:
            # Those whose time is over have been answered, and wait for nothing.
            queue.waiting = [each for each in queue.waiting if each.partition.is_open]
            queue.waiting.append(candidate)
            return
        token = begin(hosted, candidate.question, header.base_sequence)
        queue = self._queues[key] = Queue(candidate, role, token)
        timeout_ms = min(candidate.partition.produce.timeout_ms, LONGEST_QUESTION_MS)
        self.ask(candidate.question, timeout_ms, partial(self._answered, key, queue, resume))

    def _answered(
        self, key: tuple[PartitionId, int], queue: Queue, resume: Resume, error: Error
    ) -> None:
        del self._queues[key]  # what resumes may have to ask anew
        verdict = Verdict(error, queue.role, queue.token)
        for candidate in queue.waiting:
            if candidate.partition.is_open:
                resume(candidate, verdict if queue.is_answered_for(candidate, error) else None)

    # -- questions

    def ask(self, question: AddPartitions, timeout_ms: int, on_answer: OnAnswer) -> None:
        """About one partition. `on_answer` is called once, perhaps before this returns."""
        OpenQuestion(self, question, timeout_ms, on_answer).send()

    def send(self, question: AddPartitions, asked: OpenQuestion) -> None:
        """To wherever the coordinator is now."""
        transactional_id = question.transactional_id
        coordinator = self._coordination.coordinator_of(TRANSACTION_STATE, transactional_id)
        if coordinator == self._own_id:
            self._calls.ask(transactional_id, question, asked)
            return
        peer = self._lines.to(coordinator)
        if peer is None:
            asked.refuse(Error.COORDINATOR_NOT_AVAILABLE)
            return
        peer.send(
            _message(question),
            ADD_PARTITIONS_VERSION,
            asked.on_response,
            timeout_ms=LONGEST_QUESTION_MS,
        )


class OpenQuestion:
    """One question; the token of a coordinator. What comes after its time is not heard.

    If the end of the producer's last transaction is still being written, a partition that is to
    be added waits for it here: that takes milliseconds, a client would pause for much longer.
    """

    __slots__ = ("_on_answer", "_patient_until_ms", "_question", "_timer", "_to")

    def __init__(
        self, to: Verifications, question: AddPartitions, timeout_ms: int, on_answer: OnAnswer
    ) -> None:
        self._to = to
        self._question = question
        self._on_answer: OnAnswer | None = on_answer
        self._patient_until_ms = 0 if question.verify_only else to.timers.now_ms() + PATIENCE_MS
        self._timer = to.timers.after(
            max(timeout_ms, 0), partial(self._settle, Error.REQUEST_TIMED_OUT)
        )

    def send(self) -> None:
        if self._on_answer is not None:
            self._to.send(self._question, self)

    def answer(self, response: object) -> None:
        assert isinstance(response, AddPartitionsResponse), response
        self.refuse(response.errors[0] if response.errors else response.error)

    def on_response(self, answer: Answer) -> None:
        if isinstance(answer, NetworkError):
            self.refuse(Error.BROKER_NOT_AVAILABLE)
            return
        assert isinstance(answer, AddPartitionsToTxnResponse), answer
        error = Error(answer.error_code)
        if error is NO_ERROR:
            (result,) = (
                partition
                for transaction in answer.results_by_transaction
                for topic in transaction.topic_results
                for partition in topic.results_by_partition
            )
            error = Error(result.partition_error_code)
        self.refuse(error)

    def refuse(self, error: Error) -> None:
        timers = self._to.timers
        is_early = error is Error.CONCURRENT_TRANSACTIONS
        if is_early and timers.now_ms() + PAUSE_MS < self._patient_until_ms:
            timers.after(PAUSE_MS, self.send)
        else:
            self._settle(error)

    def _settle(self, error: Error) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            self._timer.cancel()
            on_answer(error)


def begin(hosted: Hosted, question: AddPartitions, sequence: int = NO_SEQUENCE) -> int:
    """The token that becomes void if the transaction ends while its coordinator is asked."""
    return hosted.log.producers.verifications.begin(
        question.producer_id,
        question.producer_epoch,
        transaction_version=question.version,
        sequence=sequence,
    )


def _message(question: AddPartitions) -> AddPartitionsToTxnRequest:
    ((topic, index),) = question.partitions
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer_id,
                producer_epoch=question.producer_epoch,
                verify_only=question.verify_only,
                topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
            )
        ]
    )


# ---- what a client is told


class Understanding(NamedTuple):
    """What the version of a request lets its client understand."""

    abortable: bool
    """TRANSACTION_ABORTABLE: end the transaction and go on."""
    concurrent: bool
    """CONCURRENT_TRANSACTIONS: the end of the last one is still being written; try again."""
    not_now: Error
    """Of the errors it retries, the one that does not make it look for another broker."""

    def translate(self, error: Error) -> Error:
        if error is Error.PRODUCER_FENCED:
            return Error.INVALID_PRODUCER_EPOCH
        if error in _NOT_INSIDE:
            return Error.TRANSACTION_ABORTABLE if self.abortable else Error.INVALID_TXN_STATE
        if error in _NOT_NOW or (error is Error.CONCURRENT_TRANSACTIONS and not self.concurrent):
            return self.not_now
        return error
