"""The in-sync set: who leaves it, who joins it, and what is believed while it is undecided."""

import pytest

from support.partition_story import PARTITION, Story
from tidelog.core.errors import Error
from tidelog.core.events import IsrChanged
from tidelog.core.metadata.records import RECOVERED, RECOVERING
from tidelog.core.replication import isr
from tidelog.core.replication.inputs import FollowerFetch
from tidelog.core.replication.isr import CommittedIsr, PendingExpand, PendingShrink
from tidelog.core.requests import IsrMember, IsrProposal, IsrResult

A, B, C = 1, 2, 3


def led(*in_sync: int, min_isr: int = 1) -> Story:
    story = Story(A, B, C, min_isr=min_isr)
    story.elect(A, *(in_sync or (A, B, C)), epoch=0)
    return story


def check(story: Story, now_ms: int) -> None:
    story.now_ms = now_ms
    story.perform(story[A], story[A].leader.check_isr(now_ms))


def result(
    story: Story, *in_sync: int, partition_epoch: int, error: Error = Error.NONE, epoch: int = 0
) -> IsrResult:
    return IsrResult(PARTITION, error, A, epoch, in_sync, RECOVERED, partition_epoch)


# ---- shrink ----


def test_a_silent_follower_is_proposed_for_removal_after_the_lag_time() -> None:
    story = led()
    story.produce(A)
    check(story, 30_000)
    assert story[A].proposed == []
    check(story, 30_001)
    assert story[A].proposed == [(A,)]
    assert story[A].proposals == [
        IsrProposal(PARTITION, 0, 0, (IsrMember(A, 101),), RECOVERED),
    ]


def test_a_follower_with_every_record_stays_however_long_it_is_silent() -> None:
    story = led()
    story.fetch(B)
    check(story, 10**9)
    assert story[A].proposed == [(A, B)]  # C has never fetched


def test_a_follower_that_fetches_but_never_catches_up_leaves() -> None:
    """It asks every second and always gets something, but never has what the leader had at its
    previous fetch."""
    story = led(A, B)
    fetch = FollowerFetch(B, 102, 0, 0, -1, 0)
    for second in range(40):
        story.now_ms = second * 1_000
        story.produce(A, 10, acks=1)
        story.judge(A, fetch._replace(fetch_offset=second, last_fetched_epoch=0))
    check(story, 40_000)
    assert story[A].proposed == [(A,)]


def test_a_follower_one_fetch_behind_a_steady_producer_is_caught_up() -> None:
    story = led(A, B)
    for second in range(100):
        story.now_ms = second * 1_000
        story.produce(A, 10, acks=1)
        story.fetch(B)
    assert story[A].leader.progress[B].last_caught_up_ms == 98_000
    check(story, 100_000)
    assert story[A].proposed == []


def test_while_a_shrink_is_in_flight_the_laggard_still_counts() -> None:
    story = led(A, B)
    token = story.produce(A)
    check(story, 30_001)
    assert type(story[A].leader.isr_state) is PendingShrink
    assert story[A].leader.isr == story[A].leader.maximal_isr() == (A, B)
    assert token not in story[A].answers
    story.commit_proposal(A)
    assert story[A].leader.isr == (A,)
    assert story[A].answers[token] is Error.NONE
    assert IsrChanged(PARTITION, A, (A, B), (A,), 1) in story[A].effects


def test_below_min_isr_a_committed_shrink_commits_no_records() -> None:
    story = led(A, B, min_isr=2)
    token = story.produce(A)
    check(story, 30_001)
    story.commit_proposal(A)
    assert story[A].leader.isr == (A,)
    assert token not in story[A].answers
    assert story[A].high_watermark == 0


def test_only_one_change_is_in_flight() -> None:
    story = led(A, B)
    story.fetch(C)  # C is proposed
    story.produce(A)
    check(story, 30_001)  # B lags, but must wait
    assert story[A].proposed == [(A, B, C)]
    story.commit_proposal(A)
    check(story, 30_002)
    assert story[A].proposed == [(A, B, C), (A,)]


# ---- expand ----


def test_a_caught_up_follower_is_proposed_with_the_incarnation_that_fetched() -> None:
    story = led(A)
    story.fetch(C)
    (proposal,) = story[A].proposals
    assert proposal.isr == (IsrMember(A, 101), IsrMember(C, 103))
    assert type(story[A].leader.isr_state) is PendingExpand
    assert story[A].leader.isr == (A,)
    assert story[A].leader.maximal_isr() == (A, C)


