"""Rules about what producers are promised and consumers see."""

import pytest

from support.object_log import CompactedLog, ObjectBatch, client_batch
from support.rule_bench import Bench
from tidelog.core.errors import Error
from tidelog.core.replication.producers import LARGEST_SEQUENCE, AppendedBatch

A, B, C = 1, 2, 3
ALL = -1


def pair(min_isr: int = 1) -> Bench:
    bench = Bench(A, B, min_isr=min_isr)
    bench.led_by(A)
    return bench


def acknowledged(bench: Bench) -> ObjectBatch:
    """One batch, replicated, committed, acknowledged."""
    batch = bench.append(A)
    bench.replicate(A, B)
    bench.judge.produce_acked(bench[A], batch, ALL)
    return batch


# -- R06


def test_a_new_leader_without_an_acknowledged_record_has_lost_it():
    bench = pair()
    acknowledged(bench)
    bench[B].log.truncate_to(0)
    bench[B].high_watermark = 0
    bench.change(leader=B, isr=(B,))
    bench.tell(B)
    bench.judge.finish()
    assert "R06" in bench.broken
    assert bench.judge.lost == 1


def test_a_record_acknowledged_only_by_its_leader_may_be_lost():
    bench = pair()
    batch = bench.append(A)
    bench.judge.produce_acked(bench[A], batch, 1)
    bench.change(leader=B, isr=(B,))
    bench.tell()
    bench.judge.finish()
    assert bench.broken == []
    assert bench.judge.lost == 0


def test_a_loss_that_was_to_be_expected_is_counted_and_not_reported():
    bench = pair()
    acknowledged(bench)
    bench.durable = False
    bench[B].log.truncate_to(0)
    bench[B].high_watermark = 0
    bench.change(leader=B, isr=(B,), leader_recovery_state=1)
    bench.tell(B, unclean=True)
    bench.judge.finish()
    assert bench.broken == []
    assert (bench.judge.lost, bench.judge.forfeited) == (0, 1)


def test_without_a_leader_one_eligible_log_that_has_it_is_enough():
    bench = pair()
    acknowledged(bench)
    bench.change(leader=-1, isr=(), elr=(A, B))
    bench.tell()
    bench[B].log.truncate_to(0)
    bench.stop(B, "power_loss")
    bench.judge.finish()
    assert bench.broken == []
    bench[A].log.truncate_to(0)
    bench.stop(A, "power_loss")
    bench.judge.finish()
    assert bench.broken == ["R06"]


def test_a_record_removed_by_retention_is_not_lost():
    bench = pair()
    acknowledged(bench)
    bench.append(A)
    bench.replicate(A, B)
    for broker in (A, B):
        bench[broker].log.raise_log_start(1)
    bench.judge.finish()
    assert bench.broken == []


# -- R13


def test_acknowledging_before_the_high_watermark_is_reported():
    bench = pair()
    batch = bench.append(A)
    bench.judge.produce_acked(bench[A], batch, 1)
    assert bench.broken == []
    bench.judge.produce_acked(bench[A], batch, ALL)
    assert bench.broken == ["R13"]


def test_acknowledging_across_an_interrupted_leadership_is_reported():
    bench = pair()
    batch = bench.append(A)
    bench.replicate(A, B)
    bench.change(leader=B)
    bench.tell()
    bench.change(leader=A)
    bench.tell()
    bench.judge.produce_acked(bench[A], batch, ALL)
    assert bench.broken == ["R13"]


def test_a_leader_elected_again_without_interruption_may_acknowledge():
    bench = pair()
    batch = bench.append(A)
    bench.replicate(A, B)
    bench.change(leader=A, replicas=(A, B), leader_recovery_state=1)  # same leader, new epoch
    bench.tell()
    bench.judge.produce_acked(bench[A], batch, ALL)
    assert bench.broken == []


def test_acknowledging_what_is_not_in_the_log_is_reported():
    bench = pair()
    batch = acknowledged(bench)
    bench.judge.produce_acked(bench[A], batch._replace(values=(99,)), ALL)
    assert "R13" in bench.broken


def test_acknowledging_below_min_isr_is_reported():
    bench = pair(min_isr=2)
    batch = bench.append(A)
    bench.replicate(A, B)
    bench.change(isr=(A,))
    bench[A].partition_epoch += 1
    bench[A].leading.isr = (A,)
    bench.judge.produce_acked(bench[A], batch, ALL)
    assert bench.broken == ["R13"]


def test_a_refusal_for_too_few_replicas_must_not_append():
    bench = pair()
    bench.judge.produce_refused(bench[A], Error.NOT_ENOUGH_REPLICAS, 0)
    bench.append(A)
    bench.judge.produce_refused(bench[A], Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0)
    assert bench.broken == []
    bench.judge.produce_refused(bench[A], Error.NOT_ENOUGH_REPLICAS, 0)
    assert bench.broken == ["R13"]


def test_a_duplicate_owes_the_same_wait_as_the_first_append():
    bench = pair()
    first = bench.append(A, producer_id=7, producer_epoch=0, base_sequence=0)
    again = client_batch(first.values, producer_id=7, producer_epoch=0, base_sequence=0)
    original = AppendedBatch(0, 0, 0, 0, 0)
    bench.judge.duplicate_answered(bench[A], original, again, 1)
    assert bench.broken == []
    bench.judge.duplicate_answered(bench[A], original, again, ALL)
    assert bench.broken == ["R13"]


