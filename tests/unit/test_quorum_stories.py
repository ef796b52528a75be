"""Named stories of kraft.md §12, told with exact numbers.

Node n draws election timeouts of 1000 + 100·n ms, so node 1 campaigns at 1100 ms.
"""

import pytest

from support.quorum_cluster import CLUSTER_ID, Cluster, ListLog, key_of
from tidelog.core.errors import Error
from tidelog.core.events import QuorumLeaderElected
from tidelog.core.quorum.effects import CommitAdvanced, LeadershipLost, PersistState, Send
from tidelog.core.quorum.messages import (
    EndEpochRequest,
    FetchResponse,
    FetchSnapshotRequest,
    SnapshotId,
    VoteRequest,
    VoteResponse,
)
from tidelog.core.quorum.state import QuorumState
from tidelog.core.types import LogEntry


def elected(voter_ids: tuple[int, ...] = (1, 2, 3), **options: object) -> Cluster:
    """A cluster led by node 1 in epoch 1, its LeaderChange record at offset 0 committed."""
    cluster = Cluster(voter_ids, **options)  # type: ignore[arg-type]
    cluster.boot()
    cluster.run(1100)
    assert cluster.leader() == 1
    return cluster


def write_log(cluster: Cluster, node_id: int, *records: str, epoch: int) -> None:
    """Fill a disk before its machine starts: "x/2" is record x of epoch 2."""
    host = cluster.hosts[node_id]
    for record in records:
        value, _, record_epoch = record.partition("/")
        entry = LogEntry(host.log.log_end_offset, int(record_epoch), (value,))
        host.log.append((entry,))
    host.log.sync()
    host.stored = QuorumState(epoch, -1, None)


def ask_vote(epoch: int, candidate: int, voter: int, position: tuple[int, int]) -> VoteRequest:
    last_epoch, last_offset = position
    return VoteRequest(
        CLUSTER_ID, epoch, key_of(candidate), key_of(voter), last_epoch, last_offset, False
    )


def grants(effects: list[object]) -> list[bool]:
    return [
        effect.message.granted
        for effect in effects
        if type(effect) is Send and type(effect.message) is VoteResponse
    ]


# k01 --------------------------------------------------------------------------------------


def test_k01_vote_survives_crash_after_fsync() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.boot(2)
    effects = cluster.node(2).on_message(1, ask_vote(5, 1, 2, (0, 0)), 10)
    kinds = [type(effect) for effect in effects]
    assert grants(effects) == [True]
    assert kinds.index(PersistState) < kinds.index(Send), "stored before it is said"
    cluster.perform(2, effects)
    assert cluster.hosts[2].stored == QuorumState(5, -1, key_of(1))

    cluster.crash(2)
    cluster.boot(2)
    assert cluster.node(2).role == "unattached"
    assert grants(cluster.node(2).on_message(3, ask_vote(5, 3, 2, (4, 9)), 20)) == [False]
    assert grants(cluster.node(2).on_message(1, ask_vote(5, 1, 2, (0, 0)), 30)) == [True]


def test_k01_vote_that_was_not_stored_was_never_said() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.boot(2)
    effects = cluster.node(2).on_message(1, ask_vote(5, 1, 2, (0, 0)), 10)
    before_fsync = effects[: [type(effect) for effect in effects].index(PersistState)]
    assert grants(before_fsync) == []
    cluster.perform(2, before_fsync)
    cluster.crash(2)
    cluster.boot(2)
    assert grants(cluster.node(2).on_message(3, ask_vote(5, 3, 2, (0, 0)), 20)) == [True]


def test_k01_candidate_claims_only_what_a_crash_leaves_it() -> None:
    """2 holds x only in memory. If 3 voted for 2 because of it, 2 could crash, forget x, come
    back as the same candidate with 3's vote and lead without the committed x."""
    cluster = elected()
    cluster.slow_disks.append(2)
    cluster.append(1, "x")
    cluster.settle()
    assert cluster.node(1).high_watermark == 2, "1 and 3 hold x durably"
    assert cluster.log_of(2) == [("x", 1)]

    cluster.crash(1)
    cluster.run(12_000)
    claims = [r for r in cluster.sent(VoteRequest, source=2) if r.epoch == 1]
    assert {(r.last_epoch, r.last_offset) for r in claims} == {(1, 1)}, "x is left out"
    winners = [e.node for _, _, e in cluster.effects if type(e) is QuorumLeaderElected]
    assert winners[:2] == [1, 3]
    assert 2 not in winners


# k02 --------------------------------------------------------------------------------------


