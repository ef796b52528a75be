"""Which voter set is in force (kraft.md §10, KIP-853).

The set of the newest VotersRecord counts as soon as the record is in the log, committed or
not; when the record is truncated the set before it is in force again.
"""

from collections.abc import Iterable
from itertools import pairwise

from tidelog.core.quorum.log_view import QuorumLogView, SnapshotContent
from tidelog.core.quorum.messages import VoterKey, VotersRecord
from tidelog.core.types import NO_OFFSET, LogEntry

Voters = tuple[VoterKey, ...]


class VoterHistory:
    """The configured voters, overridden by the records of the log from some offset on."""

    __slots__ = ("_configured", "_entries")

    def __init__(self, configured: Voters) -> None:
        self._configured = configured
        self._entries: list[tuple[int, Voters]] = []
        check_voters(configured)

    @property
    def current(self) -> Voters:
        return self._entries[-1][1] if self._entries else self._configured

    @property
    def configured(self) -> Voters:
        return self._configured

    @property
    def previous(self) -> Voters:
        """The set that is in force again if the newest record is truncated."""
        return self._entries[-2][1] if len(self._entries) > 1 else self._configured

    @property
    def last_offset(self) -> int:
        """Offset of the record in force; -1 while the configured voters are."""
        return self._entries[-1][0] if self._entries else NO_OFFSET

    def at(self, end_offset: int) -> Voters | None:
        """The recorded set as of the log below `end_offset`; None: the configured one."""
        for offset, voters in reversed(self._entries):
            if offset < end_offset:
                return voters
        return None

    def append(self, offset: int, voters: Voters) -> None:
        assert offset > self.last_offset, f"voters at {offset}, already have {self.last_offset}"
        check_voters(voters)
        self._entries.append((offset, voters))

    def append_from(self, entries: Iterable[LogEntry]) -> bool:
        """Take over the voter records among `entries`; True if there was one."""
        changed = False
        for entry in entries:
            if entry.control:
                for index, record in enumerate(entry.records):
                    if type(record) is VotersRecord:
                        self.append(entry.offset + index, record.voters)
                        changed = True
        return changed

    def truncate_to(self, offset: int) -> bool:
        """Forget the records at and above `offset`; True if the set in force changed."""
        entries = self._entries
        if not entries or entries[-1][0] < offset:
            return False
        while entries and entries[-1][0] >= offset:
            entries.pop()
        return True

    def restart_at(self, end_offset: int, voters: Voters | None) -> None:
        """The log was replaced by a snapshot that holds this set."""
        self._entries.clear()
        if voters is not None:
            self.append(end_offset - 1, voters)


def check_voters(voters: Voters) -> None:
    ids = sorted(voter.node_id for voter in voters)
    assert ids, "empty voter set"
    assert all(a < b for a, b in pairwise(ids)), f"one id twice in {ids}"


def voters_in_records(content: SnapshotContent) -> Voters | None:
    """The voter set in a snapshot whose content is records. Byte shells inject their own."""
    assert not isinstance(content, bytes), "bytes need a decoder that knows their format"
    for record in content:
        if type(record) is VotersRecord:
            return record.voters
    return None


def read_snapshot(log: QuorumLogView, chunk_bytes: int) -> SnapshotContent | None:
    """The whole content of the newest snapshot; the bootstrap snapshot 0-0 holds no voters."""
    snapshot = log.latest_snapshot
    if snapshot is None or snapshot.end_offset == 0:
        return None
    chunks: list[SnapshotContent] = []
    position = 0
    while True:
        found = log.snapshot_chunk(snapshot, position, chunk_bytes)
        assert found is not None, f"the log names {snapshot} and cannot read it"
        size, chunk = found
        chunks.append(chunk)
        position += len(chunk)
        if position >= size:
            return join_chunks(chunks)
        assert chunk, f"{snapshot} ends at {position} of {size}"


def join_chunks(chunks: list[SnapshotContent]) -> SnapshotContent:
    if all(isinstance(chunk, bytes) for chunk in chunks):
        return b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))
    return tuple(record for chunk in chunks for record in chunk)


def scan_log(history: VoterHistory, log: QuorumLogView, max_entries: int) -> None:
    """Find the voter records of the log at start-up."""
    snapshot = log.latest_snapshot
    offset = log.log_start_offset
    if snapshot is not None:
        offset = max(offset, snapshot.end_offset)
    while offset < log.log_end_offset:
        entries = log.entries_from(offset, max_entries)
        assert entries, f"nothing at {offset} below log end {log.log_end_offset}"
        history.append_from(entries)
        offset = entries[-1].next_offset
