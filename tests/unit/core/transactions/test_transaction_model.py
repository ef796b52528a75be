"""Random producers, an unordered network and coordinators that fail: each transaction is decided
once, and by whom it belongs to.

Requests are copied, delayed and reordered, answers are lost, and records that are not committed
may vanish with their coordinator. The same shard runs around the machine as in a broker.
"""

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.transaction_bench import TIMEOUT_MS, Asked, TransactionBench
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import Error
from tidelog.core.transactions.machine import TransactionMachine
from tidelog.core.transactions.records import Transaction, TransactionState, TransactionValue
from tidelog.core.transactions.requests import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    ProducerIdentity,
    SendMarkers,
)
from tidelog.core.transactions.rules import LARGEST_CLIENT_EPOCH
from tidelog.core.transactions.settings import TransactionSettings
from tidelog.core.types import NO_PRODUCER

S = TransactionState
LEGAL = {
    (None, S.EMPTY),
    (S.EMPTY, S.EMPTY),
    (S.COMPLETE_COMMIT, S.EMPTY),
    (S.COMPLETE_ABORT, S.EMPTY),
    (S.EMPTY, S.ONGOING),
    (S.COMPLETE_COMMIT, S.ONGOING),
    (S.COMPLETE_ABORT, S.ONGOING),
    (S.ONGOING, S.ONGOING),
    (S.ONGOING, S.PREPARE_COMMIT),
    (S.ONGOING, S.PREPARE_ABORT),
    (S.EMPTY, S.PREPARE_ABORT),
    (S.COMPLETE_COMMIT, S.PREPARE_ABORT),
    (S.COMPLETE_ABORT, S.PREPARE_ABORT),
    (S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
    (S.PREPARE_ABORT, S.COMPLETE_ABORT),
    (S.EMPTY, None),
    (S.COMPLETE_COMMIT, None),
    (S.COMPLETE_ABORT, None),
}
DECIDED = (S.PREPARE_COMMIT, S.PREPARE_ABORT)
PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
NAMES = ("old", "new")
"""Transactional ids: producers of the first are older clients, of the second newer ones."""

picks = st.integers(0, 1_000)
fates = st.sampled_from(["smooth", "smooth", "copied", "late", "answer lost", "not committed"])


class Sent(NamedTuple):
    """A request under way. `nth` is the transaction of the producer it is about."""

    request: object
    producer: int
    nth: int


class Producer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.version = 1 if name == "old" else 2
        self.identity: tuple[int, int] = (NO_PRODUCER, -1)
        self.nth = 0
        self.decision: bool | None = None


class TransactionModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        long_used = TransactionValue(
            500, LARGEST_CLIENT_EPOCH - 2, TIMEOUT_MS, S.EMPTY, (), 1_600_000_000_000, -1
        )
        self.bench = TransactionBench(
            TransactionSettings(
                transactional_id_expiration_ms=3 * TIMEOUT_MS,
                expiration_check_interval_ms=TIMEOUT_MS,
            ),
            transactions={
                name: long_used._replace(producer_id=500 + number)
                for number, name in enumerate(NAMES)
            },
        )
        self.bench.log.commits_at_once = False
        self.producers = [Producer(name) for name in NAMES for _ in range(2)]
        self.network: list[Sent] = []
        self.waiting: list[tuple[Asked, Sent]] = []
        self.begun_by: dict[tuple[int, int], tuple[int, int]] = {}
        self.ordered: list[SendMarkers] = []
        self.marked: dict[tuple[str, int], set[TopicPartition]] = {}

    # -- producers

    @rule(pick=picks, goes_on=st.booleans(), fate=fates)
    def a_producer_starts(self, pick: int, goes_on: bool, fate: str) -> None:
        producer = self.producers[pick % len(self.producers)]
        identity = producer.identity if goes_on else (NO_PRODUCER, -1)
        self.send(pick, InitProducer(producer.name, TIMEOUT_MS, *identity, NO_PRODUCER), fate)

    @rule(pick=picks, partition=st.sampled_from(PARTITIONS), verify=st.booleans(), fate=fates)
    def a_producer_adds(
        self, pick: int, partition: TopicPartition, verify: bool, fate: str
    ) -> None:
        producer = self.producers[pick % len(self.producers)]
        if producer.decision is None and producer.identity[0] != NO_PRODUCER:
            partitions, version = (partition,), producer.version
            self.send(
                pick,
                AddPartitions(producer.name, *producer.identity, partitions, verify, version),
                fate,
            )

    @rule(pick=picks, commit=st.booleans(), fate=fates)
    def a_producer_ends(self, pick: int, commit: bool, fate: str) -> None:
        """A retry asks for the same as the first time."""
        producer = self.producers[pick % len(self.producers)]
        if producer.identity[0] == NO_PRODUCER:
            return
        if producer.decision is None:
            producer.decision = commit
        decision, version = producer.decision, producer.version
        self.send(
            pick,
            EndTransaction(producer.name, *producer.identity, decision, version, NO_PRODUCER),
            fate,
        )

    @rule(pick=picks, commit=st.booleans())
    def a_producer_does_a_whole_transaction(self, pick: int, commit: bool) -> None:
        """As far as it can."""
        if self.producers[pick % len(self.producers)].identity[0] == NO_PRODUCER:
            self.a_producer_starts(pick, False, "smooth")
        self.a_producer_adds(pick, PARTITIONS[pick % len(PARTITIONS)], False, "smooth")
        self.a_producer_ends(pick, commit, "smooth")
        for order in self.bench.orders[-1:]:
            self.report(order, order.partitions)

    # -- the network

    def send(self, pick: int, request: object, fate: str) -> None:
        number = pick % len(self.producers)
        sent = Sent(request, number, self.producers[number].nth)
        if fate in ("late", "copied"):
            self.network.append(sent)
        if fate != "late":
            token = self.deliver(sent)
            if fate != "not committed":
                self.records_are_committed(self.bench.log.end_offset() - self.bench.log.committed)
            if token.responses:
                self.hear(token, sent, lost=fate == "answer lost")

    @rule(pick=picks)
    def a_late_request_arrives(self, pick: int) -> None:
        if self.network:
            self.deliver(self.network.pop(pick % len(self.network)))

    def deliver(self, sent: Sent) -> Asked:
        request = self.with_producer_id(sent.request)
        name = self.producers[sent.producer].name
        before = self.bench.machine.transactions.get(name)
        token = self.bench.send(request)
        self.waiting.append((token, sent))
        self.judge(sent, name, before, self.bench.machine.transactions.get(name))
        return token

    def with_producer_id(self, request: object) -> object:
        if isinstance(request, InitProducer | EndTransaction) and (
            self.bench.machine.needs_producer_id(
                request.transactional_id, ending=isinstance(request, EndTransaction)
            )
        ):
            return request._replace(fresh_producer_id=self.bench.fresh_producer_id())
        return request

    def judge(
        self,
        sent: Sent,
        name: str,
        before: TransactionValue | None,
        after: TransactionValue | None,
    ) -> None:
        """What one request may have done."""
        if before == after or after is None:
            return
        if isinstance(sent.request, InitProducer) and before is not None:
            self.judge_init(sent.request, before, after)
        if isinstance(sent.request, AddPartitions):
            assert not sent.request.verify_only, (sent, after)
            assert sent.request[1:3] == (after.producer_id, after.producer_epoch), (sent, after)
            stamp = (after.producer_id, after.producer_epoch)
            assert self.begun_by.setdefault(stamp, sent[1:]) == sent[1:] or name == "old", sent
        if isinstance(sent.request, EndTransaction):
            assert before is not None, after
            stamp = (before.producer_id, before.producer_epoch)
            assert sent.request[1:3] == stamp, (sent, before)
            if before.state is S.ONGOING and name == "new":
                assert self.begun_by[stamp] == sent[1:], (sent, before)

    def judge_init(
        self, request: InitProducer, before: TransactionValue, after: TransactionValue
    ) -> None:
        assert after.producer_id > before.producer_id or (
            after.producer_id == before.producer_id
            and after.producer_epoch == before.producer_epoch + 1
        ), (before, after)
        if request.producer_id == NO_PRODUCER:
            return
        stamp, current = request[2:4], successor(before)
        may = stamp == current
        if before.state is not S.ONGOING:
            may |= request.producer_id == before.previous_producer_id
        assert may, (request, before, after)

    @rule(pick=picks)
    def a_late_answer_arrives(self, pick: int) -> None:
        answered = [each for each in self.waiting if each[0].responses]
        if answered:
            self.hear(*answered[pick % len(answered)], lost=False)

    def hear(self, token: Asked, sent: Sent, *, lost: bool) -> None:
        self.waiting.remove((token, sent))
        producer, (response,) = self.producers[sent.producer], token.responses
        if lost or sent.nth != producer.nth or not isinstance(response, ProducerIdentity):
            return
        if response.error is Error.NONE:
            producer.identity = (response.producer_id, response.producer_epoch)
        elif response.error is Error.PRODUCER_FENCED:
            producer.identity = (NO_PRODUCER, -1)
        else:
            return
        producer.nth += 1
        producer.decision = None

    # -- markers

    @rule(pick=picks, count=st.integers(1, 3))
    def markers_are_reported(self, pick: int, count: int) -> None:
        """Of any order that was ever given, also twice."""
        if self.bench.orders:
            order = self.bench.orders[-1 - pick % min(len(self.bench.orders), 5)]
            self.report(order, order.partitions[:count])

    @rule()
    def old_reports_come_again(self) -> None:
        for order in self.bench.orders[-6:-1]:
            self.report(order, order.partitions)

    def report(self, order: SendMarkers, partitions: tuple[TopicPartition, ...]) -> None:
        decision = (order.transactional_id, order.decided_ms)
        self.marked.setdefault(decision, set()).update(partitions)
        self.bench.report(order, *partitions)

    # -- the coordinator

    @rule(pick=picks)
    def records_are_committed(self, pick: int) -> None:
        log = self.bench.log
        log.committed += pick % (log.end_offset() - log.committed + 1)
        self.bench.shard.on_committed()

    @rule(pick=picks)
    def the_coordinator_fails(self, pick: int) -> None:
        """Its broker may have died, and with it what was ordered."""
        if pick % 2:
            self.bench.orders.clear()
            self.ordered.clear()
        log = self.bench.log
        self.bench.fail_over(keep=log.committed + pick % (log.end_offset() - log.committed + 1))

    @rule(pick=picks)
    def replicas_are_gone_for_a_while(self, pick: int) -> None:
        self.bench.log.has_replicas = False
        self.markers_are_reported(pick, 3)
        self.bench.log.has_replicas = True
        self.bench.shard.on_committed()

    @rule(elapsed_ms=st.sampled_from([1, 1_000, 1_000, TIMEOUT_MS]))
    def time_passes(self, elapsed_ms: int) -> None:
        before = dict(self.bench.machine.transactions)
        self.bench.pass_time(elapsed_ms)
        for name, value in self.bench.machine.transactions.items():
            if value != before[name]:
                assert value.state is S.PREPARE_ABORT, (before[name], value)
                assert value.producer_epoch == before[name].producer_epoch + 1, value

    # -- what always holds

    @invariant()
    def every_order_is_a_committed_decision(self) -> None:
        """So a transaction is never told both ways: its one record says which."""
        decisions = {
            (record.transactional_id, value.last_update_ms): value
            for write in self.bench.log.writes[: self.bench.log.committed]
            for record in write.records
            if isinstance(record, Transaction)
            and (value := record.value) is not None
            and value.state in DECIDED
        }
        for order in self.bench.orders[len(self.ordered) :]:
            value = decisions[order.transactional_id, order.decided_ms]
            assert order.commit is (value.state is S.PREPARE_COMMIT), (order, value)
            assert order[1:3] == (value.producer_id, value.producer_epoch), (order, value)
            assert set(order.partitions) <= set(value.partitions), (order, value)
            self.ordered.append(order)

    @invariant()
    def the_log_tells_a_legal_story(self) -> None:
        last: dict[str, TransactionValue | None] = {}
        for record in (each for write in self.bench.log.writes for each in write.records):
            assert isinstance(record, Transaction)
            before, after = last.get(record.transactional_id), record.value
            step = (before and before.state, after and after.state)
            assert step in LEGAL, (record.transactional_id, before, after)
            if before is not None and after is not None:
                assert after.last_update_ms > before.last_update_ms, (before, after)
                assert successor(after) >= successor(before), (before, after)
                if after.version == 2 and after.state in DECIDED:
                    assert after.producer_epoch == before.producer_epoch + 1, (before, after)
                if before.state in DECIDED:
                    decision = (record.transactional_id, before.last_update_ms)
                    assert set(before.partitions) <= self.marked.get(decision, set()), before
            last[record.transactional_id] = after

    @invariant()
    def the_log_makes_the_same_coordinator_again(self) -> None:
        replayed = TransactionMachine(self.bench.settings, 0)
        for write in self.bench.log.writes:
            replayed.replay(write.records, write.stamp)
        assert replayed.transactions == self.bench.machine.transactions

    def teardown(self) -> None:
        """Heal: everybody is answered, and nothing is left undecided."""
        bench = self.bench
        bench.log.has_replicas = bench.log.commits_at_once = True
        bench.log.committed = bench.log.end_offset()
        bench.shard.on_committed()
        assert all(token.responses for token in bench.tokens), "somebody still waits"
        bench.pass_time(TIMEOUT_MS)
        for order in tuple(bench.orders):
            self.report(order, order.partitions)
        states = {name: value.state for name, value in bench.machine.transactions.items()}
        assert not set(states.values()) & {S.ONGOING, *DECIDED}, states
        self.every_order_is_a_committed_decision()
        self.the_log_tells_a_legal_story()


def successor(value: TransactionValue) -> tuple[int, int]:
    """Producer ids are allocated in ascending order here."""
    if value.next_producer_id != NO_PRODUCER:
        return (value.next_producer_id, value.next_producer_epoch)
    return (value.producer_id, value.producer_epoch)


TransactionModel.TestCase.settings = settings(
    max_examples=200, stateful_step_count=60, deadline=None
)
test_transactions_of_random_producers = TransactionModel.TestCase
