"""A transaction coordinator: who may write, and which way a transaction ends."""

import pytest

from support.transaction_bench import (
    ORDERS_0,
    ORDERS_1,
    PAYMENTS,
    TIMEOUT_MS,
    TransactionBench,
)
from tidelog.core.coordination import Marker, TopicPartition
from tidelog.core.errors import Error
from tidelog.core.events import TransactionBegan, TransactionEnded
from tidelog.core.transactions.records import TransactionState, TransactionValue
from tidelog.core.transactions.requests import (
    DescribedTransaction,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactions,
    ListTransactionsResponse,
)
from tidelog.core.transactions.rules import LARGEST_CLIENT_EPOCH
from tidelog.core.transactions.settings import TransactionSettings
from tidelog.core.types import NEVER_MS, NO_PRODUCER

Identity = tuple[int, int]
BOTH_VERSIONS = pytest.mark.parametrize("version", [1, 2])
BOTH_ENDS = pytest.mark.parametrize("commit", [True, False])

EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT


def started(bench: TransactionBench) -> Identity:
    error, *identity = bench.init()
    assert error is Error.NONE
    return (identity[0], identity[1])


def ongoing(bench: TransactionBench, *, version: int = 2) -> Identity:
    identity = started(bench)
    assert bench.add(identity, ORDERS_0, ORDERS_1, version=version).error is Error.NONE
    assert bench.state() is ONGOING
    return identity


def at_epoch(producer_epoch: int, state: TransactionState = EMPTY) -> TransactionBench:
    """A transactional id that has been in use for long."""
    partitions = (ORDERS_0,) if state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT) else ()
    value = TransactionValue(7, producer_epoch, TIMEOUT_MS, state, partitions, 5, 5)
    return TransactionBench(transactions={PAYMENTS: value})


# ---- InitProducerId ----


def test_a_new_transactional_id_gets_a_producer_id_of_its_own() -> None:
    bench = TransactionBench()
    first, second = bench.init("first"), bench.init("second")
    assert first == (Error.NONE, 1001, 0)
    assert second == (Error.NONE, 1002, 0)
    assert bench.state("first") is EMPTY


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_a_new_instance_gets_the_next_epoch_and_fences_the_old_one(state: TransactionState) -> None:
    bench = at_epoch(3, state)
    assert bench.init() == (Error.NONE, 7, 4)
    assert bench.add((7, 3), ORDERS_0).error is Error.PRODUCER_FENCED
    assert bench.add((7, 4), ORDERS_0).error is Error.NONE


def test_a_new_instance_first_aborts_what_the_old_one_left() -> None:
    bench = TransactionBench()
    producer_id, epoch = ongoing(bench)
    assert bench.init().error is Error.CONCURRENT_TRANSACTIONS
    assert bench.state() is PREPARE_ABORT
    (order,) = bench.orders
    assert (order.producer_epoch, order.commit) == (epoch + 1, False)
    assert bench.end((producer_id, epoch), commit=True).error is Error.PRODUCER_FENCED
    assert bench.init().error is Error.CONCURRENT_TRANSACTIONS  # the markers are under way
    bench.report(order)
    assert bench.init() == (Error.NONE, producer_id, epoch + 2)


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_nobody_takes_over_while_markers_are_under_way(state: TransactionState) -> None:
    bench = at_epoch(3, state)
    assert bench.init().error is Error.CONCURRENT_TRANSACTIONS
    assert bench.state() is state


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_nobody_could_keep_is_refused(timeout_ms: int) -> None:
    bench = TransactionBench()
    assert bench.init(timeout_ms=timeout_ms).error is Error.INVALID_TRANSACTION_TIMEOUT
    assert bench.log.writes == []


@pytest.mark.parametrize("identity", [(5, -1), (NO_PRODUCER, 5)])
def test_half_an_identity_is_an_invalid_request(identity: Identity) -> None:
    bench = TransactionBench()
    assert bench.init(identity=identity).error is Error.INVALID_REQUEST
    assert bench.log.writes == []