def test_k02_entry_of_an_older_epoch_on_a_majority_is_not_committed() -> None:
    cluster = Cluster((1, 2, 3, 4, 5), max_entries=1)
    write_log(cluster, 1, "a/1", "x/2", epoch=3)
    write_log(cluster, 2, "a/1", "x/2", epoch=3)
    write_log(cluster, 3, "a/1", epoch=3)
    write_log(cluster, 4, "a/1", epoch=3)
    write_log(cluster, 5, "a/1", "y/3", epoch=3)
    cluster.boot(1, 2, 3)
    cluster.now_ms = 1100
    cluster.tick(1)
    while cluster.wire:  # everything arrives except the entry of epoch 4
        envelope = cluster.wire.pop(0)
        message = envelope.message
        new = type(message) is FetchResponse and message.entries and message.entries[0].epoch == 4
        if not new:
            cluster.deliver(envelope)
    assert (cluster.leader(), cluster.node(1).epoch) == (1, 4)
    assert [cluster.log_of(n) for n in (1, 2, 3)] == [[("a", 1), ("x", 2)]] * 3
    assert cluster.node(1).high_watermark == -1, "x is on three of five, and still not safe"

    cluster.crash(1)
    cluster.isolate(2)
    cluster.boot(4, 5)
    cluster.run(10_000)
    assert cluster.leader() == 5
    assert cluster.log_of(3) == [("a", 1), ("y", 3)], "x is gone"
    assert cluster.hosts[3].applied == ["a", "y"]
    first_commit = next(e for _, _, e in cluster.effects if type(e) is CommitAdvanced)
    assert first_commit == CommitAdvanced(3), "nothing was exposed before 5's own epoch"


# k03 --------------------------------------------------------------------------------------


def test_k03_voter_that_was_isolated_returns_without_disturbing() -> None:
    cluster = elected()
    cluster.isolate(3)
    cluster.run(60_000)
    assert cluster.node(3).role in ("prospective", "follower")
    assert cluster.node(3).epoch == 1, "it asked, and never raised the epoch"

    cluster.heal()
    cluster.append(1, "while away")
    cluster.run(4000)
    assert (cluster.leader(), cluster.node(1).epoch, cluster.node(3).epoch) == (1, 1, 1)
    assert all(request.pre_vote for request in cluster.sent(VoteRequest, source=3))
    assert cluster.hosts[3].applied == ["while away"]


# k04 --------------------------------------------------------------------------------------


def test_k04_leader_cut_off_with_one_of_five_resigns_in_three_seconds() -> None:
    cluster = elected((1, 2, 3, 4, 5))
    cluster.run(900)
    cluster.isolate(1, 2)
    cut_ms = cluster.now_ms
    cluster.append(1, "in flight")
    cluster.run(3000)
    assert cluster.node(1).role != "leader"
    lost_ms = [t for t, n, e in cluster.effects if n == 1 and type(e) is LeadershipLost]
    assert len(lost_ms) == 1
    assert cut_ms < lost_ms[0] <= cut_ms + 3000
    cluster.run(5000)
    leader = cluster.leader()
    assert leader in (3, 4, 5)

    cluster.append(leader, "after")
    cluster.heal()
    cluster.run(5000)
    for node_id in (1, 2, 3, 4, 5):
        assert cluster.hosts[node_id].applied == ["after"], "the write in flight is gone"


def test_a_healthy_leader_in_the_majority_keeps_leading() -> None:
    cluster = elected((1, 2, 3, 4, 5))
    cluster.isolate(4, 5)
    cluster.run(30_000)
    assert (cluster.leader(), cluster.node(1).epoch) == (1, 1)


# k05 --------------------------------------------------------------------------------------


def test_k05_restarted_leader_does_not_lead_its_epoch_again() -> None:
    cluster = elected()
    cluster.slow_disks.append(1)
    cluster.isolate(1)
    assert cluster.append(1, "lost") == 1
    cluster.crash(1, kept_offset=0)
    cluster.heal()
    cluster.slow_disks.clear()
    assert cluster.hosts[1].stored == QuorumState(1, 1, key_of(1))

    cluster.boot(1)
    assert (cluster.node(1).role, cluster.node(1).epoch) == ("resigned", 1)
    cluster.run(0)
    assert (cluster.leader(), cluster.node(2).epoch) == (2, 2), "first on the list, at once"
    cluster.append(2, "kept")
    cluster.run(1000)
    assert cluster.log_of(1) == [("kept", 2)], "(offset 1, epoch 1) was never written again"


def test_k05_unflushed_tail_that_reached_a_follower_is_reconciled() -> None:
    cluster = elected()
    cluster.slow_disks.append(1)
    cluster.isolate(1)
    cluster.append(1, "old")
    cluster.crash(1, kept_offset=2)  # the tail happened to survive
    cluster.run(6000)
    cluster.append(cluster.leader(), "new")
    cluster.heal()
    cluster.slow_disks.clear()
    cluster.boot(1)
    cluster.run(3000)
    assert cluster.log_of(1) == cluster.log_of(2) == cluster.log_of(3)
    assert [value for value, _ in cluster.log_of(1)] == ["new"]


