"""The public view of a node: `observe.views.NodeView`, read from its parts."""

from collections.abc import Iterator, Mapping
from itertools import islice

from tidelog.broker.broker import Broker
from tidelog.broker.replication.hosted import Hosted
from tidelog.config.security import HTTP
from tidelog.core.metadata.image import BrokerRegistration, MetadataImage
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.progress import FollowerProgress
from tidelog.core.types import NO_LEADER, NO_OFFSET, LogEntry, PartitionId
from tidelog.host.findings import Finding
from tidelog.host.histogram import Histogram
from tidelog.host.network import TcpNetwork
from tidelog.node.http_access import NodeHttpAccess
from tidelog.node.node import Node
from tidelog.observe.traffic import Traffic
from tidelog.observe.views import (
    FOLLOWER,
    LEADER,
    OFFLINE,
    BrokerView,
    ConnectionsView,
    ControllerView,
    FollowerView,
    Health,
    LogDirView,
    PartitionPage,
    PartitionView,
    QuorumView,
    ReplicaView,
    WorkView,
)
from tidelog.wire.protocol.apis import API_BY_KEY

_NO_TRAFFIC = Traffic()

LATE_TRANSACTION_MS = 300_000
EPOCHS_PAGED = 20


class LiveNode:
    """Implements `NodeView`. Keeps nothing but since when partitions are under-replicated."""

    __slots__ = ("_access", "_network", "_node", "_since")

    def __init__(self, node: Node, network: TcpNetwork, access: NodeHttpAccess | None) -> None:
        self._node = node
        self._network = network
        self._access = access
        self._since: dict[PartitionId, int] = {}

    @property
    def node_id(self) -> int:
        return self._node.config.node_id

    @property
    def roles(self) -> tuple[str, ...]:
        return self._node.config.roles

    @property
    def cluster_id(self) -> str:
        return self._node.cluster_id

    # -- partitions

    def partitions(self) -> Iterator[PartitionView]:
        broker = self._node.broker
        if broker is None:
            return
        for hosted in list(broker.replicas.hosted.values()):
            yield self._hosted(broker, hosted)
        for partition, problem in list(broker.replicas.problems.items()):
            if partition not in broker.replicas.hosted:
                yield self._refused(broker.image, partition, problem)

    def partition_page(self, start: int, limit: int) -> PartitionPage:
        broker = self._node.broker
        if broker is None:
            return PartitionPage(0, ())
        hosted = broker.replicas.hosted
        chosen = list(islice(hosted.values(), start, start + limit))
        replicas = tuple(
            ReplicaView(self._hosted(broker, each), tuple(each.log.epochs.entries[-EPOCHS_PAGED:]))
            for each in chosen
        )
        return PartitionPage(len(hosted), replicas)

    def replica(self, topic: str, index: int) -> ReplicaView | None:
        broker = self._node.broker
        topic_id = None if broker is None else broker.image.topic_ids.get(topic)
        if broker is None or topic_id is None:
            return None
        partition = PartitionId(topic_id, index)
        hosted = broker.replicas.hosted.get(partition)
        if hosted is not None:
            epochs = tuple(hosted.log.epochs.entries)
            overheard = broker.fetches.overheard.watch(partition)
            return ReplicaView(self._hosted(broker, hosted), epochs, overheard)
        problem = broker.replicas.problems.get(partition)
        if problem is None:
            return None
        return ReplicaView(self._refused(broker.image, partition, problem), ())

    def note_replication(self, partition: PartitionId) -> None:
        """Something happened to it: note when its ISR began, or ceased, to miss replicas."""
        broker = self._node.broker
        hosted = None if broker is None else broker.replicas.hosted.get(partition)
        leader = None if hosted is None else hosted.leader
        if leader is None or not leader.is_under_replicated:
            self._since.pop(partition, None)
        else:
            self._since.setdefault(partition, self._node.host.clock.wall_ms())

    def _hosted(self, broker: Broker, hosted: Hosted) -> PartitionView:
        self.note_replication(hosted.partition)
        state, leader, follower = hosted.replica, hosted.leader, hosted.follower
        known = broker.image.partition(hosted.partition)
        isr = known.isr if known is not None else ()
        return PartitionView(
            hosted.topic,
            hosted.index,
            role=LEADER if leader is not None else FOLLOWER,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=isr if leader is None else leader.isr,
            min_isr=min(hosted.settings.min_insync_replicas, len(state.replicas)),
            high_watermark=state.high_watermark,
            log_start_offset=hosted.log.log_start_offset,
            log_end_offset=hosted.log.log_end_offset,
            lag=0 if follower is None else follower.lag,
            adding_replicas=state.adding_replicas,
            followers=() if leader is None else self._followers(leader),
            parked_produces=0 if leader is None else len(leader.parked),
            under_replicated_since_ms=self._since.get(hosted.partition),
            problem=broker.replicas.problems.get(hosted.partition),
            last_stable_offset_lag=state.high_watermark - state.last_stable_offset,
            has_late_transaction=hosted.log.producers.has_late_transaction(
                self._late_before_ms(broker)
            ),
        )

    def _late_before_ms(self, broker: Broker) -> int:
        """Coordinators end what was last written to before that, and markers take a while."""
        longest_ms = broker.config.transaction_settings().max_timeout_ms
        return broker.host.clock.wall_ms() - longest_ms - LATE_TRANSACTION_MS

    def _followers(self, leader: LeaderReplica) -> tuple[FollowerView, ...]:
        now_ms = self._node.host.now_ms()
        end = leader.state.log.log_end_offset
        return tuple(
            FollowerView(
                each.replica_id,
                each.replica_id in leader.isr,
                each.log_end_offset,
                -1 if each.log_end_offset == NO_OFFSET else max(0, end - each.log_end_offset),
                _ago(each, now_ms),
            )
            for each in leader.progress.values()
        )

    def _refused(self, image: MetadataImage, partition: PartitionId, problem: str) -> PartitionView:
        state = image.partition(partition)
        topic = self.topic_name(partition.topic_id) or partition.topic_id.hex()[:6]
        return PartitionView(
            topic,
            partition.partition,
            role=OFFLINE,
            leader=NO_LEADER if state is None else state.leader,
            leader_epoch=-1 if state is None else state.leader_epoch,
            partition_epoch=-1 if state is None else state.partition_epoch,
            replicas=() if state is None else state.replicas,
            isr=() if state is None else state.isr,
            min_isr=0,
            high_watermark=0,
            log_start_offset=0,
            log_end_offset=0,
            problem=problem,
        )

    # -- the cluster

    def controller(self) -> ControllerView | None:
        controller = self._node.controller
        if controller is None:
            return None
        image = controller.image
        fenced = sum(each.fenced for each in image.brokers.values())
        return ControllerView(
            controller.active,
            controller.core.epoch,
            len(image.topics),
            sum(len(topic.partitions) for topic in image.topics.values()),
            len(image.index.led_by.get(NO_LEADER, ())),
            sum(map(len, image.index.displaced_from.values())),
            len(image.brokers) - fenced,
            fenced,
        )

    def quorum(self) -> QuorumView:
        quorum = self._node.quorum
        return QuorumView(
            quorum.leader_id,
            quorum.leader_epoch,
            quorum.role,
            quorum.high_watermark,
            quorum.log_end_offset,
            quorum.applied_offset,
        )

    def metadata_entries(self, count: int) -> tuple[LogEntry, ...]:
        return self._node.quorum.last_entries(count)

    def brokers(self) -> tuple[BrokerView, ...]:
        image = self._image()
        known = {} if image is None else image.brokers
        return tuple(
            BrokerView(
                each.broker_id,
                each.broker_epoch,
                each.fenced,
                each.in_controlled_shutdown,
                tuple((end.name, end.host, end.port) for end in each.endpoints),
            )
            for each in known.values()
        )

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._node.topic_name(topic_id)

    def _image(self) -> MetadataImage | None:
        if self._node.broker is not None:
            return self._node.broker.image
        return None if self._node.controller is None else self._node.controller.image

    # -- work

    def traffic(self) -> Traffic:
        return _NO_TRAFFIC if self._node.broker is None else self._node.broker.traffic

    def requests(self) -> Mapping[str, int]:
        totals: dict[str, int] = {}
        for table in self._node.tables:
            for key, count in table.requests.items():
                name = API_BY_KEY[key].name
                totals[name] = totals.get(name, 0) + count
        return totals

    def request_times(self) -> Mapping[str, Histogram]:
        times = self._node.request_times
        return {API_BY_KEY[key].name: each.histogram for key, each in times.items()}

    def connections(self) -> ConnectionsView:
        counters = self._network.counters
        return ConnectionsView(
            self._network.admission.open,
            counters.accepted,
            {reason.value: count for reason, count in counters.closed.items()},
            counters.bytes_in,
            counters.bytes_out,
            self._network.context.flight.used_bytes,
            {name: succeeded for name, succeeded, _ in self._logins()},
            {name: failed for name, _, failed in self._logins()},
            dict(self._node.security.expiries()),
        )

    def _logins(self) -> Iterator[tuple[str, int, int]]:
        yield from self._node.security.logins()
        if self._access is not None:
            yield HTTP, self._access.succeeded, self._access.failed

    def work(self) -> WorkView:
        broker = self._node.broker
        if broker is None:
            return WorkView(0, 0.0, 0)
        commits = broker.replicas.directories.commits
        return WorkView(
            sum(each.passes for each in commits),
            sum(each.seconds for each in commits),
            broker.fetches.parked_count,
            broker.scrubbing.scrubbed_bytes,
            broker.mending.found_count,
            broker.mending.mended_count,
        )

    def log_dirs(self) -> tuple[LogDirView, ...]:
        broker, of_metadata = self._node.broker, self._node.metadata_room
        rooms = [] if broker is None else broker.rooms.views()
        if of_metadata is not None:
            rooms.append(of_metadata.view())
        return tuple(
            LogDirView(
                each.path, None if each.space is None else each.space.usable_bytes, each.is_full
            )
            for each in rooms
        )

    def health(self) -> Health:
        node, broker = self._node, self._node.broker
        own = None if broker is None else self._registration(broker)
        quorum = node.quorum
        return Health(
            listeners_open=node.listening,
            disks_online=broker is None
            or all(each.online for each in broker.replicas.directories.all),
            metadata_caught_up=quorum.high_watermark != NO_OFFSET
            and quorum.applied_offset >= quorum.high_watermark,
            quorum_leader_known=quorum.leader_id != NO_LEADER,
            registered=None if broker is None else own is not None,
            unfenced=None if broker is None else own is not None and not own.fenced,
            session_alive=None if broker is None else self._session_alive(broker),
            stopping=node.stopping,
        )

    def findings(self) -> tuple[Finding, ...]:
        return self._node.host.findings.all()

    def _session_alive(self, broker: Broker) -> bool:
        silent_ms = broker.now_ms() - broker.link.heard_ms
        return silent_ms < broker.config.settings.whole("broker.session.timeout.ms")

    def _registration(self, broker: Broker) -> BrokerRegistration | None:
        """Of this very process, not of the one before it."""
        own = broker.image.brokers.get(broker.id)
        current = own is not None and own.broker_epoch == broker.link.broker_epoch
        return own if current and broker.metadata.serving else None


def _ago(progress: FollowerProgress, now_ms: int) -> int | None:
    """The core's "never" lies before any clock's beginning."""
    return None if progress.last_caught_up_ms < 0 else now_ms - progress.last_caught_up_ms