def test_an_empty_transactional_id_is_an_invalid_request() -> None:
    bench = TransactionBench()
    assert bench.init("").error is Error.INVALID_REQUEST
    assert bench.add((1, 0), ORDERS_0, transactional_id="").error is Error.INVALID_REQUEST
    assert bench.end((1, 0), commit=True, transactional_id="").error is Error.INVALID_REQUEST
    assert bench.ask(DescribeTransaction("")) == DescribedTransaction(Error.INVALID_REQUEST)
    assert bench.log.writes == []


def test_a_producer_goes_on_with_the_next_epoch() -> None:
    bench = at_epoch(3)
    assert bench.init(identity=(7, 3)) == (Error.NONE, 7, 4)


@pytest.mark.parametrize("identity", [(7, 2), (7, 4), (6, 3)])
@pytest.mark.parametrize("state", [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_ABORT])
def test_a_producer_that_somebody_came_after_does_not_go_on(
    identity: Identity, state: TransactionState
) -> None:
    bench = at_epoch(3, state)
    assert bench.init(identity=identity).error is Error.PRODUCER_FENCED
    assert len(bench.log.writes) == 1


def test_a_producer_whose_answer_was_lost_is_told_again_also_by_the_next_coordinator() -> None:
    bench = at_epoch(3)
    told = bench.init(identity=(7, 3))
    assert bench.init(identity=(7, 3)) == told
    bench.fail_over()
    assert bench.init(identity=(7, 3)) == told


def test_a_new_instance_ends_the_claim_of_a_producer_whose_answer_was_lost() -> None:
    bench = at_epoch(3)
    bench.init(identity=(7, 3))
    assert bench.init() == (Error.NONE, 7, 5)
    assert bench.init(identity=(7, 3)).error is Error.PRODUCER_FENCED
    assert bench.init(identity=(7, 4)).error is Error.PRODUCER_FENCED


def test_a_late_copy_of_a_request_to_go_on_does_not_abort_the_transaction_begun_since() -> None:
    bench = at_epoch(3)
    bench.init(identity=(7, 3))
    bench.add((7, 4), ORDERS_0)
    assert bench.init(identity=(7, 3)).error is Error.PRODUCER_FENCED
    assert bench.state() is ONGOING


def test_a_producer_that_goes_on_in_the_middle_of_its_transaction_is_served_after_the_abort() -> (
    None
):
    bench = TransactionBench()
    producer_id, epoch = ongoing(bench)
    assert bench.init(identity=(producer_id, epoch)).error is Error.CONCURRENT_TRANSACTIONS
    assert bench.init(identity=(producer_id, epoch)).error is Error.CONCURRENT_TRANSACTIONS
    bench.report(*bench.orders)
    assert bench.init(identity=(producer_id, epoch)) == (Error.NONE, producer_id, epoch + 2)


def test_after_the_last_epoch_comes_a_new_producer_id() -> None:
    bench = at_epoch(LARGEST_CLIENT_EPOCH - 1)
    assert bench.init() == (Error.NONE, 7, LARGEST_CLIENT_EPOCH)
    assert bench.machine.needs_producer_id(PAYMENTS)
    told = bench.init(identity=(7, LARGEST_CLIENT_EPOCH))
    assert told == (Error.NONE, 1001, 0)
    assert bench.value().previous_producer_id == 7
    assert bench.init(identity=(7, LARGEST_CLIENT_EPOCH)) == told
    assert bench.init(identity=(7, LARGEST_CLIENT_EPOCH - 1)).error is Error.PRODUCER_FENCED


def test_a_transaction_of_the_last_epoch_can_be_fenced() -> None:
    bench = at_epoch(LARGEST_CLIENT_EPOCH, ONGOING)
    assert not bench.machine.needs_producer_id(PAYMENTS)
    assert bench.init().error is Error.CONCURRENT_TRANSACTIONS
    (order,) = bench.orders
    assert order.producer_epoch == LARGEST_CLIENT_EPOCH + 1
    bench.report(order)
    assert bench.init() == (Error.NONE, 1001, 0)


