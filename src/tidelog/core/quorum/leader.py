"""Leading an epoch: who has which offset, what is committed, who is waiting.

Followers pull. A fetch is an acknowledgement of everything below its offset, a sign of life
for check-quorum, and a request that may be parked. Every parked fetch stands at the log end,
so the next append is its answer; a moved high watermark is news to all of them as well.

A new leader does not know its high watermark: `high_watermark` starts at -1 and is exposed
only when an entry of its own epoch is on a majority (kraft.md §2.5).
"""

from typing import ClassVar, NamedTuple

from tidelog.core.errors import Error
from tidelog.core.quorum import rules
from tidelog.core.quorum.effects import (
    AppendEntries,
    CommitAdvanced,
    Effect,
    LeadershipClaimable,
    Send,
)
from tidelog.core.quorum.messages import (
    BeginEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    SnapshotId,
    VoterKey,
)
from tidelog.core.quorum.state import NEVER_MS, Member
from tidelog.core.types import NO_OFFSET, EpochEnd, LogEntry


class Progress:
    """What the leader knows of one fetching replica. Offsets only grow within an epoch: what
    a follower once held durably it keeps, so a lower offset is a message that was late."""

    __slots__ = ("is_voter", "key", "last_caught_up_ms", "last_fetch_ms", "log_end_offset")

    def __init__(self, key: VoterKey) -> None:
        self.key = key
        self.is_voter = False
        self.log_end_offset = NO_OFFSET
        self.last_fetch_ms = -NEVER_MS
        self.last_caught_up_ms = -NEVER_MS


class ParkedFetch(NamedTuple):
    source: int
    request: FetchRequest
    deadline_ms: int


