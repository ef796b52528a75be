"""The leader: what it appends, acknowledges and commits, and what must not move it."""

import pytest

from support.object_log import ObjectLog, client_batch
from support.partition_story import PARTITION, Story
from tidelog.core.errors import Error
from tidelog.core.events import BecameLeader, HighWatermarkAdvanced
from tidelog.core.replication.effects import AnswerProduce, AssignEpoch
from tidelog.core.replication.inputs import ACKS_LEADER, FollowerFetch
from tidelog.core.replication.producers import AppendedBatch
from tidelog.core.types import EpochEnd

A, B, C = 1, 2, 3


def led(*isr: int, min_isr: int = 1, fsync: bool = False) -> Story:
    """A leads epoch 0 of replicas A, B and C."""
    story = Story(A, B, C, min_isr=min_isr, fsync=fsync)
    story.elect(A, *(isr or (A, B, C)), epoch=0)
    return story


def knowledge(story: Story, broker: int = A) -> list[tuple[int, ...]]:
    """Everything the leader has learned from its followers."""
    known: list[tuple[int, ...]] = [
        (p.log_end_offset, p.log_start_offset, p.last_caught_up_ms, p.last_fetch_ms, p.broker_epoch)
        for p in story[broker].leader.progress.values()
    ]
    return [*known, (story[broker].high_watermark,), story[broker].leader.maximal_isr()]


# ---- becoming leader ----


def test_a_new_leader_enters_its_epoch_before_it_writes() -> None:
    story = Story(A, B)
    story.given(A, (0, 0, 4), hw=3)
    story.elect(A, A, B, epoch=1)
    assert story[A].effects == [
        AssignEpoch(PARTITION, 1, 5),
        BecameLeader(PARTITION, A, 1, 5, 3),
    ]
    assert story[A].log.epochs.entries == [(0, 0), (1, 5)]
    assert story[A].leader.leader_epoch_start_offset == 5


def test_a_leader_alone_in_the_isr_commits_what_it_holds_at_once() -> None:
    story = Story(A, B)
    story.given(A, (0, 0, 4), hw=3)
    story.elect(A, A, epoch=1)
    assert story[A].commits == [5]


def test_a_leader_elected_again_keeps_its_parked_produces_and_what_it_knows() -> None:
    story = led()
    story.produce(A)
    story.fetch(B)
    story.fetch(B)
    token = story.produce(A)
    story.now_ms = 10
    role = story[A].leader
    story.elect(A, A, B, C, epoch=1)
    assert story[A].leader is role
    assert role.progress[B].log_end_offset == 1
    assert role.leader_epoch_start_offset == 2
    assert story[A].answers == {}
    for _ in range(3):  # one round may only forget an epoch that wrote nothing
        story.fetch(B)
        story.fetch(C)
    assert story[A].answers[token] is Error.NONE


def test_older_metadata_is_ignored() -> None:
    story = led()
    before = story.metadata
    story.elect(B, B, C, epoch=1)
    assert story.tell(A, before) == []
    assert story[A].replica.leader == B


# ---- produce ----


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_than_0_1_and_all_are_refused(acks: int) -> None:
    story = led()
    check = story[A].leader.check_produce(client_batch((1,)), acks)
    assert check.error is Error.INVALID_REQUIRED_ACKS


def test_acks_1_is_answered_before_replication_and_acks_all_after() -> None:
    story = led()
    weak, strong = story.produce(A, acks=1), story.produce(A)
    assert story[A].answers == {weak: Error.NONE}
    for _ in range(2):
        story.fetch(B)
    assert strong not in story[A].answers
    for _ in range(2):
        story.fetch(C)
    assert story[A].answers[strong] is Error.NONE


def test_parked_produces_are_answered_in_offset_order_as_far_as_committed() -> None:
    story = led(A, B)
    tokens = [story.produce(A) for _ in range(3)]
    fetch = story.ask(B)
    story.judge(A, fetch._replace(fetch_offset=2, last_fetched_epoch=0))
    assert list(story[A].answers) == tokens[:2]
    story.judge(A, fetch._replace(fetch_offset=3, last_fetched_epoch=0))
    assert list(story[A].answers) == tokens


