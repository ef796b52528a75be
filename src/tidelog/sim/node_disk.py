"""What a node finds on its disk when it starts again."""

from collections.abc import Callable

from tidelog.core.quorum.state import QuorumState
from tidelog.core.types import NO_EPOCH, NO_OFFSET, PartitionId
from tidelog.sim.node_log import NodeLog
from tidelog.sim.raft_log import RaftLog
from tidelog.sim.sim_log import SimLog


class NodeDisk:
    """Survives the process. Everything else of a node is gone after a crash."""

    __slots__ = (
        "committed_offset",
        "fsync",
        "high_watermarks",
        "intact_since_epoch",
        "logs",
        "quorum_state",
        "raft_log",
    )

    def __init__(self, *, fsync: bool, quorum_state: QuorumState) -> None:
        self.fsync = fsync
        self.quorum_state = quorum_state
        self.committed_offset = NO_OFFSET
        """What of the metadata log is known to be committed, and synced here."""
        self.raft_log = RaftLog()
        self.logs: dict[PartitionId, NodeLog] = {}
        self.high_watermarks: dict[PartitionId, int] = {}
        self.intact_since_epoch = NO_EPOCH

    def log(self, partition: PartitionId, topic: str) -> NodeLog:
        """The partition's log, made empty if this disk has none. `topic` is its name, which
        only files need: another topic may have had the same one."""
        log = self.logs.get(partition)
        if log is None:
            log = self.logs[partition] = SimLog(fsync=self.fsync)
        return log

    def remove_log(self, partition: PartitionId) -> None:
        self.logs.pop(partition, None)
        self.high_watermarks.pop(partition, None)

    def on_registered(self, broker_epoch: int) -> None:
        """With synced acknowledgements a crash loses nothing that others count on, so the mark
        of an incarnation is written when it begins; in page-cache mode only when it ends well."""
        if self.fsync:
            self.intact_since_epoch = broker_epoch

    def store_checkpoints(self) -> None:
        """Objects are stored as soon as they are there."""

    def on_clean_stop(self, broker_epoch: int) -> None:
        for log in self.logs.values():
            log.sync()
        self.intact_since_epoch = broker_epoch

    def take_intact_mark(self) -> int:
        """The incarnation whose acknowledged records are all here. In page-cache mode the
        proof is good for one start only: the next crash may lose the tail."""
        broker_epoch = self.intact_since_epoch
        if not self.fsync:
            self.intact_since_epoch = NO_EPOCH
        return broker_epoch

    def reload(self) -> None:
        """A new process opens it."""
        for log in self.logs.values():
            assert isinstance(log, SimLog), type(log)
            log.reload()
        self.raft_log.sync()

    def cut_power(self, kept_permille: int, draw: Callable[[int], int]) -> int:
        """The unsynced tail goes, but for a share of it that happened to reach the disk. How
        many records were lost; `draw` chooses for disks that can lose more than a tail."""
        lost = 0
        for log in self.logs.values():
            assert isinstance(log, SimLog), type(log)
            unsynced = log.log_end_offset - log.synced_offset
            lost += log.lose_tail(log.synced_offset + unsynced * kept_permille // 1000)
        self._lose_metadata_tail(kept_permille)
        return lost

    def _lose_metadata_tail(self, kept_permille: int) -> None:
        raft_log = self.raft_log
        unsynced = raft_log.log_end_offset - raft_log.durable_offset
        raft_log.lose_tail(raft_log.durable_offset + unsynced * kept_permille // 1000)

    def replace_data(self) -> None:
        """A new data disk: every replica is gone, the metadata log is on another disk."""
        self.logs = {}
        self.high_watermarks = {}
        self.intact_since_epoch = NO_EPOCH