# -- R08 (reads), R22


def test_reading_above_every_high_watermark_is_reported():
    bench = pair()
    batch = bench.append(A)
    bench.judge.consumer_read(1001, bench[A], (batch,), 0)
    assert bench.broken == ["R22"]


def test_reading_committed_records_from_any_replica_is_fine():
    bench = pair()
    batch = bench.append(A)
    bench.replicate(A, B)
    for broker in (A, B):
        bench.judge.consumer_read(1001, bench[broker], (batch,), 0)
    bench.judge.consumer_read(1001, bench[B], (), 1)
    bench.judge.finish()
    assert bench.broken == []


def test_reading_another_record_at_a_committed_offset_is_reported():
    bench = pair()
    batch = bench.append(A)
    bench.replicate(A, B)
    bench.judge.consumer_read(1001, bench[A], (batch,), 0)
    bench.judge.consumer_read(1002, bench[B], (batch._replace(values=(99,)),), 0)
    assert bench.broken == ["R22"]


@pytest.mark.parametrize(
    ("left", "broken"),
    [
        ({"record_count": 1, "values": (7,)}, []),
        ({"record_count": 0, "values": ()}, []),
        ({"record_count": 0, "values": (), "leader_epoch": 1}, ["R22"]),
        ({"record_count": 3, "values": (7, 8, 9)}, ["R22"]),
    ],
)
def test_a_reader_of_a_replica_that_has_compacted_finds_fewer_records_in_a_batch(left, broken):
    """Each broker compacts for itself; a batch keeps its place and its epoch."""
    bench = pair()
    batch = bench.append(A, 2)
    bench.replicate(A, B)
    bench[B].log = CompactedLog(fsync=False)
    bench.judge.consumer_read(1001, bench[B], (batch._replace(**left),), 0)
    assert bench.broken == broken


def test_after_an_unclean_election_readers_may_disagree():
    bench = pair()
    batch = bench.append(A)
    bench.replicate(A, B)
    bench.durable = False
    bench.judge.consumer_read(1002, bench[B], (batch._replace(values=(99,)),), 0)
    assert bench.broken == []


def test_a_record_that_was_read_must_be_in_the_next_leaders_log():
    bench = pair()
    batch = bench.append(A)
    bench.replicate(A, B)
    bench.judge.consumer_read(1001, bench[A], (batch,), 0)
    bench.change(leader=B)
    bench.tell()
    bench.judge.finish()
    assert bench.broken == []
    bench[A].log.truncate_to(0)
    bench[A].high_watermark = 0
    bench.change(leader=A)
    bench.tell()
    assert "R08" in bench.broken


# -- R17


def produce(bench: Bench, sequence: int, epoch: int = 0, count: int = 1) -> ObjectBatch:
    batch = bench.append(A, count, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    bench.replicate(A, B)
    return batch


def test_sequences_that_continue_are_fine():
    bench = pair()
    produce(bench, 4, count=3)  # the first one of a producer may be any
    produce(bench, 7)
    produce(bench, 0, epoch=1)
    produce(bench, 1, epoch=1)
    assert bench.broken == []


def test_a_sequence_committed_twice_is_reported():
    bench = pair()
    produce(bench, 0)
    produce(bench, 0)
    assert bench.broken == ["R17"]


def test_a_gap_in_the_sequence_is_reported():
    bench = pair()
    produce(bench, 0)
    produce(bench, 2)
    assert bench.broken == ["R17"]


def test_a_batch_of_an_older_producer_epoch_is_reported():
    bench = pair()
    produce(bench, 0, epoch=1)
    produce(bench, 1, epoch=0)
    assert bench.broken == ["R17"]


def test_sequences_wrap_around_after_the_largest():
    bench = pair()
    produce(bench, LARGEST_SEQUENCE)
    produce(bench, 0)
    assert bench.broken == []


def test_a_value_committed_twice_is_reported_even_if_its_sequences_fit():
    bench = pair()
    first = produce(bench, 0)
    repeated = client_batch(first.values, producer_id=7, producer_epoch=0, base_sequence=1)
    batch = bench[A].log.append_as_leader(repeated, 0)
    bench.judge.leader_appended(bench[A], batch)
    bench.replicate(A, B)
    assert bench.broken == ["R17"]


def test_a_producer_without_idempotence_is_not_judged():
    bench = pair()
    for _ in range(2):
        batch = bench[A].log.append_as_leader(client_batch((5,)), 0)
        bench.judge.leader_appended(bench[A], batch)
    bench.replicate(A, B)
    assert bench.broken == []


def test_a_duplicate_answered_with_other_offsets_is_reported():
    bench = pair()
    first = produce(bench, 0)
    produce(bench, 1)
    again = client_batch(first.values, producer_id=7, producer_epoch=0, base_sequence=0)
    bench.judge.duplicate_answered(bench[A], AppendedBatch(0, 0, 0, 0, 0), again, ALL)
    assert bench.broken == []
    bench.judge.duplicate_answered(bench[A], AppendedBatch(0, 0, 1, 1, 0), again, ALL)
    assert bench.broken == ["R17"]
