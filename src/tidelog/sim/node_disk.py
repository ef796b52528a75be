"""What a node finds on its disk when it starts again."""

from tidelog.core.quorum.state import QuorumState
from tidelog.core.types import NO_EPOCH, PartitionId
from tidelog.sim.raft_log import RaftLog
from tidelog.sim.sim_log import SimLog


class NodeDisk:
    """Survives the process. Everything else of a node is gone after a crash."""

    __slots__ = (
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
        self.raft_log = RaftLog()
        self.logs: dict[PartitionId, SimLog] = {}
        self.high_watermarks: dict[PartitionId, int] = {}
        self.intact_since_epoch = NO_EPOCH

    def log(self, partition: PartitionId) -> SimLog:
        """The partition's log, made empty if this disk has none."""
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

    def on_clean_stop(self, broker_epoch: int) -> None:
        self.intact_since_epoch = broker_epoch

    def take_intact_mark(self) -> int:
        """The incarnation whose acknowledged records are all here. In page-cache mode the
        proof is good for one start only: the next crash may lose the tail."""
        broker_epoch = self.intact_since_epoch
        if not self.fsync:
            self.intact_since_epoch = NO_EPOCH
        return broker_epoch

    def reload(self) -> None:
        for log in self.logs.values():
            log.reload()
        self.raft_log.sync()

    def replace_data(self) -> None:
        """A new data disk: every replica is gone, the metadata log is on another disk."""
        self.logs = {}
        self.high_watermarks = {}
        self.intact_since_epoch = NO_EPOCH
