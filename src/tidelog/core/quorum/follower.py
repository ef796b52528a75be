"""Following a leader: fetch, append or cut, make durable, fetch again.

The offset a follower asks for is its acknowledgement of everything below it, so there are
two rules: it never asks beyond what is durable, and it has at most one fetch open. An answer
counts only if it belongs to the open fetch (same epoch, offset and last fetched epoch); a
late or repeated answer to the same question is as true as the first one.
"""

from collections.abc import Callable
from typing import ClassVar

from tidelog.core.errors import Error
from tidelog.core.quorum import rules
from tidelog.core.quorum.effects import (
    AppendEntries,
    CommitAdvanced,
    Effect,
    InstallSnapshot,
    Send,
    TruncateTo,
)
from tidelog.core.quorum.log_view import SnapshotContent
from tidelog.core.quorum.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    SnapshotId,
    VoterKey,
)
from tidelog.core.quorum.state import NEVER_MS, Member, QuorumLostLog
from tidelog.core.quorum.voters import Voters, join_chunks
from tidelog.core.types import NO_OFFSET, EpochEnd, LogEntry

SnapshotVoters = Callable[[SnapshotContent], Voters | None]


class Download:
    """A snapshot on its way here, chunk by chunk; gone if the role ends."""

    __slots__ = ("chunks", "position", "snapshot")

    def __init__(self, snapshot: SnapshotId) -> None:
        self.snapshot = snapshot
        self.chunks: list[SnapshotContent] = []
        self.position = 0


