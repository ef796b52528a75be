"""The follower: what it asks, what it believes, and what it cuts."""

import pytest

from support.object_log import ObjectBatch, client_batch
from support.partition_story import PARTITION, Story, epoch_records
from tidelog.core.errors import Error
from tidelog.core.events import BecameFollower, HighWatermarkLowered
from tidelog.core.replication.effects import (
    AppendBatches,
    AskLeaderOffsets,
    RestartLog,
    TruncateLog,
)
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.follower import truncation_offset
from tidelog.core.replication.inputs import FetchAnswer, FollowerFetch
from tidelog.core.types import EpochEnd

A, B, C = 1, 2, 3


def following(*, hw: int = 5) -> Story:
    """B follows A in epoch 1; both hold e1:[0..9]."""
    story = Story(A, B)
    story.given(A, (1, 0, 9), hw=hw)
    story.given(B, (1, 0, 9), hw=hw)
    story.elect(A, A, B, epoch=1)
    return story


def answer(*batches: ObjectBatch, hw: int = 10, start: int = 0) -> FetchAnswer:
    return FetchAnswer(Error.NONE, None, hw, start, batches)


def batch(first: int, last: int, epoch: int = 1) -> ObjectBatch:
    values = tuple(range(first, last + 1))
    return client_batch(values)._replace(base_offset=first, last_offset=last, leader_epoch=epoch)


# ---- becoming follower ----


def test_becoming_follower_keeps_the_log_and_asks_from_its_end() -> None:
    story = following()
    assert story[B].effects == [BecameFollower(PARTITION, B, A, 1)]
    assert story.ask(B) == FollowerFetch(B, 102, 1, 10, 1, 0)


def test_a_log_without_any_epoch_is_cut_to_the_high_watermark() -> None:
    story = following()
    story[B].log.epochs.clear()
    story.elect(A, A, B, epoch=2)
    assert TruncateLog(PARTITION, 5) in story[B].effects
    assert story.ask(B)[3:5] == (5, -1)


def test_an_empty_log_asks_from_its_start_without_an_epoch() -> None:
    story = Story(A, B)
    story.elect(A, A, epoch=0)
    assert story.ask(B)[3:5] == (0, -1)


def test_the_same_leader_epoch_leaves_the_fetching_alone() -> None:
    story = following()
    role = story[B].follower
    story[B].follower.on_fetch_failed(0)
    story.set_isr(A, B)
    assert story[B].follower is role
    assert role.delay_until_ms == 1_000


# ---- fetching ----


def test_an_undurable_log_waits_with_its_fetch() -> None:
    story = Story(A, B, fsync=True)
    story.elect(A, A, epoch=0)
    story.produce(A)
    story.fetch(B, sync=False)
    assert story[B].follower.next_fetch(0) is None  # it would acknowledge what may be lost
    story[B].log.sync()
    assert story.ask(B).fetch_offset == 1


@pytest.mark.parametrize(
    "error",
    [
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.INCONSISTENT_TOPIC_ID,
        Error.CORRUPT_MESSAGE,
        Error.KAFKA_STORAGE_ERROR,
    ],
)
def test_errors_that_pass_are_outwaited(error: Error) -> None:
    story = following()
    fetch = story.ask(B)
    assert story.deliver(B, fetch, answer(batch(10, 10))._replace(error=error)) == []
    assert story[B].follower.next_fetch(999) is None
    assert story[B].follower.next_fetch(1_000) == fetch
    assert (story[B].end, story[B].high_watermark) == (10, 5)


def test_a_network_error_is_outwaited_too() -> None:
    story = following()
    story[B].follower.on_fetch_failed(50)
    assert story[B].follower.next_fetch(1_049) is None
    assert story[B].follower.next_fetch(1_050) is not None


def test_answers_that_no_longer_fit_change_nothing() -> None:
    story = following()
    fetch = story.ask(B)
    story.deliver(B, fetch, answer(batch(10, 11)))
    assert (story[B].end, story[B].high_watermark) == (12, 10)
    effects = len(story[B].effects)
    ignored = [
        (fetch, answer(batch(10, 11))),  # repeated
        (fetch, FetchAnswer(Error.NONE, EpochEnd(1, 3), 10, 0)),  # late divergence
        (fetch, answer()._replace(error=Error.FENCED_LEADER_EPOCH)),  # late fence
        (fetch._replace(fetch_offset=12, leader_epoch=0), answer(batch(12, 12))),
        (fetch._replace(fetch_offset=12, last_fetched_epoch=0), answer(batch(12, 12))),
    ]
    for old_fetch, old_answer in ignored:
        assert story.deliver(B, old_fetch, old_answer) == []
    assert (story[B].end, len(story[B].effects)) == (12, effects)
    assert story[B].follower.failing_since_ms is None


