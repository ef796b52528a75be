"""One partition that this broker hosts: its state machine, its log, its settings."""

from tidelog.broker.replication.topic_settings import TopicSettings
from tidelog.coordinators.shards import Shards
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import ReplicaSettings
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.replica import Replica
from tidelog.core.types import PartitionId
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory


class Hosted:
    """Made and dropped by `Replicas`; everybody else looks at it."""

    __slots__ = (
        "directory",
        "index",
        "log",
        "partition",
        "replica",
        "settings",
        "shards",
        "topic",
        "topic_settings",
    )

    def __init__(
        self,
        replica: Replica,
        log: Log,
        directory: LogDirectory,
        topic: str,
        topic_settings: TopicSettings,
    ) -> None:
        self.partition: PartitionId = replica.partition
        self.topic = topic
        self.index = replica.partition.partition
        self.replica = replica
        self.log = log
        self.directory = directory
        self.settings: ReplicaSettings = replica.settings
        self.topic_settings = topic_settings
        self.shards: Shards | None = None
        """Of the internal topic that this partition belongs to, if it does."""

    def __repr__(self) -> str:
        return f"Hosted({self.topic}-{self.index})"

    @property
    def name(self) -> tuple[str, int]:
        """How storage calls it."""
        return (self.topic, self.index)

    @property
    def leader(self) -> LeaderReplica | None:
        role = self.replica.role
        return role if isinstance(role, LeaderReplica) else None

    @property
    def follower(self) -> FollowerReplica | None:
        role = self.replica.role
        return role if isinstance(role, FollowerReplica) else None
