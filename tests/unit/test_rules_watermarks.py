"""Rules about high watermarks and in-sync replicas."""

import pytest

from support.object_log import CompactedLog
from support.rule_bench import PARTITION, Bench, Progress, served
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.replication.inputs import FollowerFetch
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
    IsrProposal,
    IsrResult,
)

A, B, C = 1, 2, 3


def three(*isr: int, min_isr: int = 1) -> Bench:
    bench = Bench(A, B, C, min_isr=min_isr)
    bench.led_by(A, *(isr or (A, B, C)))
    return bench


def test_a_high_watermark_beyond_the_log_end_is_out_of_order():
    bench = three()
    bench.append(A)
    bench.replicate(A, B, C)
    assert bench.broken == []
    bench[B].high_watermark = 5
    bench.judge.sweep()
    assert bench.broken == ["R05", "R07"]


def test_a_last_stable_offset_above_the_high_watermark_is_out_of_order():
    bench = three()
    bench.append(A, 2)
    bench[A].stable = 1
    bench.judge.sweep()
    assert bench.broken == ["R07"]


def test_a_leader_that_lowers_its_high_watermark_is_reported():
    bench = three()
    bench.append(A)
    bench.append(A)
    bench.replicate(A, B, C)
    bench.move(A, 1)
    assert bench.broken == ["R08"]


def test_a_follower_may_lower_its_high_watermark():
    bench = three()
    bench.append(A)
    bench.append(A)
    bench.replicate(A, B, C)
    bench.move(B, 1)
    assert bench.broken == []


def test_a_latest_offset_that_moves_back_is_reported():
    bench = three()
    bench.append(A, 5)
    bench.judge.latest_answered(bench[A], 5)
    bench.change(leader=B)
    bench.tell(B)
    bench.judge.latest_answered(bench[B], 5)
    assert bench.broken == []
    bench.judge.latest_answered(bench[B], 4)
    assert bench.broken == ["R08"]


def test_a_deposed_leader_may_know_an_older_latest_offset():
    bench = three()
    bench.judge.latest_answered(bench[A], 3)
    bench.change(leader=B)
    bench.tell(B)
    bench.judge.latest_answered(bench[B], 9)
    bench.judge.latest_answered(bench[A], 3)
    assert bench.broken == []


def test_a_high_watermark_over_what_an_in_sync_replica_lacks_is_reported():
    bench = three()
    bench.append(A)
    bench.copy(A, B)
    bench.fetch(B, A)
    bench[A].leading.progress[C].log_end_offset = 1  # nobody knows why it believes that
    bench.move(A, 1)
    assert "R09" in bench.broken


def test_an_acknowledged_record_that_is_not_durable_does_not_count():
    bench = three(A, B)
    for broker in (A, B):
        bench[broker].log.fsync = True
    bench.append(A)
    bench[A].log.sync()
    bench.copy(A, B)
    bench.fetch(B, A)
    bench.move(A, 1)
    assert bench.broken == ["R09"]


def test_a_replica_outside_the_isr_may_lag():
    bench = three(A, B)
    bench.append(A)
    bench.replicate(A, B)
    assert bench.broken == []


def test_a_member_that_lost_its_tail_since_it_acknowledged_is_not_counted_against_the_leader():
    bench = three()
    bench.append(A)
    for follower in (B, C):
        bench.copy(A, follower)
        bench.fetch(follower, A)
    bench.stop(B, "power_loss", keep=0)
    bench.move(A, 1)  # C's acknowledgement was the last one missing
    bench.judge.sweep()
    bench.start(B)
    bench.judge.sweep()
    assert bench.broken == []


def test_a_member_that_registered_again_is_judged_by_its_new_life():
    bench = three()
    bench.append(A)
    for follower in (B, C):
        bench.copy(A, follower)
        bench.fetch(follower, A)
    bench.stop(B, "power_loss", keep=0)
    bench.start(B)
    bench.change(isr=(A, C))
    bench.register(B)
    bench.tell(B)
    bench.move(A, 1)  # A has not heard that B was removed and counts its old fetch
    assert bench.broken == []


def test_moving_the_high_watermark_below_min_isr_is_reported():
    bench = three(A, min_isr=2)
    bench.append(A)
    bench.move(A, 1)
    assert bench.broken == ["R09"]


def test_min_isr_is_capped_by_the_assignment():
    bench = Bench(A, min_isr=2)
    bench.led_by(A)
    bench.append(A)
    bench.move(A, 1)
    assert bench.broken == []


