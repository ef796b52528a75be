"""What a quorum node is in every role: its stored promise, its settings, its identity."""

from dataclasses import dataclass
from typing import NamedTuple

from tidelog.core.quorum.log_view import QuorumLogView
from tidelog.core.quorum.messages import SnapshotId, VoterKey
from tidelog.core.quorum.voters import VoterHistory
from tidelog.core.types import NO_LEADER, NO_OFFSET

NEVER_MS = 1 << 62
"""A deadline that is not set."""


class QuorumState(NamedTuple):
    """The promise a node keeps across crashes (the `quorum-state` file)."""

    epoch: int
    leader_id: int
    voted: VoterKey | None


@dataclass(slots=True)
class QuorumSettings:
    """Defaults of kraft.md §1.3. Sizes of snapshot chunks are in units of the content."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    fetch_max_wait_ms: int = 500
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    campaign_stagger_ms: int = 50
    """Enough for two round trips and a sync of every voter, within a data centre."""
    max_entries: int = 500
    snapshot_chunk_bytes: int = 1 << 20
    probe_interval_ms: int = 100
    observer_session_ms: int = 300_000
    caught_up_window_ms: int = 3_600_000

    @property
    def fetch_retry_ms(self) -> int:
        """When to repeat an unanswered fetch: never before the leader's wait is over, or each
        repetition would be parked anew and none answered; and early enough that one lost
        message does not cost an election."""
        return self.fetch_max_wait_ms + min(self.request_timeout_ms, self.fetch_timeout_ms // 4)

    @property
    def begin_epoch_period_ms(self) -> int:
        return max(1, self.fetch_timeout_ms // 2)


class QuorumLostLog(Exception):  # noqa: N818 - it says what happened
    """The elected leader's log lacks what this node knows to be committed: most voters have lost
    theirs. Whoever follows it throws away the last copy (ADR 0033)."""


class Member:
    """One node's share in the quorum, kept while its roles come and go.

    `high_watermark` is the highest offset this node ever knew to be committed; commitment is
    for good, so it never falls. What a *new leader* may tell others is in its role.
    """

    __slots__ = (
        "_committed_before",
        "cluster_id",
        "epoch",
        "high_watermark",
        "is_voter",
        "key",
        "leader_id",
        "log",
        "node_id",
        "other_voters",
        "settings",
        "voted",
        "voters",
    )

    def __init__(
        self,
        key: VoterKey,
        cluster_id: str,
        log: QuorumLogView,
        settings: QuorumSettings,
        voters: VoterHistory,
        *,
        committed_before: int = NO_OFFSET,
    ) -> None:
        """`committed_before`: what an earlier life of this node knew to be committed, and had. It
        is not told to anybody as a high watermark; it only must not be cut away."""
        self._committed_before = committed_before
        self.key = key
        self.node_id = key.node_id
        self.cluster_id = cluster_id
        self.log = log
        self.settings = settings
        self.voters = voters
        self.epoch = 0
        self.leader_id = NO_LEADER
        self.voted: VoterKey | None = None
        snapshot = log.latest_snapshot
        self.high_watermark = NO_OFFSET if snapshot is None else snapshot.end_offset
        self.is_voter = False
        self.other_voters: tuple[VoterKey, ...] = ()
        self.adopt_voters()

    def adopt_voters(self) -> None:
        """Recompute what depends on the voter set in force."""
        current = self.voters.current
        self.is_voter = self.key in current
        self.other_voters = tuple(voter for voter in current if voter != self.key)
        assert current, "a quorum needs at least one voter"

    @property
    def may_campaign(self) -> bool:
        """A voter; or one whose removal it does not know to be committed: it may be the only
        node that holds the record, and nobody with less could win. It counts no own vote."""
        if self.is_voter:
            return True
        undecided = self.voters.last_offset >= self.high_watermark
        return undecided and self.key in self.voters.previous

    @property
    def is_sole_voter(self) -> bool:
        return self.is_voter and not self.other_voters

    @property
    def state(self) -> QuorumState:
        return QuorumState(self.epoch, self.leader_id, self.voted)

    def durable_position(self) -> tuple[int, int]:
        """(epoch, end offset) of the log as it would be after a crash.

        Votes are asked for and granted by this position: a candidate that counted entries
        it may still lose could win, crash, come back as the same candidate and lead without
        them. Entries that are not durable here were never acknowledged by this node, so
        leaving them out cannot lose a committed one.
        """
        log = self.log
        durable_offset = log.durable_offset
        if durable_offset >= log.log_end_offset:
            return max(0, log.last_epoch), log.log_end_offset
        snapshot = log.latest_snapshot
        if snapshot is not None and snapshot.end_offset > durable_offset:
            return snapshot.epoch, snapshot.end_offset  # start-up would begin there (§9)
        return self.epoch_before(durable_offset), durable_offset

    def epoch_before(self, offset: int) -> int:
        """Epoch of the entry that ends at `offset`; 0 at the very beginning, as in Kafka."""
        log = self.log
        if offset <= 0:
            return 0
        for snapshot in (log.latest_snapshot, log.oldest_snapshot):
            if snapshot is not None and snapshot.end_offset == offset:
                return snapshot.epoch
        epoch = log.epochs.epoch_at(offset - 1)
        assert epoch >= 0, f"no epoch before offset {offset}, log start {log.log_start_offset}"
        return epoch

    @property
    def committed(self) -> SnapshotId:
        """The end of what this node knows to be committed, now or in an earlier life."""
        log_end_offset = self.log.log_end_offset
        known = max(self.high_watermark, min(self._committed_before, log_end_offset))
        assert known <= log_end_offset, f"{known} is committed, the log ends at {log_end_offset}"
        return SnapshotId(known, self.epoch_before(known))

    def raise_high_watermark(self, offset: int) -> bool:
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True
