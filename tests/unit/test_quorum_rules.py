"""The rules one by one, and how a node answers what it should not have been asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quorum_cluster import CLUSTER_ID, Cluster, ListLog, key_of
from tidelog.core.errors import Error
from tidelog.core.quorum import rules
from tidelog.core.quorum.effects import (
    AppendEntries,
    CommitAdvanced,
    LeadershipClaimable,
    PersistState,
    Send,
    TruncateTo,
)
from tidelog.core.quorum.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderChange,
    SnapshotId,
    VoteRequest,
    VoteResponse,
    VoterKey,
)
from tidelog.core.quorum.state import NEVER_MS, QuorumLostLog, QuorumState
from tidelog.core.quorum.voters import VoterHistory
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.types import EpochEnd, LogEntry

offsets = st.lists(st.integers(-1, 20), min_size=1, max_size=7)


def elected(voter_ids: tuple[int, ...] = (1, 2, 3), **options: object) -> Cluster:
    cluster = Cluster(voter_ids, **options)  # type: ignore[arg-type]
    cluster.boot()
    cluster.run(1100)
    assert cluster.leader() == 1
    return cluster


def fetch(
    replica: int, offset: int, last_epoch: int = 1, *, epoch: int = 1, high_watermark: int = -1
) -> FetchRequest:
    return FetchRequest(CLUSTER_ID, epoch, key_of(replica), offset, last_epoch, high_watermark, 500)


def replies(effects: list[object]) -> list[object]:
    return [effect.message for effect in effects if type(effect) is Send]


# Counting ---------------------------------------------------------------------------------


@given(offsets)
def test_majority_offset_is_the_highest_that_more_than_half_have_reached(ends: list[int]) -> None:
    reached = [o for o in range(-1, 21) if 2 * sum(end >= o for end in ends) > len(ends)]
    assert rules.majority_offset(ends) == max(reached)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=6), st.data())
def test_check_quorum_counts_the_oldest_contact_it_needs(
    times: list[int], data: st.DataObject
) -> None:
    needed = data.draw(st.integers(1, len(times)))
    deadline_ms = rules.check_quorum_deadline_ms(times, needed, 2000)
    enough_until = [t for t in range(14_000) if sum(t - c <= 3000 for c in times) >= needed]
    assert deadline_ms == max(enough_until)


def test_a_sole_voter_needs_no_contact() -> None:
    assert rules.check_quorum_deadline_ms([], 0, 2000) == NEVER_MS


def test_voters_wait_longer_the_further_down_the_list_they_are() -> None:
    assert [rules.handover_delay_ms(k, 4, 1000) for k in range(4)] == [0, 125, 250, 500]
    assert rules.handover_delay_ms(1, 2, 1000) == 500
    assert rules.handover_delay_ms(-1, 3, 1000) == 1000


# Logs -------------------------------------------------------------------------------------


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Epochs of the entries of a leader's and a follower's log with a common beginning. An
    epoch has one leader, so beyond it they share no epoch."""
    common = sorted(draw(st.lists(st.integers(1, 4), max_size=6)))
    low = common[-1] if common else 1
    tails = st.lists(st.integers(low, 9), max_size=6).map(sorted)
    leader_tail = [2 * epoch for epoch in draw(tails)]
    follower_tail = [2 * epoch + 1 for epoch in draw(tails)]
    doubled = [2 * epoch for epoch in common]
    return [*doubled, *leader_tail], [*doubled, *follower_tail]


def history_of(epochs: list[int]) -> EpochHistory:
    history = EpochHistory()
    for offset, epoch in enumerate(epochs):
        history.assign(epoch, offset)
    return history


@given(two_logs())
def test_reconciling_ends_at_the_common_prefix_and_never_cuts_into_it(
    logs: tuple[list[int], list[int]],
) -> None:
    leader, follower = list(logs[0]), list(logs[1])
    own_epoch = max([*leader, *follower, 0]) + 2
    leader.append(own_epoch)  # its LeaderChange
    same = [a == b for a, b in zip(leader, follower, strict=False)]
    common = same.index(False) if False in same else len(same)
    leader_epochs = history_of(leader)
    for _ in range(20):
        last_epoch = follower[-1] if follower else 0
        answer = rules.diverging_epoch(leader_epochs, len(follower), last_epoch, len(leader))
        if answer is None:
            break
        cut = rules.truncation_offset(history_of(follower), answer, len(follower))
        assert common <= cut < len(follower)
        del follower[cut:]
    assert follower == leader[: len(follower)]
    assert len(follower) == common


