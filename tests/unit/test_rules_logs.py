"""Rules about logs, leaders and epochs: what they must report, and what only looks like it."""

from types import SimpleNamespace

import pytest

from support.object_log import ObjectLog, client_batch
from support.rule_bench import PARTITION, Bench, served
from tidelog.core.errors import Error
from tidelog.core.replication.inputs import FollowerFetch

A, B, C = 1, 2, 3


def test_a_follower_with_another_history_before_the_same_record_breaks_log_matching():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.append(A)
    second = bench.append(A)
    strange = client_batch((99,))
    bench[B].log.append_as_leader(strange, 0)  # not what A has at offset 0
    bench[B].log.append_as_follower([second])
    bench.judge.follower_appended(bench[B], [second])
    assert bench.broken == ["R01"]


def test_a_record_that_no_leader_wrote_breaks_log_matching():
    bench = Bench(A, B)
    bench.led_by(A)
    old_topic = ObjectLog(fsync=False)
    stray = old_topic.append_as_leader(client_batch((99,)), 0)
    bench[B].log.append_as_follower([stray])
    bench.judge.follower_appended(bench[B], [stray])
    assert bench.broken == ["R01"]


def test_equal_offsets_of_different_epochs_are_allowed_until_reconciled():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.append(A)
    bench.change(leader=B)
    bench.tell(B)
    bench.append(B)
    assert bench.broken == []


def test_a_gap_or_an_older_epoch_inside_a_log_breaks_its_order():
    bench = Bench(A, B)
    bench.led_by(A)
    first, second = bench.append(A), bench.append(A)
    bench[B].log.append_as_follower([first, second])
    bench.judge.follower_appended(bench[B], [first._replace(leader_epoch=3), second])
    assert "R02" in bench.broken


def test_a_batch_from_a_later_epoch_than_the_followers_breaks_the_order():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.change(leader=B)
    bench.change(leader=A)
    bench.tell(A)
    bench.append(A)
    bench.copy(A, B)  # B never heard of epoch 2: the bytes changed under a late response
    assert bench.broken == ["R02"]


def test_an_epoch_history_that_contradicts_the_log_is_found_by_the_sweep():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.append(A)
    bench.replicate(A, B)
    bench.judge.sweep()
    assert bench.broken == []
    bench[B].log.epochs.entries[:] = [(7, 0)]
    bench.judge.sweep()
    assert bench.broken == ["R02"]


def test_two_brokers_appending_in_one_epoch_break_the_single_writer():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.append(A)
    bench[B].leader, bench[B].leader_epoch = B, 0
    bench.append(B)
    assert "R03" in bench.broken


def test_one_broker_writing_an_offset_of_an_epoch_twice_breaks_the_single_writer():
    bench = Bench(A)
    bench.led_by(A)
    bench.append(A)
    bench[A].log.truncate_to(0)  # it lost its tail and still believes to lead epoch 0
    bench.append(A)
    assert "R03" in bench.broken


def test_a_broker_the_metadata_does_not_name_may_not_write():
    bench = Bench(A, B)
    bench.led_by(A)
    bench[B].leader, bench[B].leader_epoch = B, 0
    bench.append(B)
    assert "R03" in bench.broken


def test_successors_write_the_same_offsets_in_their_own_epochs():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.append(A)
    bench.change(leader=B)
    bench.tell()
    bench.append(B)
    assert bench.broken == []


def committed_by_a_and_b() -> Bench:
    bench = Bench(A, B, C)
    bench.led_by(A, A, B)
    bench.append(A, 3)
    bench.replicate(A, B)
    return bench


def test_a_clean_leader_without_a_committed_record_is_incomplete():
    bench = committed_by_a_and_b()
    bench.change(leader=C, isr=(C,))
    bench.tell(C)
    assert "R04" in bench.broken


def test_an_uncleanly_elected_leader_may_be_incomplete():
    bench = committed_by_a_and_b()
    bench.durable = False
    bench.change(leader=C, isr=(C,), leader_recovery_state=1)
    bench.tell(C, unclean=True)
    assert bench.broken == []


def test_a_leader_that_takes_up_office_after_its_successor_is_not_incomplete():
    bench = committed_by_a_and_b()
    bench.change(leader=B)  # epoch 1
    bench.change(leader=A)  # epoch 2
    bench.tell(A)
    bench.append(A)
    late = bench[B]
    bench.change(isr=(A,))
    bench.tell(A)
    bench.move(A, 4)
    late.leader, late.leader_epoch, late.partition_epoch = B, 1, 1
    late.role = bench[A].role
    bench.judge.became_leader(late, False)
    assert bench.broken == []


def test_what_a_deposed_leader_commits_must_be_in_its_successors_log():
    bench = committed_by_a_and_b()
    bench.append(A)  # offset 3, only on A
    bench.change(leader=B, isr=(B,))
    bench.tell(B)
    bench[A].leading.isr = (A,)
    bench.move(A, 4)
    assert "R04" in bench.broken


def test_a_late_acknowledgement_may_still_raise_a_deposed_leaders_high_watermark():
    bench = committed_by_a_and_b()
    bench.append(A)
    bench.copy(A, B)  # B has it and its next fetch is on the way
    bench.change(leader=B, isr=(B,))
    bench.tell(B)
    bench[A].leading.progress[B].log_end_offset = 4
    bench.move(A, 4)
    assert bench.broken == []


def test_cutting_below_a_high_watermark_once_held_is_reported():
    bench = committed_by_a_and_b()
    bench.change(isr=(A,))
    bench.cut(B, 0)
    assert bench.broken == ["R11"]