def test_the_leaders_own_copy_counts_only_when_durable():
    bench = Bench(A)
    bench[A].log.fsync = True
    bench.led_by(A)
    bench.append(A)
    bench.move(A, 1)
    assert bench.broken == ["R12"]


def proposal(bench: Bench, *members: int) -> IsrProposal:
    leader = bench[A]
    seats = tuple(IsrMember(m, bench.judge.chronicle.registered_epoch(m)) for m in members)
    return IsrProposal(PARTITION, leader.leader_epoch, leader.partition_epoch, seats)


def test_a_high_watermark_that_runs_ahead_of_a_pending_shrink_is_reported():
    bench = three(A, B)
    bench.append(A)
    bench.judge.isr_proposed(bench[A], proposal(bench, A))
    bench[A].leading.isr = (A,)  # as if the controller had agreed already
    bench.move(A, 1)
    assert "R12" in bench.broken


def test_after_the_shrink_is_committed_the_high_watermark_may_move():
    bench = three(A, B)
    bench.append(A)
    bench.judge.isr_proposed(bench[A], proposal(bench, A))
    bench.change(isr=(A,))
    bench.tell(A)
    bench.move(A, 1)
    assert bench.broken == []


def test_a_high_watermark_that_forgets_a_joining_replica_is_reported():
    bench = three(A)
    bench[A].leading.joining = (C,)
    bench.judge.isr_proposed(bench[A], proposal(bench, A, C))
    bench.append(A)
    bench[A].leading.joining = ()
    bench.move(A, 1)
    assert bench.broken == ["R12"]


def test_a_joining_replica_may_be_forgotten_once_it_was_refused():
    bench = three(A)
    bench[A].leading.joining = (C,)
    asked = proposal(bench, A, C)
    bench.judge.isr_proposed(bench[A], asked)
    bench.judge.controller_answered(
        1,
        AlterPartitionRequest(A, 0, (asked,)),
        AlterPartitionResponse(Error.NONE, (IsrResult(PARTITION, Error.INELIGIBLE_REPLICA),)),
    )
    bench.judge.broken.clear()  # K12: this bench has no claimed controller
    bench[A].leading.joining = ()
    bench.append(A)
    bench.move(A, 1)
    assert bench.broken == []


def test_a_lost_answer_does_not_undo_a_committed_expansion():
    bench = three(A)
    bench[A].leading.joining = (C,)
    bench.judge.isr_proposed(bench[A], proposal(bench, A, C))
    bench.change(isr=(A, C))  # committed; the answer is lost and A gives up
    bench[A].leading.joining = ()
    bench.append(A)
    bench.move(A, 1)
    assert "R12" in bench.broken


def test_proposing_must_not_take_anybody_out_of_the_maximal_isr():
    bench = three()
    bench.judge.isr_proposed(bench[A], proposal(bench, A, B))
    assert bench.broken == []
    bench.judge.isr_adopted(bench[A], (A, B, C))
    bench[A].leading.isr = (A, B)
    bench[A].leading.joining = ()
    bench.judge.isr_proposed(bench[A], proposal(bench, A, B, C))
    assert "R12" in bench.broken


def test_a_last_stable_offset_that_falls_within_an_epoch_is_reported():
    bench = three()
    bench.append(A)
    bench.append(A)
    bench.replicate(A, B, C)
    bench[A].stable = 1
    bench.judge.sweep()
    bench[A].stable = 0
    bench.judge.sweep()
    assert bench.broken == ["R18"]


def test_a_new_leader_may_begin_with_a_lower_last_stable_offset():
    bench = three()
    bench.append(A)
    bench.replicate(A, B, C)
    bench.judge.sweep()
    bench[B].high_watermark = 0
    bench.change(leader=B)
    bench.tell()
    bench.judge.sweep()
    assert bench.broken == []


# -- R05


def test_an_isr_member_that_lacks_a_committed_record_breaks_the_agreement():
    bench = three()
    bench.append(A)
    bench.replicate(A, B, C)
    bench[C].log.truncate_to(0)
    bench[C].high_watermark = 0
    bench.judge.sweep()
    assert "R05" in bench.broken


def test_a_member_of_the_elr_must_hold_what_is_committed_too():
    bench = three(A, B)
    bench.append(A)
    bench.replicate(A, B)
    bench.change(isr=(A,), elr=(B,))
    bench.judge.sweep()
    assert bench.broken == []
    bench.cut(B, 0)
    assert "R05" in bench.broken