def test_whoever_comes_without_the_producer_id_that_is_needed_asks_again() -> None:
    bench = TransactionBench()
    answer = bench.ask(InitProducer(PAYMENTS, TIMEOUT_MS, NO_PRODUCER, -1, NO_PRODUCER))
    assert answer == (Error.CONCURRENT_TRANSACTIONS, NO_PRODUCER, -1)
    full = at_epoch(LARGEST_CLIENT_EPOCH, ONGOING)
    answer = full.ask(EndTransaction(PAYMENTS, 7, LARGEST_CLIENT_EPOCH, True, 2, NO_PRODUCER))
    assert answer == (Error.CONCURRENT_TRANSACTIONS, NO_PRODUCER, -1)
    assert full.state() is ONGOING


# ---- AddPartitionsToTxn ----


def test_the_first_partitions_begin_a_transaction() -> None:
    bench = TransactionBench()
    identity = started(bench)
    assert bench.add(identity, ORDERS_1, ORDERS_0) == (Error.NONE, (Error.NONE,) * 2)
    value = bench.value()
    assert (value.state, value.partitions) == (ONGOING, (ORDERS_0, ORDERS_1))
    assert value.start_ms == bench.wall_ms


def test_partitions_that_are_in_are_not_written_again() -> None:
    bench = TransactionBench()
    identity = ongoing(bench)
    written = len(bench.log.writes)
    assert bench.add(identity, ORDERS_1).error is Error.NONE
    assert bench.add(identity).error is Error.NONE
    assert len(bench.log.writes) == written


def test_more_partitions_keep_the_start_of_the_transaction() -> None:
    bench = TransactionBench()
    identity = started(bench)
    bench.add(identity, ORDERS_0)
    start_ms = bench.value().start_ms
    bench.pass_time(10)
    bench.add(identity, ORDERS_1)
    assert bench.value().start_ms == start_ms
    assert bench.value().partitions == (ORDERS_0, ORDERS_1)


@pytest.mark.parametrize("verify_only", [True, False])
@BOTH_VERSIONS
def test_whoever_is_not_the_producer_adds_nothing(verify_only: bool, version: int) -> None:
    bench = TransactionBench()
    producer_id, epoch = ongoing(bench)
    written = len(bench.log.writes)

    def error(identity: Identity, transactional_id: str = PAYMENTS) -> Error:
        return bench.add(
            identity,
            ORDERS_0,
            version=version,
            verify_only=verify_only,
            transactional_id=transactional_id,
        ).error

    assert error((producer_id, epoch), "unknown") is Error.INVALID_PRODUCER_ID_MAPPING
    assert error((producer_id + 1, epoch)) is Error.INVALID_PRODUCER_ID_MAPPING
    assert error((producer_id, epoch - 1)) is Error.PRODUCER_FENCED
    assert error((producer_id, epoch + 1)) is Error.PRODUCER_FENCED
    assert len(bench.log.writes) == written


@BOTH_VERSIONS
def test_the_next_transaction_waits_for_the_markers_of_the_last_one(version: int) -> None:
    bench = TransactionBench()
    identity = ongoing(bench, version=version)
    error, *told = bench.end(identity, commit=True, version=version)
    assert error is Error.NONE
    identity = (told[0], told[1])
    add = [bench.add(identity, ORDERS_0, verify_only=only, version=version) for only in (0, 1)]
    assert [response.error for response in add] == [Error.CONCURRENT_TRANSACTIONS] * 2
    bench.report(*bench.orders)
    assert bench.add(identity, ORDERS_0, version=version).error is Error.NONE


def test_a_leader_learns_which_partitions_are_in() -> None:
    bench = TransactionBench()
    identity = started(bench)
    bench.add(identity, ORDERS_0, version=1)
    written = len(bench.log.writes)
    response = bench.add(identity, ORDERS_1, ORDERS_0, verify_only=True, version=1)
    assert response == (Error.NONE, (Error.TRANSACTION_ABORTABLE, Error.NONE))
    assert len(bench.log.writes) == written


def test_after_the_end_no_partition_is_in() -> None:
    bench = TransactionBench()
    identity = ongoing(bench, version=1)
    bench.end(identity, commit=True, version=1)
    bench.report(*bench.orders)
    response = bench.add(identity, ORDERS_0, verify_only=True, version=1)
    assert response == (Error.NONE, (Error.TRANSACTION_ABORTABLE,))


