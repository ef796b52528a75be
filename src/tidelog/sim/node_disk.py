"""What a node finds on its disk when it starts again."""

from tidelog.core.quorum.state import QuorumState
from tidelog.core.types import NO_EPOCH, PartitionId
from tidelog.sim.raft_log import RaftLog
from tidelog.sim.sim_log import SimLog


class NodeDisk:
    """Survives the process. Everything else of a node is gone after a crash."""

    __slots__ = (
        "clean_broker_epoch",
        "fsync",
        "high_watermarks",
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
        self.clean_broker_epoch = NO_EPOCH

    def log(self, partition: PartitionId) -> SimLog:
        """The partition's log, made empty if this disk has none."""
        log = self.logs.get(partition)
        if log is None:
            log = self.logs[partition] = SimLog(fsync=self.fsync)
        return log

    def remove_log(self, partition: PartitionId) -> None:
        self.logs.pop(partition, None)
        self.high_watermarks.pop(partition, None)

    def take_clean_marker(self) -> int:
        """Proof of an orderly stop, good for one start only."""
        broker_epoch, self.clean_broker_epoch = self.clean_broker_epoch, NO_EPOCH
        return broker_epoch

    def reload(self) -> None:
        for log in self.logs.values():
            log.reload()
        self.raft_log.sync()

    def replace_data(self) -> None:
        """A new data disk: every replica is gone, the metadata log is on another disk."""
        self.logs = {}
        self.high_watermarks = {}