def test_below_min_isr_acks_all_appends_nothing_and_acks_1_does() -> None:
    story = led(A, min_isr=2)
    strong, weak = story.produce(A), story.produce(A, acks=1)
    assert story[A].answers == {strong: Error.NOT_ENOUGH_REPLICAS, weak: Error.NONE}
    assert story[A].end == 1


def marker_error(story: Story, *, producer_epoch: int = 0, coordinator_epoch: int = 0) -> Error:
    return story[A].leader.check_marker(
        producer_id=7,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        transaction_version=2,
    )


def test_an_end_marker_is_as_safe_as_an_acks_all_produce() -> None:
    story = led(A, min_isr=2)
    assert marker_error(story) is Error.NOT_ENOUGH_REPLICAS
    story.set_isr(A, B)
    assert marker_error(story) is Error.NONE
    role = story[A].leader
    story.elect(B, A, B, epoch=1)
    error = role.check_marker(
        producer_id=7, producer_epoch=0, coordinator_epoch=0, transaction_version=2
    )
    assert error is Error.NOT_LEADER_OR_FOLLOWER


def test_a_marker_of_another_epoch_or_coordinator_is_refused() -> None:
    story = led(A)
    batch = client_batch((1,), producer_id=7, producer_epoch=3, base_sequence=0)
    opened = story[A].log.append_as_leader(batch._replace(is_transactional=True), 0)
    assert marker_error(story, producer_epoch=3) is Error.INVALID_PRODUCER_EPOCH
    ended = opened._replace(is_control=True, producer_epoch=4, base_offset=1, last_offset=1)
    story[A].log.producers.update(ended, coordinator_epoch=5)
    coordinator = marker_error(story, producer_epoch=4, coordinator_epoch=4)
    assert coordinator is Error.TRANSACTION_COORDINATOR_FENCED
    assert marker_error(story, producer_epoch=4, coordinator_epoch=5) is Error.NONE


def test_a_proposed_member_does_not_help_to_reach_min_isr_before_the_append() -> None:
    story = led(A, min_isr=2)
    story.fetch(B)
    assert story[A].leader.maximal_isr() == (A, B)
    token = story.produce(A)
    assert story[A].answers[token] is Error.NOT_ENOUGH_REPLICAS


def test_a_committed_record_with_too_small_an_isr_is_told_so() -> None:
    """Appended and committed under two replicas; asked for when only one is left."""
    story = led(A, B, min_isr=2)
    story.produce(A, acks=1)
    story.fetch(B)
    story.fetch(B)
    assert story[A].high_watermark == 1
    story.status(B, active=False)
    story.set_isr(A)
    effects = story[A].leader.await_commit("late", 1, 0)
    error = Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert effects == [AnswerProduce(PARTITION, "late", error)]


def test_min_isr_never_exceeds_the_number_of_replicas() -> None:
    story = led(min_isr=5)
    token = story.produce(A)
    for _ in range(2):
        story.fetch(B)
        story.fetch(C)
    assert story[A].answers[token] is Error.NONE


def test_sequence_errors_of_a_producer_reach_the_client() -> None:
    story = led(A)
    first = client_batch((1,), producer_id=7, producer_epoch=1, base_sequence=0)
    story[A].log.append_as_leader(first, 0)
    check = story[A].leader.check_produce
    assert check(first._replace(base_sequence=5), 1).error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert check(first._replace(producer_epoch=0), 1).error is Error.INVALID_PRODUCER_EPOCH
    assert check(first, 1).duplicate == AppendedBatch(0, 0, 0, 0, 0)


def test_a_timeout_is_answered_once() -> None:
    story = led()
    token = story.produce(A)
    leader = story[A].leader
    story.perform(story[A], leader.on_produce_timeout(token, 30_000))
    assert story[A].answers == {token: Error.REQUEST_TIMED_OUT}
    assert leader.on_produce_timeout(token, 30_000) == []
    for _ in range(2):
        story.fetch(B)
        story.fetch(C)
    assert story[A].high_watermark == 1  # the record stayed, and is committed after all