# k06 --------------------------------------------------------------------------------------


def test_k06_resigning_leader_hands_over_to_the_most_caught_up_voter_at_once() -> None:
    cluster = elected()
    cluster.isolate(2)
    cluster.append(1, "only on 1 and 3")
    cluster.settle()
    cluster.heal()
    stop_ms = cluster.now_ms
    cluster.perform(1, cluster.node(1).shutdown(stop_ms))
    cluster.run(0)
    ends = cluster.sent(EndEpochRequest)
    assert [end.preferred_candidates for end in ends] == [(3, 2), (3, 2)]
    assert (cluster.leader(), cluster.node(3).epoch) == (3, 2)
    assert cluster.now_ms == stop_ms, "nobody waited for a fetch timeout"
    assert cluster.hosts[2].applied == ["only on 1 and 3"]


def test_k06_second_on_the_list_takes_over_when_the_first_is_gone() -> None:
    cluster = elected()
    cluster.crash(2)
    cluster.perform(1, cluster.node(1).shutdown(cluster.now_ms))
    cluster.run(499)
    assert cluster.node(3).role == "follower"
    cluster.run(1)
    assert cluster.leader() == 3, "half of the longest backoff, 500 ms"


def test_a_stopping_node_never_campaigns_but_still_votes() -> None:
    cluster = elected()
    cluster.perform(2, cluster.node(2).shutdown(cluster.now_ms))
    cluster.crash(1)
    cluster.run(8000)
    assert (cluster.leader(), cluster.node(2).role) == (3, "follower")
    assert cluster.sent(VoteRequest, source=2) == []


# k07 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("old_log", [(), ("a/1",), ("a/1", "p/1", "q/1", "r/1", "s/1", "t/1")])
def test_k07_crash_between_storing_a_snapshot_and_cutting_the_log(old_log: tuple[str]) -> None:
    """The old log is empty, shorter than the snapshot, or longer and of another history."""
    cluster = Cluster((1, 2, 3))
    for node_id in (1, 2):
        write_log(cluster, node_id, "a/1", "b/2", "c/2", epoch=2)
    write_log(cluster, 3, *old_log, epoch=2)
    cluster.boot(1, 2)
    cluster.run(2000)
    snapshot = cluster.hosts[1].take_snapshot()
    assert snapshot == SnapshotId(4, 3)

    disk = cluster.hosts[3].log
    disk.store_snapshot(snapshot, cluster.hosts[1].log.snapshots[snapshot])
    cluster.boot(3)
    assert (disk.log_start_offset, disk.log_end_offset) == (4, 4)
    assert cluster.hosts[3].applied == ["a", "b", "c"]
    assert cluster.node(3).high_watermark == 4
    cluster.append(1, "d")
    cluster.run(2000)
    assert cluster.hosts[3].applied == cluster.hosts[1].applied == ["a", "b", "c", "d"]


# k08 --------------------------------------------------------------------------------------


def test_k08_fresh_observer_loads_the_snapshot_and_then_the_tail() -> None:
    cluster = elected(snapshot_chunk_bytes=2)
    for value in "abcde":
        cluster.append(1, value)
    cluster.settle()
    assert cluster.hosts[1].take_snapshot() == SnapshotId(6, 1)
    cluster.append(1, "tail")
    cluster.settle()
    assert cluster.hosts[1].log.log_start_offset == 6

    cluster.add_host(9)
    cluster.boot(9)
    cluster.run(100)
    asked = cluster.sent(FetchSnapshotRequest, source=9)
    assert [request.position for request in asked] == [0, 2, 4]
    assert cluster.hosts[9].applied == ["a", "b", "c", "d", "e", "tail"]
    assert (cluster.node(9).role, cluster.node(9).high_watermark) == ("follower", 7)


def test_k08_snapshot_that_vanishes_half_way_is_replaced_by_the_newer_one() -> None:
    cluster = elected(snapshot_chunk_bytes=1)
    cluster.append(1, "a", "b")
    cluster.settle()
    first = cluster.hosts[1].take_snapshot()
    cluster.add_host(9)
    cluster.boot(9)
    while not cluster.sent(FetchSnapshotRequest, source=9):
        cluster.deliver(cluster.wire.pop(0))
    cluster.append(1, "c")
    while cluster.node(1).high_watermark < 4:
        keep = [e for e in cluster.wire if 9 in (e.source, e.target)]
        other = [e for e in cluster.wire if e not in keep]
        cluster.wire = other[1:] + keep
        cluster.deliver(other[0])
    second = cluster.hosts[1].take_snapshot()
    assert (first, second) == (SnapshotId(3, 1), SnapshotId(4, 1))
    cluster.run(1000)
    assert cluster.hosts[9].log.latest_snapshot == second
    assert cluster.hosts[9].applied == ["a", "b", "c"]