def test_an_answer_that_comes_during_the_backoff_is_ignored() -> None:
    story = following()
    fetch = story.ask(B)
    story[B].follower.on_fetch_failed(0)
    assert story.deliver(B, fetch, answer(batch(10, 11))) == []


def test_an_answer_from_a_former_epoch_does_not_reach_the_new_one() -> None:
    story = following()
    fetch, former = story.ask(B), story[B].follower
    story.elect(A, A, B, epoch=2)
    assert former.on_fetch_answer(fetch, answer(batch(10, 11)), 0) == []
    assert former.next_fetch(0) is None


# ---- records ----


def test_records_and_then_the_high_watermark_as_far_as_held() -> None:
    story = following()
    story.deliver(B, story.ask(B), answer(batch(10, 12), hw=20))
    assert (story[B].end, story[B].high_watermark) == (13, 13)
    assert story[B].follower.lag == 7


def test_the_high_watermark_may_fall_after_a_leader_change() -> None:
    story = following(hw=9)
    story.deliver(B, story.ask(B), answer(hw=6))
    assert story[B].high_watermark == 6
    assert HighWatermarkLowered(PARTITION, B, 9, 6) in story[B].effects


def test_the_leaders_log_start_is_followed_but_never_above_the_high_watermark() -> None:
    story = following()
    story.deliver(B, story.ask(B), answer(hw=8, start=7))
    assert story[B].log.log_start_offset == 7
    story.deliver(B, story.ask(B), answer(hw=8, start=9))
    assert story[B].log.log_start_offset == 8


def test_lag_is_unknown_before_the_first_answer() -> None:
    story = following()
    assert story[B].follower.lag == -1
    story.deliver(B, story.ask(B), answer())
    assert story[B].follower.lag == 0


def test_overlapping_or_backward_batches_are_not_appended() -> None:
    story = following()
    fetch = story.ask(B)
    assert story.deliver(B, fetch, answer(batch(9, 10))) == []
    assert story[B].follower.delay_until_ms == 1_000
    story.now_ms = 1_000
    assert story.deliver(B, fetch, answer(batch(10, 12), batch(12, 13))) == []
    assert (story[B].end, story[B].high_watermark) == (10, 5)


def test_the_epochs_of_appended_batches_are_remembered() -> None:
    story = following()
    story.elect(A, A, B, epoch=3)
    story.deliver(B, story.ask(B), answer(batch(10, 10, 2), batch(11, 12, 3)))
    assert story[B].log.epochs.entries == [(1, 0), (2, 10), (3, 11)]
    assert story.ask(B)[3:5] == (13, 3)


def test_an_empty_log_inside_a_batch_starts_at_the_batch() -> None:
    """The leader deleted records up to the middle of a batch; batches come whole."""
    story = Story(A, B)
    story.elect(A, A, epoch=1)
    story[B].log.truncate_fully_and_start_at(15)
    story[B].replica.high_watermark = 15
    effects = story.deliver(B, story.ask(B), answer(batch(10, 19), hw=20, start=15))
    assert [type(effect) for effect in effects] == [RestartLog, AppendBatches]
    assert effects[0] == RestartLog(PARTITION, 10)
    assert (story[B].end, story[B].high_watermark) == (20, 20)
    assert story[B].log.log_start_offset == 15
    assert not story[B].truncations


# ---- truncation ----


def test_where_to_cut() -> None:
    local = EpochHistory([(1, 0), (2, 10), (5, 20)])
    assert truncation_offset(local, 25, EpochEnd(5, 22)) == 22
    assert truncation_offset(local, 25, EpochEnd(5, 30)) == 25
    assert truncation_offset(local, 25, EpochEnd(2, 15)) == 15
    assert truncation_offset(local, 25, EpochEnd(2, 24)) == 20
    assert truncation_offset(local, 25, EpochEnd(3, 18)) == 20  # epoch 3 is unknown here
    assert truncation_offset(local, 25, EpochEnd(0, 0)) == 0
    assert truncation_offset(EpochHistory(), 25, EpochEnd(1, 7)) == 7