# ---- EndTxn ----


@BOTH_ENDS
def test_an_older_client_keeps_its_epoch_over_the_end(commit: bool) -> None:
    bench = TransactionBench()
    identity = ongoing(bench, version=1)
    assert bench.end(identity, commit=commit, version=1) == (Error.NONE, *identity)
    (order,) = bench.orders
    assert (order.producer_id, order.producer_epoch) == identity
    assert (order.commit, order.version, order.coordinator_epoch) == (commit, 1, 0)
    assert order.partitions == (ORDERS_0, ORDERS_1)
    bench.report(order)
    assert bench.state() is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
    assert bench.value().partitions == ()


@BOTH_ENDS
def test_a_newer_client_gets_the_next_epoch_with_the_end(commit: bool) -> None:
    bench = TransactionBench()
    producer_id, epoch = ongoing(bench)
    assert bench.end((producer_id, epoch), commit=commit) == (Error.NONE, producer_id, epoch + 1)
    (order,) = bench.orders
    assert (order.producer_epoch, order.commit, order.version) == (epoch + 1, commit, 2)
    bench.report(order)
    assert bench.state() is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
    assert bench.add((producer_id, epoch), ORDERS_0).error is Error.PRODUCER_FENCED
    assert bench.add((producer_id, epoch + 1), ORDERS_0).error is Error.NONE


@BOTH_ENDS
@BOTH_VERSIONS
def test_a_repeated_end_is_told_the_same_when_the_markers_are_there(
    commit: bool, version: int
) -> None:
    bench = TransactionBench()
    identity = ongoing(bench, version=version)
    told = bench.end(identity, commit=commit, version=version)

    def again(commit: bool) -> Error:
        return bench.end(identity, commit=commit, version=version).error

    assert again(commit) is Error.CONCURRENT_TRANSACTIONS
    assert again(not commit) is Error.INVALID_TXN_STATE
    bench.report(*bench.orders)
    written = len(bench.log.writes)
    assert bench.end(identity, commit=commit, version=version) == told
    assert again(not commit) is Error.INVALID_TXN_STATE
    bench.fail_over()
    assert bench.end(identity, commit=commit, version=version) == told
    assert len(bench.log.writes) == written


@BOTH_ENDS
@BOTH_VERSIONS
def test_whoever_is_not_the_producer_ends_nothing(commit: bool, version: int) -> None:
    bench = TransactionBench()
    producer_id, epoch = ongoing(bench, version=version)

    def error(identity: Identity, transactional_id: str = PAYMENTS) -> Error:
        return bench.end(
            identity, commit=commit, version=version, transactional_id=transactional_id
        ).error

    assert error((producer_id, epoch), "unknown") is Error.INVALID_PRODUCER_ID_MAPPING
    assert error((producer_id + 1, epoch)) is Error.INVALID_PRODUCER_ID_MAPPING
    assert error((producer_id, epoch - 1)) is Error.PRODUCER_FENCED
    assert error((producer_id, epoch + 1)) is Error.PRODUCER_FENCED
    assert bench.state() is ONGOING


def test_a_late_end_does_not_decide_the_next_transaction() -> None:
    """KAFKA-17754: the commit of the first one arrives again in the middle of the second."""
    bench = TransactionBench()
    producer_id, epoch = ongoing(bench)
    bench.end((producer_id, epoch), commit=True)
    bench.report(*bench.orders)
    bench.add((producer_id, epoch + 1), ORDERS_0)
    assert bench.end((producer_id, epoch), commit=True).error is Error.PRODUCER_FENCED
    assert bench.state() is ONGOING


@BOTH_ENDS
def test_an_older_client_cannot_end_what_it_has_not_begun(commit: bool) -> None:
    bench = TransactionBench()
    identity = started(bench)
    assert bench.end(identity, commit=commit, version=1).error is Error.INVALID_TXN_STATE
    assert bench.state() is EMPTY


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_a_newer_client_may_abort_though_nothing_is_ongoing(state: TransactionState) -> None:
    """It cannot know whether its first partition was added before its request failed."""
    bench = at_epoch(3, state)
    assert bench.end((7, 3), commit=True).error is Error.INVALID_TXN_STATE
    assert bench.end((7, 3), commit=False) == (Error.NONE, 7, 4)
    assert (bench.state(), bench.orders) == (COMPLETE_ABORT, [])
    assert bench.end((7, 3), commit=False) == (Error.NONE, 7, 4)


