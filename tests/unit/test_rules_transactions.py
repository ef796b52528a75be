"""Rules about transactions: each with what breaks it, and a near miss."""

from support.coordination_bench import ORDERS, CoordinationBench
from support.rule_bench import PARTITION
from tidelog.core.coordination import ProducerStamp
from tidelog.sim.delivery_book import Input
from tidelog.sim.transaction_book import ABORT, COMMIT

STAMP = ProducerStamp(7, 0)
NEXT = ProducerStamp(7, 1)


# -- X1


def test_an_open_record_is_not_shown_to_readers_of_committed_ones():
    bench = CoordinationBench()
    batch = bench.send(bench.begin())
    bench.judge.committed_read(9, PARTITION, [batch])
    assert bench.broken == ["X1"]


def test_an_aborted_record_is_not_shown_either():
    bench = CoordinationBench()
    batch = bench.send(bench.begin())
    bench.end(STAMP, commit=False)
    bench.judge.committed_read(9, PARTITION, [batch])
    assert bench.broken == ["X1"]


def test_committed_records_and_those_of_no_transaction_are_shown():
    bench = CoordinationBench()
    transaction = bench.begin()
    batch = bench.send(transaction)
    transaction.asked = COMMIT
    bench.end(STAMP, commit=True)
    plain = bench.append(1)
    bench.judge.committed_read(9, PARTITION, [batch, plain])
    assert bench.broken == []


# -- X2


def test_a_transaction_that_is_committed_in_part_is_broken():
    bench = CoordinationBench()
    transaction = bench.begin()
    bench.send(transaction)
    transaction.acknowledged[999] = PARTITION
    transaction.values[999] = PARTITION
    transaction.asked = COMMIT
    bench.end(STAMP, commit=True)
    bench.judge.finish()
    assert bench.broken == ["X2"]


def test_whoever_was_told_that_it_committed_finds_its_records():
    bench = CoordinationBench()
    transaction = bench.begin()
    bench.send(transaction)
    transaction.asked = transaction.told = COMMIT
    bench.judge.finish()
    assert bench.broken == ["X2"]


def test_a_transaction_of_which_nothing_is_committed_owes_nothing():
    bench = CoordinationBench()
    transaction = bench.begin()
    bench.send(transaction)
    transaction.asked = transaction.told = ABORT
    bench.end(STAMP, commit=False)
    bench.judge.finish()
    assert bench.broken == []


def test_what_a_coordinator_with_a_lost_log_decides_is_not_judged():
    bench = CoordinationBench()
    bench.durable = False
    transaction = bench.begin()
    bench.send(transaction)
    transaction.asked = transaction.told = COMMIT
    bench.judge.finish()
    assert bench.broken == []


# -- X3


def test_nobody_commits_what_its_producer_did_not_ask_for():
    bench = CoordinationBench()
    bench.send(bench.begin())
    bench.end(STAMP, commit=True)
    assert bench.broken == ["X3"]


def test_nobody_aborts_what_its_producer_was_told_is_committed():
    bench = CoordinationBench()
    transaction = bench.begin()
    bench.send(transaction)
    transaction.asked = transaction.told = COMMIT
    bench.end(STAMP, commit=False)
    assert bench.broken == ["X3"]


def test_one_marker_does_not_end_two_transactions():
    bench = CoordinationBench()
    for transaction in (bench.begin(), bench.begin()):
        transaction.asked = COMMIT
        bench.send(transaction)
    bench.end(STAMP, commit=True)
    assert bench.broken == ["X3"]


def test_nothing_is_added_to_a_transaction_that_has_ended():
    bench = CoordinationBench()
    transaction = bench.begin()
    transaction.asked = transaction.told = ABORT
    bench.send(transaction)
    bench.end(STAMP, commit=False)
    bench.send(transaction)
    assert bench.broken == [], "it may still be refused"
    bench.end(STAMP, commit=False)
    assert bench.broken == ["X3"]


def test_a_transaction_is_not_committed_here_and_aborted_there():
    bench = CoordinationBench()
    transaction = bench.begin()
    transaction.asked = COMMIT
    for commit in (True, False):
        bench.send(transaction)
        bench.end(STAMP, commit=commit)
    assert bench.broken == ["X3"]


def test_markers_may_be_repeated_and_one_transaction_follows_the_other():
    bench = CoordinationBench()
    for asked in (COMMIT, ABORT):
        transaction = bench.begin()
        transaction.asked = asked
        bench.send(transaction)
        for _ in range(2):
            bench.end(STAMP, commit=asked == COMMIT)
    assert bench.broken == []


# -- R17, across the ends of transactions


def test_after_a_marker_of_the_next_epoch_nothing_of_the_last_one_comes():
    bench = CoordinationBench()
    transaction = bench.begin()
    bench.send(transaction)
    bench.end(NEXT, commit=False)
    bench.send(transaction)
    assert "R17" in bench.broken


# -- X5


def test_an_input_has_not_two_outputs():
    bench = CoordinationBench()
    for _ in range(2):
        transaction = bench.begin()
        transaction.asked = COMMIT
        batch = bench.send(transaction)
        bench.books.deliveries.made(batch.values[0], Input("app", ORDERS, 0))
        bench.end(STAMP, commit=True)
    assert bench.broken == ["X5"]


def test_an_output_that_was_aborted_does_not_count():
    bench = CoordinationBench()
    for asked in (ABORT, COMMIT):
        transaction = bench.begin()
        transaction.asked = asked
        batch = bench.send(transaction)
        bench.books.deliveries.made(batch.values[0], Input("app", ORDERS, 0))
        bench.end(STAMP, commit=asked == COMMIT)
    assert bench.broken == []


def test_in_the_end_every_input_has_an_output():
    bench = CoordinationBench()
    bench.books.deliveries.exactly_once["app"] = 1
    inputs = bench.judge.chronicle.facts(bench.books.partition_named(ORDERS))
    inputs.committed_end = 1
    bench.judge.finish()
    assert bench.broken == ["X5"]


# -- X6


def test_offsets_of_an_open_or_aborted_transaction_do_not_count():
    for ends in (False, True):
        bench = CoordinationBench()
        transaction = bench.begin()
        record = bench.up_to(3, f"t{transaction.number}")
        bench.record(record, stamp=STAMP)
        if ends:
            bench.end(STAMP, commit=False)
        bench.tells(3, f"t{transaction.number}")
        assert "X6" in bench.broken


def test_offsets_of_a_committed_transaction_count():
    bench = CoordinationBench()
    transaction = bench.begin()
    transaction.asked = COMMIT
    bench.record(bench.up_to(3, f"t{transaction.number}"), stamp=STAMP)
    bench.end(STAMP, commit=True)
    bench.tells(3, f"t{transaction.number}")
    assert bench.broken == []