def test_a_cut_below_the_high_watermark_is_reported() -> None:
    story = following(hw=8)
    story.deliver(B, story.ask(B), FetchAnswer(Error.NONE, EpochEnd(1, 6), 9, 0))
    (cut,) = story[B].truncations
    assert (cut.previous_end, cut.log_end_offset, cut.below_high_watermark) == (10, 6, True)
    assert not cut.is_damaged
    assert story[B].high_watermark == 6


def test_nothing_is_asked_until_the_cut_is_done() -> None:
    story = following()
    fetch = story.ask(B)
    told = FetchAnswer(Error.NONE, EpochEnd(1, 6), 9, 0)
    effects = story[B].follower.on_fetch_answer(fetch, told, 0)
    assert effects == [TruncateLog(PARTITION, 6)]
    assert story[B].follower.next_fetch(0) is None
    assert story[B].follower.on_fetch_answer(fetch, told, 0) == []
    story.perform(story[B], effects)
    assert story.ask(B)[3:5] == (6, 1)


def test_a_divergence_that_cuts_nothing_is_not_repeated_at_full_speed() -> None:
    story = following()
    nonsense = FetchAnswer(Error.NONE, EpochEnd(1, 10), 9, 0)
    assert story.deliver(B, story.ask(B), nonsense) == []
    assert story[B].follower.next_fetch(0) is None
    assert story[B].follower.next_fetch(1_000) is not None


# ---- the ladder ----


def out_of_range(story: Story) -> None:
    refused = answer()._replace(error=Error.OFFSET_OUT_OF_RANGE)
    story.deliver(B, story.ask(B), refused)


def test_out_of_range_asks_for_the_leaders_offsets_once() -> None:
    story = following()
    out_of_range(story)
    assert story[B].offset_questions == [AskLeaderOffsets(PARTITION, A, 1)]
    assert story[B].follower.next_fetch(0) is None


def test_a_leader_that_ends_earlier_makes_the_follower_cut() -> None:
    story = following()
    story[A].log.truncate_to(7)
    out_of_range(story)
    story.answer_offsets(B)
    assert story[B].records == epoch_records((1, 0, 6))
    assert story.ask(B).fetch_offset == 7


def test_a_leader_that_starts_later_makes_the_follower_start_over() -> None:
    story = following()
    story.produce(A, 10, acks=1)
    story[A].replica.high_watermark = 20
    story[A].log.raise_log_start(15)
    out_of_range(story)
    story.answer_offsets(B)
    assert (story[B].log.log_start_offset, story[B].end) == (15, 15)
    assert story[B].high_watermark == 15
    story.fetch(B)
    assert story[B].records == epoch_records((1, 15, 19))


def test_a_leader_that_ends_before_our_start_makes_the_follower_start_over() -> None:
    story = following(hw=8)
    story[B].log.raise_log_start(8)
    out_of_range(story)
    effects = story[B].follower.on_leader_offsets(0, 4, 0)
    assert effects == [RestartLog(PARTITION, 4)]
    story.perform(story[B], effects)
    assert (story[B].log.log_start_offset, story[B].end, story[B].high_watermark) == (4, 4, 4)


def test_a_leader_in_range_by_now_is_asked_again_after_a_while() -> None:
    story = following()
    out_of_range(story)
    story.answer_offsets(B)
    assert story[B].end == 10
    assert story[B].follower.next_fetch(0) is None
    assert story[B].follower.next_fetch(1_000) is not None


def test_lost_or_unasked_offsets_do_no_harm() -> None:
    story = following()
    assert story[B].follower.on_leader_offsets(0, 3, 0) == []
    out_of_range(story)
    story[B].follower.on_fetch_failed(0)
    assert story[B].follower.on_leader_offsets(0, 3, 0) == []
    assert story[B].follower.next_fetch(1_000) is not None
    assert story[B].end == 10


def test_a_new_replica_of_an_old_partition_finds_its_start_by_the_ladder() -> None:
    story = Story(A, B)
    story.given(A, (0, 0, 9), hw=10)
    story[A].log.raise_log_start(4)
    story.elect(A, A, epoch=1)
    assert story.fetch(B).error is Error.OFFSET_OUT_OF_RANGE
    story.answer_offsets(B)
    story.fetch(B)
    assert story[B].records == epoch_records((0, 4, 9))


