"""Each story is able to fail: break the one rule it is about, and it is told differently.

The first entry of each row is what would go wrong; the last one is the file that notices.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tidelog.lab
from tidelog.broker.replication import strays
from tidelog.core.errors import Error
from tidelog.core.metadata import alter_partition, elr, partition_change, registration
from tidelog.core.metadata import elections as electing
from tidelog.core.replication import follower, isr, producers, reads
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.producers import ProducerStates
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_EPOCH, NO_OFFSET, EpochEnd
from tidelog.sim.scenario import ScriptError, difference

HERE = Path(__file__).parent
LAB = Path(tidelog.lab.__file__).parent / "stories"


class Break(NamedTuple):
    story: str
    what: str
    owner: object
    rule: str
    replacement: Callable[..., Any]


def cut_to_high_watermark(role: FollowerReplica) -> int | None:
    high_watermark = role.state.high_watermark
    return high_watermark if role.state.log.log_end_offset > high_watermark else None


def epoch_as_asked(history: EpochHistory, epoch: int) -> EpochEnd:
    return EpochEnd(epoch, next(start for known, start in history.entries if known > epoch))


on_diverging = FollowerReplica.on_diverging
apply_metadata = Replica.apply_metadata
next_fetch = FollowerReplica.next_fetch
truncate_from_end = EpochHistory.truncate_from_end


def high_watermark_first(
    role: FollowerReplica, answer: Any, diverging: EpochEnd, now_ms: int
) -> list[Any]:
    role.state.high_watermark = role.state.within_log(answer.high_watermark)
    return on_diverging(role, answer, diverging, now_ms)


def same_leader_changes_nothing(replica: Replica, metadata: Any, brokers: Any, now: int) -> Any:
    if metadata.leader == replica.leader and isinstance(replica.role, FollowerReplica):
        replica.leader_epoch = replica.role.leader_epoch = metadata.leader_epoch
        replica.partition_epoch = metadata.partition_epoch
        return []
    return apply_metadata(replica, metadata, brokers, now)


def fetch_without_epoch(role: FollowerReplica, now_ms: int) -> Any:
    fetch = next_fetch(role, now_ms)
    return None if fetch is None else fetch._replace(last_fetched_epoch=NO_EPOCH)


def keep_empty_epochs(history: EpochHistory, offset: int) -> bool:
    return truncate_from_end(history, offset + 1)


def greatest_offset(leader: LeaderReplica, now_ms: int) -> int:
    known = [progress.log_end_offset for progress in leader.progress.values()]
    return max(leader.state.log.durable_offset, *known)


def log_end(role: LeaderReplica | FollowerReplica, read_committed: bool) -> int:
    return role.state.log.log_end_offset


def always(answer: object) -> Callable[..., object]:
    return lambda *args, **kwargs: answer


BREAKS = [
    Break(
        "t00_reconciliation_walkthrough",
        "logs that part are not noticed",
        reads,
        "diverges",
        always(False),
    ),
    Break(
        "t01_truncate_to_high_watermark_then_leader_dies",
        "a new follower cuts to its high watermark",
        FollowerReplica,
        "initial_truncation",
        cut_to_high_watermark,
    ),
    Break(
        "t02_power_loss_divergence",
        "logs that part are not noticed",
        reads,
        "diverges",
        always(False),
    ),
    *(
        Break(
            f"t03_fast_failover_middle_epoch_ends_at_{end}",
            "the leader answers with the epoch it was asked for",
            EpochHistory,
            "past_epoch_end",
            epoch_as_asked,
        )
        for end in (15, 20, 25)
    ),
    Break(
        "t04_unknown_epoch_takes_two_rounds",
        "the follower cuts where the leader's epoch ends, known or not",
        follower,
        "truncation_offset",
        lambda epochs, log_end_offset, diverging: min(diverging.end_offset, log_end_offset),
    ),
    Break(
        "t05_expand_under_a_lagging_high_watermark",
        "the high watermark alone decides who is in sync",
        LeaderReplica,
        "has_reached_epoch_start",
        always(True),
    ),
    Break(
        "t06_epoch_only_conflict",
        "an epoch without records is not forgotten",
        EpochHistory,
        "truncate_from_end",
        keep_empty_epochs,
    ),
    Break(
        "t07_diverging_fetch_is_no_acknowledgement",
        "a diverging fetch acknowledges",
        LeaderReplica,
        "counts_as_progress",
        lambda self, decision: decision.error is Error.NONE,
    ),
    Break(
        "t08_high_watermark_before_truncation",
        "the high watermark of a diverging answer counts",
        FollowerReplica,
        "on_diverging",
        high_watermark_first,
    ),
    Break(
        "t09_replica_in_shutdown_freezes_nothing",
        "a replica in shutdown is waited for",
        LeaderReplica,
        "is_isr_eligible",
        always(True),
    ),
    Break(
        "t10_shrink_that_is_not_committed",
        "a proposed ISR commits",
        LeaderReplica,
        "maximal_isr",
        lambda self: self.isr_state.proposed_isr,
    ),
    Break(
        "t10_shrink_that_is_not_committed",
        "the high watermark is the greatest offset",
        LeaderReplica,
        "committed_offset",
        greatest_offset,
    ),
    Break(
        "t11_expansion_whose_answer_is_lost",
        "two changes of the ISR are in flight",
        LeaderReplica,
        "may_propose",
        always(True),
    ),
    Break(
        "t11_expansion_whose_answer_is_lost",
        "an ambiguous error reverts",
        isr,
        "certainly_not_applied",
        always(True),
    ),
    Break(
        "t12_rejoin_after_wipe",
        "a proposal names an id, not an incarnation",
        alter_partition,
        "names_this_incarnation",
        always(True),
    ),
    Break(
        "t13_fenced_member",
        "the controller accepts a fenced member",
        alter_partition,
        "is_eligible",
        always(True),
    ),
    Break(
        "t14_last_replica_standing_with_elr",
        "an unclean restart keeps its place in the ELR",
        elr,
        "without_uncleanly_restarted",
        lambda members, uncleanly_restarted: members,
    ),
    Break(
        "t14_last_replica_standing_without_elr",
        "too few replicas append",
        LeaderReplica,
        "enough_replicas_to_append",
        always(True),
    ),
    Break(
        "t15_bounce_within_the_session",
        "a second incarnation registers while the first has a session, and keeps its seats",
        registration,
        "is_rival",
        always(False),
    ),
    Break(
        "t16_zombie_leader",
        "acknowledged before the high watermark",
        LeaderReplica,
        "is_committed",
        always(True),
    ),
    Break("t17_epoch_skew", "epochs are not compared", reads, "fence", always(Error.NONE)),
    Break(
        "t18_new_leader_knows_a_lower_high_watermark",
        "a new leader answers with the high watermark it knows",
        reads,
        "is_awaiting_high_watermark",
        always(False),
    ),
    Break(
        "t18_new_leader_knows_a_lower_high_watermark",
        "a consumer reads to the log end",
        LeaderReplica,
        "read_limit",
        log_end,
    ),
    Break(
        "13-follower-reads",
        "a follower serves above its high watermark",
        FollowerReplica,
        "read_limit",
        log_end,
    ),
    Break(
        "t19_consumer_sees_truncation",
        "logs that part are not noticed",
        reads,
        "diverges",
        always(False),
    ),
    Break(
        "t20_empty_answer_keeps_the_epoch",
        "a fetch without its last epoch",
        FollowerReplica,
        "next_fetch",
        fetch_without_epoch,
    ),
    Break(
        "t21_bytes_change_under_an_answer",
        "records of a later epoch are appended",
        follower,
        "batches_up_to",
        lambda batches, leader_epoch: batches,
    ),
    Break(
        "t22_missed_epoch_of_the_same_leader",
        "the same leader changes nothing",
        Replica,
        "apply_metadata",
        same_leader_changes_nothing,
    ),
    Break(
        "t23_reassignment_that_the_leader_does_not_know",
        "a replica the leader does not know is refused",
        LeaderReplica,
        "check_follower",
        lambda self, fetch: (
            Error.NONE if fetch.replica_id in self.progress else Error.NOT_LEADER_OR_FOLLOWER
        ),
    ),
    Break(
        "t24_reassignment_that_drops_the_leader",
        "the leader epoch stays when a replica is dropped",
        partition_change,
        "needs_new_leader_epoch",
        lambda partition, draft: False,
    ),
    Break(
        "t26_recreated_topic",
        "a log of an unknown topic is not put aside",
        strays,
        "set_aside",
        always(None),
    ),
    Break(
        "t27_hanging_transaction",
        "a late batch opens a transaction",
        producers,
        "fits_transaction",
        always(True),
    ),
    Break(
        "t27_hanging_transaction",
        "an early batch gets into the transaction before its own",
        producers,
        "is_in_transaction",
        lambda entry, producer_epoch: (
            entry is not None and entry.current_txn_first_offset != NO_OFFSET
        ),
    ),
    Break(
        "t28_idempotent_retry_over_a_failover",
        "followers do not keep sequences",
        ProducerStates,
        "update",
        always(None),
    ),
    Break(
        "t28_idempotent_retry_over_a_failover",
        "a repeat is not recognised",
        producers,
        "find_duplicate",
        always(None),
    ),
    Break(
        "t29_duplicate_must_wait",
        "a duplicate is answered at once",
        LeaderReplica,
        "await_duplicate",
        lambda self, token, duplicate, now_ms: [self._answer(token, Error.NONE)],
    ),
    Break(
        "t30_strict_min_isr",
        "the minimum is checked only before the append",
        LeaderReplica,
        "enough_replicas_to_commit",
        always(True),
    ),
    Break(
        "t31_missing_high_watermark_checkpoint",
        "a new follower cuts to its high watermark",
        FollowerReplica,
        "initial_truncation",
        cut_to_high_watermark,
    ),
    Break(
        "t05_expand_under_a_lagging_high_watermark",
        "anybody alive may be elected",
        electing,
        "holds_all_committed",
        always(True),
    ),
]


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: f"{broken.story}: {broken.what}")
def test_the_story_notices(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = [*HERE.glob(f"{broken.story}.txt"), *LAB.glob(f"{broken.story}.txt")]
    text = path.read_text()
    assert difference(text) == ""
    monkeypatch.setattr(broken.owner, broken.rule, broken.replacement)
    assert told_differently(text)


def told_differently(text: str) -> str:
    """Another output, or a broken rule that ran into an assertion of ours, or made a later
    command impossible."""
    try:
        return difference(text)
    except (AssertionError, ScriptError) as stopped:
        return f"it stops: {stopped}"


def test_every_schedule_has_a_story_and_every_story_can_fail() -> None:
    stories = sorted(path.stem for path in HERE.glob("t[0-9][0-9]_*.txt"))
    assert {story[:3] for story in stories} == {f"t{n:02d}" for n in range(32) if n != 25}
    assert set(stories) <= {broken.story for broken in BREAKS}