# k15 --------------------------------------------------------------------------------------


def test_k15_uncommitted_voter_record_is_reverted_everywhere() -> None:
    cluster = elected(observers=(4,))
    cluster.run(1000)
    old = (key_of(1), key_of(2), key_of(3))
    cluster.isolate(1, 4)
    error, effects = cluster.node(1).add_voter(key_of(4), cluster.now_ms)
    assert error is Error.NONE
    cluster.perform(1, effects)
    cluster.settle()
    assert cluster.node(1).voters == cluster.node(4).voters == (*old, key_of(4))
    assert cluster.node(4).is_voter
    assert cluster.node(1).high_watermark == 1, "two of four are no majority"

    cluster.run(6000)
    leader = cluster.leader()
    assert leader in (2, 3)
    cluster.heal()
    cluster.append(leader, "x")
    cluster.run(6000)
    assert cluster.leader() == leader
    assert [cluster.node(n).voters for n in (1, 2, 3, 4)] == [old] * 4
    assert not cluster.node(4).is_voter
    assert cluster.hosts[4].applied == ["x"]


def test_a_voter_is_added_and_counts_from_its_record_on() -> None:
    cluster = elected((1,), observers=(2,))
    error, effects = cluster.node(1).add_voter(key_of(2), cluster.now_ms)
    cluster.perform(1, effects)
    cluster.settle()
    assert error is Error.NONE
    assert cluster.node(2).voters == (key_of(1), key_of(2))
    assert cluster.node(1).high_watermark == 2

    cluster.crash(2)
    cluster.append(1, "needs both")
    cluster.settle()
    assert cluster.node(1).high_watermark == 2
    cluster.boot(2)
    assert cluster.node(2).voters == (key_of(1), key_of(2)), "found in the log again"
    cluster.run(3000)
    assert cluster.node(cluster.leader()).high_watermark >= 3


def test_voter_changes_are_refused_with_a_reason() -> None:
    cluster = elected(observers=(4, 5))
    cluster.run(500)
    now_ms = cluster.now_ms
    leader = cluster.node(1)
    assert cluster.node(2).add_voter(key_of(4), now_ms)[0] is Error.NOT_LEADER_OR_FOLLOWER
    assert leader.add_voter(key_of(2), now_ms)[0] is Error.DUPLICATE_VOTER
    assert leader.add_voter(key_of(8), now_ms)[0] is Error.REQUEST_TIMED_OUT, "never fetched"
    assert leader.remove_voter(key_of(4), now_ms)[0] is Error.VOTER_NOT_FOUND
    cluster.perform(1, leader.add_voter(key_of(4), now_ms)[1])
    error, effects = leader.add_voter(key_of(5), now_ms)
    assert (error, effects) == (Error.REQUEST_TIMED_OUT, []), "one change at a time"
    cluster.settle()
    assert leader.add_voter(key_of(5), now_ms)[0] is Error.NONE


def test_a_leader_that_removes_itself_leads_until_that_is_committed() -> None:
    cluster = elected()
    error, effects = cluster.node(1).remove_voter(key_of(1), cluster.now_ms)
    assert error is Error.NONE
    cluster.perform(1, effects)
    assert cluster.node(1).role == "leader"
    cluster.run(0)
    assert cluster.node(1).role == "resigned"
    cluster.run(3000)
    assert cluster.leader() == 2
    assert cluster.node(2).voters == (key_of(2), key_of(3))
    assert cluster.node(1).role == "follower"
    assert not cluster.node(1).is_voter


def test_a_removal_only_the_removed_leader_holds_does_not_block_the_quorum() -> None:
    """1 refuses votes by its log and, outside its own voter set, would not campaign either."""
    cluster = elected((1, 2))
    cluster.isolate(1)
    cluster.perform(1, cluster.node(1).remove_voter(key_of(1), cluster.now_ms)[1])
    cluster.settle()
    cluster.crash(1)
    cluster.heal()
    cluster.boot(1)
    cluster.run(10_000)
    assert cluster.leader() == 2
    assert cluster.node(2).voters == (key_of(2),), "1 won once more, committed it and left"


def test_a_snapshot_carries_the_voters() -> None:
    cluster = elected((1,), observers=(2, 3))
    cluster.perform(1, cluster.node(1).add_voter(key_of(2), cluster.now_ms)[1])
    cluster.append(1, "a")
    cluster.settle()
    cluster.hosts[1].take_snapshot()
    cluster.crash(3)
    cluster.hosts[3].log = ListLog()  # a new disk
    cluster.boot(3)
    cluster.run(500)
    assert cluster.node(3).voters == (key_of(1), key_of(2))
    cluster.crash(1)
    cluster.boot(1)
    assert cluster.node(1).voters == (key_of(1), key_of(2))
