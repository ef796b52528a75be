"""The part of a client that writes in transactions: identities, sequences, beginnings and ends.

Version 1 adds partitions before it writes to them and keeps its epoch; version 2 relies on the
leaders to add them and gets a new epoch with every end (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.core.coordination import ProducerStamp
from tidelog.core.errors import Error
from tidelog.core.groups.requests import CommitTransactionalOffsets
from tidelog.core.replication.inputs import ACKS_ALL
from tidelog.core.transactions.requests import AddPartitions, EndTransaction, InitProducer
from tidelog.core.types import NO_PRODUCER, PartitionId
from tidelog.sim import messages as m
from tidelog.sim.clients import RETRY_MS
from tidelog.sim.scripted_client import Ask, ScriptedClient, Sleep, Steps
from tidelog.sim.sim_log import client_batch
from tidelog.sim.transaction_book import ABORT, COMMIT, SimTransaction

if TYPE_CHECKING:
    from tidelog.sim.recorder import TransactionalSending
    from tidelog.sim.world import World

RETRIABLE: Final = (
    Error.NOT_LEADER_OR_FOLLOWER,
    Error.NOT_ENOUGH_REPLICAS,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Error.REQUEST_TIMED_OUT,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.CONCURRENT_TRANSACTIONS,
    Error.KAFKA_STORAGE_ERROR,
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
)

NO_STAMP: Final = ProducerStamp(NO_PRODUCER, -1)


class Style(NamedTuple):
    """How this producer speaks with its coordinator."""

    transactional_id: str
    version: int
    timeout_ms: int
    patience: int


class TransactionalProducer:
    """Belongs to one client, which lends it its voice."""

    __slots__ = ("_added", "_client", "_sequences", "_style", "_world", "fenced", "stamp", "unsure")

    def __init__(self, client: ScriptedClient, style: Style) -> None:
        self._client = client
        self._world: World = client.world
        self._style = style
        self.stamp = NO_STAMP
        self.fenced = False
        """Somebody else has this transactional id now, or it was taken for dead."""
        self.unsure = False
        """A batch was given up: its sequence may or may not be used (KIP-360)."""
        self._sequences: dict[PartitionId, int] = {}
        self._added: dict[PartitionId, None] = {}

    @property
    def coordinator(self) -> PartitionId:
        return self._world.books.transaction_partition(self._style.transactional_id)

    @property
    def careful(self) -> bool:
        """Before KIP-890 a late request could hit the next transaction of the same epoch."""
        return self._style.version < 2

    @property
    def patience_ms(self) -> int:
        # When the run comes to its end, everything is healed: worth waiting for.
        patience = 20 if self._client.stopping else self._style.patience
        return self._client.now_ms + patience * self._client.timeout_ms

    # -- identity

    def begin_anew(self) -> Steps[bool]:
        """As a new instance: whoever was before is fenced. False if it did not come to that."""
        return (yield from self._init(NO_STAMP))

    def go_on(self) -> Steps[bool]:
        """Still the same instance, with the next epoch."""
        return (yield from self._init(self.stamp))

    def _init(self, stamp: ProducerStamp) -> Steps[bool]:
        client, style = self._client, self._style
        request = InitProducer(style.transactional_id, style.timeout_ms, *stamp, NO_PRODUCER)
        until_ms = self.patience_ms
        while True:
            # A copy that comes late would fence the very producer that sent it.
            response = yield from client.call(
                self.coordinator, request, until_ms=until_ms, careful=True
            )
            if response is None:
                return False
            if response.error == Error.NONE:
                self._be(ProducerStamp(response.producer_id, response.producer_epoch))
                self.fenced = self.unsure = False
                return True
            if response.error != Error.CONCURRENT_TRANSACTIONS:
                self.fenced = True
                return False
            if client.now_ms >= until_ms:
                return False
            yield Sleep(RETRY_MS)

    def _be(self, stamp: ProducerStamp) -> None:
        if stamp != self.stamp:
            self._sequences.clear()
        self.stamp = stamp

    # -- one transaction

    def begin(self) -> SimTransaction:
        assert not self.fenced, f"{self._style.transactional_id} is fenced"
        self._added.clear()
        return self._world.books.transactions.begin(self._style.transactional_id, self.stamp)

    def send(
        self,
        transaction: SimTransaction,
        partition: PartitionId,
        values: tuple[int, ...],
        *,
        hasty: bool = False,
    ) -> Steps[bool]:
        """One batch, until it is acknowledged. False: the transaction has to be aborted. Hasty:
        it is sent once, and nobody waits for the answer."""
        world = self._world
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(values)
        world.books.transactions.sends(transaction, partition, values)
        sending = world.recorder.sent_in(transaction, self._client.address, partition, values)
        if not (yield from self._add(partition)):
            return False
        batch = client_batch(
            values,
            timestamp=self._client.now_ms,
            producer_id=self.stamp.producer_id,
            producer_epoch=self.stamp.producer_epoch,
            base_sequence=sequence,
        )._replace(is_transactional=True)
        message = m.Produce(
            0,
            partition,
            batch,
            ACKS_ALL,
            world.plan.timings.produce_timeout_ms,
            self._style.transactional_id,
            self._style.version,
        )
        if hasty:
            leader = yield from self._client.leader_of(partition)
            numbered = message._replace(request_id=world.new_request_id())
            yield Ask(leader, numbered, 1)
            self.unsure = True
            return False
        acknowledged = yield from self._produce(message, sending)
        if acknowledged:
            transaction.acknowledged.update(dict.fromkeys(values, partition))
        else:
            self.unsure = True
        return acknowledged

    def _produce(self, message: m.Produce, sending: TransactionalSending) -> Steps[bool]:
        client, partition = self._client, message.partition
        until_ms = self.patience_ms
        while True:
            leader = yield from client.leader_of(partition)
            numbered = message._replace(request_id=self._world.new_request_id())
            reply = yield Ask(leader, numbered, message.timeout_ms + client.timeout_ms)
            if reply is not None and reply.error == Error.NONE:
                sending.base_offset = reply.base_offset
                return True
            client.forget_leader(partition)
            if reply is not None and reply.error not in RETRIABLE:
                self._note(reply.error)
                return False
            if client.now_ms >= until_ms:
                return False
            yield Sleep(RETRY_MS)

    def _add(self, partition: PartitionId) -> Steps[bool]:
        """Version 2 leaves it to the leader of the partition."""
        if self._style.version >= 2 or partition in self._added:
            return True
        request = AddPartitions(
            self._style.transactional_id,
            *self.stamp,
            (self._world.books.topic_partition(partition),),
            verify_only=False,
            version=self._style.version,
        )
        error = yield from self._ask(request)
        if error == Error.NONE:
            self._added[partition] = None
        return error == Error.NONE

    def add_offsets(self, request: CommitTransactionalOffsets) -> Steps[bool]:
        """TxnOffsetCommit, for version 1 after AddOffsetsToTxn."""
        client = self._client
        partition = self._world.books.group_partition(request.group_id)
        if not (yield from self._add(partition)):
            return False
        until_ms = self.patience_ms
        while True:
            leader = yield from client.leader_of(partition)
            connection = m.Connection() if self.careful else None
            message = m.OffsetsOfTransaction(
                self._world.new_request_id(),
                partition,
                request._replace(
                    producer_id=self.stamp.producer_id, producer_epoch=self.stamp.producer_epoch
                ),
                self._style.transactional_id,
                self._style.version,
                connection,
            )
            reply = yield Ask(leader, message, 2 * client.timeout_ms)
            if connection is not None:
                connection.close()
            error = Error.REQUEST_TIMED_OUT if reply is None else _error_of(reply)
            if error == Error.NONE:
                return True
            client.forget_leader(partition)
            if error not in RETRIABLE:
                self._note(error)
                return False
            if client.now_ms >= until_ms:
                return False
            yield Sleep(RETRY_MS)

    def end(self, transaction: SimTransaction, *, commit: bool) -> Steps[bool]:
        """False: nobody knows how it ended, or somebody else has ended it."""
        transaction.asked = COMMIT if commit else ABORT
        request = EndTransaction(
            self._style.transactional_id, *self.stamp, commit, self._style.version, NO_PRODUCER
        )
        until_ms = self.patience_ms
        while True:
            response = yield from self._client.call(
                self.coordinator, request, until_ms=until_ms, careful=self.careful
            )
            if response is None:
                return False
            if response.error == Error.NONE:
                transaction.told = transaction.asked
                if self._style.version >= 2:
                    self._be(ProducerStamp(response.producer_id, response.producer_epoch))
                    self.unsure = False
                return True
            if response.error != Error.CONCURRENT_TRANSACTIONS:
                self._note(response.error)
                return False
            if self._client.now_ms >= until_ms:
                return False
            yield Sleep(RETRY_MS)

    def _ask(self, request: AddPartitions) -> Steps[Error]:
        until_ms = self.patience_ms
        while True:
            response = yield from self._client.call(
                self.coordinator, request, until_ms=until_ms, careful=self.careful
            )
            if response is None:
                return Error.REQUEST_TIMED_OUT
            if response.error != Error.CONCURRENT_TRANSACTIONS:
                self._note(response.error)
                return Error(response.error)
            if self._client.now_ms >= until_ms:
                return Error.REQUEST_TIMED_OUT
            yield Sleep(RETRY_MS)

    def _note(self, error: Error) -> None:
        if error in FENCING:
            self.fenced = True


FENCING: Final = (
    Error.PRODUCER_FENCED,
    Error.INVALID_PRODUCER_EPOCH,
    Error.INVALID_PRODUCER_ID_MAPPING,
)


def _error_of(reply: m.CoordinatorReply) -> Error:
    if reply.error != Error.NONE:
        return reply.error
    response = reply.response
    errors = (response.error, *response.errors)  # type: ignore[attr-defined]  # a CommitResponse
    return Error(next((error for error in errors if error), Error.NONE))