def test_a_disk_that_is_full_makes_the_follower_ask_again_later_from_what_fitted() -> None:
    story = following()
    fetch = story.ask(B)
    role = story[B].replica.role
    first, second = batch(10, 10), batch(11, 11)
    (effect,) = role.on_fetch_answer(fetch, answer(first, second), story.now_ms)
    assert isinstance(effect, AppendBatches)
    story[B].log.append_as_follower([first])
    assert role.next_fetch(story.now_ms) is None
    role.on_append_failed(story.now_ms)
    assert role.next_fetch(story.now_ms) is None
    later = role.next_fetch(story.now_ms + story[B].replica.settings.replica_fetch_backoff_ms)
    assert later is not None
    assert later.fetch_offset == 11


# ---- damage at rest ----


def test_a_damaged_log_is_cut_there_and_fetched_again_from_the_damage_on() -> None:
    story = following(hw=10)
    role = story[B].follower
    story.perform(story[B], role.cut_damaged(4, 0))
    assert story[B].truncations[-1].is_damaged
    assert story[B].log.log_end_offset == 4
    assert story.ask(B)[3:5] == (4, 1)


def test_a_damaged_log_is_not_cut_while_something_else_is_under_way() -> None:
    story = following(hw=10)
    role = story[B].follower
    fetch = story.ask(B)
    (appending,) = role.on_fetch_answer(fetch, answer(batch(10, 12)), 0)
    assert isinstance(appending, AppendBatches)
    assert role.cut_damaged(4, 0) == []


def test_a_cut_that_damage_prevents_is_asked_for_again_later() -> None:
    story = following()
    role, end = story[B].follower, story[B].log.log_end_offset
    (effect,) = role.on_fetch_answer(
        story.ask(B), answer()._replace(diverging=EpochEnd(0, 3)), story.now_ms
    )
    assert isinstance(effect, TruncateLog)
    role.on_truncation_failed(story.now_ms)
    assert role.next_fetch(story.now_ms) is None
    later = role.next_fetch(story.now_ms + story[B].replica.settings.replica_fetch_backoff_ms)
    assert later is not None
    assert later.fetch_offset == end


# ---- phases whose end got lost ----


def lag_times(story: Story, count: int) -> int:
    return story.now_ms + count * story[B].replica.settings.replica_lag_time_max_ms


def test_a_question_that_is_never_answered_is_given_up() -> None:
    story = following()
    role, fetch = story[B].follower, story.ask(B)
    role.on_fetch_answer(fetch, answer()._replace(error=Error.OFFSET_OUT_OF_RANGE), 0)
    assert role.retry_lost_phase(lag_times(story, 1)) is None
    assert role.next_fetch(10**9) is None
    assert role.retry_lost_phase(lag_times(story, 2)) == []
    assert role.next_fetch(lag_times(story, 2)) is None  # it backs off first
    assert role.next_fetch(lag_times(story, 3)) == fetch


def test_an_append_that_never_came_to_an_end_is_fetched_again_from_where_the_log_is() -> None:
    story = following()
    role, fetch = story[B].follower, story.ask(B)
    effects = role.on_fetch_answer(fetch, answer(batch(10, 11)), 0)  # nobody performs it
    assert [type(effect) for effect in effects] == [AppendBatches]
    assert role.retry_lost_phase(lag_times(story, 2)) == []
    assert role.next_fetch(lag_times(story, 3)) == fetch


def test_a_blind_cut_that_was_not_made_is_made_before_anything_is_fetched() -> None:
    story = following()
    story[B].log.epochs.clear()
    role = story[B].follower
    assert role.begin(0) == [TruncateLog(PARTITION, 5)]  # nobody performs it
    assert role.retry_lost_phase(lag_times(story, 2)) == [TruncateLog(PARTITION, 5)]
    assert role.next_fetch(lag_times(story, 3)) is None


def test_a_follower_knows_since_when_it_gets_no_sound_answer() -> None:
    story = following()
    role, fetch = story[B].follower, story.ask(B)
    role.on_fetch_answer(fetch, answer()._replace(error=Error.NOT_LEADER_OR_FOLLOWER), 7)
    role.on_fetch_failed(1_500)
    assert (role.failing_since_ms, role.failure) == (7, Error.NONE)
    role.on_fetch_answer(fetch, answer(), 2_500)
    assert role.failing_since_ms is None
