"""What a leader asks the transaction coordinator before the first batch of a transaction.

KIP-890: with older clients whether the partition was added; for newer ones it is added now. So
no late batch opens a transaction that nobody would ever end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.coordination import ProducerStamp
from tidelog.core.errors import Error
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.producers import is_in_transaction
from tidelog.core.transactions.requests import AddPartitions, AddPartitionsResponse
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim import messages as m

if TYPE_CHECKING:
    from tidelog.core.replication.replica import Replica
    from tidelog.sim.broker import SimBroker
    from tidelog.sim.coordination import Coordination

Then = Callable[[Error], None]


class Question(NamedTuple):
    """Is this producer in a transaction that has this partition?"""

    stamp: ProducerStamp
    transactional_id: str
    version: int
    partition: PartitionId


class Waiting(NamedTuple):
    """A produce whose transaction is looked at."""

    client: int
    request: m.Produce
    role: LeaderReplica
    guard: int


class WaitingOffsets(NamedTuple):
    """Offsets whose transaction is looked at."""

    client: int
    message: m.OffsetsOfTransaction
    replica: Replica
    role: LeaderReplica
    guard: int


class TransactionChecks:
    __slots__ = ("_broker", "_coordination", "_waiting")

    def __init__(self, broker: SimBroker, coordination: Coordination) -> None:
        self._broker = broker
        self._coordination = coordination
        self._waiting: dict[int, Then] = {}

    def ask(self, question: Question, then: Then) -> None:
        """`then` is called once: NONE if the batch may be the first one here."""
        node = self._broker.node
        coordinator = node.world.books.transaction_partition(question.transactional_id)
        state = self._broker.image.partition(coordinator)
        if state is None or state.leader == NO_LEADER:
            then(Error.COORDINATOR_NOT_AVAILABLE)
            return
        request = AddPartitions(
            question.transactional_id,
            *question.stamp,
            (node.world.books.topic_partition(question.partition),),
            verify_only=question.version < 2,
            version=question.version,
        )
        call = m.CoordinatorCall(node.next_request_id(), coordinator, request)
        self._waiting[call.request_id] = then
        node.send(state.leader, call)
        node.after_ms(node.plan.timings.request_timeout_ms, self._timed_out, call.request_id)

    def _timed_out(self, request_id: int) -> None:
        then = self._waiting.pop(request_id, None)
        if then is not None:
            then(Error.COORDINATOR_NOT_AVAILABLE)

    def on_reply(self, _source: int, reply: m.CoordinatorReply) -> None:
        then = self._waiting.pop(reply.request_id, None)
        if then is None:
            return
        if reply.error != Error.NONE:
            then(Error.COORDINATOR_NOT_AVAILABLE)
            return
        response = reply.response
        assert isinstance(response, AddPartitionsResponse), response
        error = response.error or next((e for e in response.errors if e), Error.NONE)
        then(Error(error))

    # -- produce

    def on_produce(self, client: int, request: m.Produce, replica: Replica) -> None:
        """A batch of a transaction: its first one here needs the coordinator's word."""
        role = replica.role
        assert isinstance(role, LeaderReplica), f"{replica.partition} is not led here"
        batch = request.batch
        producers = replica.log.producers
        if not producers.needs_verification(batch):
            self._broker.produce(client, request, replica)
            return
        guard = producers.verifications.begin(
            batch.producer_id,
            batch.producer_epoch,
            transaction_version=request.version,
            sequence=batch.base_sequence,
        )
        question = Question(
            ProducerStamp(batch.producer_id, batch.producer_epoch),
            request.transactional_id,
            request.version,
            request.partition,
        )
        waiting = Waiting(client, request, role, guard)
        self.ask(question, lambda error: self._on_verified(waiting, error))

    def _on_verified(self, waiting: Waiting, error: Error) -> None:
        client, request, role, guard = waiting
        replica = self._broker.replicas.get(request.partition)
        if error == Error.NONE and (replica is None or replica.role is not role):
            error = Error.NOT_LEADER_OR_FOLLOWER
        if error != Error.NONE or replica is None:
            self._broker.node.coordination_marks.batch_refused(error)
            self._broker.refuse_produce(client, request, error)
            return
        # The transaction may have ended while its coordinator was asked.
        verifications = replica.log.producers.verifications
        verified = verifications.is_valid(request.batch.producer_id, guard)
        if not verified and replica.log.producers.needs_verification(request.batch):
            self._broker.node.marks.add("ended_while_verified")
        self._broker.produce(client, request, replica, verified=verified)

    # -- offsets

    def on_offsets(self, client: int, message: m.OffsetsOfTransaction) -> None:
        """TxnOffsetCommit: the group's coordinator looks at the transaction first."""
        if message.connection is not None and not message.connection.delivers():
            return
        replica = self._broker.replicas.get(message.partition)
        role = replica.role if replica is not None else None
        if replica is None or not isinstance(role, LeaderReplica):
            self._refuse(client, message, Error.NOT_COORDINATOR)
            return
        request = message.request
        stamp = ProducerStamp(request.producer_id, request.producer_epoch)
        producers = replica.log.producers
        if is_in_transaction(producers.get(stamp.producer_id), stamp.producer_epoch):
            self._commit(client, message)
            return
        guard = producers.verifications.begin(*stamp, transaction_version=message.version)
        question = Question(stamp, message.transactional_id, message.version, message.partition)
        waiting = WaitingOffsets(client, message, replica, role, guard)
        self.ask(question, lambda error: self._on_looked_at(waiting, error))

    def _on_looked_at(self, waiting: WaitingOffsets, error: Error) -> None:
        client, message, replica, role, guard = waiting
        request, producers = message.request, replica.log.producers
        entry = producers.get(request.producer_id)
        if error != Error.NONE:
            self._refuse(client, message, error)
        elif not role.leads():
            self._refuse(client, message, Error.NOT_COORDINATOR)
        elif entry is not None and entry.producer_epoch > request.producer_epoch:
            self._refuse(client, message, Error.INVALID_PRODUCER_EPOCH)
        elif not (
            producers.verifications.is_valid(request.producer_id, guard)
            or is_in_transaction(entry, request.producer_epoch)
        ):
            self._refuse(client, message, Error.INVALID_TXN_STATE)
        else:
            self._commit(client, message)

    def _commit(self, client: int, message: m.OffsetsOfTransaction) -> None:
        call = m.CoordinatorCall(message.request_id, message.partition, message.request)
        self._coordination.ask(client, call)

    def _refuse(self, client: int, message: m.OffsetsOfTransaction, error: Error) -> None:
        self._broker.node.send(client, m.CoordinatorReply(message.request_id, error))
