"""What is known of the metadata quorum: promises on disk, leaders, logs, what is committed.

Like the chronicle it hears everything before the rules do and judges nothing. The log of each
node is mirrored from what the node reported, so that rules need not trust the node's own log.
"""

from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.types import NO_EPOCH, LogEntry
from tidelog.sim.rules.view import WorldView


class NodeLog:
    """A node's metadata log, as far as its reports tell. After a crash the node may have less;
    its next append says so."""

    __slots__ = ("_offsets", "entries", "start")

    def __init__(self) -> None:
        self.start = SnapshotId(0, NO_EPOCH)
        self.entries: list[LogEntry] = []
        self._offsets: list[int] = []

    @property
    def end(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.start.end_offset

    def append(self, entry: LogEntry) -> None:
        self.truncate_to(entry.offset)
        self.entries.append(entry)
        self._offsets.append(entry.offset)

    def truncate_to(self, offset: int) -> None:
        keep = bisect_left(self._offsets, offset)
        del self.entries[keep:], self._offsets[keep:]

    def restart_at(self, snapshot: SnapshotId) -> None:
        self.start = snapshot
        self.entries.clear()
        self._offsets.clear()

    def epoch_before(self, offset: int) -> int:
        """Epoch of the entry that ends at `offset` or spans it; NO_EPOCH if unknown."""
        index = bisect_right(self._offsets, offset - 1) - 1
        if index < 0:
            return self.start.epoch if offset == self.start.end_offset else NO_EPOCH
        entry = self.entries[index]
        return entry.epoch if entry.next_offset >= offset else NO_EPOCH

    def entries_from(self, offset: int) -> list[LogEntry]:
        return self.entries[bisect_left(self._offsets, offset) :]


class Leadership(NamedTuple):
    node: int
    start_offset: int
    elected_ms: int


class QuorumFacts:
    __slots__ = (
        "committed_by_epoch",
        "committed_end",
        "leaderships",
        "leads",
        "logs",
        "persisted",
        "top_epoch",
        "world",
    )

    def __init__(self, world: WorldView) -> None:
        self.world = world
        self.leaderships: dict[int, Leadership] = {}
        self.top_epoch = NO_EPOCH
        # Node → epoch it leads, until it stores another promise or stops.
        self.leads: dict[int, int] = {}
        # Node → newest stored promise (`QuorumState`).
        self.persisted: dict[int, Any] = {}
        self.logs: dict[int, NodeLog] = {}
        # High watermarks of leaders: per epoch and over all.
        self.committed_by_epoch: dict[int, int] = {}
        self.committed_end = 0

    def log(self, node: int) -> NodeLog:
        found = self.logs.get(node)
        if found is None:
            found = self.logs[node] = NodeLog()
        return found

    def committed_before(self, epoch: int) -> int:
        return max((end for e, end in self.committed_by_epoch.items() if e < epoch), default=0)

    def voters(self, node: int) -> tuple[int, ...]:
        """The voter set in force on this node, () when it does not run."""
        for node_id, quorum_node in self.world.quorum_nodes():
            if node_id == node:
                return tuple(voter.node_id for voter in quorum_node.voters)
        return ()

    # -- hooks

    def quorum_state_persisted(self, node: int, state: Any) -> None:
        self.persisted[node] = state
        if self.leads.get(node, state.epoch) != state.epoch:
            del self.leads[node]

    def quorum_leader(self, node: int, epoch: int, start_offset: int) -> None:
        self.leads[node] = epoch
        self.leaderships.setdefault(epoch, Leadership(node, start_offset, self.world.now_ms))
        self.top_epoch = max(self.top_epoch, epoch)
        self.log(node).truncate_to(start_offset)

    def quorum_high_watermark(self, node: int, high_watermark: int) -> None:
        epoch = self.leads.get(node)
        if epoch is not None:
            if high_watermark > self.committed_by_epoch.get(epoch, 0):
                self.committed_by_epoch[epoch] = high_watermark
            self.committed_end = max(self.committed_end, high_watermark)

    def metadata_appended(self, node: int, entry: LogEntry) -> None:
        self.log(node).append(entry)

    def metadata_truncated(self, node: int, offset: int, _high_watermark: int) -> None:
        self.log(node).truncate_to(offset)

    def snapshot_installed(self, node: int, end_offset: int, _image: object) -> None:
        self.log(node).restart_at(SnapshotId(end_offset, NO_EPOCH))

    def node_stopped(self, node: int, kind: str) -> None:
        self.leads.pop(node, None)
        if kind == "wipe":
            self.logs.pop(node, None)
            self.persisted.pop(node, None)
