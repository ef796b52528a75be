"""The named schedules of replication.md §13 hold, and each one is able to fail: the second half
breaks the rule a story is about and expects the story to notice."""

from collections.abc import Callable

import pytest

from support import replication_schedules as schedules
from tidelog.core.errors import Error
from tidelog.core.replication import follower, isr, reads
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import FetchAnswer
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.producers import ProducerStates
from tidelog.core.types import EpochEnd
from tidelog.sim.sim_log import SimLog


@pytest.mark.parametrize("schedule", schedules.SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_schedule(schedule: Callable[[], None]) -> None:
    schedule()


@pytest.mark.parametrize("last_of_two", [15, 20, 25])
def test_t03_wherever_the_middle_epoch_ends(last_of_two: int) -> None:
    schedules.t03_leadership_moves_there_and_back(last_of_two)


def greatest_offset(leader: LeaderReplica, now_ms: int) -> int:
    known = [progress.log_end_offset for progress in leader.progress.values()]
    return max(leader.state.log.durable_offset, *known)


def cut_to_high_watermark(replica: FollowerReplica) -> int | None:
    high_watermark = replica.state.high_watermark
    return high_watermark if replica.state.log.log_end_offset > high_watermark else None


def epoch_as_asked(history: EpochHistory, epoch: int) -> EpochEnd:
    return EpochEnd(epoch, next(start for known, start in history.entries if known > epoch))


def high_watermark_first(
    replica: FollowerReplica, answer: FetchAnswer, diverging: EpochEnd, now_ms: int
) -> list[object]:
    replica.state.high_watermark = replica.state.within_log(answer.high_watermark)
    return on_diverging(replica, answer, diverging, now_ms)


on_diverging: Callable[..., list[object]] = FollowerReplica.on_diverging

BROKEN_RULES: list[tuple[str, object, str, object, Callable[[], None]]] = [
    (
        "acknowledged before the high watermark",
        LeaderReplica,
        "is_committed",
        lambda self, required_offset: True,
        schedules.t10_a_proposed_shrink_commits_nothing,
    ),
    (
        "high watermark is the greatest offset",
        LeaderReplica,
        "committed_offset",
        greatest_offset,
        schedules.t10_a_proposed_shrink_commits_nothing,
    ),
    (
        "follower truncates to its high watermark",
        FollowerReplica,
        "initial_truncation",
        cut_to_high_watermark,
        schedules.t01_a_follower_is_not_cut_to_its_high_watermark,
    ),
    (
        "answered with the epoch asked for",
        EpochHistory,
        "past_epoch_end",
        epoch_as_asked,
        schedules.t03_leadership_moves_there_and_back,
    ),
    (
        "fetch epoch not checked",
        reads,
        "fence",
        lambda request_epoch, local_epoch: Error.NONE,
        schedules.t17_epochs_out_of_step_change_nothing,
    ),
    (
        "diverging fetch counts",
        LeaderReplica,
        "counts_as_progress",
        lambda self, decision: decision.error is Error.NONE,
        schedules.t07_a_diverging_fetch_is_no_acknowledgement,
    ),
    (
        "high watermark of a diverging answer",
        FollowerReplica,
        "on_diverging",
        high_watermark_first,
        schedules.t08_the_high_watermark_of_a_diverging_answer_is_ignored,
    ),
    (
        "joins below the epoch start",
        LeaderReplica,
        "has_reached_epoch_start",
        lambda self, progress: True,
        schedules.t05_no_seat_below_the_leaders_epoch_start,
    ),
    (
        "high watermark follows the proposed ISR",
        LeaderReplica,
        "maximal_isr",
        lambda self: self.isr_state.proposed_isr,
        schedules.t10_a_proposed_shrink_commits_nothing,
    ),
    (
        "an ambiguous error reverts",
        isr,
        "certainly_not_applied",
        lambda error: True,
        schedules.t11_after_a_lost_expand_reply_the_leader_keeps_waiting,
    ),
    (
        "consumer reads to the log end",
        LeaderReplica,
        "read_limit",
        lambda self, read_committed: self.state.log.log_end_offset,
        schedules.t18_a_lagging_high_watermark_resets_nobody,
    ),
    (
        "follower serves above its high watermark",
        FollowerReplica,
        "read_limit",
        lambda self, read_committed: self.state.log.log_end_offset,
        schedules.t08_the_high_watermark_of_a_diverging_answer_is_ignored,
    ),
    (
        "min ISR only checked before the append",
        LeaderReplica,
        "enough_replicas_to_commit",
        lambda self, in_sync: True,
        schedules.t30_too_few_replicas_commit_nothing,
    ),
    (
        "two changes in flight",
        LeaderReplica,
        "may_propose",
        lambda self: self.leads(),
        schedules.one_change_of_the_isr_at_a_time,
    ),
    (
        "sequences not rebuilt after a truncation",
        SimLog,
        "rebuild_producers",
        lambda self: None,
        schedules.t28_a_retry_over_a_failover_makes_no_second_copy,
    ),
    (
        "sequences not followed by followers",
        ProducerStates,
        "update",
        lambda self, header, coordinator_epoch=-1: None,
        schedules.t28_a_retry_over_a_failover_makes_no_second_copy,
    ),
    (
        "duplicate answered at once",
        LeaderReplica,
        "await_duplicate",
        lambda self, token, duplicate, now_ms: [self._answer(token, Error.NONE)],
        schedules.t29_a_duplicate_waits_like_the_first_append,
    ),
    (
        "records of a later epoch appended",
        follower,
        "batches_up_to",
        lambda batches, leader_epoch: batches,
        schedules.t21_bytes_that_changed_under_an_answer_are_discarded,
    ),
    (
        "a replica in shutdown is waited for",
        LeaderReplica,
        "is_isr_eligible",
        lambda self, progress: True,
        schedules.t09_a_replica_in_shutdown_does_not_freeze_the_high_watermark,
    ),
]


@pytest.mark.parametrize("broken", BROKEN_RULES, ids=lambda broken: broken[0])
def test_a_story_notices_when_its_rule_is_broken(
    broken: tuple[str, object, str, object, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, owner, rule, replacement, story = broken
    monkeypatch.setattr(owner, rule, replacement)
    with pytest.raises(AssertionError):
        story()