class Follower:
    """Fetches from `leader_id` in the member's epoch.

    `retry_at_ms` is when to send (again): the open fetch is overdue, or a pause is over.
    It is NEVER_MS while the log is not durable (then `on_durable` continues) and once the
    leader leads no more or is gone (then only the fetch timer is left).
    """

    __slots__ = (
        "_member",
        "_open_fetch",
        "awaited_offset",
        "download",
        "fetch_deadline_ms",
        "has_fetched",
        "leader_gone",
        "leader_id",
        "retry_at_ms",
    )
    name: ClassVar[str] = "follower"

    def __init__(self, member: Member, leader_id: int, now_ms: int) -> None:
        assert leader_id not in (member.node_id, -1), f"{member.node_id} follows {leader_id}"
        self._member = member
        self.leader_id = leader_id
        self.has_fetched = False
        self.leader_gone = False
        self.fetch_deadline_ms = now_ms + member.settings.fetch_timeout_ms
        self.retry_at_ms = now_ms
        self.awaited_offset = NO_OFFSET
        self.download: Download | None = None
        self._open_fetch: FetchRequest | None = None

    @property
    def deadline_ms(self) -> int:
        return min(self.fetch_deadline_ms, self.retry_at_ms)

    def may_grant_pre_vote(self, up_to_date: bool) -> bool:
        """A voter that hears its leader does not help to replace it."""
        return up_to_date and not self.has_fetched

    def may_grant_vote(self, member: Member, candidate: VoterKey, up_to_date: bool) -> bool:
        assert member.leader_id == self.leader_id, f"{member.leader_id} or {self.leader_id}"
        return False

    # Asking ------------------------------------------------------------------------------

    def send_fetch(self, now_ms: int) -> list[Effect]:
        """Ask for what comes next, unless something appended is not durable yet."""
        member = self._member
        log = member.log
        self.retry_at_ms = NEVER_MS
        if self.leader_gone:
            return []
        if self.download is not None:
            return self._ask_for_chunk(self.download, now_ms)
        log_end_offset = log.log_end_offset
        if not self.is_durable(log_end_offset, log.durable_offset):
            self._open_fetch = None
            return []
        return self._fetch_from(log_end_offset, max(0, log.last_epoch), now_ms)

    def is_durable(self, log_end_offset: int, durable_offset: int) -> bool:
        """May the log end be acknowledged?"""
        return durable_offset >= log_end_offset >= self.awaited_offset

    def _fetch_from(self, fetch_offset: int, last_fetched_epoch: int, now_ms: int) -> list[Effect]:
        member = self._member
        request = FetchRequest(
            member.cluster_id,
            member.epoch,
            member.key,
            fetch_offset,
            last_fetched_epoch,
            member.high_watermark,
            member.settings.fetch_max_wait_ms,
        )
        self._open_fetch = request
        self.retry_at_ms = now_ms + member.settings.fetch_retry_ms
        return [Send(self.leader_id, request)]

    def on_durable(self, now_ms: int) -> list[Effect]:
        if self._open_fetch is not None or self.retry_at_ms != NEVER_MS:
            return []
        return self.send_fetch(now_ms)

    def on_send_failed(self, message: object, now_ms: int) -> None:
        """The connection was refused: do not wait for an answer that cannot come."""
        if type(message) is FetchSnapshotRequest:
            failed = self.download is not None and message.position == self.download.position
        else:
            failed = type(message) is FetchRequest and message == self._open_fetch
        if failed:
            self._pause(now_ms)

    def _pause(self, now_ms: int) -> None:
        self._open_fetch = None
        self.retry_at_ms = now_ms + self._member.settings.retry_backoff_ms

    def on_leader_resigned(self, fetch_deadline_ms: int) -> None:
        """Its leader will never lead this epoch again (it said so, or its process is gone): stop
        asking, let others try."""
        self.leader_gone = True
        self.has_fetched = False
        self.download = None
        self._open_fetch = None
        self.retry_at_ms = NEVER_MS
        self.fetch_deadline_ms = min(self.fetch_deadline_ms, fetch_deadline_ms)

    # Answers -----------------------------------------------------------------------------

    def on_fetch_response(self, source: int, response: FetchResponse, now_ms: int) -> list[Effect]:
        request = self._open_fetch
        if (
            request is None
            or response.fetch_offset != request.fetch_offset
            or response.last_fetched_epoch != request.last_fetched_epoch
            or source != self.leader_id
        ):
            return []
        self._open_fetch = None
        if response.error:
            self._on_error(response.error, now_ms)
            return []
        self._heard(now_ms)
        if response.diverging is not None:
            return self._truncate(response.diverging, now_ms)
        if response.snapshot is not None:
            self.download = Download(response.snapshot)
            return self.send_fetch(now_ms)
        if response.entries:
            return self._append(response.entries, response.high_watermark, now_ms)
        member = self._member
        if member.raise_high_watermark(min(request.fetch_offset, response.high_watermark)):
            effects: list[Effect] = [CommitAdvanced(member.high_watermark)]
            return effects + self.send_fetch(now_ms)
        return self.send_fetch(now_ms)

    def _heard(self, now_ms: int) -> None:
        self.has_fetched = True
        self.fetch_deadline_ms = now_ms + self._member.settings.fetch_timeout_ms

    def _on_error(self, error: Error, now_ms: int) -> None:
        if error is Error.NOT_LEADER_OR_FOLLOWER or error is Error.BROKER_NOT_AVAILABLE:
            self.on_leader_resigned(self.fetch_deadline_ms)
        else:
            self._pause(now_ms)

    def _append(
        self, entries: tuple[LogEntry, ...], leader_high_watermark: int, now_ms: int
    ) -> list[Effect]:
        """Append and wait: the next fetch would acknowledge, so it waits for `on_durable`."""
        member = self._member
        if entries[-1].epoch > member.epoch:  # written after the leader this node believes in
            entries = tuple(entry for entry in entries if entry.epoch <= member.epoch)
            if not entries:
                self._pause(now_ms)
                return []
        assert entries[0].offset == member.log.log_end_offset, (
            f"entries at {entries[0].offset}, log end {member.log.log_end_offset}"
        )
        next_offset = entries[-1].next_offset
        self.awaited_offset = next_offset
        self.retry_at_ms = NEVER_MS
        if member.voters.append_from(entries):
            member.adopt_voters()
        effects: list[Effect] = [AppendEntries(entries)]
        if member.raise_high_watermark(min(next_offset, leader_high_watermark)):
            effects.append(CommitAdvanced(member.high_watermark))
        return effects

    def _truncate(self, diverging: EpochEnd, now_ms: int) -> list[Effect]:
        """Cut what the leader never had, then ask again from there (replication.md §7.1)."""
        member = self._member
        log = member.log
        offset = rules.truncation_offset(log.epochs, diverging, log.log_end_offset)
        assert offset < log.log_end_offset, f"{diverging} does not cut {log.log_end_offset}"
        committed = member.committed
        if not rules.keeps_committed(offset, committed.end_offset):
            raise QuorumLostLog(
                f"node {self.leader_id} leads the metadata quorum in epoch {member.epoch}, but its "
                f"log has nothing in common with ours from offset {offset} on, and we know that "
                f"everything below {committed.end_offset} is committed"
            )
        self.awaited_offset = NO_OFFSET
        if member.voters.truncate_to(offset):
            member.adopt_voters()
        effects: list[Effect] = [TruncateTo(offset)]
        return effects + self._fetch_from(offset, member.epoch_before(offset), now_ms)

    # Snapshots (kraft.md §2.4) -----------------------------------------------------------

    def _ask_for_chunk(self, download: Download, now_ms: int) -> list[Effect]:
        member = self._member
        settings = member.settings
        request = FetchSnapshotRequest(
            member.cluster_id,
            member.epoch,
            member.key,
            download.snapshot,
            download.position,
            settings.snapshot_chunk_bytes,
        )
        self.retry_at_ms = now_ms + settings.fetch_retry_ms
        return [Send(self.leader_id, request)]

    def on_snapshot_response(
        self, source: int, response: FetchSnapshotResponse, now_ms: int, voters_of: SnapshotVoters
    ) -> list[Effect]:
        download = self.download
        if (
            download is None
            or response.snapshot != download.snapshot
            or response.position != download.position
            or source != self.leader_id
        ):
            return []
        done = response.position + len(response.chunk) >= response.size
        if response.error or not (response.chunk or done):
            self.download = None
            self._on_error(response.error, now_ms)
            return []
        self._heard(now_ms)
        download.chunks.append(response.chunk)
        download.position += len(response.chunk)
        if not done:
            return self._ask_for_chunk(download, now_ms)
        return self._install(download, voters_of)

    def _install(self, download: Download, voters_of: SnapshotVoters) -> list[Effect]:
        """Everything known is replaced; `on_durable` continues with the log behind it."""
        member = self._member
        end_offset, committed = download.snapshot.end_offset, member.committed
        if not rules.snapshot_keeps_committed(download.snapshot, committed):
            raise QuorumLostLog(
                f"node {self.leader_id} leads the metadata quorum in epoch {member.epoch}, but its "
                f"snapshot ends at offset {end_offset} in epoch {download.snapshot.epoch}, and we "
                f"know that everything below {committed.end_offset} is committed, in epoch "
                f"{committed.epoch}"
            )
        content = join_chunks(download.chunks)
        member.voters.restart_at(end_offset, voters_of(content))
        member.adopt_voters()
        member.high_watermark = end_offset
        self.download = None
        self.awaited_offset = end_offset
        self.retry_at_ms = NEVER_MS
        return [InstallSnapshot(download.snapshot, content)]