def test_a_replica_may_cut_what_it_cannot_read_if_nobody_counts_on_it():
    bench = committed_by_a_and_b()
    bench.change(isr=(A,))
    bench[B].role = SimpleNamespace(cuts_damage=True)
    bench.cut(B, 0)
    assert bench.broken == []


@pytest.mark.parametrize("change", [{"isr": (A, B)}, {"isr": (A,), "elr": (B,)}])
def test_a_replica_that_may_be_elected_cuts_no_damage_either(change):
    bench = committed_by_a_and_b()
    bench.change(**change)
    bench[B].role = SimpleNamespace(cuts_damage=True)
    bench.cut(B, 0)
    assert "R11" in bench.broken


def test_cutting_what_was_never_committed_is_fine():
    bench = committed_by_a_and_b()
    bench.append(A)
    bench.change(leader=B, isr=(A, B))
    bench.tell()
    bench.cut(A, 3)
    assert bench.broken == []


def test_after_an_unclean_election_logs_may_be_cut_anywhere():
    bench = committed_by_a_and_b()
    bench.durable = False
    bench.cut(B, 0)
    assert bench.broken == []


def test_a_broker_that_goes_back_to_an_older_partition_epoch_is_reported():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.change(leader=B)
    bench.tell(B)
    bench[B].leader, bench[B].leader_epoch, bench[B].partition_epoch = A, 0, 0
    bench.judge.became_follower(bench[B])
    assert "R15" in bench.broken


def test_a_restarted_broker_may_replay_old_metadata():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.change(leader=B)
    bench.tell(B)
    bench.stop(B)
    again = bench.start(B)
    again.leader, again.leader_epoch, again.partition_epoch = A, 0, 0
    bench.judge.became_follower(again)
    assert bench.broken == []


def test_metadata_that_nobody_committed_is_reported():
    bench = Bench(A, B)
    bench.led_by(A)
    bench[B].leader, bench[B].leader_epoch, bench[B].partition_epoch = B, 1, 1
    bench.judge.became_follower(bench[B])
    assert "R15" in bench.broken


def test_an_isr_that_differs_from_the_committed_one_is_reported():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.change(isr=(A,))
    bench[A].partition_epoch = 1
    bench[A].leading.isr = (A,)
    bench.judge.isr_adopted(bench[A], (A, B))
    assert bench.broken == []
    bench[A].leading.isr = (A, B)
    bench.judge.isr_adopted(bench[A], (A, B))
    assert bench.broken == ["R15"]


def test_serving_a_fetch_of_another_epoch_is_reported():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.change(leader=B)
    bench.change(leader=A)
    bench.tell(A)
    old = FollowerFetch(B, -1, 0, 0, -1, 0)
    bench.judge.follower_fetched(bench[A], old, served(0, Error.FENCED_LEADER_EPOCH))
    assert bench.broken == []
    bench.judge.follower_fetched(bench[A], old, served(0))
    assert bench.broken == ["R16"]


def test_appending_or_acknowledging_after_demotion_is_reported():
    bench = Bench(A, B)
    bench.led_by(A)
    batch = bench.append(A)
    bench.judge.produce_acked(bench[A], batch, 1)
    assert bench.broken == []
    bench.change(leader=B)
    bench.tell(A)
    bench.judge.produce_acked(bench[A], batch, 1)
    assert bench.broken == ["R16"]
    bench.append(A)
    assert "R03" in bench.broken  # and in an epoch that is not its own


def test_finish_reads_every_log_also_of_stopped_brokers():
    bench = committed_by_a_and_b()
    bench.judge.finish()
    assert bench.broken == []
    bench.append(A)
    bench.copy(A, B)
    bench.stop(B)
    bench[B].log.batches[1] = bench[B].log.batches[1]._replace(base_offset=9, last_offset=9)
    bench.judge.finish()
    assert "R02" in bench.broken


def test_a_log_restarted_after_retention_is_compared_by_its_last_batch():
    bench = Bench(A, B)
    bench.led_by(A, A)
    bench.append(A)
    bench.append(A)
    bench.move(A, 2)
    bench[A].log.raise_log_start(1)
    bench[B].log.truncate_fully_and_start_at(1)
    bench.judge.truncated(bench[B], 0)
    bench.copy(A, B)
    bench.fetch(B, A)
    bench.move(B, 2)
    bench.judge.sweep()
    bench.judge.finish()
    assert bench.judge.chronicle.facts(PARTITION).chained is False
    assert bench.broken == []


def test_a_log_begun_again_at_the_leaders_batch_border_has_lost_nothing():
    bench = Bench(A, B)
    bench.led_by(A, A)
    bench.append(A, 3)
    bench.append(A)
    bench.move(A, 4)
    bench[A].log.raise_log_start(2)  # inside the first batch
    bench.judge.became_follower(bench[B])
    bench[B].log.truncate_fully_and_start_at(2)
    bench.judge.truncated(bench[B], 0)
    bench[B].high_watermark = 2
    bench.judge.high_watermark_moved(bench[B], 0)
    bench[B].log.truncate_fully_and_start_at(0)  # whole batches only
    bench.judge.truncated(bench[B], 2)
    assert bench.broken == []
    bench.copy(A, B)
    bench[B].high_watermark = 4
    bench.judge.high_watermark_moved(bench[B], 2)
    bench[B].log.truncate_fully_and_start_at(0)
    bench.judge.truncated(bench[B], 4)
    assert bench.broken == ["R11"]


def test_judging_an_answer_by_the_position_of_a_later_request_is_reported():
    bench = Bench(A, B)
    asked = FollowerFetch(B, -1, 0, 0, -1, 0)
    bench.judge.answer_heard(PARTITION, asked, asked)
    assert bench.broken == []
    bench.judge.answer_heard(PARTITION, asked, asked._replace(leader_epoch=2))
    assert bench.broken == ["R23"]
