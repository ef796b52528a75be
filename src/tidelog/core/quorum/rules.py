"""The rules of the quorum, one small pure function each.

Nothing here keeps state. The roles call these through the module, so that a test can break
exactly one rule and see which check notices.
"""

from tidelog.core.quorum.log_view import QuorumLogView
from tidelog.core.quorum.messages import FetchRequest, SnapshotId, VoteRequest
from tidelog.core.quorum.state import NEVER_MS
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.types import EpochEnd

# Elections (kraft.md §2.1) ---------------------------------------------------------------


def majority(voter_count: int) -> int:
    return voter_count // 2 + 1


def up_to_date(candidate: tuple[int, int], local: tuple[int, int]) -> bool:
    """Positions are (last epoch, end offset): a voter helps nobody who knows less than it."""
    return candidate >= local


def vote_is_malformed(request: VoteRequest) -> bool:
    """A candidate raised its epoch above its log's; one that only asks has not yet."""
    if request.last_offset < 0 or request.last_epoch < 0:
        return True
    if request.pre_vote:
        return request.last_epoch > request.epoch
    return request.last_epoch >= request.epoch


def handover_delay_ms(position: int, candidate_count: int, max_ms: int) -> int:
    """How long the voter at `position` of the resigned leader's list waits (-1: not on it).

    The most caught-up voter starts at once, each later one waits twice as long (§2.2).
    """
    assert position < candidate_count, f"position {position} of {candidate_count}"
    if position == 0:
        return 0
    if position < 0:
        return max_ms
    return min(max_ms, (max_ms >> (candidate_count - 1)) << (position - 1))


def campaign_delay_ms(voters_before: int, stagger_ms: int) -> int:
    """How long a voter waits that found the leader gone, while others may have found it too."""
    assert voters_before >= 0, voters_before
    return voters_before * stagger_ms


# What is committed stays (ADR 0033) ------------------------------------------------------


def keeps_committed(offset: int, committed_offset: int) -> bool:
    """Does a log that shares ours up to `offset` have everything that we know to be committed?
    The log of an elected leader always does, unless most voters have lost theirs."""
    assert offset >= 0, f"shares {offset}, committed {committed_offset}"
    return offset >= committed_offset


def snapshot_keeps_committed(snapshot: SnapshotId, committed: SnapshotId) -> bool:
    """Entries have epochs that never fall, so what ends in an older epoch is another log."""
    ends_later = keeps_committed(snapshot.end_offset, committed.end_offset)
    return ends_later and snapshot.epoch >= committed.epoch


# Leadership (§1.3, §2.5) -----------------------------------------------------------------


def majority_offset(log_end_offsets: list[int]) -> int:
    """The highest offset that more than half of the voters have reached."""
    assert log_end_offsets, "no voters"
    return sorted(log_end_offsets, reverse=True)[len(log_end_offsets) // 2]


def own_epoch_covered(offset: int, epoch_start_offset: int) -> bool:
    """An older epoch's entry on a majority may still be erased; it is committed only when an
    entry of the leader's own epoch above it is on a majority too."""
    return offset > epoch_start_offset


def check_quorum_deadline_ms(
    last_contacts_ms: list[int], needed_voters: int, fetch_timeout_ms: int
) -> int:
    """Until when a leader may believe that it still has a majority.

    1.5 fetch timeouts after the oldest of the contacts it needs; a sole voter needs none.
    Kafka restarts a timer when enough voters have been heard since the last restart, which
    lets one old contact count twice; a window that slides keeps the promise exactly.
    """
    if needed_voters == 0:
        return NEVER_MS
    assert needed_voters <= len(last_contacts_ms), f"{needed_voters} of {last_contacts_ms}"
    oldest_ms = sorted(last_contacts_ms, reverse=True)[needed_voters - 1]
    return oldest_ms + fetch_timeout_ms * 3 // 2


def may_park(fetch: FetchRequest, leader_high_watermark: int) -> bool:
    """Nothing to send: wait, unless the follower does not know the high watermark (KIP-1166)."""
    return fetch.max_wait_ms > 0 and fetch.high_watermark >= leader_high_watermark


# Logs (§2.3, §9) -------------------------------------------------------------------------


def needs_snapshot(log: QuorumLogView, fetch_offset: int, last_fetched_epoch: int) -> bool:
    """Can the log itself not serve this position any more?"""
    oldest = log.oldest_snapshot
    if oldest is None:
        assert log.log_start_offset == 0, f"log starts at {log.log_start_offset}, no snapshot"
        return False
    latest = log.latest_snapshot
    assert latest is not None, f"oldest snapshot {oldest}, but no latest"
    if fetch_offset == 0:
        return latest.end_offset > 0  # 0-0 is the bootstrap, never sent
    log_start_offset = log.log_start_offset
    if fetch_offset < log_start_offset or last_fetched_epoch < oldest.epoch:
        return True
    if fetch_offset > log_start_offset:
        return False
    # Nothing before the log start is left to compare with but the snapshot that ends there.
    at_start = oldest if oldest.end_offset == log_start_offset else latest
    return at_start != (fetch_offset, last_fetched_epoch)


def diverging_epoch(
    epochs: EpochHistory, fetch_offset: int, last_fetched_epoch: int, log_end_offset: int
) -> EpochEnd | None:
    """Where the leader's copy of that epoch ends, if the follower's goes on differently."""
    entries = epochs.entries
    if entries and entries[-1][0] == last_fetched_epoch and fetch_offset <= log_end_offset:
        return None  # nearly always: the follower's last entry is of the current leader
    shared = epochs.end_offset_for(last_fetched_epoch, log_end_offset)
    if shared.leader_epoch == last_fetched_epoch and shared.end_offset >= fetch_offset:
        return None
    return shared


def truncation_offset(epochs: EpochHistory, diverging: EpochEnd, log_end_offset: int) -> int:
    """How far a follower cuts: to the end of the newest epoch both can have in common."""
    own = epochs.end_offset_for(diverging.leader_epoch, log_end_offset)
    if own.leader_epoch == diverging.leader_epoch:
        return min(own.end_offset, diverging.end_offset, log_end_offset)
    if own.end_offset < 0:
        return min(diverging.end_offset, log_end_offset)
    return min(own.end_offset, log_end_offset)


def snapshot_allowed(snapshot: SnapshotId, high_watermark: int, log: QuorumLogView) -> bool:
    """May a snapshot with this id be taken? Only of committed state, named by the log, newer
    than the newest one (§9)."""
    end_offset = snapshot.end_offset
    if end_offset <= 0 or end_offset > high_watermark or end_offset > log.log_end_offset:
        return False
    latest = log.latest_snapshot
    if latest is not None and end_offset <= latest.end_offset:
        return False
    return log.epochs.epoch_at(end_offset - 1) == snapshot.epoch


def snapshot_replaces_log(
    snapshot: SnapshotId | None, log_start_offset: int, log_end_offset: int, epochs: EpochHistory
) -> bool:
    """At start-up: did a crash come between storing a received snapshot and cutting the log?

    Then the log must be dropped and started at the snapshot's end: it is shorter than the
    snapshot, or it holds another history than the one the snapshot was taken of.
    """
    if snapshot is None or snapshot.end_offset <= log_start_offset:
        return False
    if snapshot.end_offset > log_end_offset:
        return True
    return epochs.epoch_at(snapshot.end_offset - 1) != snapshot.epoch
