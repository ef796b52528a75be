"""A few quorum nodes in one process: logs are lists, the network is a list of messages.

`Host` is one machine: a disk that survives (`ListLog`, the stored state) and a node that does
not. `Cluster` is the obvious shell: it performs effects in order and delivers messages in
order, at once, unless a link is cut. Stories step it by hand; the random test brings its own
scheduler and uses only the hosts.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.core.quorum import rules
from tidelog.core.quorum.effects import (
    AppendEntries,
    CommitAdvanced,
    Effect,
    InstallSnapshot,
    LeadershipClaimable,
    LeadershipLost,
    PersistState,
    Send,
    TruncateTo,
)
from tidelog.core.quorum.log_view import SnapshotContent
from tidelog.core.quorum.messages import QuorumMessage, SnapshotId, VoterKey
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.quorum.state import QuorumSettings, QuorumState
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.types import LogEntry

CLUSTER_ID = "story"
NOTHING_STORED = QuorumState(0, -1, None)


def key_of(node_id: int) -> VoterKey:
    return VoterKey(node_id, b"disk-%d" % node_id)


class ListLog:
    """A metadata log in a list. What is synced survives a crash."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.log_start_offset = 0
        self.durable_offset = 0
        self.epochs = EpochHistory()
        self.snapshots: dict[SnapshotId, tuple[object, ...]] = {}

    @property
    def log_end_offset(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.log_start_offset

    @property
    def last_epoch(self) -> int:
        if self.entries:
            return self.entries[-1].epoch
        return self.latest_snapshot.epoch if self.latest_snapshot else -1

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        return min(self.snapshots, default=None)

    def entries_from(self, offset: int, max_entries: int) -> tuple[LogEntry, ...]:
        return tuple(entry for entry in self.entries if entry.offset >= offset)[:max_entries]

    def snapshot_chunk(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> tuple[int, SnapshotContent] | None:
        content = self.snapshots.get(snapshot)
        if content is None:
            return None
        return len(content), content[position : position + max_bytes]

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        for entry in entries:
            assert entry.offset == self.log_end_offset, f"hole before {entry}"
            self.epochs.assign(entry.epoch, entry.offset)
            self.entries.append(entry)

    def sync(self) -> None:
        self.durable_offset = self.log_end_offset

    def truncate(self, offset: int) -> None:
        while self.entries and self.entries[-1].next_offset > offset:
            self.entries.pop()
        assert self.log_end_offset == offset, f"{offset} is inside an entry"
        self.epochs.truncate_from_end(offset)
        self.durable_offset = min(self.durable_offset, offset)

    def restart_at(self, snapshot: SnapshotId) -> None:
        self.entries.clear()
        self.epochs.clear()
        self.log_start_offset = self.durable_offset = snapshot.end_offset

    def store_snapshot(self, snapshot: SnapshotId, content: SnapshotContent) -> None:
        assert isinstance(content, tuple)
        self.snapshots[snapshot] = content

    def clean(self) -> None:
        """Keep the newest snapshot only and the log behind it."""
        newest = self.latest_snapshot
        assert newest is not None
        self.snapshots = {newest: self.snapshots[newest]}
        self.entries = [entry for entry in self.entries if entry.offset >= newest.end_offset]
        self.log_start_offset = newest.end_offset
        self.durable_offset = max(self.durable_offset, newest.end_offset)
        self.epochs.truncate_from_start(newest.end_offset)

    def crash(self, kept_offset: int) -> None:
        """Power loss: of what was not synced, what lies below `kept_offset` is still there."""
        kept_offset = max(kept_offset, self.durable_offset)
        while self.entries and self.entries[-1].next_offset > kept_offset:
            self.entries.pop()
        self.epochs.truncate_from_end(self.log_end_offset)
        self.durable_offset = self.log_end_offset

    def recover(self) -> None:
        """Start-up of kraft.md §9: a snapshot the log does not lead up to replaces it."""
        snapshot = self.latest_snapshot
        if snapshot is not None and rules.snapshot_replaces_log(
            snapshot, self.log_start_offset, self.log_end_offset, self.epochs
        ):
            self.restart_at(snapshot)


class Host:
    """One machine. `applied` is its state machine: every record it was told is committed."""

    def __init__(
        self,
        node_id: int,
        voters: tuple[VoterKey, ...],
        draw_timeout: Callable[[int], int],
        settings: QuorumSettings,
    ) -> None:
        self.node_id = node_id
        self.key = key_of(node_id)
        self.voters = voters
        self.draw_timeout = draw_timeout
        self.settings = settings
        self.log = ListLog()
        self.stored = NOTHING_STORED
        self.node: QuorumNode | None = None
        self.applied: list[object] = []
        self.applied_offset = 0
        self.claimed_epoch = -1
        self.committed_before = -1
        """On disk: what it knew to be committed, and had synced."""

    def boot(self, now_ms: int) -> QuorumNode:
        assert self.node is None, f"{self.node_id} is running"
        self.log.recover()
        snapshot = self.log.latest_snapshot
        self.applied = list(self.log.snapshots[snapshot]) if snapshot else []
        self.applied_offset = snapshot.end_offset if snapshot else 0
        self.claimed_epoch = -1
        self.node = QuorumNode(
            key=self.key,
            cluster_id=CLUSTER_ID,
            voters=self.voters,
            log=self.log,
            stored=self.stored,
            settings=self.settings,
            draw_timeout=self.draw_timeout,
            now_ms=now_ms,
            committed_before=self.committed_before,
        )
        return self.node

    def crash(self, kept_offset: int = 0) -> None:
        self.node = None
        self.log.crash(kept_offset)

    def perform(self, effect: Effect) -> bool:
        """Do one effect that concerns this machine; True if the log now needs a sync."""
        if type(effect) is PersistState:
            self.stored = effect.state
        elif type(effect) is AppendEntries:
            self.log.append(effect.entries)
            return True
        elif type(effect) is TruncateTo:
            self.log.truncate(effect.offset)
        elif type(effect) is InstallSnapshot:
            assert isinstance(effect.content, tuple)
            self.log.store_snapshot(effect.snapshot, effect.content)
            self.log.restart_at(effect.snapshot)
            self.applied = list(effect.content)
            self.applied_offset = effect.snapshot.end_offset
            return True
        elif type(effect) is CommitAdvanced:
            self._apply(effect.high_watermark)
            self.committed_before = min(effect.high_watermark, self.log.durable_offset)
        elif type(effect) is LeadershipClaimable:
            assert self.applied_offset > effect.epoch_start_offset
            self.claimed_epoch = effect.epoch
        elif type(effect) is LeadershipLost:
            self.claimed_epoch = -1
        return False

    def _apply(self, high_watermark: int) -> None:
        for entry in self.log.entries_from(self.applied_offset, high_watermark):
            if entry.next_offset <= high_watermark:
                if not entry.control:
                    self.applied.extend(entry.records)
                self.applied_offset = entry.next_offset
        assert self.applied_offset == high_watermark, f"{self.applied_offset} {high_watermark}"

    def take_snapshot(self, *, clean: bool = True) -> SnapshotId:
        """Snapshot everything applied, as the shell would."""
        assert self.node is not None
        epoch = self.log.epochs.epoch_at(self.applied_offset - 1)
        snapshot = SnapshotId(self.applied_offset, epoch)
        assert self.node.snapshot_allowed(snapshot), snapshot
        records = [record for record in self.applied if not hasattr(record, "voters")]
        control = self.node.snapshot_control_records(snapshot.end_offset)
        self.log.store_snapshot(snapshot, (*control, *records))
        if clean:
            self.log.clean()
        return snapshot


class Envelope(NamedTuple):
    source: int
    target: int
    message: QuorumMessage


class Cluster:
    """Hosts, a virtual clock and a network that delivers in order and at once.

    Election timeouts are not random: node n always draws t + 100·n, so stories have exact
    numbers and the lowest id campaigns first.
    """

    def __init__(
        self, voter_ids: tuple[int, ...], *, observers: tuple[int, ...] = (), **settings: int
    ) -> None:
        self.now_ms = 0
        self.voters = tuple(key_of(node_id) for node_id in voter_ids)
        self.settings = QuorumSettings(**settings)
        self.hosts: dict[int, Host] = {}
        self.wire: list[Envelope] = []
        self.dropped: list[Envelope] = []
        self.effects: list[tuple[int, int, Effect]] = []
        self.cut_links: list[tuple[int, int]] = []
        self.slow_disks: list[int] = []
        for node_id in (*voter_ids, *observers):
            self.add_host(node_id)

    def add_host(self, node_id: int) -> Host:
        def draw(timeout_ms: int) -> int:
            return timeout_ms + 100 * node_id

        host = self.hosts[node_id] = Host(node_id, self.voters, draw, self.settings)
        return host

    # Machines ----------------------------------------------------------------------------

    def boot(self, *node_ids: int) -> None:
        for node_id in node_ids or tuple(self.hosts):
            self.hosts[node_id].boot(self.now_ms)
            self.tick(node_id)

    def crash(self, node_id: int, *, kept_offset: int = 0) -> None:
        self.hosts[node_id].crash(kept_offset)
        self.wire = [e for e in self.wire if node_id not in (e.source, e.target)]

    def node(self, node_id: int) -> QuorumNode:
        node = self.hosts[node_id].node
        assert node is not None, f"{node_id} is down"
        return node

    def isolate(self, *node_ids: int) -> None:
        """Cut every link between these nodes and all others."""
        for a in node_ids:
            for b in self.hosts:
                if b not in node_ids:
                    self.cut_links += [(a, b), (b, a)]

    def heal(self) -> None:
        self.cut_links.clear()

    # Inputs ------------------------------------------------------------------------------

    def perform(self, node_id: int, effects: list[Effect]) -> None:
        host = self.hosts[node_id]
        for effect in effects:
            self.effects.append((self.now_ms, node_id, effect))
            if type(effect) is Send:
                self.wire.append(Envelope(node_id, effect.target, effect.message))
            elif host.perform(effect) and node_id not in self.slow_disks:
                self.sync(node_id)

    def sync(self, node_id: int) -> None:
        self.hosts[node_id].log.sync()
        # The node hears of it only after the effects that are being performed.
        self.wire.insert(0, Envelope(node_id, node_id, SYNCED))

    def tick(self, node_id: int) -> None:
        self.perform(node_id, self.node(node_id).tick(self.now_ms))

    def append(self, node_id: int, *records: object) -> int:
        offset, effects = self.node(node_id).append(records, self.now_ms)
        self.perform(node_id, effects)
        return offset

    def deliver(self, envelope: Envelope) -> None:
        """Hand over one message, unless its target is down or the link is cut."""
        host = self.hosts[envelope.target]
        if host.node is None or (envelope.source, envelope.target) in self.cut_links:
            self.dropped.append(envelope)
        elif envelope.message is SYNCED:
            self.perform(host.node_id, host.node.on_durable(self.now_ms))
        else:
            effects = host.node.on_message(envelope.source, envelope.message, self.now_ms)
            self.perform(host.node_id, effects)

    def settle(self) -> None:
        """Deliver until nothing is under way; parked fetches stay parked."""
        for _ in range(10_000):
            if not self.wire:
                return
            self.deliver(self.wire.pop(0))
        raise AssertionError("the nodes do not stop talking")

    def run(self, duration_ms: int) -> None:
        """Let time pass: everybody is ticked exactly when it asked to be."""
        until_ms = self.now_ms + duration_ms
        self.settle()
        while True:
            due = [(h.node.next_deadline_ms, h.node_id) for h in self.hosts.values() if h.node]
            if not due or min(due)[0] > until_ms:
                break
            deadline_ms, node_id = min(due)
            assert deadline_ms >= self.now_ms or deadline_ms == 0, f"{node_id} was overdue"
            self.now_ms = max(self.now_ms, deadline_ms)
            self.tick(node_id)
            self.settle()
        self.now_ms = until_ms

    # Looking -----------------------------------------------------------------------------

    def leader(self) -> int:
        leaders = [n for n, h in self.hosts.items() if h.node and h.node.role == "leader"]
        assert len(leaders) == 1, f"leaders: {leaders}"
        return leaders[0]

    def roles(self) -> dict[int, str]:
        return {n: h.node.role if h.node else "down" for n, h in self.hosts.items()}

    def sent(self, kind: type, *, source: int | None = None) -> list[QuorumMessage]:
        return [
            effect.message
            for _, node_id, effect in self.effects
            if type(effect) is Send and type(effect.message) is kind and source in (None, node_id)
        ]

    def log_of(self, node_id: int) -> list[tuple[object, int]]:
        """(record, epoch) of every record that is not a control record."""
        entries = self.hosts[node_id].log.entries
        return [(r, entry.epoch) for entry in entries if not entry.control for r in entry.records]


class _Synced(NamedTuple):
    """Not a message: the disk tells its own node that the log is durable."""


SYNCED: QuorumMessage = _Synced()  # type: ignore[assignment]
