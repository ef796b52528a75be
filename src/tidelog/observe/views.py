"""What a node lets be seen of itself, read when somebody asks and never kept.

The node implements `NodeView`; metrics, `/state` and `/healthz` are made from it. Nothing here
costs anything while nobody looks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from tidelog.core.types import NO_LEADER, LogEntry
from tidelog.host.findings import Finding
from tidelog.host.histogram import Histogram
from tidelog.observe.traffic import Traffic

LEADER, FOLLOWER, OFFLINE = "leader", "follower", "offline"


class FollowerView(NamedTuple):
    """A follower as its leader knows it, from its fetches."""

    broker: int
    in_isr: bool
    log_end_offset: int
    """-1: it has not fetched yet."""
    lag: int
    """Records it does not have; -1 if it has not fetched yet."""
    caught_up_ms_ago: int | None
    """Since it last had everything; None if that was never so."""


class PartitionView(NamedTuple):
    """One hosted partition."""

    topic: str
    partition: int
    role: str
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int
    """What is asked for, and no more than there are replicas."""
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    lag: int = 0
    """Of our own copy if we follow; -1 if unknown."""
    adding_replicas: tuple[int, ...] = ()
    followers: tuple[FollowerView, ...] = ()
    parked_produces: int = 0
    under_replicated_since_ms: int | None = None
    """Wall time at which its leader noticed."""
    problem: str | None = None
    """Why this broker cannot host it."""
    last_stable_offset_lag: int = 0
    """Committed records that wait for the end of a transaction."""
    has_late_transaction: bool = False
    """One is open for longer than its coordinator would have let it be: it hangs."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def leads(self) -> bool:
        return self.role == LEADER

    @property
    def under_replicated(self) -> bool:
        """Replicas that are only being added do not count as missing."""
        return self.leads and len(self.isr) < len(self.replicas) - len(self.adding_replicas)

    @property
    def under_min_isr(self) -> bool:
        return self.leads and len(self.isr) < self.min_isr

    @property
    def at_min_isr(self) -> bool:
        return self.leads and len(self.isr) == self.min_isr

    @property
    def healthy(self) -> bool:
        if self.problem is not None or self.leader == NO_LEADER:
            return False
        return not self.under_replicated and not self.under_min_isr


class OverheardMessage(NamedTuple):
    """A follower's fetch, or its leader's answer, while somebody watches the partition."""

    number: int
    """Counts from 1 in every process of a node."""
    wall_ms: int
    replica: int
    """The follower that asked."""
    offset: int
    """The fetch offset, of a fetch and of the answer to it."""
    last_epoch: int
    """What a fetch said of the follower's last record; -1 if it has none, and in an answer."""
    end_offset: int
    """After the records of an answer; -1 if nobody looked, and in a fetch."""
    high_watermark: int | None
    """What an answer told; None in a fetch."""


class ReplicaView(NamedTuple):
    """One hosted partition, and the epoch history of its log."""

    partition: PartitionView
    epochs: tuple[tuple[int, int], ...]
    """(leader epoch, start offset), ascending."""
    overheard: Sequence[OverheardMessage] = ()
    """The last messages between its leader and its followers, if this is the leader."""


class PartitionPage(NamedTuple):
    """Some of the hosted partitions, so that nobody asks for all of them in one piece. Of their
    epoch histories it has the ends."""

    total: int
    replicas: tuple[ReplicaView, ...]


class ControllerView(NamedTuple):
    """What the controller of this node knows; decisions are made only while it is active."""

    active: bool
    controller_epoch: int
    topics: int
    partitions: int
    offline_partitions: int
    preferred_replica_imbalance: int
    active_brokers: int
    fenced_brokers: int


class QuorumView(NamedTuple):
    leader_id: int
    leader_epoch: int
    role: str
    high_watermark: int
    log_end_offset: int
    applied_offset: int