def test_the_end_with_the_last_epoch_makes_it_another_producer() -> None:
    bench = at_epoch(LARGEST_CLIENT_EPOCH, ONGOING)
    last = (7, LARGEST_CLIENT_EPOCH)
    told = bench.end(last, commit=True)
    assert told == (Error.NONE, 1001, 0)
    (order,) = bench.orders
    assert (order.producer_id, order.producer_epoch) == (7, LARGEST_CLIENT_EPOCH + 1)
    assert bench.value().next_producer_id == 1001
    assert bench.end(last, commit=True).error is Error.CONCURRENT_TRANSACTIONS
    assert bench.add((1001, 0), ORDERS_0).error is Error.CONCURRENT_TRANSACTIONS
    bench.fail_over()
    bench.report(bench.orders[-1])
    assert bench.end(last, commit=True) == told
    assert bench.add((1001, 0), ORDERS_0).error is Error.NONE
    assert bench.end(last, commit=True).error is Error.INVALID_PRODUCER_ID_MAPPING


def test_a_producer_that_did_not_hear_of_its_end_may_go_on_by_a_new_start() -> None:
    bench = TransactionBench()
    producer_id, epoch = ongoing(bench)
    bench.end((producer_id, epoch), commit=True)
    assert bench.init(identity=(producer_id, epoch)).error is Error.CONCURRENT_TRANSACTIONS
    bench.report(*bench.orders)
    assert bench.init(identity=(producer_id, epoch)) == (Error.NONE, producer_id, epoch + 2)
    assert bench.end((producer_id, epoch), commit=True).error is Error.PRODUCER_FENCED


def test_an_epoch_that_was_never_given_out_is_nobodys() -> None:
    bench = at_epoch(LARGEST_CLIENT_EPOCH + 1, COMPLETE_ABORT)
    nobody = (7, LARGEST_CLIENT_EPOCH + 1)
    assert bench.end(nobody, commit=False).error is Error.PRODUCER_FENCED
    assert bench.add(nobody, ORDERS_0).error is Error.PRODUCER_FENCED


# ---- markers ----


def test_no_marker_leaves_before_the_decision_is_committed() -> None:
    bench = TransactionBench()
    identity = ongoing(bench)
    bench.log.commits_at_once = False
    token = bench.send(EndTransaction(PAYMENTS, *identity, True, 2, NO_PRODUCER))
    assert (token.responses, bench.orders) == ([], [])
    bench.log.committed = bench.log.end_offset()
    bench.shard.on_committed()
    assert len(token.responses) == len(bench.orders) == 1


def test_a_transaction_is_complete_when_every_partition_has_its_marker() -> None:
    bench = TransactionBench()
    bench.end(ongoing(bench), commit=True)
    (order,) = bench.orders
    bench.report(order, ORDERS_1)
    bench.report(order, ORDERS_1)
    assert bench.state() is PREPARE_COMMIT
    bench.report(order, ORDERS_0)
    assert bench.state() is COMPLETE_COMMIT
    bench.report(order)
    assert bench.state() is COMPLETE_COMMIT


def test_a_late_report_does_not_count_for_the_next_transaction_of_the_same_epoch() -> None:
    bench = TransactionBench()
    identity = ongoing(bench, version=1)
    bench.end(identity, commit=True, version=1)
    bench.report(bench.orders[0])
    bench.add(identity, ORDERS_0, version=1)
    bench.end(identity, commit=False, version=1)
    bench.report(bench.orders[0])
    assert bench.state() is PREPARE_ABORT
    bench.report(bench.orders[1])
    assert bench.state() is COMPLETE_ABORT