def log_with_snapshots(*snapshots: SnapshotId, start: int) -> ListLog:
    log = ListLog()
    log.log_start_offset = start
    log.snapshots = dict.fromkeys(snapshots, ())
    log.append((LogEntry(start, 5, ("x",)),))
    return log


@pytest.mark.parametrize(
    ("offset", "epoch", "needed"),
    [
        (0, 0, True),  # a fresh node is better served by the snapshot
        (9, 3, True),  # before the log start
        (10, 3, False),  # exactly behind the snapshot
        (10, 2, True),  # same offset, another history
        (11, 2, True),  # an epoch that ended before the snapshot
        (11, 5, False),
    ],
)
def test_who_needs_a_snapshot(offset: int, epoch: int, needed: bool) -> None:
    log = log_with_snapshots(SnapshotId(10, 3), start=10)
    assert rules.needs_snapshot(log, offset, epoch) is needed


def test_an_old_snapshot_left_behind_does_not_make_a_follower_install_forever() -> None:
    log = log_with_snapshots(SnapshotId(4, 2), SnapshotId(10, 3), start=10)
    assert not rules.needs_snapshot(log, 10, 3)


def test_the_bootstrap_snapshot_is_never_sent() -> None:
    assert not rules.needs_snapshot(log_with_snapshots(SnapshotId(0, 0), start=0), 0, 0)


def test_a_snapshot_is_taken_only_of_committed_state_named_by_the_log() -> None:
    log = log_with_snapshots(SnapshotId(10, 3), start=10)  # and one entry of epoch 5
    assert rules.snapshot_allowed(SnapshotId(11, 5), 11, log)
    assert not rules.snapshot_allowed(SnapshotId(11, 5), 10, log), "not committed"
    assert not rules.snapshot_allowed(SnapshotId(12, 5), 12, log), "not in the log"
    assert not rules.snapshot_allowed(SnapshotId(11, 4), 11, log), "another epoch"
    assert not rules.snapshot_allowed(SnapshotId(10, 3), 11, log), "not newer"


def test_the_voter_set_follows_the_log_both_ways() -> None:
    one, two = (key_of(1),), (key_of(1), key_of(2))
    history = VoterHistory(one)
    history.append(7, two)
    assert (history.current, history.last_offset, history.previous) == (two, 7, one)
    assert (history.at(7), history.at(8)) == (None, two)
    assert not history.truncate_to(8)
    assert history.truncate_to(7)
    assert (history.current, history.last_offset) == (one, -1)


# A node by itself -------------------------------------------------------------------------


def test_a_sole_voter_leads_in_its_first_tick_and_commits_when_durable() -> None:
    cluster = Cluster((1,))
    cluster.slow_disks.append(1)
    cluster.boot()
    assert (cluster.node(1).role, cluster.node(1).epoch) == ("leader", 1)
    cluster.run(60_000)
    assert cluster.node(1).high_watermark == -1, "not durable yet"
    cluster.sync(1)
    cluster.settle()
    assert cluster.node(1).high_watermark == 1
    kinds = [type(effect) for _, _, effect in cluster.effects]
    assert kinds.index(CommitAdvanced) < kinds.index(LeadershipClaimable)


def test_a_restarted_sole_voter_leads_a_new_epoch_at_once() -> None:
    cluster = Cluster((1,))
    cluster.boot()
    cluster.append(1, "a")
    cluster.settle()
    cluster.crash(1)
    cluster.boot(1)
    cluster.settle()
    assert (cluster.node(1).role, cluster.hosts[1].applied) == ("leader", ["a"])
    assert cluster.node(1).epoch == 3, "resigned 1, unattached 2, leader 3"


def test_a_leader_begins_with_a_record_of_who_elected_it() -> None:
    cluster = elected()
    first = cluster.hosts[1].log.entries[0]
    assert first == LogEntry(0, 1, (LeaderChange(1, (1, 2, 3), (1, 2)),), control=True)


