"""What one node is told to be: typed, checked, and with the source of every value.

All problems are found at once, because a node that complains about one line per start costs an
operator one start per line.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from tidelog.config import checks
from tidelog.config.broker_keys import KEYS
from tidelog.config.coordination import Coordinating, read_coordinating
from tidelog.config.endpoints import (
    Address,
    HttpAddress,
    Listener,
    Voter,
    parse_http_address,
)
from tidelog.config.layers import Finding, Inputs, Source
from tidelog.config.live_keys import check_live_config
from tidelog.config.replication_keys import RACK_AWARE_SELECTOR
from tidelog.config.security import Security, read_security, security_warnings
from tidelog.config.settings import Settings, resolve
from tidelog.config.topology import (
    BROKER,
    CONTROLLER,
    Topology,
    read_topology,
    voter_port_warnings,
)
from tidelog.config.values import show_value
from tidelog.core.groups.settings import GroupSettings
from tidelog.core.metadata.bootstrap import RELEASE_FEATURES
from tidelog.core.metadata.group_configs import GroupLimits
from tidelog.core.metadata.lifecycle import LifecycleSettings
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.quorum.state import QuorumSettings
from tidelog.core.replication.inputs import ReplicaSettings
from tidelog.core.replication.selector import rack_aware
from tidelog.core.transactions.settings import TransactionSettings

Durability = Literal["fsync", "page-cache"]


@dataclass(frozen=True, slots=True)
class Replication:
    """What a broker's fetchers and checkpoints need beside `ReplicaSettings`."""

    fetchers: int
    fetch_wait_max_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_response_max_bytes: int
    socket_timeout_ms: int
    socket_receive_buffer_bytes: int
    high_watermark_checkpoint_interval_ms: int
    leader_throttled_rate: int
    follower_throttled_rate: int


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What a log has if its topic says nothing else, and the rhythm of work on all logs."""

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    index_interval_bytes: int
    index_size_max_bytes: int
    retention_ms: int
    retention_bytes: int
    file_delete_delay_ms: int
    cleanup_policy: tuple[str, ...]
    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    retention_check_interval_ms: int
    recovery_point_checkpoint_interval_ms: int
    log_start_checkpoint_interval_ms: int
    recoveries_per_directory: int
    message_max_bytes: int
    disk_reserve_bytes: int
    """-1: as the size of the disk suggests."""
    scrub_bytes_per_second: int


@dataclass(frozen=True, slots=True)
class Network:
    """Limits of connections and requests."""

    request_max_bytes: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    backlog: int
    queued_requests_max: int
    queued_request_bytes_max: int
    connections_max: int
    connections_per_ip_max: int
    connection_idle_max_ms: int


@dataclass(frozen=True, slots=True)
class NodeConfig:
    roles: tuple[str, ...]
    node_id: int
    rack: str | None
    listeners: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker_listener: str
    inter_broker_protocol: str
    controller_listeners: tuple[str, ...]
    controller_protocol: str
    voters: tuple[Voter, ...]
    bootstrap_controllers: tuple[Address, ...]
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    durability: Durability
    auto_create_topics: bool
    chaos_enabled: bool
    lab_enabled: bool
    events_topic_enabled: bool
    replication: Replication
    logs: LogSettings
    network: Network
    coordinating: Coordinating
    security: Security
    settings: Settings
    """Every other key, with sources."""

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles

    @property
    def broker_endpoints(self) -> tuple[Listener, ...]:
        """What a broker registers with: clients have no business with the controller's."""
        return tuple(each for each in self.advertised if each.name not in self.controller_listeners)

    @property
    def http_listener(self) -> HttpAddress | None:
        """Where to serve HTTP; None is nowhere."""
        listener = self.settings.text("tidelog.http.listener")
        return parse_http_address(listener) if listener else None

    @property
    def is_secured(self) -> bool:
        """Somebody is asked who he is, or rules decide what he may do."""
        return self.has_authorizer or not self.security.is_plain

    def source(self, name: str) -> Source:
        return self.settings.effective(name).source

    def topic_defaults(self) -> dict[str, str]:
        """What topics have if they say nothing else: only what somebody set for this node."""
        return {
            key.topic_name: show_value(key, self.settings.value(key.name))
            for key in KEYS.values()
            if key.topic_name is not None and self.settings.is_set(key.name)
        }

    def lifecycle_settings(self) -> LifecycleSettings:
        given = self.settings
        return LifecycleSettings(
            heartbeat_interval_ms=given.whole("broker.heartbeat.interval.ms"),
            session_timeout_ms=given.whole("broker.session.timeout.ms"),
        )

    def replica_settings(self) -> ReplicaSettings:
        given = self.settings
        follows_racks = given.text("replica.selector.class") == RACK_AWARE_SELECTOR
        return ReplicaSettings(
            replica_lag_time_max_ms=given.whole("replica.lag.time.max.ms"),
            replica_fetch_backoff_ms=given.whole("replica.fetch.backoff.ms"),
            min_insync_replicas=given.whole("min.insync.replicas"),
            replica_selector=rack_aware if follows_racks else None,
        )

    def quorum_settings(self) -> QuorumSettings:
        given = self.settings
        fetch_timeout_ms = given.whole("controller.quorum.fetch.timeout.ms")
        return QuorumSettings(
            election_timeout_ms=given.whole("controller.quorum.election.timeout.ms"),
            fetch_timeout_ms=fetch_timeout_ms,
            election_backoff_max_ms=given.whole("controller.quorum.election.backoff.max.ms"),
            # A parked fetch has to be answered well before its sender gives the leader up.
            fetch_max_wait_ms=fetch_timeout_ms // 4,
            request_timeout_ms=given.whole("controller.quorum.request.timeout.ms"),
            retry_backoff_ms=given.whole("controller.quorum.retry.backoff.ms"),
        )

    def group_settings(self) -> GroupSettings:
        given = self.settings
        return GroupSettings(
            initial_rebalance_delay_ms=given.whole("group.initial.rebalance.delay.ms"),
            min_session_timeout_ms=given.whole("group.min.session.timeout.ms"),
            max_session_timeout_ms=given.whole("group.max.session.timeout.ms"),
            max_size=given.whole("group.max.size"),
            offset_metadata_max_bytes=given.whole("offset.metadata.max.bytes"),
            offsets_retention_ms=given.millis("offsets.retention.minutes"),
            offsets_retention_check_interval_ms=given.whole("offsets.retention.check.interval.ms"),
            disconnect_grace_ms=given.whole("tidelog.group.disconnect.grace.ms"),
            consumer_session_timeout_ms=given.whole("group.consumer.session.timeout.ms"),
            consumer_heartbeat_interval_ms=given.whole("group.consumer.heartbeat.interval.ms"),
            consumer_max_size=given.whole("group.consumer.max.size"),
            consumer_assignors=given.items("group.consumer.assignors"),
        )

    def transaction_settings(self) -> TransactionSettings:
        given = self.settings
        return TransactionSettings(
            max_timeout_ms=given.whole("transaction.max.timeout.ms"),
            transactional_id_expiration_ms=given.whole("transactional.id.expiration.ms"),
            expiration_check_interval_ms=given.whole(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
        )

    @property
    def has_authorizer(self) -> bool:
        """Without one everybody may do everything."""
        return bool(self.settings.text("authorizer.class.name"))

    @property
    def audit_topic_enabled(self) -> bool:
        """A controller that is no broker has to be told how to reach them."""
        knows_brokers = self.is_broker or self.settings.is_set("inter.broker.listener.name")
        enabled = self.settings.flag("tidelog.audit.topic.enable")
        return self.has_authorizer and enabled and knows_brokers

    def group_limits(self) -> GroupLimits:
        """What the settings of one consumer group may be."""
        session, heartbeat = "session.timeout.ms", "heartbeat.interval.ms"
        return GroupLimits(
            *(
                self.settings.whole(f"group.consumer.{which}{name}")
                for name in (session, heartbeat)
                for which in ("", "min.", "max.")
            )
        )

    def controller_settings(self, cluster_id: str) -> ControllerSettings:
        given = self.settings
        return ControllerSettings(
            cluster_id=cluster_id,
            session_timeout_ms=given.whole("broker.session.timeout.ms"),
            elr_enabled=given.flag("eligible.leader.replicas.enable"),
            min_insync_replicas=given.whole("min.insync.replicas"),
            default_partitions=given.whole("num.partitions"),
            default_replication_factor=given.whole("default.replication.factor"),
            unclean_default=given.flag("unclean.leader.election.enable"),
            auto_leader_rebalance=given.flag("auto.leader.rebalance.enable"),
            leader_imbalance_check_interval_ms=given.millis(
                "leader.imbalance.check.interval.seconds"
            ),
            leader_imbalance_percentage=given.whole("leader.imbalance.per.broker.percentage"),
            max_idle_interval_ms=given.whole("metadata.max.idle.interval.ms"),
            unclean_check_interval_ms=given.whole("unclean.leader.election.interval.ms"),
            features=RELEASE_FEATURES,
            group_limits=self.group_limits(),
            check_broker_config=check_live_config,
        )


class Loaded(NamedTuple):
    config: NodeConfig | None
    """None if there are problems."""
    problems: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    without_effect: tuple[str, ...]


def load_node_config(inputs: Inputs) -> Loaded:
    settings, problems, warnings, without_effect = resolve(inputs)
    topology = read_topology(settings, problems)
    security = read_security(settings, topology, problems)
    warnings.extend(security_warnings(settings, topology, security))
    problems.extend(checks.order_problems(settings))
    problems.extend(checks.http_problems(settings))
    problems.extend(checks.super_user_problems(settings))
    problems.extend(checks.assignor_problems(settings))
    if not settings.is_broken("listeners", "controller.quorum.voters"):
        warnings.extend(voter_port_warnings(settings, topology))
    warnings.extend(checks.order_warnings(settings))
    warnings.extend(checks.heartbeat_warnings(settings))
    warnings.extend(checks.durability_warnings(settings))
    config = None if problems else _build(settings, topology, security)
    return Loaded(config, tuple(problems), tuple(warnings), without_effect)


def _build(settings: Settings, topology: Topology, security: Security) -> NodeConfig:
    log_dirs = settings.items("log.dirs")
    durability = settings.text("ack.durability")
    assert topology.node_id >= 0, f"node.id {topology.node_id} was not refused"
    assert log_dirs, "a node without a log directory was not refused"
    return NodeConfig(
        **topology._asdict(),
        rack=settings.text("broker.rack"),
        log_dirs=log_dirs,
        metadata_log_dir=settings.text("metadata.log.dir") or log_dirs[0],
        durability=cast(Durability, durability),
        auto_create_topics=settings.flag("auto.create.topics.enable"),
        chaos_enabled=settings.flag("tidelog.chaos.enable"),
        lab_enabled=settings.flag("tidelog.lab.enable"),
        events_topic_enabled=settings.flag("tidelog.events.topic.enable"),
        replication=_replication(settings),
        logs=_logs(settings),
        network=_network(settings),
        coordinating=read_coordinating(settings),
        security=security,
        settings=settings,
    )


def _replication(settings: Settings) -> Replication:
    return Replication(
        fetchers=settings.whole("num.replica.fetchers"),
        fetch_wait_max_ms=settings.whole("replica.fetch.wait.max.ms"),
        fetch_min_bytes=settings.whole("replica.fetch.min.bytes"),
        fetch_max_bytes=settings.whole("replica.fetch.max.bytes"),
        fetch_response_max_bytes=settings.whole("replica.fetch.response.max.bytes"),
        socket_timeout_ms=settings.whole("replica.socket.timeout.ms"),
        socket_receive_buffer_bytes=settings.whole("replica.socket.receive.buffer.bytes"),
        high_watermark_checkpoint_interval_ms=settings.whole(
            "replica.high.watermark.checkpoint.interval.ms"
        ),
        leader_throttled_rate=settings.whole("leader.replication.throttled.rate"),
        follower_throttled_rate=settings.whole("follower.replication.throttled.rate"),
    )


def _logs(settings: Settings) -> LogSettings:
    return LogSettings(
        segment_bytes=settings.whole("log.segment.bytes"),
        segment_ms=settings.whole("log.roll.ms"),
        segment_jitter_ms=settings.whole("log.roll.jitter.ms"),
        index_interval_bytes=settings.whole("log.index.interval.bytes"),
        index_size_max_bytes=settings.whole("log.index.size.max.bytes"),
        retention_ms=settings.whole("log.retention.ms"),
        retention_bytes=settings.whole("log.retention.bytes"),
        file_delete_delay_ms=settings.whole("log.segment.delete.delay.ms"),
        cleanup_policy=settings.items("log.cleanup.policy"),
        delete_retention_ms=settings.whole("log.cleaner.delete.retention.ms"),
        min_cleanable_dirty_ratio=settings.number("log.cleaner.min.cleanable.ratio"),
        min_compaction_lag_ms=settings.whole("log.cleaner.min.compaction.lag.ms"),
        max_compaction_lag_ms=settings.whole("log.cleaner.max.compaction.lag.ms"),
        retention_check_interval_ms=settings.whole("log.retention.check.interval.ms"),
        recovery_point_checkpoint_interval_ms=settings.whole(
            "log.flush.offset.checkpoint.interval.ms"
        ),
        log_start_checkpoint_interval_ms=settings.whole(
            "log.flush.start.offset.checkpoint.interval.ms"
        ),
        recoveries_per_directory=settings.whole("num.recovery.threads.per.data.dir"),
        message_max_bytes=settings.whole("message.max.bytes"),
        disk_reserve_bytes=settings.whole("tidelog.disk.reserve.bytes"),
        scrub_bytes_per_second=settings.whole("tidelog.scrub.bytes.per.second"),
    )


def _network(settings: Settings) -> Network:
    return Network(
        request_max_bytes=settings.whole("socket.request.max.bytes"),
        send_buffer_bytes=settings.whole("socket.send.buffer.bytes"),
        receive_buffer_bytes=settings.whole("socket.receive.buffer.bytes"),
        backlog=settings.whole("socket.listen.backlog.size"),
        queued_requests_max=settings.whole("queued.max.requests"),
        queued_request_bytes_max=settings.whole("queued.max.request.bytes"),
        connections_max=settings.whole("max.connections"),
        connections_per_ip_max=settings.whole("max.connections.per.ip"),
        connection_idle_max_ms=settings.whole("connections.max.idle.ms"),
    )
