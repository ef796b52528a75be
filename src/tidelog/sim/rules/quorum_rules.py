"""Rules about the metadata quorum (kraft.md §12, rules 1 to 10 and 20)."""

from typing import Any

from tidelog.core.quorum.messages import VoterKey, VotersRecord
from tidelog.core.types import NO_EPOCH, NO_LEADER, LogEntry
from tidelog.sim.rules.chronicle import Chronicle
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.view import Report, WorldView


def node_of(voter: VoterKey | int | None) -> int:
    """Votes are compared by node: a node has one disk and so one key at a time."""
    if voter is None:
        return NO_LEADER
    return voter if isinstance(voter, int) else voter.node_id


class ElectionSafety(Rule):
    """An epoch has at most one leader, and a voter votes for at most one candidate in it, also
    across crashes."""

    name = "K01 election safety"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._leaders: dict[int, int] = {}
        self._votes: dict[int, dict[int, int]] = {}
        # The epoch of a vote that a node's last write was the first to store.
        self._first_stored: dict[int, int] = {}

    def quorum_leader(self, node: int, epoch: int, _start_offset: int) -> None:
        leader = self._leaders.setdefault(epoch, node)
        if leader != node:
            self.broken(f"epoch {epoch} has two leaders: {leader} and {node}")

    def quorum_state_persisted(self, node: int, state: Any) -> None:
        self._first_stored.pop(node, None)
        if state.voted is not None:
            if state.epoch not in self._votes.get(node, {}):
                self._first_stored[node] = state.epoch
            self._voted(node, state.epoch, node_of(state.voted))

    def quorum_state_unsure(self, node: int) -> None:
        """Writing it failed, so nobody was told of a vote that only this write would store."""
        epoch = self._first_stored.pop(node, None)
        if epoch is not None:
            del self._votes[node][epoch]

    def vote_sent(self, node: int, epoch: int, candidate: VoterKey | int) -> None:
        self._voted(node, epoch, node_of(candidate))

    def _voted(self, node: int, epoch: int, candidate: int) -> None:
        before = self._votes.setdefault(node, {}).setdefault(epoch, candidate)
        if before != candidate:
            self.broken(f"node {node} voted for {before} and for {candidate} in epoch {epoch}")


class PromisesAreStored(Rule):
    """A node's stored epoch never falls, within an epoch its vote and its leader stay, and a
    vote is stored before it is told."""

    name = "K02 promises are stored first"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # What may be on the disk: one state, or several after writes that failed.
        self._stored: dict[int, list[Any]] = {}
        self._before: dict[int, list[Any]] = {}

    def quorum_state_persisted(self, node: int, state: Any) -> None:
        before = self._before[node] = self._stored.get(node, [])
        self._stored[node] = [state]
        problems = [_broken_promise(each, state) for each in before]
        if problems and None not in problems:
            self.broken(f"node {node} {problems[-1]}: {state} after {before[-1]}")

    def quorum_state_unsure(self, node: int) -> None:
        """Writing it failed. It may be stored or not, and was told to nobody."""
        self._stored[node] = [*self._before.get(node, []), *self._stored.get(node, [])]

    def vote_sent(self, node: int, epoch: int, candidate: VoterKey | int) -> None:
        stored = self._stored.get(node, [])
        votes = [(each.epoch, node_of(each.voted)) for each in stored]
        if (epoch, node_of(candidate)) not in votes:
            self.broken(
                f"node {node} granted its vote in epoch {epoch} to {node_of(candidate)}, stored"
                f" is {stored}"
            )

    def node_stopped(self, node: int, kind: str) -> None:
        if kind == "wipe":
            self._stored.pop(node, None)
            self._before.pop(node, None)


def _broken_promise(before: Any, state: Any) -> str | None:
    if state.epoch > before.epoch:
        return None
    if state.epoch < before.epoch:
        return f"stored epoch {state.epoch} after {before.epoch}"
    if before.voted is not None and state.voted != before.voted:
        return "forgot its vote"
    if before.leader_id not in (NO_LEADER, state.leader_id):
        return "forgot its leader"
    return None