@pytest.mark.parametrize(
    ("stored", "role", "epoch"),
    [
        (QuorumState(4, 1, key_of(1)), "resigned", 4),
        (QuorumState(4, -1, key_of(1)), "candidate", 4),
        (QuorumState(4, 2, None), "follower", 4),
        (QuorumState(4, 2, key_of(1)), "follower", 4),
        (QuorumState(4, -1, key_of(3)), "unattached", 4),
        (QuorumState(4, -1, None), "unattached", 4),
        (QuorumState(2, 1, key_of(1)), "unattached", 3),
    ],
)
def test_what_a_restarted_node_is(stored: QuorumState, role: str, epoch: int) -> None:
    cluster = Cluster((1, 2, 3))
    host = cluster.hosts[1]
    host.log.append((LogEntry(0, 3, ("a",)),))
    host.log.sync()
    host.stored = stored
    node = host.boot(0)
    assert (node.role, node.epoch) == (role, epoch)
    kept = stored.voted if epoch == stored.epoch else None
    assert node.state.voted == kept


# Votes ------------------------------------------------------------------------------------


def vote(
    epoch: int, position: tuple[int, int], *, pre_vote: bool, candidate: int = 3
) -> VoteRequest:
    return VoteRequest(CLUSTER_ID, epoch, key_of(candidate), key_of(2), *position, pre_vote)


def answer_to(cluster: Cluster, request: VoteRequest) -> VoteResponse:
    effects = cluster.node(2).on_message(request.candidate.node_id, request, cluster.now_ms)
    if request.pre_vote:
        assert PersistState not in [type(effect) for effect in effects], "a pre-vote costs nothing"
    (response,) = replies(effects)
    assert type(response) is VoteResponse
    return response


def test_a_follower_that_hears_its_leader_refuses_pre_votes_of_any_log() -> None:
    cluster = elected()
    assert cluster.node(2).role == "follower"
    for position in ((1, 1), (1, 5)):
        assert not answer_to(cluster, vote(1, position, pre_vote=True)).granted
    cluster.perform(1, cluster.node(1).resign(cluster.now_ms))
    cluster.deliver(next(e for e in cluster.wire if e.target == 2))  # the parked fetch: gone
    assert answer_to(cluster, vote(1, (1, 1), pre_vote=True)).granted


def test_a_voter_without_a_leader_grants_by_the_log() -> None:
    for position, granted in [((1, 0), False), ((0, 9), False), ((1, 1), True), ((1, 2), True)]:
        for pre_vote in (True, False):
            cluster = Cluster((1, 2, 3))
            cluster.hosts[2].log.append((LogEntry(0, 1, ("a",)),))
            cluster.hosts[2].log.sync()
            cluster.hosts[2].stored = QuorumState(7, -1, None)
            cluster.boot(2)
            assert answer_to(cluster, vote(7, position, pre_vote=pre_vote)).granted is granted


def test_a_voter_that_knows_the_leader_of_an_epoch_votes_for_nobody_in_it() -> None:
    cluster = elected()
    cluster.crash(1)
    cluster.isolate(2)
    cluster.run(2500)
    assert (cluster.node(2).role, cluster.node(2).leader_id) == ("prospective", 1)
    assert not answer_to(cluster, vote(1, (0, 9), pre_vote=False)).granted
    assert answer_to(cluster, vote(1, (1, 9), pre_vote=True)).granted


def test_malformed_and_misdirected_votes_are_refused_with_their_code() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.hosts[2].stored = QuorumState(7, -1, None)
    cluster.boot(2)
    cases = [
        (vote(6, (1, 1), pre_vote=False), Error.FENCED_LEADER_EPOCH),
        (vote(8, (8, 1), pre_vote=False), Error.INVALID_REQUEST),
        (vote(8, (9, 1), pre_vote=True), Error.INVALID_REQUEST),
        (vote(8, (1, -1), pre_vote=True), Error.INVALID_REQUEST),
        (vote(7, (1, 1), pre_vote=False)._replace(cluster_id="x"), Error.INCONSISTENT_CLUSTER_ID),
        (
            vote(7, (1, 1), pre_vote=False)._replace(voter=VoterKey(2, b"other")),
            Error.INVALID_VOTER_KEY,
        ),
    ]
    for request, error in cases:
        response = answer_to(cluster, request)
        assert (response.error, response.granted) == (error, False)
    assert cluster.node(2).epoch == 7, "a malformed request teaches no epoch"