def test_a_follower_whose_high_watermark_covers_uncommitted_content_breaks_the_agreement():
    bench = three(A, B)
    bench.append(A)
    bench.change(leader=B)
    bench.tell()
    bench.append(B)
    bench.change(isr=(B,))
    bench.tell(B)
    bench.move(B, 1)
    assert bench.broken == []
    bench.move(A, 1)  # KAFKA-14704: taken from an answer that told it to truncate
    assert bench.broken == ["R05"]


def test_a_high_watermark_that_no_leader_ever_had_breaks_the_agreement():
    bench = three()
    bench.append(A)
    bench.copy(A, B)
    bench.move(B, 1)
    assert bench.broken == ["R05"]


def test_a_leader_that_commits_other_content_breaks_the_agreement():
    bench = three()
    bench.append(A)
    bench.replicate(A, B, C)
    for broker in (B, C):
        bench[broker].log.truncate_to(0)
        bench[broker].high_watermark = 0
    bench.change(leader=B, isr=(B, C))
    bench.tell(B, C)
    bench.append(B)
    bench.replicate(B, C)
    assert {"R04", "R05"} <= set(bench.broken)


@pytest.mark.parametrize(("epoch", "broken"), [(0, []), (1, ["R05"])])
def test_a_compacted_copy_agrees_if_the_same_leader_wrote_up_to_the_same_place(epoch, broken):
    """It was fetched from a leader that had compacted its log: batches are gone or rewritten."""
    bench = three(A, B)
    for _ in range(3):
        bench.append(A)
    bench.replicate(A, B)
    bench.judge.chronicle.facts(PARTITION).chained = False
    copy = bench[C].log = CompactedLog(fsync=False)
    copy.append_as_follower(bench[A].log.batches[:1])
    rewritten = bench[A].log.batches[2]._replace(values=(99,), leader_epoch=epoch)
    copy.batches.append(rewritten)
    copy.log_end_offset = copy.durable_offset = 3
    copy.epochs.assign(epoch, 1)
    bench[C].high_watermark = 3
    bench.judge.sweep()
    assert bench.broken == broken


# -- R10


def test_a_diverging_fetch_that_counts_as_progress_is_reported():
    bench = three()
    bench.append(A)  # only on A, epoch 0
    bench.change(leader=B)
    bench.tell()
    bench.append(B)
    bench.fetch(A, B)  # A asks at 1 with its own record; B believes it
    assert "R10" in bench.broken


def test_a_log_that_was_cut_is_compared_again_at_the_next_fetch():
    bench = three()
    bench.append(A)
    bench.copy(A, B)
    bench.fetch(B, A)
    assert bench.broken == []
    bench.cut(B, 0)
    known = bench[A].leading.progress[B]
    fetch = FollowerFetch(B, bench.judge.chronicle.registered_epoch(B), 0, 1, 0, 0)
    bench.judge.follower_fetched(bench[A], fetch, served(1))
    assert known.log_end_offset == 1
    assert "R10" in bench.broken


def test_progress_behind_the_true_log_is_fine():
    bench = three()
    bench.append(A)
    bench.append(A)
    bench.copy(A, B)
    bench[A].leading.progress[B] = Progress(1)
    bench.judge.sweep()
    assert bench.broken == []


def test_a_late_fetch_of_a_replica_that_follows_a_successor_proves_nothing():
    bench = three()
    bench.append(A)
    bench.copy(A, B)
    bench.change(leader=C)
    bench.tell(C, B)
    bench.cut(B, 0)
    known = bench[A].leading.progress[B]
    known.log_end_offset = 1
    fetch = FollowerFetch(B, bench.judge.chronicle.registered_epoch(B), 0, 1, 0, 0)
    bench.judge.follower_fetched(bench[A], fetch, served(1))
    assert bench.broken == []


def test_progress_kept_over_an_epoch_that_the_leader_missed_is_found():
    bench = three()
    bench.append(A)
    bench.copy(A, C)
    bench.fetch(C, A)
    stale = bench[A].leading.progress
    bench.change(leader=B)
    bench.tell(B, C)
    bench.cut(C, 0)
    bench.append(B)
    bench.copy(B, C)
    bench.change(leader=A)
    bench.tell(C)
    bench.tell(A)
    bench[A].leading.progress = stale
    bench.judge.sweep()
    assert bench.broken == ["R10"]


# -- R14, R20, R21


def test_an_isr_outside_the_assignment_is_reported():
    bench = three()
    bench.change(isr=(A, B, 9))
    assert bench.broken == ["R14"]


def test_a_leader_outside_its_isr_is_reported():
    bench = three()
    bench.change(isr=(B, C))
    assert bench.broken == ["R14"]


def test_isr_and_elr_must_be_disjoint():
    bench = three()
    bench.change(elr=(B,))
    assert bench.broken == ["R14"]