class MetadataLogMatching(Rule):
    """Nodes whose metadata logs agree on the epoch of an entry agree on everything up to it, and
    a leader never cuts its own log."""

    name = "K03 metadata log matching"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Epoch → offset → (the entry, epoch of the entry before it as first reported).
        self._written: dict[int, dict[int, tuple[LogEntry, int]]] = {}
        self._tails: dict[int, tuple[int, int]] = {}

    def metadata_appended(self, node: int, entry: LogEntry) -> None:
        end, epoch = self._tails.get(node, (0, NO_EPOCH))
        before = epoch if end == entry.offset else NO_EPOCH
        self._tails[node] = (entry.next_offset, entry.epoch)
        by_offset = self._written.setdefault(entry.epoch, {})
        first = by_offset.get(entry.offset)
        if first is None:
            by_offset[entry.offset] = (entry, before)
            return
        if first[0] is not entry and first[0] != entry:
            self.broken(
                f"node {node} has another entry at offset {entry.offset} of epoch {entry.epoch}:"
                f" {entry.records}, first was {first[0].records}"
            )
        if NO_EPOCH not in (before, first[1]) and before != first[1]:
            self.broken(
                f"node {node} has offset {entry.offset} of epoch {entry.epoch} after epoch"
                f" {before}, elsewhere it follows epoch {first[1]}"
            )
        if first[1] == NO_EPOCH and before != NO_EPOCH:
            by_offset[entry.offset] = (first[0], before)

    def metadata_truncated(self, node: int, offset: int, _high_watermark: int) -> None:
        self._tails.pop(node, None)
        epoch = self.chronicle.quorum.leads.get(node)
        if epoch is not None:
            self.broken(f"node {node} cut its log to {offset} while it leads epoch {epoch}")

    def snapshot_installed(self, node: int, _end_offset: int, _image: object) -> None:
        self._tails.pop(node, None)

    def node_stopped(self, node: int, _kind: str) -> None:
        self._tails.pop(node, None)


class QuorumLeaderCompleteness(Rule):
    """Every committed entry is in the log of every later leader."""

    name = "K04 quorum leader completeness"

    def quorum_leader(self, node: int, epoch: int, start_offset: int) -> None:
        quorum = self.chronicle.quorum
        due = quorum.committed_before(epoch)
        if start_offset < due:
            self.broken(
                f"node {node} leads epoch {epoch} with a log that ends at {start_offset},"
                f" committed is {due}"
            )
            return
        held = quorum.log(node).epoch_before(due)
        entry = self._committed_entry(due)
        if entry is not None and held not in (NO_EPOCH, entry.epoch):
            self.broken(
                f"node {node} leads epoch {epoch} with offset {due - 1} from epoch {held},"
                f" committed is that of epoch {entry.epoch}"
            )

    def _committed_entry(self, end: int) -> LogEntry | None:
        """The committed entry that ends there, if any node has applied it yet."""
        for entry in reversed(self.chronicle.entries):
            if entry.next_offset <= end:
                return entry if entry.next_offset == end else None
        return None


class StateMachineSafety(Rule):
    """No two nodes apply different entries at one offset; every node applies all of them in
    order, and none that no leader has committed."""

    name = "K05 state machine safety"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._next: dict[int, int] = {}

    def metadata_committed(self, node: int, entry: LogEntry) -> None:
        known = self.chronicle.entry_at.get(entry.offset)
        if known is not entry and known != entry:
            self.broken(f"node {node} applied {entry}, others have {known} at that offset")
        due = self._next.get(node)
        self._next[node] = entry.next_offset
        if due is not None and due != entry.offset:
            skipped = self.chronicle.entry_at.get(due)
            if entry.offset < due or (skipped is not None and not skipped.control):
                self.broken(f"node {node} applied offset {entry.offset}, due was {due}")
        if entry.next_offset > self.chronicle.quorum.committed_end:
            self.broken(
                f"node {node} applied up to {entry.next_offset}, leaders have committed only"
                f" {self.chronicle.quorum.committed_end}"
            )

    def snapshot_installed(self, node: int, end_offset: int, _image: object) -> None:
        self._next[node] = end_offset

    def node_stopped(self, node: int, _kind: str) -> None:
        self._next.pop(node, None)


class QuorumHighWatermarkNeverFalls(Rule):
    """The quorum's high watermark never falls, neither on a node nor from a leader to the next,
    and nobody cuts below it."""

    name = "K06 quorum high watermark never falls"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._seen: dict[int, int] = {}

    def quorum_high_watermark(self, node: int, high_watermark: int) -> None:
        before = self._seen.get(node, 0)
        if high_watermark < before:
            self.broken(f"node {node} lowered its high watermark from {before} to {high_watermark}")
        self._seen[node] = high_watermark
        quorum = self.chronicle.quorum
        epoch = quorum.leads.get(node)
        if epoch is not None and high_watermark < quorum.committed_before(epoch):
            self.broken(
                f"node {node} leads epoch {epoch} with high watermark {high_watermark}, leaders"
                f" before it had {quorum.committed_before(epoch)}"
            )

    def metadata_truncated(self, node: int, offset: int, high_watermark: int) -> None:
        if offset < max(high_watermark, self._seen.get(node, 0)):
            self.broken(f"node {node} cut its log to {offset}, below {high_watermark}")

    def node_stopped(self, node: int, _kind: str) -> None:
        self._seen.pop(node, None)


