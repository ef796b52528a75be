"""A transaction coordinator in its real shard, on a log that is a list."""

from collections.abc import Sequence

from tidelog.coordinators.shard import AppendFailed, Shard
from tidelog.core.coordination import Instant, TopicPartition, Write
from tidelog.core.errors import Error
from tidelog.core.events import Event
from tidelog.core.transactions.machine import TransactionMachine
from tidelog.core.transactions.records import Transaction, TransactionState, TransactionValue
from tidelog.core.transactions.requests import (
    AddPartitions,
    AddPartitionsResponse,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerIdentity,
    SendMarkers,
)
from tidelog.core.transactions.settings import TransactionSettings
from tidelog.core.types import NO_PRODUCER

PAYMENTS = "payments"
TIMEOUT_MS = 60_000
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)


class Asked:
    """Whoever waits for an answer: hears exactly one."""

    def __init__(self) -> None:
        self.responses: list[object] = []

    def answer(self, response: object) -> None:
        assert not self.responses, (self.responses, response)
        self.responses.append(response)

    def refuse(self, error: Error) -> None:
        self.answer(error)


class ListLog:
    """Committed at once, unless told otherwise."""

    def __init__(self, writes: Sequence[Write] = ()) -> None:
        self.writes = list(writes)
        self.committed = len(self.writes)
        self.commits_at_once = True
        self.has_replicas = True

    def may_append(self) -> bool:
        return self.has_replicas

    def append(self, write: Write) -> int:
        self.writes.append(write)
        if self.commits_at_once:
            self.committed = len(self.writes)
        return len(self.writes)

    def end_offset(self) -> int:
        return len(self.writes)

    def committed_offset(self) -> int:
        return self.committed


class TransactionBench:
    """What a broker does around a coordinator: time, producer ids, failover."""

    def __init__(
        self,
        settings: TransactionSettings | None = None,
        *,
        transactions: dict[str, TransactionValue] | None = None,
    ) -> None:
        self.settings = settings or TransactionSettings()
        self.monotonic_ms, self.wall_ms = 1_000, 1_700_000_000_000
        self.orders: list[SendMarkers] = []
        self.events: list[Event] = []
        self.tokens: list[Asked] = []
        self.next_producer_id = 1_000
        self.coordinator_epoch = -1
        self.log = ListLog([Write((Transaction(*item),)) for item in (transactions or {}).items()])
        self.load()

    # -- ShardPort

    def now(self) -> Instant:
        return Instant(self.monotonic_ms, self.wall_ms)

    def order(self, order: object) -> None:
        assert isinstance(order, SendMarkers), order
        self.orders.append(order)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def failed(self, shard: Shard, reason: AppendFailed) -> None:
        raise reason

    # -- the broker

    def load(self) -> None:
        """Another broker reads the log and takes over."""
        self.coordinator_epoch += 1
        self.machine = TransactionMachine(self.settings, self.coordinator_epoch)
        self.shard = Shard(self.machine, self.log, self)
        for write in self.log.writes:
            self.shard.replay(write.records, write.stamp)
        self.shard.finish_loading()

    def fail_over(self, *, keep: int | None = None) -> None:
        """Records that are not committed may be lost: `keep` of the log are not."""
        self.shard.resign()
        kept = self.log.committed if keep is None else keep
        assert self.log.committed <= kept, (self.log.committed, kept)
        log = ListLog(self.log.writes[:kept])
        log.commits_at_once = self.log.commits_at_once
        self.log = log
        self.load()

    def pass_time(self, elapsed_ms: int) -> None:
        self.monotonic_ms += elapsed_ms
        self.wall_ms += elapsed_ms
        if self.shard.next_deadline_ms() <= self.monotonic_ms:
            self.shard.on_time()

    def fresh_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    def send(self, request: object) -> Asked:
        token = Asked()
        self.tokens.append(token)
        self.shard.request(request, token)
        return token

    def ask(self, request: object) -> object:
        (response,) = self.send(request).responses
        return response

    # -- producers

    def init(
        self,
        transactional_id: str = PAYMENTS,
        *,
        identity: tuple[int, int] = (NO_PRODUCER, -1),
        timeout_ms: int = TIMEOUT_MS,
    ) -> ProducerIdentity:
        fresh = (
            self.fresh_producer_id()
            if self.machine.needs_producer_id(transactional_id)
            else NO_PRODUCER
        )
        response = self.ask(InitProducer(transactional_id, timeout_ms, *identity, fresh))
        assert isinstance(response, ProducerIdentity), response
        return response

    def add(
        self,
        identity: tuple[int, int],
        *partitions: TopicPartition,
        version: int = 2,
        verify_only: bool = False,
        transactional_id: str = PAYMENTS,
    ) -> AddPartitionsResponse:
        response = self.ask(
            AddPartitions(transactional_id, *identity, partitions, verify_only, version)
        )
        assert isinstance(response, AddPartitionsResponse), response
        return response

    def end(
        self,
        identity: tuple[int, int],
        *,
        commit: bool,
        version: int = 2,
        transactional_id: str = PAYMENTS,
    ) -> ProducerIdentity:
        bumps = version >= 2 and self.machine.needs_producer_id(transactional_id, ending=True)
        fresh = self.fresh_producer_id() if bumps else NO_PRODUCER
        response = self.ask(EndTransaction(transactional_id, *identity, commit, version, fresh))
        assert isinstance(response, ProducerIdentity), response
        return response

    def report(self, order: SendMarkers, *partitions: TopicPartition) -> None:
        """These partitions have the marker; without any: all of the order."""
        self.shard.tell(
            MarkersWritten(
                order.transactional_id,
                order.producer_id,
                order.producer_epoch,
                partitions or order.partitions,
                order.decided_ms,
            )
        )

    # -- what one sees

    def value(self, transactional_id: str = PAYMENTS) -> TransactionValue:
        return self.machine.transactions[transactional_id]

    def state(self, transactional_id: str = PAYMENTS) -> TransactionState:
        return self.value(transactional_id).state