def test_a_lost_tenure_fails_parked_produces_and_whatever_comes_later() -> None:
    """Leader, follower, leader: in between the records may have been truncated."""
    story = led()
    token = story.produce(A)
    first_tenure = story[A].leader
    story.elect(B, A, B, C, epoch=1)
    assert story[A].answers == {token: Error.NOT_LEADER_OR_FOLLOWER}
    story.elect(A, A, epoch=2)
    assert story[A].high_watermark == 1
    refused = first_tenure.await_commit("late", 1, 0)
    assert refused == [AnswerProduce(PARTITION, "late", Error.NOT_LEADER_OR_FOLLOWER)]
    check = first_tenure.check_produce(client_batch((1,)), 1)
    assert check.error is Error.NOT_LEADER_OR_FOLLOWER
    fetch = FollowerFetch(B, 102, 2, 1, 0, 0)
    decision, effects = first_tenure.on_follower_fetch(fetch, 0)
    assert (decision.error, effects) == (Error.NOT_LEADER_OR_FOLLOWER, [])


def test_stopping_fails_parked_produces() -> None:
    story = led()
    token = story.produce(A)
    story.perform(story[A], story[A].replica.stop(0))
    assert story[A].answers == {token: Error.NOT_LEADER_OR_FOLLOWER}
    assert story[A].replica.role is None


def test_a_leader_of_nobodys_choice_becomes_a_follower_of_nobody() -> None:
    story = led()
    token = story.produce(A)
    story.elect(-1, A, B, C, epoch=1)
    assert story[A].answers == {token: Error.NOT_LEADER_OR_FOLLOWER}
    assert story[A].follower.next_fetch(0) is None


# ---- high watermark ----


def test_only_durable_offsets_of_the_leader_count() -> None:
    story = led(A, B, fsync=True)
    token = story.produce(A)
    story.fetch(B)
    story.fetch(B)  # B has synced the record, A has not
    assert story[A].high_watermark == 0
    story[A].log.sync()
    story.perform(story[A], story[A].leader.on_durable(0))
    assert story[A].answers == {token: Error.NONE}


def test_a_leader_alone_in_the_isr_waits_for_nothing_but_its_own_sync() -> None:
    story = led(A, B, fsync=True)
    story.produce(A, acks=ACKS_LEADER)
    assert not story[A].leader.awaits_only_its_own_sync()  # for B, too
    story.set_isr(A)
    assert story[A].leader.awaits_only_its_own_sync()
    story[A].replica.settings.min_insync_replicas = 2
    assert not story[A].leader.awaits_only_its_own_sync()  # a sync would commit nothing
    story[A].replica.settings.min_insync_replicas = 1
    story[A].log.sync()
    assert not story[A].leader.awaits_only_its_own_sync()


def test_the_follower_learns_the_high_watermark_its_own_fetch_caused() -> None:
    story = led(A, B)
    story.produce(A)
    story.fetch(B)
    assert story.fetch(B).high_watermark == 1
    assert story[B].high_watermark == 1


def test_an_unknown_isr_member_holds_the_high_watermark() -> None:
    story = led()
    story.produce(A)
    story.fetch(B)
    story.fetch(B)
    assert story[A].high_watermark == 0
    assert story[A].leader.progress[C].log_end_offset == -1


def test_a_replica_about_to_join_is_waited_for_until_it_lags() -> None:
    story = led(A, B)
    story.produce(A)
    story.fetch(C)
    story.fetch(C)  # caught up: proposed
    assert story[A].proposed == [(A, B, C)]
    story.refuse_proposal(A, Error.INELIGIBLE_REPLICA)
    story.fetch(B)
    story.fetch(B)
    assert story[A].high_watermark == 1
    story.produce(A)
    story.fetch(B)
    story.fetch(B)
    assert story[A].high_watermark == 1  # C could join with its next fetch
    story.now_ms = 30_001
    story.fetch(B)  # or B would lag now
    story.perform(story[A], story[A].leader.check_isr(story.now_ms))
    assert story[A].high_watermark == 2


