"""A cluster of production nodes, as the rules look at it (`sim.rules.view.WorldView`).

Replicas are production's own state machines. Their logs are seen through shadows, which stay when
a node stops: what was on its disk when it was last seen.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter

from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import replay
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.replication.replica import Replica
from tidelog.core.types import LogEntry, PartitionId
from tidelog.sim.kernel import Kernel
from tidelog.sim.ledger import Ledger
from tidelog.sim.nodes.view_books import NodeBooks
from tidelog.sim.nodes.view_log import ShadowLog
from tidelog.sim.recovery_facts import POWER_LOSS, RESTART, Found, Recovery, Written
from tidelog.storage.log import Log


class HostedReplica:
    """A `ReplicaFace` of a production replica."""

    __slots__ = ("broker_id", "log", "partition", "replica")

    def __init__(self, replica: Replica, log: ShadowLog) -> None:
        self.replica = replica
        self.log = log
        self.partition = replica.partition
        self.broker_id = replica.broker_id

    # Asked at every happening: no frame of their own.
    settings = property(attrgetter("replica.settings"))
    high_watermark = property(attrgetter("replica.high_watermark"))
    last_stable_offset = property(attrgetter("replica.last_stable_offset"))
    leader = property(attrgetter("replica.leader"))
    leader_epoch = property(attrgetter("replica.leader_epoch"))
    partition_epoch = property(attrgetter("replica.partition_epoch"))
    role = property(attrgetter("replica.role"))


class Life:
    """One process of a node: what it hosts and takes part in, until it ends."""

    __slots__ = ("controller", "hosted", "incarnation_id", "quorum")

    def __init__(self) -> None:
        self.hosted: dict[PartitionId, HostedReplica] = {}
        self.quorum: QuorumNode | None = None
        self.controller: Controller | None = None
        self.incarnation_id: bytes | None = None


class NodesView:
    """What is true of the whole cluster, fed by the probes."""

    def __init__(
        self,
        kernel: Kernel,
        nodes: Sequence[int],
        check_quorum_ms: int,
        *,
        is_stopping: Callable[[int], bool],
    ) -> None:
        self._kernel = kernel
        self._is_stopping = is_stopping
        self.check_quorum_ms = check_quorum_ms
        self.image = MetadataImage()
        self.image_offset = 0
        self.ledger = Ledger()
        self.books = NodeBooks(self.image)
        self.lives: dict[int, Life | None] = dict.fromkeys(nodes)
        self._shadows: dict[int, dict[PartitionId, ShadowLog]] = {node: {} for node in nodes}
        self._by_log: dict[Log, HostedReplica] = {}
        self._by_replica: dict[object, HostedReplica] = {}
        # Asked at every happening: no frame of their own.
        self.of_log: Callable[[Log], HostedReplica | None] = self._by_log.get
        self.of_replica: Callable[[object], HostedReplica | None] = self._by_replica.get
        self._written: dict[int, dict[PartitionId, Written]] = {node: {} for node in nodes}
        self._causes: dict[int, str] = {}
        self.were_wiped: dict[int, None] = {}
        self._damaged: dict[int, None] = {}
        """Nodes of whose logs bytes were changed or lost."""

    # -- what the probes tell

    def started(self, node: int) -> None:
        self.lives[node] = Life()

    def stopped(self, node: int) -> None:
        """What its logs owe to the next process is written down now."""
        life, self.lives[node] = self.lives[node], None
        if life is None:
            return
        self._causes[node] = RESTART
        for hosted in life.hosted.values():
            self._written[node][hosted.partition] = hosted.log.written()
            self._forget(hosted)

    def lost_unsynced(self, node: int) -> None:
        """Its machine is without power: only what was synced is owed."""
        self._causes[node] = POWER_LOSS
        for partition, before in self._written[node].items():
            synced = self._shadows[node][partition].log.recovery_point
            owed_end = min(before.owed_end, synced)
            self._written[node][partition] = before._replace(owed_end=owed_end)

    def damaged(self, node: int) -> None:
        """Something lies no more on its disks as it was written: its logs owe nothing."""
        self._damaged[node] = None

    def wiped(self, node: int) -> None:
        """Its disks were replaced by empty ones."""
        self.were_wiped[node] = None
        self._shadows[node].clear()
        self._written[node].clear()
        self.ledger.damage(self.image, node)

    def set_aside(self, node: int, partition: PartitionId) -> None:
        """A log that metadata did not place there any more: the next one begins empty."""
        self._shadows[node].pop(partition, None)
        self._written[node].pop(partition, None)

    def host(self, replica: Replica) -> Recovery | None:
        """A broker hosts it from now on: what was found on disk, if there was something."""
        log, partition, node = replica.log, replica.partition, replica.broker_id
        life = self.lives[node]
        if life is None:
            return None  # it was killed in the middle of this
        assert isinstance(log, Log), log
        shadow = ShadowLog(log, self.books.contents_of(partition))
        former = self._shadows[node].get(partition)
        unlike = node in self._damaged or log.may_have_gaps
        if former is not None and unlike:
            shadow.take_over(former)
        else:
            shadow.load(former)
        self._shadows[node][partition] = shadow
        hosted = HostedReplica(replica, shadow)
        life.hosted[partition] = hosted
        self._by_log[log] = self._by_replica[replica] = hosted
        before = self._written[node].pop(partition, None)
        if before is None or unlike:
            return None
        found = Found(list(shadow.batches), log.log_start_offset, log.log_end_offset)
        return Recovery(node, partition, self._causes[node], before, found, ())

    def drop(self, replica: Replica) -> None:
        """It is not hosted any more."""
        hosted = self._by_replica.get(replica)
        life = self.lives[replica.broker_id]
        if hosted is not None and life is not None:
            self._forget(hosted)
            life.hosted.pop(replica.partition, None)
            self._shadows[replica.broker_id].pop(replica.partition, None)

    def moved(self, replica: Replica) -> None:
        """It stands in another log directory now, with all that it held."""
        hosted = self._by_replica.get(replica)
        if hosted is not None:
            assert isinstance(replica.log, Log), replica.log
            del self._by_log[hosted.log.log]
            hosted.log.log = replica.log
            self._by_log[replica.log] = hosted

    def _forget(self, hosted: HostedReplica) -> None:
        self._by_log.pop(hosted.log.log, None)
        self._by_replica.pop(hosted.replica, None)

    def hosted(self, node: int, partition: PartitionId) -> HostedReplica | None:
        life = self.lives[node]
        return None if life is None else life.hosted.get(partition)

    def metadata_committed(self, entry: LogEntry) -> None:
        """Told by every node that applies it; the first time counts."""
        if entry.offset < self.image_offset:
            return
        self.image_offset = entry.next_offset
        if entry.control:
            return
        for record in entry.records:
            replay(self.image, record)  # type: ignore[arg-type]
            self.ledger.observe(self.image, record)

    def has_stopped_holder(self, topic_id: bytes) -> bool:
        """Has a node a log of this topic that does not run?"""
        return any(
            life is None and any(each.topic_id == topic_id for each in self._shadows[node])
            for node, life in self.lives.items()
        )

    # -- WorldView

    @property
    def now_ms(self) -> int:
        return self._kernel.now_ms

    def replicas(self, partition: PartitionId) -> list[HostedReplica]:
        lives = [life for life in self.lives.values() if life is not None]
        return [life.hosted[partition] for life in lives if partition in life.hosted]

    def all_logs(self, partition: PartitionId) -> list[tuple[int, ShadowLog]]:
        return [
            (node, shadows[partition])
            for node, shadows in self._shadows.items()
            if partition in shadows
        ]

    def partitions(self) -> list[PartitionId]:
        return [state.id for state in self.image.partitions()]

    def expected_durable(self, partition: PartitionId) -> bool:
        return self.ledger.expected_durable(partition)

    def quorum_nodes(self) -> list[tuple[int, QuorumNode]]:
        return [
            (node, life.quorum)
            for node, life in self.lives.items()
            if life is not None and life.quorum is not None
        ]

    def controllers(self) -> list[tuple[int, Controller]]:
        return [
            (node, life.controller)
            for node, life in self.lives.items()
            if life is not None and life.controller is not None
        ]

    def incarnation_of(self, node_id: int) -> bytes | None:
        """A process that stops refuses connections before it ends."""
        life = self.lives[node_id]
        return None if life is None or self._is_stopping(node_id) else life.incarnation_id