class OwnEpochCommitsFirst(Rule):
    """A leader tells a high watermark only when an entry of its own epoch is on a majority."""

    name = "K07 own epoch commits first"

    def quorum_high_watermark(self, node: int, high_watermark: int) -> None:
        quorum = self.chronicle.quorum
        epoch = quorum.leads.get(node)
        if epoch is None:
            return
        start = quorum.leaderships[epoch].start_offset
        if high_watermark <= start:
            self.broken(
                f"node {node} told high watermark {high_watermark} in epoch {epoch}, which began"
                f" at {start}"
            )
        voters = quorum.voters(node)
        held = quorum.log(node).epoch_before(high_watermark)
        holders = [
            v
            for v in voters
            if v not in quorum.logs or quorum.logs[v].epoch_before(high_watermark) == held
        ]
        if voters and len(holders) <= len(voters) // 2:
            self.broken(
                f"node {node} committed up to {high_watermark} in epoch {epoch} with {holders} of"
                f" {voters} holding it"
            )


class OnlyDurableIsAcknowledged(Rule):
    """The offset a voter asks for covers only entries it has synced."""

    name = "K08 only durable entries are acknowledged"

    def quorum_fetch_sent(self, node: int, fetch_offset: int, durable_offset: int) -> None:
        if fetch_offset > durable_offset:
            self.broken(f"node {node} fetches at {fetch_offset}, synced is {durable_offset}")


class EpochsAreEarned(Rule):
    """A new epoch begins only with a candidate that votes for itself, one above the last, or
    with a leader that has resigned; asking for pre-votes creates none."""

    name = "K09 epochs are earned"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._highest = 0
        # Node → newest epoch it stored itself as the leader of: a crash may follow at once.
        self._led: dict[int, int] = {}

    def quorum_state_persisted(self, node: int, state: Any) -> None:
        highest = self._highest
        resigned = self._led.get(node) == highest
        if state.leader_id == node:
            self._led[node] = state.epoch
        if state.epoch <= highest:
            return
        self._highest = state.epoch
        campaigns = node_of(state.voted) == node
        if state.epoch > highest + 1 + resigned or not (campaigns or resigned):
            self.broken(f"node {node} stored {state}, the highest epoch so far was {highest}")


class DeposedLeaderStops(Rule):
    """A leader that a majority has left stops leading within the check-quorum time. Judged by
    what it still writes; twice the time is granted for clocks and queues."""

    name = "K10 a deposed leader stops"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Node → (last time it wrote as leader, since when without a pause).
        self._active: dict[int, tuple[int, int]] = {}

    def metadata_appended(self, node: int, entry: LogEntry) -> None:
        quorum = self.chronicle.quorum
        if entry.epoch >= quorum.top_epoch or quorum.leads.get(node) != entry.epoch:
            return
        now_ms, limit_ms = self.world.now_ms, self.world.check_quorum_ms
        last_ms, since_ms = self._active.get(node, (now_ms, now_ms))
        if now_ms - last_ms > limit_ms:
            since_ms = now_ms  # it may have been paused
        self._active[node] = (now_ms, since_ms)
        successor = min(e for e in quorum.leaderships if e > entry.epoch)
        deposed_ms = quorum.leaderships[successor].elected_ms
        late_ms = now_ms - max(deposed_ms, since_ms)
        if late_ms > 2 * limit_ms:
            self.broken(
                f"node {node} still writes in epoch {entry.epoch}, {now_ms - deposed_ms} ms after"
                f" epoch {successor} began"
            )

    def quorum_leader(self, node: int, _epoch: int, _start_offset: int) -> None:
        self._active.pop(node, None)


class OneVoterAtATime(Rule):
    """Consecutive voter sets differ by one voter, and a leader writes a new one only when the
    one before is committed."""

    name = "K20 one voter at a time"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Node → voter sets in its log, as (offset, node ids).
        self._sets: dict[int, list[tuple[int, frozenset[int]]]] = {}

    def metadata_appended(self, node: int, entry: LogEntry) -> None:
        if not entry.control:
            return
        for index, record in enumerate(entry.records):
            if isinstance(record, VotersRecord):
                voters = frozenset(voter.node_id for voter in record.voters)
                self._changed(node, entry.offset + index, voters)

    def _changed(self, node: int, offset: int, voters: frozenset[int]) -> None:
        sets = self._sets.setdefault(node, [])
        while sets and sets[-1][0] >= offset:
            sets.pop()
        if sets:
            before_offset, before = sets[-1]
            if len(voters ^ before) > 1:
                self.broken(f"node {node}: voters {sorted(before)} became {sorted(voters)}")
            committed = self.chronicle.quorum.committed_end
            if node in self.chronicle.quorum.leads and before_offset >= committed:
                self.broken(
                    f"node {node} wrote voters {sorted(voters)} at {offset} while those of"
                    f" {before_offset} were not committed ({committed})"
                )
        sets.append((offset, voters))

    def metadata_truncated(self, node: int, offset: int, _high_watermark: int) -> None:
        sets = self._sets.get(node, [])
        while sets and sets[-1][0] >= offset:
            sets.pop()

    def snapshot_installed(self, node: int, _end_offset: int, _image: object) -> None:
        self._sets.pop(node, None)