def test_a_foreign_cluster_teaches_no_epoch() -> None:
    ours, theirs = Cluster((1, 2, 3)), Cluster((1, 2, 3))
    theirs.hosts[2].stored = QuorumState(50, 1, None)
    theirs.boot(2)
    ours.boot(1)
    request = vote(1, (0, 0), pre_vote=False, candidate=1)._replace(cluster_id="ours")
    (response,) = replies(theirs.node(2).on_message(1, request, 0))
    assert ours.node(1).on_message(2, response, 0) == []  # type: ignore[arg-type]
    assert ours.node(1).epoch == 0


# Fetches ----------------------------------------------------------------------------------


def test_fetches_are_answered_only_by_the_leader_of_exactly_that_epoch() -> None:
    cluster = elected()
    cluster.run(100)
    cases = [
        (1, fetch(2, 1, epoch=0, last_epoch=0), Error.FENCED_LEADER_EPOCH),
        (1, fetch(2, 1, epoch=2), Error.UNKNOWN_LEADER_EPOCH),
        (2, fetch(3, 1), Error.NOT_LEADER_OR_FOLLOWER),
        (1, fetch(2, -1), Error.INVALID_REQUEST),
        (1, fetch(2, 1, last_epoch=2), Error.INVALID_REQUEST),
        (1, fetch(2, 1)._replace(cluster_id="x"), Error.INCONSISTENT_CLUSTER_ID),
    ]
    for node_id, request, error in cases:
        (response,) = replies(cluster.node(node_id).on_message(9, request, cluster.now_ms))
        assert type(response) is FetchResponse
        assert response.error is error
    assert cluster.node(1).role == "leader"


def test_a_parked_fetch_is_answered_by_an_append_a_commit_or_the_end_of_its_wait() -> None:
    cluster = elected()
    cluster.run(100)
    node, now_ms = cluster.node(1), cluster.now_ms
    assert node.on_message(9, fetch(9, 1, high_watermark=1), now_ms) == []
    cluster.append(1, "a")
    to_nine = [e.message for _, _, e in cluster.effects if type(e) is Send and e.target == 9]
    assert [e.records for e in to_nine[-1].entries] == [("a",)]  # type: ignore[union-attr]

    cluster.wire = [e for e in cluster.wire if e.target == 1]  # the voters hear nothing yet
    assert node.on_message(9, fetch(9, 2, high_watermark=1), now_ms) == []
    effects = node.on_message(2, fetch(2, 2, high_watermark=1), now_ms)
    assert CommitAdvanced(2) in effects
    news = {e.target: e.message.high_watermark for e in effects if type(e) is Send}  # type: ignore[union-attr]
    assert news == {9: 2, 2: 2}

    assert node.on_message(9, fetch(9, 2, high_watermark=2), now_ms) == []
    assert node.next_deadline_ms <= now_ms + 500
    (response,) = [e for e in node.tick(now_ms + 500) if type(e) is Send and e.target == 9]
    assert response.message.entries == ()  # type: ignore[union-attr]


def test_copies_of_a_fetch_are_answered_once() -> None:
    cluster = elected()
    cluster.run(100)
    node = cluster.node(1)
    for _ in range(5):
        assert node.on_message(9, fetch(9, 1, high_watermark=1), cluster.now_ms) == []
    _, effects = node.append(("a",), cluster.now_ms)
    assert sum(type(e) is Send and e.target == 9 for e in effects) == 1


def test_a_late_fetch_does_not_take_back_an_acknowledgement() -> None:
    cluster = elected()
    cluster.append(1, "a")
    cluster.settle()
    node = cluster.node(1)
    node.on_message(2, fetch(2, 1), cluster.now_ms)
    node.on_message(3, fetch(3, 1), cluster.now_ms)
    cluster.slow_disks.append(3)
    cluster.append(1, "b")
    cluster.settle()  # 2 acknowledges offset 3, and then its old fetches arrive once more
    assert node.high_watermark == 3
    node.on_message(2, fetch(2, 1), cluster.now_ms)
    ends = replies(node.resign(cluster.now_ms))
    assert EndEpochRequest(CLUSTER_ID, 1, 1, (2, 3)) in ends, "2 is still the most caught up"