def test_the_time_of_a_decision_grows_though_the_next_clock_is_behind() -> None:
    bench = TransactionBench()
    identity = ongoing(bench, version=1)
    for _ in range(3):
        bench.wall_ms -= 10_000
        bench.end(identity, commit=True, version=1)
        bench.report(bench.orders[-1])
        bench.add(identity, ORDERS_0, version=1)
    times = [order.decided_ms for order in bench.orders]
    assert times == sorted(set(times))


def test_the_next_coordinator_sends_the_markers_again() -> None:
    bench = TransactionBench()
    bench.end(ongoing(bench), commit=True)
    first = bench.orders[0]
    bench.report(first, ORDERS_0)
    bench.fail_over()
    assert bench.orders[1:] == [first._replace(coordinator_epoch=1)]
    bench.report(first)  # of the old one: the markers are there, whoever ordered them
    assert bench.state() is COMPLETE_COMMIT


def test_after_a_while_without_replicas_what_is_missing_is_ordered_again() -> None:
    bench = TransactionBench()
    bench.end(ongoing(bench), commit=True)
    (order,) = bench.orders
    bench.report(order, ORDERS_0)
    bench.log.has_replicas = False
    bench.report(order, ORDERS_1)  # nobody hears it
    bench.log.has_replicas = True
    bench.shard.on_committed()
    assert bench.orders[1:] == [order._replace(partitions=(ORDERS_1,))]
    bench.report(bench.orders[1])
    assert bench.state() is COMPLETE_COMMIT


def test_a_decision_without_partitions_is_completed_by_the_next_coordinator() -> None:
    value = TransactionValue(7, 3, TIMEOUT_MS, PREPARE_ABORT, (), 5, 5)
    bench = TransactionBench(transactions={PAYMENTS: value})
    assert (bench.state(), bench.orders) == (COMPLETE_ABORT, [])


def test_a_marker_in_the_log_of_decisions_changes_nothing() -> None:
    bench = TransactionBench()
    ongoing(bench)
    before = dict(bench.machine.transactions)
    bench.shard.replay_marker(Marker(1001, 0, True, 0))
    assert bench.machine.transactions == before


# ---- time ----


@BOTH_VERSIONS
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(version: int) -> None:
    bench = TransactionBench()
    producer_id, epoch = ongoing(bench, version=version)
    bench.pass_time(TIMEOUT_MS - 1)
    assert bench.state() is ONGOING
    bench.pass_time(1)
    assert bench.state() is PREPARE_ABORT
    (order,) = bench.orders
    assert (order.producer_epoch, order.commit) == (epoch + 1, False)
    for _ in range(2):
        ended = bench.end((producer_id, epoch), commit=True, version=version)
        assert ended.error is Error.PRODUCER_FENCED
        aborted = bench.end((producer_id, epoch), commit=False, version=version)
        assert aborted.error is Error.PRODUCER_FENCED
        assert bench.init(identity=(producer_id, epoch)).error is Error.PRODUCER_FENCED
        bench.report(order)
    assert bench.init() == (Error.NONE, producer_id, epoch + 2)


def test_the_time_of_a_transaction_counts_from_its_first_partition() -> None:
    bench = TransactionBench()
    identity = started(bench)
    bench.pass_time(TIMEOUT_MS)
    bench.add(identity, ORDERS_0)
    bench.pass_time(TIMEOUT_MS - 1)
    bench.add(identity, ORDERS_1)
    bench.pass_time(1)
    assert bench.state() is PREPARE_ABORT


def test_a_transaction_that_ended_in_time_does_not_time_out() -> None:
    bench = TransactionBench()
    identity = ongoing(bench)
    bench.end(identity, commit=True)
    bench.report(*bench.orders)
    bench.pass_time(10 * TIMEOUT_MS)
    assert bench.state() is COMPLETE_COMMIT


def test_each_transaction_has_its_own_time() -> None:
    bench = TransactionBench()
    for name, timeout_ms in (("slow", 5_000), ("quick", 1_000)):
        _, *identity = bench.init(name, timeout_ms=timeout_ms)
        bench.add((identity[0], identity[1]), ORDERS_0, transactional_id=name)
    bench.pass_time(1_000)
    assert (bench.state("slow"), bench.state("quick")) == (ONGOING, PREPARE_ABORT)
    bench.pass_time(4_000)
    assert bench.state("slow") is PREPARE_ABORT