class ConnectionsView(NamedTuple):
    open: int
    accepted: int
    closed: Mapping[str, int]
    """By reason."""
    bytes_in: int
    bytes_out: int
    in_flight_bytes: int
    logins: Mapping[str, int] = {}
    """With SASL, that succeeded, by listener."""
    failed_logins: Mapping[str, int] = {}
    certificates_end_ms: Mapping[str, int] = {}
    """Until when each certificate of the node holds, in wall time, by what it is for."""


class WorkView(NamedTuple):
    group_commit_passes: int
    group_commit_seconds: float
    parked_fetches: int
    scrubbed_bytes: int = 0
    damaged_batches: int = 0
    mended_batches: int = 0


class LogDirView(NamedTuple):
    """A log directory and the disk around it."""

    path: str
    usable_bytes: int | None
    """What is free for us; None if it is not known."""
    is_full: bool
    """It takes no records."""


class BrokerView(NamedTuple):
    """A registered broker, as the local metadata has it."""

    broker: int
    broker_epoch: int
    fenced: bool
    in_controlled_shutdown: bool
    endpoints: tuple[tuple[str, str, int], ...]


class Health(NamedTuple):
    """What must be so before a node may be sent clients. None: not asked of this kind of node."""

    listeners_open: bool
    disks_online: bool
    metadata_caught_up: bool
    quorum_leader_known: bool
    registered: bool | None
    unfenced: bool | None
    session_alive: bool | None
    """The active controller has answered within the session timeout. One that has not may have
    fenced us without our knowledge."""
    stopping: bool = False

    @property
    def reasons(self) -> dict[str, str]:
        """Why not, by the name of the condition. Empty: it may serve."""
        broken = {
            field: _COMPLAINTS[field]
            for field in _COMPLAINTS
            if getattr(self, field) is (field == "stopping")
        }
        if "registered" in broken:
            broken.pop("unfenced", None)  # neither can be before
            broken.pop("session_alive", None)
        return broken

    @property
    def serves(self) -> bool:
        return not self.reasons


_COMPLAINTS = {
    "listeners_open": "the listeners are not open yet",
    "disks_online": "a log directory failed; what it holds cannot be read or written",
    "metadata_caught_up": "metadata is not caught up with the active controller",
    "quorum_leader_known": "no leader of the metadata quorum is known",
    "registered": "the active controller has not registered this broker yet",
    "unfenced": "the active controller has fenced this broker",
    "session_alive": "the active controller has not answered for as long as a session lasts",
    "stopping": "the node is stopping",
}


class NodeView(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def roles(self) -> tuple[str, ...]: ...
    @property
    def cluster_id(self) -> str: ...
    def partitions(self) -> Iterator[PartitionView]:
        """Every hosted partition, and those that should be hosted and cannot."""
        ...

    def partition_page(self, start: int, limit: int) -> PartitionPage:
        """Hosted partitions from a place on; places change when partitions come or go."""
        ...

    def replica(self, topic: str, index: int) -> ReplicaView | None:
        """None: no replica of it lies here."""
        ...

    def controller(self) -> ControllerView | None: ...
    def quorum(self) -> QuorumView: ...
    def metadata_entries(self, count: int) -> tuple[LogEntry, ...]:
        """The end of the metadata log: so many records of it, or an entry more."""
        ...

    def brokers(self) -> tuple[BrokerView, ...]: ...
    def traffic(self) -> Traffic: ...
    def requests(self) -> Mapping[str, int]:
        """How many came in since the start, by the name of the API."""
        ...

    def request_times(self) -> Mapping[str, Histogram]:
        """How long clients waited for their answers, by the name of the API."""
        ...

    def connections(self) -> ConnectionsView: ...
    def work(self) -> WorkView: ...
    def log_dirs(self) -> tuple[LogDirView, ...]: ...
    def health(self) -> Health: ...
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong right now, oldest first."""
        ...

    def topic_name(self, topic_id: bytes) -> str | None: ...