def test_a_follower_does_not_fetch_again_before_its_log_is_durable() -> None:
    cluster = elected()
    cluster.slow_disks.append(2)
    cluster.append(1, "a")
    cluster.settle()
    asked = len(cluster.sent(FetchRequest, source=2))
    cluster.run(1500)
    assert len(cluster.sent(FetchRequest, source=2)) == asked
    cluster.sync(2)
    cluster.settle()
    assert cluster.sent(FetchRequest, source=2)[asked].fetch_offset == 2  # type: ignore[union-attr]


def test_a_late_copy_of_a_diverging_answer_does_not_cut_a_reconciled_log() -> None:
    """2 reconciled from (offset 2, epoch 1) and is at offset 2 again, now in epoch 2."""
    cluster = Cluster((1, 2, 3))
    host = cluster.hosts[2]
    host.log.append((LogEntry(0, 1, ("a",)), LogEntry(1, 1, ("wrong",))))
    host.log.sync()
    host.stored = QuorumState(2, 1, None)
    node = host.boot(0)
    cluster.perform(2, node.tick(0))
    diverging = FetchResponse(
        Error.NONE, 2, 1, 2, -1, diverging=EpochEnd(1, 1), last_fetched_epoch=1
    )
    effects = node.on_message(1, diverging, 1)
    assert TruncateTo(1) in effects
    cluster.perform(2, effects)
    data = FetchResponse(
        Error.NONE, 2, 1, 1, 2, (LogEntry(1, 2, ("right",)),), last_fetched_epoch=1
    )
    cluster.perform(2, node.on_message(1, data, 2))
    cluster.perform(2, node.on_durable(2))
    assert cluster.log_of(2) == [("a", 1), ("right", 2)]
    assert node.on_message(1, diverging, 3) == []


def test_a_follower_would_rather_stop_than_cut_below_its_high_watermark() -> None:
    cluster = elected()
    cluster.append(1, "a")
    cluster.settle()
    cluster.run(100)
    node = cluster.node(2)
    assert node.high_watermark == 2
    wrong = FetchResponse(Error.NONE, 1, 1, 2, -1, diverging=EpochEnd(0, 0), last_fetched_epoch=1)
    with pytest.raises(QuorumLostLog, match="everything below 2 is committed"):
        node.on_message(1, wrong, cluster.now_ms)


def test_two_leaders_in_one_epoch_are_fatal() -> None:
    cluster = elected()
    with pytest.raises(QuorumLostLog, match=r"epoch 1 .* has two leaders, nodes 1 and 3"):
        cluster.node(2).on_message(3, BeginEpochRequest(CLUSTER_ID, 1, 3), cluster.now_ms)


def test_snapshot_requests_that_cannot_be_served_are_refused_with_their_code() -> None:
    cluster = elected()
    cluster.append(1, "a")
    cluster.settle()
    snapshot = cluster.hosts[1].take_snapshot()
    request = FetchSnapshotRequest(CLUSTER_ID, 1, key_of(2), snapshot, 0, 10)
    cases = [
        (request, Error.NONE),
        (request._replace(position=1), Error.POSITION_OUT_OF_RANGE),
        (request._replace(position=-1), Error.POSITION_OUT_OF_RANGE),
        (request._replace(snapshot=SnapshotId(1, 1)), Error.SNAPSHOT_NOT_FOUND),
        (request._replace(epoch=0), Error.FENCED_LEADER_EPOCH),
    ]
    for asked, error in cases:
        (response,) = replies(cluster.node(1).on_message(2, asked, cluster.now_ms))
        assert type(response) is FetchSnapshotResponse
        assert response.error is error


def test_an_observer_finds_the_new_leader_by_asking_around() -> None:
    cluster = elected(observers=(9,))
    cluster.run(500)
    cluster.crash(1)
    cluster.run(9000)
    leader = cluster.leader()
    assert cluster.node(9).leader_id == leader
    assert cluster.sent(VoteRequest, source=9) == []
    cluster.append(leader, "a")
    cluster.settle()
    assert cluster.hosts[9].applied == ["a"], "known without waiting for a timer"


def test_an_append_is_one_entry_and_asks_nobody_to_wait() -> None:
    cluster = elected()
    offset, effects = cluster.node(1).append(("a", "b", "c"), cluster.now_ms)
    assert offset == 1
    assert effects[0] == AppendEntries((LogEntry(1, 1, ("a", "b", "c")),))
    assert {e.target for e in effects[1:] if type(e) is Send} == {2, 3}