def test_a_new_coordinator_gives_every_transaction_its_time_again() -> None:
    bench = TransactionBench()
    ongoing(bench)
    bench.pass_time(TIMEOUT_MS - 1)
    bench.fail_over()
    bench.pass_time(TIMEOUT_MS - 1)
    assert bench.state() is ONGOING
    bench.pass_time(1)
    assert bench.state() is PREPARE_ABORT


def test_a_transactional_id_that_nobody_uses_is_forgotten() -> None:
    settings = TransactionSettings(
        transactional_id_expiration_ms=100_000, expiration_check_interval_ms=1_000
    )
    bench = TransactionBench(settings)
    first = bench.init("idle")
    _, *identity = bench.init("busy", timeout_ms=900_000)
    bench.add((identity[0], identity[1]), ORDERS_0, transactional_id="busy")
    bench.pass_time(99_000)
    assert sorted(bench.machine.transactions) == ["busy", "idle"]
    bench.pass_time(1_000)
    assert list(bench.machine.transactions) == ["busy"]
    bench.fail_over()
    assert list(bench.machine.transactions) == ["busy"]
    again = bench.init("idle")
    assert (again.error, again.producer_epoch) == (Error.NONE, 0)
    assert again.producer_id > first.producer_id


def test_many_transactional_ids_are_forgotten_in_few_batches() -> None:
    value = TransactionValue(7, 0, TIMEOUT_MS, EMPTY, (), 5, -1)
    bench = TransactionBench(transactions={f"id {n}": value for n in range(250)})
    written = len(bench.log.writes)
    bench.pass_time(bench.settings.expiration_check_interval_ms)
    assert bench.machine.transactions == {}
    assert len(bench.log.writes) == written + 3


def test_before_it_is_active_a_coordinator_waits_for_nothing() -> None:
    bench = TransactionBench()
    bench.log.has_replicas = False
    assert bench.shard.next_deadline_ms() == NEVER_MS


# ---- events ----


def test_the_story_of_a_transaction_is_told() -> None:
    bench = TransactionBench()
    producer_id, epoch = ongoing(bench)
    bench.add((producer_id, epoch), ORDERS_0, TopicPartition("orders", 2))
    bench.end((producer_id, epoch), commit=True)
    bench.report(*bench.orders)
    bench.end((producer_id, epoch + 1), commit=False)  # of nothing
    assert bench.events == [
        TransactionBegan(PAYMENTS, producer_id, epoch),
        TransactionEnded(PAYMENTS, producer_id, True, 3, "ended by its producer"),
    ]


def test_the_coordinator_says_why_it_aborts() -> None:
    bench = TransactionBench()
    identity = ongoing(bench)
    bench.init()
    bench.report(*bench.orders)
    _, producer_id, epoch = bench.init()
    bench.add((producer_id, epoch), ORDERS_0)
    bench.pass_time(TIMEOUT_MS)
    assert [event for event in bench.events if isinstance(event, TransactionEnded)] == [
        TransactionEnded(PAYMENTS, identity[0], False, 2, "fenced by a new instance"),
        TransactionEnded(PAYMENTS, producer_id, False, 1, "timed out"),
    ]


# ---- describing ----


def test_a_transaction_is_described_as_it_stands_in_the_log() -> None:
    bench = TransactionBench()
    ongoing(bench)
    told = bench.ask(DescribeTransaction(PAYMENTS))
    assert told == DescribedTransaction(Error.NONE, bench.value())
    unknown = bench.ask(DescribeTransaction("unknown"))
    assert unknown == DescribedTransaction(Error.TRANSACTIONAL_ID_NOT_FOUND)


def test_all_transactions_are_listed_by_name() -> None:
    bench = TransactionBench()
    bench.init("b")
    bench.init("a")
    told = bench.ask(ListTransactions())
    assert isinstance(told, ListTransactionsResponse)
    assert [listed.transactional_id for listed in told.transactions] == ["a", "b"]
    assert told.transactions[0] == ("a", 1002, EMPTY, -1)


def test_a_question_for_somebody_else_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="is asked"):
        TransactionBench().ask("anything")