def test_the_high_watermark_never_moves_back_under_one_leader() -> None:
    story = led(A, B)
    story.produce(A, 5)
    story.fetch(B)
    old = story.ask(B)
    story.judge(A, old)
    assert story[A].high_watermark == 5
    story.judge(A, old._replace(fetch_offset=2))  # an older fetch arrives late
    assert story[A].high_watermark == 5
    assert story[A].leader.progress[B].log_end_offset == 2
    assert len([e for e in story[A].effects if isinstance(e, HighWatermarkAdvanced)]) == 1


# ---- fetches that must change nothing ----


def test_refused_fetches_change_nothing() -> None:
    story = led()
    story.produce(A, 5)
    story.fetch(B)
    story.fetch(B)
    before = knowledge(story)
    story.now_ms = 77
    sound = FollowerFetch(C, 103, 0, 3, 0, 0)
    refusals = [
        (sound._replace(leader_epoch=1), Error.UNKNOWN_LEADER_EPOCH),
        (sound._replace(replica_id=9), Error.UNKNOWN_LEADER_EPOCH),
        (sound._replace(replica_id=9, leader_epoch=-1), Error.NOT_LEADER_OR_FOLLOWER),
        (sound._replace(fetch_offset=6, last_fetched_epoch=-1), Error.OFFSET_OUT_OF_RANGE),
        (sound._replace(last_fetched_epoch=4), Error.OFFSET_OUT_OF_RANGE),
        (sound._replace(fetch_offset=-1), Error.OFFSET_OUT_OF_RANGE),
        (sound._replace(replica_epoch=102), Error.NOT_LEADER_OR_FOLLOWER),
    ]
    for fetch, error in refusals:
        decision, effects = story[A].leader.on_follower_fetch(fetch, story.now_ms)
        assert (decision.error, effects) == (error, []), fetch
        assert (decision.read_from, decision.read_to) == (-1, -1)
        assert knowledge(story) == before, fetch


def test_a_diverging_fetch_is_answered_and_changes_nothing() -> None:
    story = led()
    story.produce(A, 5)
    before = knowledge(story)
    decision = story.judge(A, FollowerFetch(C, 103, 0, 9, 0, 0))
    assert (decision.error, decision.diverging) == (Error.NONE, EpochEnd(0, 5))
    assert knowledge(story) == before


def test_a_fetch_of_an_earlier_incarnation_is_refused_even_before_metadata_knows() -> None:
    story = led()
    story.produce(A, 2)
    story.judge(A, FollowerFetch(C, 203, 0, 0, -1, 0))  # C restarted; our metadata lags
    decision = story.judge(A, FollowerFetch(C, 103, 0, 2, 0, 0))  # sent before the restart
    assert decision.error is Error.NOT_LEADER_OR_FOLLOWER
    assert story[A].leader.progress[C].log_end_offset == 0


def test_a_parked_fetch_is_judged_again_without_being_counted() -> None:
    story = led()
    fetch = story.ask(B)
    story.judge(A, fetch)
    story.produce(A, 2)
    before = knowledge(story)
    decision = story[A].leader.serve_parked(fetch)
    assert (decision.read_from, decision.read_to) == (0, 2)
    assert knowledge(story) == before


def test_a_replica_that_left_the_assignment_never_counts_again() -> None:
    story = led(A, B)
    story.produce(A)
    story.metadata = story.metadata._replace(replicas=(A, B))
    story.set_isr(A, B, tell=(A, B))
    assert list(story[A].leader.progress) == [B]
    decision = story.judge(A, FollowerFetch(C, 103, 0, 0, -1, 0))
    assert decision.error is Error.UNKNOWN_LEADER_EPOCH


def test_a_replica_being_added_is_not_missing() -> None:
    story = led(A, B)
    assert story[A].leader.is_under_replicated
    story.metadata = story.metadata._replace(adding_replicas=(C,))
    story.set_isr(A, B)
    assert not story[A].leader.is_under_replicated


# ---- deleting records ----