def test_an_isr_member_that_has_not_fetched_yet_is_proposed_without_its_epoch() -> None:
    story = led(A, B)
    story.fetch(C)
    assert story[A].proposals[0].isr[1] == IsrMember(B, -1)


def test_a_follower_below_the_high_watermark_does_not_join() -> None:
    story = led(A)
    story.produce(A, 3)
    story.fetch(C)
    assert story[A].proposed == []
    story.fetch(C)
    assert story[A].proposed == [(A, C)]


@pytest.mark.parametrize("obstacle", ["fenced", "unknown", "another incarnation is registered"])
def test_a_follower_the_controller_would_refuse_is_not_proposed(obstacle: str) -> None:
    story = led(A)
    fetch = story.ask(C)
    if obstacle == "fenced":
        story.status(C, active=False)
    elif obstacle == "unknown":
        del story.statuses[C]
        story.status(A)
    else:
        fetch = fetch._replace(replica_epoch=999)  # newer than our metadata
    assert story.judge(A, fetch).error is Error.NONE
    assert story[A].proposed == []


def test_a_fetch_without_an_incarnation_may_join() -> None:
    story = led(A)
    story.judge(A, story.ask(C)._replace(replica_epoch=-1))
    assert story[A].proposed == [(A, C)]


def test_a_wiped_replica_joins_only_with_its_new_incarnation() -> None:
    """T12: the proposal was made for the disk that is gone."""
    story = led(A)
    story.produce(A, 2)
    story.fetch(C)
    story.fetch(C)
    assert story[A].proposals[0].isr[1] == IsrMember(C, 103)
    late = story.ask(C)
    story.host(C)
    story.status(C, epoch=203)
    story.tell(C)
    story.refuse_proposal(A, Error.INELIGIBLE_REPLICA)
    assert story[A].leader.isr_state == CommittedIsr((A,))
    assert story.judge(A, late).error is Error.NOT_LEADER_OR_FOLLOWER
    story.fetch(C)
    assert story[A].proposals == []
    story.fetch(C)
    assert story[A].proposals[0].isr[1] == IsrMember(C, 203)


def test_a_replica_fenced_in_flight_joins_after_it_is_unfenced() -> None:
    """T13."""
    story = led(A, B)
    story.fetch(C)
    story.status(C, active=False)
    story.refuse_proposal(A, Error.INELIGIBLE_REPLICA)
    story.fetch(C)
    assert story[A].proposals == []
    story.status(C, active=True)
    story.fetch(C)
    story.commit_proposal(A)
    assert story[A].leader.isr == (A, B, C)


# ---- the controller's answers ----


@pytest.mark.parametrize("error", [Error.INELIGIBLE_REPLICA, Error.OPERATION_NOT_ATTEMPTED])
def test_only_certain_refusals_revert(error: Error) -> None:
    story = led(A)
    story.fetch(C)
    story.status(C, active=False)
    token = story.produce(A)
    assert token not in story[A].answers
    story.refuse_proposal(A, error)
    assert story[A].leader.isr_state == CommittedIsr((A,))
    assert story[A].answers[token] is Error.NONE  # C no longer holds the high watermark


@pytest.mark.parametrize(
    "error",
    [
        Error.FENCED_LEADER_EPOCH,
        Error.INVALID_UPDATE_VERSION,
        Error.INVALID_REQUEST,
        Error.UNKNOWN_TOPIC_ID,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NEW_LEADER_ELECTED,
        Error.UNKNOWN_SERVER_ERROR,
        Error.NOT_CONTROLLER,
        Error.STALE_BROKER_EPOCH,
        Error.REQUEST_TIMED_OUT,
    ],
)
def test_after_any_other_error_the_change_stays_possible_until_metadata_speaks(
    error: Error,
) -> None:
    story = led(A)
    story.fetch(C)
    pending = story[A].leader.isr_state
    assert story.refuse_proposal(A, error) == []
    assert story[A].leader.isr_state == pending
    story.set_isr(A)
    assert story[A].leader.isr_state == CommittedIsr((A,))