class Leader:
    """`removed` is set once a voter set without this leader is committed: time to resign."""

    __slots__ = (
        "_contacts_needed",
        "_counting_since_ms",
        "_member",
        "_parked",
        "_parked_deadline_ms",
        "_progress",
        "_voters",
        "begin_at_ms",
        "check_quorum_deadline_ms",
        "epoch",
        "epoch_start_offset",
        "high_watermark",
        "removed",
    )
    name: ClassVar[str] = "leader"

    def __init__(self, member: Member, now_ms: int) -> None:
        self._member = member
        self.epoch = member.epoch
        self.epoch_start_offset = member.log.log_end_offset
        assert self.epoch_start_offset >= member.high_watermark, (
            f"elected with log end {self.epoch_start_offset}, but {member.high_watermark} "
            "is committed"
        )
        self.high_watermark = NO_OFFSET
        self.removed = False
        self.begin_at_ms = now_ms + member.settings.begin_epoch_period_ms
        self._progress: dict[VoterKey, Progress] = {}
        self._voters: list[Progress] = []
        self._parked: dict[VoterKey, ParkedFetch] = {}
        self._parked_deadline_ms = NEVER_MS
        self._contacts_needed = 0
        self._counting_since_ms = now_ms
        self.check_quorum_deadline_ms = NEVER_MS
        self.adopt_voters(now_ms)

    @property
    def deadline_ms(self) -> int:
        return min(self.check_quorum_deadline_ms, self.begin_at_ms, self._parked_deadline_ms)

    def may_grant_pre_vote(self, up_to_date: bool) -> bool:
        return False

    def may_grant_vote(self, member: Member, candidate: VoterKey, up_to_date: bool) -> bool:
        return False

    # Voters ------------------------------------------------------------------------------

    def adopt_voters(self, now_ms: int) -> None:
        """The voter set in force changed: count by it from now on."""
        member = self._member
        for progress in self._voters:
            progress.is_voter = False
        self._voters = [self._progress_of(key) for key in member.other_voters]
        for progress in self._voters:
            progress.is_voter = True
        self._contacts_needed = rules.majority(len(member.voters.current)) - member.is_voter
        self._counting_since_ms = now_ms
        self.count_contacts()

    def _progress_of(self, key: VoterKey) -> Progress:
        progress = self._progress.get(key)
        if progress is None:
            assert key != self._member.key, f"{key} fetches from itself"
            progress = self._progress[key] = Progress(key)
        return progress

    def replicas(self) -> tuple[Progress, ...]:
        """Everybody who fetches or should, itself not among them; to look at, not to change."""
        return tuple(self._progress.values())

    def preferred_candidates(self) -> tuple[int, ...]:
        """The other voters, most caught-up first."""
        order = sorted(self._voters, key=lambda voter: (-voter.log_end_offset, voter.key))
        return tuple(voter.key.node_id for voter in order)

    def is_caught_up(self, key: VoterKey, now_ms: int) -> bool:
        """Did this replica reach the log end lately? Only then may it become a voter."""
        progress = self._progress.get(key)
        window_ms = self._member.settings.caught_up_window_ms
        return progress is not None and now_ms - progress.last_caught_up_ms <= window_ms

    # Check-quorum ------------------------------------------------------------------------

    def count_contacts(self) -> None:
        """Recompute check-quorum. Contacts only move it later, so between two ticks of the
        leader it may stand too early; whoever acts on it counts again first."""
        floor_ms = self._counting_since_ms
        self.check_quorum_deadline_ms = rules.check_quorum_deadline_ms(
            [max(floor_ms, voter.last_fetch_ms) for voter in self._voters],
            self._contacts_needed,
            self._member.settings.fetch_timeout_ms,
        )

    # Appending ---------------------------------------------------------------------------

    def append(self, records: tuple[object, ...], *, control: bool = False) -> list[Effect]:
        """One atomic entry at the log end, sent at once to everybody who waits for it.

        It may reach followers before it is durable here; only durable copies are counted.
        """
        assert records, "an entry holds at least one record"
        member = self._member
        entry = LogEntry(member.log.log_end_offset, member.epoch, records, control)
        assert entry.offset >= self.epoch_start_offset, f"{entry.offset} is before this epoch"
        return [AppendEntries((entry,)), *self._answer_parked((entry,))]

    # Committing --------------------------------------------------------------------------

    def advance(self) -> list[Effect]:
        """Raise the high watermark if a majority allows it, and tell whoever waits."""
        member = self._member
        offsets = [voter.log_end_offset for voter in self._voters]
        if member.is_voter:
            offsets.append(self.own_offset())
        offset = rules.majority_offset(offsets)
        if offset <= self.high_watermark:
            return []
        if not rules.own_epoch_covered(offset, self.epoch_start_offset):
            return []
        first = self.high_watermark == NO_OFFSET
        self.high_watermark = offset
        effects: list[Effect] = []
        if member.raise_high_watermark(offset):
            effects.append(CommitAdvanced(offset))
        if first:
            effects.append(LeadershipClaimable(member.epoch, self.epoch_start_offset))
        if not member.is_voter and member.voters.last_offset < offset:
            self.removed = True
        effects += self._answer_parked(())
        return effects

    def own_offset(self) -> int:
        """The leader counts itself like anybody else: only what is durable."""
        return self._member.log.durable_offset

    # Fetches -----------------------------------------------------------------------------

    def on_fetch(self, source: int, request: FetchRequest, now_ms: int) -> list[Effect]:
        """A fetch of this epoch: sign of life, acknowledgement, request (kraft.md §2.3)."""
        log = self._member.log
        progress = self._progress.get(request.replica) or self._progress_of(request.replica)
        progress.last_fetch_ms = now_ms
        fetch_offset = request.fetch_offset
        if rules.needs_snapshot(log, fetch_offset, request.last_fetched_epoch):
            return [self._answer(source, request, snapshot=log.latest_snapshot)]
        log_end_offset = log.log_end_offset
        diverging = rules.diverging_epoch(
            log.epochs, fetch_offset, request.last_fetched_epoch, log_end_offset
        )
        if diverging is not None:
            return [self._answer(source, request, diverging=diverging)]

        effects: list[Effect] = []
        if fetch_offset > progress.log_end_offset:
            progress.log_end_offset = fetch_offset
            if progress.is_voter and fetch_offset > self.high_watermark:
                effects = self.advance()
        if fetch_offset < log_end_offset:
            entries = log.entries_from(fetch_offset, self._member.settings.max_entries)
            effects.append(self._answer(source, request, entries=entries))
            return effects
        progress.last_caught_up_ms = now_ms
        if rules.may_park(request, self.high_watermark):
            self._park(source, request, now_ms)
        else:
            effects.append(self._answer(source, request))
        return effects

    def _answer(
        self,
        source: int,
        request: FetchRequest,
        *,
        entries: tuple[LogEntry, ...] = (),
        diverging: EpochEnd | None = None,
        snapshot: SnapshotId | None = None,
    ) -> Send:
        member = self._member
        return Send(
            source,
            FetchResponse(
                Error.NONE,
                member.epoch,
                member.node_id,
                request.fetch_offset,
                self.high_watermark,
                entries,
                diverging,
                snapshot,
                request.last_fetched_epoch,
            ),
        )

    def on_fetch_snapshot(
        self, source: int, request: FetchSnapshotRequest, now_ms: int
    ) -> list[Effect]:
        member = self._member
        self._progress_of(request.replica).last_fetch_ms = now_ms
        snapshot, position = request.snapshot, request.position
        found = member.log.snapshot_chunk(snapshot, max(0, position), request.max_bytes)
        error, size, chunk = Error.NONE, 0, ()  # type: Error, int, tuple[object, ...] | bytes
        if found is None:
            error = Error.SNAPSHOT_NOT_FOUND
        elif position < 0 or position >= max(1, found[0]):
            error = Error.POSITION_OUT_OF_RANGE
        else:
            size, chunk = found
        response = FetchSnapshotResponse(
            error, member.epoch, member.node_id, snapshot, size, position, chunk
        )
        return [Send(source, response)]

    # Parked fetches ----------------------------------------------------------------------

    def _park(self, source: int, request: FetchRequest, now_ms: int) -> None:
        """One per replica: a repeated fetch takes the place of its older copy, so copies made
        by the network die out here."""
        deadline_ms = now_ms + request.max_wait_ms
        older = self._parked.get(request.replica)
        self._parked[request.replica] = ParkedFetch(source, request, deadline_ms)
        if deadline_ms < self._parked_deadline_ms:
            self._parked_deadline_ms = deadline_ms
        elif older is not None and older.deadline_ms == self._parked_deadline_ms:
            self._parked_deadline_ms = min(parked.deadline_ms for parked in self._parked.values())

    def _answer_parked(self, entries: tuple[LogEntry, ...]) -> list[Effect]:
        """Answer everybody; `entries` begin at the log end, where all of them stand."""
        if not self._parked:
            return []
        effects: list[Effect] = []
        for parked in self._parked.values():
            effects.append(self._answer(parked.source, parked.request, entries=entries))
        self._parked.clear()
        self._parked_deadline_ms = NEVER_MS
        return effects

    def answer_expired(self, now_ms: int) -> list[Effect]:
        """The longest allowed wait is over for some."""
        if self._parked_deadline_ms > now_ms:
            return []
        effects: list[Effect] = []
        waiting: dict[VoterKey, ParkedFetch] = {}
        for key, parked in self._parked.items():
            if parked.deadline_ms <= now_ms:
                effects.append(self._answer(parked.source, parked.request))
            else:
                waiting[key] = parked
        self._parked = waiting
        self._parked_deadline_ms = min(
            (parked.deadline_ms for parked in waiting.values()), default=NEVER_MS
        )
        return effects

    def dismiss_parked(self, epoch: int, leader_id: int) -> list[Effect]:
        """No longer leading: who waits learns it now rather than by a timeout."""
        effects: list[Effect] = []
        for source, request, _ in self._parked.values():
            response = FetchResponse(
                Error.NOT_LEADER_OR_FOLLOWER,
                epoch,
                leader_id,
                request.fetch_offset,
                NO_OFFSET,
                last_fetched_epoch=request.last_fetched_epoch,
            )
            effects.append(Send(source, response))
        self._parked.clear()
        return effects

    # Announcing --------------------------------------------------------------------------

    def announce(self, now_ms: int) -> list[Effect]:
        """Tell voters that have not fetched for a period who leads; forget silent observers."""
        member = self._member
        settings = member.settings
        since_ms = now_ms - settings.begin_epoch_period_ms
        self.begin_at_ms = now_ms + settings.begin_epoch_period_ms
        message = BeginEpochRequest(member.cluster_id, member.epoch, member.node_id)
        effects: list[Effect] = [
            Send(voter.key.node_id, message)
            for voter in self._voters
            if voter.last_fetch_ms <= since_ms
        ]
        gone = [
            key
            for key, progress in self._progress.items()
            if not progress.is_voter
            and now_ms - progress.last_fetch_ms > settings.observer_session_ms
        ]
        for key in gone:
            del self._progress[key]
        return effects