def test_a_fenced_broker_may_stay_in_an_isr_but_not_join_it():
    bench = three(A, B)
    bench.commit(_fence(bench, B))
    bench.commit(_fence(bench, C))
    bench.change(isr=(A, B))
    assert bench.broken == []
    bench.change(isr=(A, B, C))
    assert bench.broken == ["R14"]


def _fence(bench: Bench, broker: int) -> r.BrokerRegistrationChange:
    epoch = bench.judge.chronicle.registered_epoch(broker)
    return r.BrokerRegistrationChange(broker, epoch, fenced=1)


def test_a_fetch_from_outside_the_assignment_must_be_refused():
    bench = three()
    stranger = FollowerFetch(9, -1, 0, 0, -1, 0)
    bench.judge.follower_fetched(bench[A], stranger, served(0, Error.UNKNOWN_LEADER_EPOCH))
    assert bench.broken == []
    bench.judge.follower_fetched(bench[A], stranger, served(0))
    assert bench.broken == ["R20"]


def test_proposing_a_stranger_for_the_isr_is_reported():
    bench = three()
    bench[A].leading.joining = (9,)
    bench.judge.isr_proposed(bench[A], proposal(bench, A, B, C, 9))
    assert bench.broken == ["R20"]


def test_a_second_proposal_before_the_first_is_decided_is_reported():
    bench = three(A, B)
    bench.judge.isr_proposed(bench[A], proposal(bench, A))
    bench[A].leading.joining = (C,)
    bench.judge.isr_proposed(bench[A], proposal(bench, A, B, C))
    assert bench.broken == ["R21"]


def test_a_new_proposal_on_a_newer_partition_epoch_is_fine():
    bench = three(A, B)
    bench.judge.isr_proposed(bench[A], proposal(bench, A))
    bench.change(adding_replicas=())
    bench[A].partition_epoch += 1
    bench.judge.isr_proposed(bench[A], proposal(bench, A))
    assert bench.broken == []


def accept(bench: Bench, asked: IsrProposal, **result: int) -> None:
    """The controller commits a proposal and answers it."""
    members = tuple(member.broker_id for member in asked.isr)
    bench.change(isr=members)
    bench.judge.controller_claimed(1, 1)
    state = bench.judge.chronicle.facts(PARTITION).state
    answer = IsrResult(
        PARTITION, Error.NONE, A, state.leader_epoch, members, 0, state.partition_epoch
    )
    bench.judge.controller_answered(
        1,
        AlterPartitionRequest(A, 0, (asked,)),
        AlterPartitionResponse(Error.NONE, (answer._replace(**result),)),
    )


def test_a_proposal_on_the_newest_partition_epoch_may_be_accepted():
    bench = three(A, B)
    accept(bench, proposal(bench, A, B, C))
    assert bench.broken == []


def test_a_proposal_on_an_older_partition_epoch_must_be_refused():
    bench = three(A, B)
    old = proposal(bench, A, B, C)
    bench.change(adding_replicas=())
    accept(bench, old)
    assert bench.broken == ["R15"]


def refuse(bench: Bench, asked: IsrProposal, error: Error) -> None:
    bench.judge.controller_claimed(1, 1)
    bench.judge.controller_answered(
        1,
        AlterPartitionRequest(A, 0, (asked,)),
        AlterPartitionResponse(Error.NONE, (IsrResult(PARTITION, error),)),
    )


def test_a_proposal_that_was_certainly_refused_must_stay_refused():
    bench = three(A, B)
    asked = proposal(bench, A, B, C)
    refuse(bench, asked, Error.INELIGIBLE_REPLICA)
    accept(bench, asked)
    assert bench.broken == ["R15"]


def test_a_proposal_whose_refusal_proves_nothing_may_be_accepted_later():
    bench = three(A, B)
    asked = proposal(bench, A, B, C)
    refuse(bench, asked, Error.NOT_CONTROLLER)
    accept(bench, asked)
    assert bench.broken == []


def test_a_proposal_that_saw_an_earlier_incarnation_catch_up_must_be_refused():
    bench = three(A, B)
    old = proposal(bench, A, B, C)
    bench.stop(C, "wipe")
    bench.start(C)
    bench.register(C)
    accept(bench, old)
    assert bench.broken == ["R14"]


def test_a_proposal_that_does_not_know_the_incarnation_may_be_accepted():
    bench = three(A, B)
    asked = proposal(bench, A, B, C)
    unknown = asked._replace(isr=(*asked.isr[:2], IsrMember(C, -1)))
    accept(bench, unknown)
    assert bench.broken == []