def test_answers_about_other_versions_are_ignored() -> None:
    story = led(A)
    story.fetch(C)
    pending = story[A].leader.isr_state
    assert story[A].replica.partition_epoch == 0
    for stale in (
        result(story, A, C, partition_epoch=1, epoch=1),  # of another leader epoch
        result(story, A, C, partition_epoch=-1),  # older than what we know
        result(story, A, partition_epoch=0),  # what we knew when we proposed
    ):
        assert story.reply(A, stale) == []
        assert story[A].leader.isr_state == pending
        assert story[A].replica.partition_epoch == 0


def test_a_confirmation_without_a_new_version_is_adopted() -> None:
    story = led(A)
    story.fetch(C)
    story.reply(A, result(story, A, C, partition_epoch=0))
    assert story[A].leader.isr_state == CommittedIsr((A, C))


def test_the_version_a_change_was_proposed_on_does_not_clear_it() -> None:
    """The answer to one proposal, the next proposal, and only then the first one's metadata."""
    story = led(A)
    story.fetch(B)
    story.commit_proposal(A)
    story.fetch(C)
    pending = story[A].leader.isr_state
    assert type(pending) is PendingExpand
    story.tell(A)  # partition epoch 1, known from the answer
    assert story[A].leader.isr_state == pending
    assert story[A].leader.maximal_isr() == (A, B, C)
    story.commit_proposal(A)
    assert story[A].leader.isr == (A, B, C)


def test_equal_metadata_still_brings_the_assignment_the_answer_did_not_tell() -> None:
    story = led(A)
    story.fetch(B)
    story.commit_proposal(A)
    story.metadata = story.metadata._replace(replicas=(A, B))
    story.tell(A)
    assert list(story[A].leader.progress) == [B]


def test_an_answer_after_metadata_overtook_it_is_dropped() -> None:
    story = led(A)
    story.fetch(B)
    late = story.commit_proposal(A, reply=False)
    story.tell(A)
    story.set_isr(A)
    assert story.reply(A, late) == []
    assert story[A].leader.isr == (A,)
    assert story[A].replica.partition_epoch == 2


def test_demotion_ends_a_change_in_flight() -> None:
    story = led(A)
    story.fetch(C)
    former = story[A].leader
    late = story.commit_proposal(A, reply=False)
    story.elect(C, A, C, epoch=1)
    assert former.on_isr_result(late, 0) == []
    assert former.check_isr(10**9) == []
    story.elect(A, A, C, epoch=2)
    assert story[A].leader.isr_state == CommittedIsr((A, C))


def test_after_an_unclean_election_the_next_proposal_reports_recovery() -> None:
    story = Story(A, B)
    story.metadata = story.metadata._replace(leader_recovery_state=RECOVERING)
    story.elect(A, A, epoch=3)
    assert story[A].replica.leader_recovery_state == RECOVERING
    story.fetch(B)
    assert story[A].proposals[0].leader_recovery_state == RECOVERED
    story.commit_proposal(A)
    assert story[A].replica.leader_recovery_state == RECOVERED


def test_outcomes_compare_members_not_their_order() -> None:
    proposal = IsrProposal(PARTITION, 0, 5, ())
    pending = PendingExpand((1, 2), (1, 2, 3), proposal)
    confirmed = IsrResult(PARTITION, Error.NONE, 1, 0, (3, 2, 1), RECOVERED, 5)
    assert isr.outcome(pending, confirmed, partition_epoch=5) == isr.ADOPT


def test_a_leader_that_missed_an_epoch_knows_nothing_of_its_followers() -> None:
    # The leader was paused, and a metadata snapshot folds what it missed.
    a, b, c = 1, 2, 3
    story = Story(a, b, c)
    story.given(a, (4, 0, 7), hw=6)
    story.given(b, (4, 0, 7), hw=6)
    story.given(c, (4, 0, 5), hw=6)
    story.elect(a, a, b, c, epoch=4)
    story.fetch(b)  # the leader knows that it holds offsets 6 and 7
    parked = story.produce(a)
    story.elect(c, a, b, c, epoch=5, tell=(b, c))
    story.fetch(b)
    assert story[b].end == 6, "it has cut them under the other leader"
    story.elect(a, a, b, c, epoch=6)  # the first thing the leader hears since epoch 4

    assert story[a].answers[parked] is Error.NOT_LEADER_OR_FOLLOWER
    for _ in range(3):  # it first forgets its own epoch
        story.fetch(c)
    assert story[c].end == story[a].end
    assert story[a].high_watermark == 6, "the other one has not shown what it holds"
    story.fetch(b)
    story.fetch(b)
    assert story[a].high_watermark == story[a].end