def test_only_committed_records_can_be_deleted() -> None:
    story = led(A)
    story.produce(A, 5)
    story.set_isr(A, B)
    story.produce(A, 2)
    leader = story[A].leader
    assert leader.check_delete_records(-1) == (Error.NONE, 5, 0)
    assert leader.check_delete_records(3) == (Error.NONE, 3, 0)
    assert leader.check_delete_records(6).error is Error.OFFSET_OUT_OF_RANGE
    assert leader.check_delete_records(-2).error is Error.OFFSET_OUT_OF_RANGE


def test_a_deletion_is_finished_when_every_live_replica_has_followed() -> None:
    story = led(A)
    story.produce(A, 5)
    story.fetch(B)
    story.fetch(B)
    story[A].log.raise_log_start(3)
    story.status(C, active=False)
    assert story[A].leader.low_watermark() == 0
    story.fetch(B)
    story.fetch(B)
    assert story[B].log.log_start_offset == 3
    assert story[A].leader.low_watermark() == 3


# ---- a follower that has everything and fetches on ----


def repeated(story: Story, replica: int = B, **changes: int) -> FollowerFetch:
    """What a follower says that says the same again."""
    end, epoch = story[replica].log.log_end_offset, story[replica].log.epochs.latest_epoch
    return FollowerFetch(replica, 100 + replica, 0, end, epoch, 0)._replace(**changes)


def quiet_story() -> Story:
    story = led()
    story.produce(A)
    for _ in range(2):
        story.fetch(B)
        story.fetch(C)
    story.now_ms += 700
    return story


def test_a_quiet_fetch_that_is_counted_teaches_what_any_fetch_would() -> None:
    counted, judged = quiet_story(), quiet_story()
    assert counted[A].leader.count_quiet_fetch(repeated(counted), counted.now_ms)
    decision, effects = judged[A].leader.on_follower_fetch(repeated(judged), judged.now_ms)
    assert (decision.error, effects) == (Error.NONE, [])
    assert knowledge(counted) == knowledge(judged)
    assert counted[A].leader.progress[B].last_caught_up_ms == counted.now_ms


@pytest.mark.parametrize(
    "changes",
    [
        {"fetch_offset": 0},
        {"fetch_offset": 2},
        {"leader_epoch": 1},
        {"last_fetched_epoch": 5},
        {"replica_id": 9},
        {"replica_epoch": 101},
    ],
    ids=",".join,
)
def test_a_fetch_that_needs_a_judgement_is_not_counted_as_quiet(changes: dict[str, int]) -> None:
    story = quiet_story()
    before = knowledge(story)
    assert not story[A].leader.count_quiet_fetch(repeated(story, **changes), story.now_ms)
    assert knowledge(story) == before


def test_a_follower_that_may_join_or_lags_is_not_quiet() -> None:
    outside = led(A, C)
    outside.produce(A)
    outside.fetch(B)
    outside.fetch(B)
    assert not outside[A].leader.count_quiet_fetch(repeated(outside), outside.now_ms)
    behind = quiet_story()
    behind.produce(A)
    assert not behind[A].leader.count_quiet_fetch(repeated(behind), behind.now_ms)


# ---- a log that changes its directory ----


def copied(log: ObjectLog, *, upto: int) -> ObjectLog:
    other = ObjectLog(fsync=False)
    other.append_as_follower(log.read(0, upto, 100))
    for epoch, start_offset in log.epochs.entries:
        other.assign_epoch(epoch, start_offset)
    return other


def test_a_leader_goes_on_with_the_same_log_in_another_place() -> None:
    story = led()
    story.produce(A)
    story.fetch(B)
    story.fetch(C)
    token = story.produce(A)
    before = knowledge(story)
    story[A].replica.move_to(copied(story[A].log, upto=2))
    assert knowledge(story) == before
    story.fetch(B)
    story.fetch(B)
    story.fetch(C)
    story.fetch(C)
    assert AnswerProduce(PARTITION, token, Error.NONE) in story[A].effects


def test_a_log_that_lacks_a_record_cannot_take_the_place_of_another() -> None:
    story = led()
    story.produce(A)
    story.produce(A)
    with pytest.raises(AssertionError):
        story[A].replica.move_to(copied(story[A].log, upto=1))
