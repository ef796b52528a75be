"""The broker around the replicas of one simulated node.

It does what the real broker does with sockets and files: look up the replica, ask the state
machine, perform the effects in order, park what has to wait. It decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.replay import replay
from tidelog.core.replication import effects as e
from tidelog.core.replication.follower import ASKING, FollowerReplica
from tidelog.core.replication.inputs import (
    ACKS_ALL,
    ACKS_NONE,
    BrokerStatus,
    PartitionMetadata,
    ReplicaSettings,
)
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.producers import AppendedBatch
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_OFFSET, LogEntry, PartitionId
from tidelog.sim import messages as m
from tidelog.sim.coordination import Coordination
from tidelog.sim.fetchers import Fetchers
from tidelog.sim.markers import MarkerToken
from tidelog.sim.node_log import NodeLog
from tidelog.sim.reads import Reads
from tidelog.sim.sim_log import SimBatch, marker_of
from tidelog.storage.errors import NoSpace

if TYPE_CHECKING:
    from tidelog.sim.node import SimNode


class ProduceToken:
    """A produce whose answer is parked; the object's identity is the token."""

    __slots__ = ("acks", "appended", "client", "original", "request_id")

    def __init__(
        self,
        client: int,
        request: m.Produce,
        *,
        appended: SimBatch,
        original: AppendedBatch | None = None,
    ) -> None:
        self.client = client
        self.request_id = request.request_id
        self.acks = request.acks
        self.appended = appended
        self.original = original

    @property
    def base_offset(self) -> int:
        return self.appended.base_offset if self.original is None else self.original.first_offset


class SimBroker:
    """One per running node; a restart makes a new one from the disk."""

    __slots__ = (
        "_perform",
        "coordination",
        "dirty",
        "fetchers",
        "image",
        "node",
        "reads",
        "replicas",
        "serving",
        "settings",
        "statuses",
    )

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.image = MetadataImage()
        self.serving = False
        self.replicas: dict[PartitionId, Replica] = {}
        self.statuses: dict[int, BrokerStatus] = {}
        self.settings: dict[PartitionId, ReplicaSettings] = {}
        self.dirty: dict[PartitionId, NodeLog] = {}
        self.fetchers = Fetchers(self)
        self.reads = Reads(self)
        plan = node.plan.coordination
        self.coordination = None if plan is None else Coordination(self, plan)
        self._perform: dict[type, Callable[[Replica, Any], None]] = {
            e.AnswerProduce: self._answer_produce,
            e.ProposeIsr: self._propose_isr,
            e.AssignEpoch: self._assign_epoch,
            e.TruncateLog: self._truncate,
            e.AppendBatches: self._append_batches,
            e.RestartLog: self._restart_log,
            e.RaiseLogStart: self._raise_log_start,
            e.AskLeaderOffsets: self._ask_leader_offsets,
            events.HighWatermarkAdvanced: self._high_watermark_moved,
            events.HighWatermarkLowered: self._high_watermark_moved,
        }
        if self.coordination is not None:
            self._perform[events.IsrChanged] = self._isr_changed

    # -- metadata

    def load_image(self, image: MetadataImage) -> None:
        """Start over from a snapshot."""
        self.image = image
        self._refresh_statuses()
        if self.serving:
            self._publish_all()

    def begin_serving(self) -> None:
        """Our own registration is replayed. Metadata from before it speaks of the incarnation
        that is gone: acting on that, an empty disk could lead with the old one's authority."""
        self.serving = True
        self._publish_all()

    def _publish_all(self) -> None:
        touched = dict.fromkeys(self.replicas)
        touched.update(dict.fromkeys(state.id for state in self.image.partitions()))
        self._publish(touched)

    def apply_entry(self, entry: LogEntry) -> None:
        """Replay one committed batch, then make every touched replica follow it."""
        touched: dict[PartitionId, None] = {}
        brokers_changed = False
        for record in cast("tuple[r.MetadataRecord, ...]", entry.records):
            if isinstance(record, r.RemoveTopic):
                touched.update(self._partitions_of(record.topic_id))
            elif isinstance(record, r.Partition | r.PartitionChange):
                touched[PartitionId(record.topic_id, record.partition)] = None
            elif isinstance(record, r.Config):
                touched.update(dict.fromkeys(self.replicas))
            elif not isinstance(record, r.NoOp):
                brokers_changed = True
            replay(self.image, record)
        if brokers_changed:
            self._refresh_statuses()
        if not self.serving:
            return
        if touched:
            self._publish(touched)
        if brokers_changed:
            self._tell_about_brokers()

    def _partitions_of(self, topic_id: bytes) -> dict[PartitionId, None]:
        topic = self.image.topics.get(topic_id)
        return dict.fromkeys(p.id for p in topic.partitions.values()) if topic else {}

    def _refresh_statuses(self) -> None:
        self.statuses = {
            broker.broker_id: BrokerStatus(broker.broker_epoch, broker.active, broker.rack)
            for broker in self.image.brokers.values()
        }

    def _tell_about_brokers(self) -> None:
        now = self.node.now_ms()
        for replica in list(self.replicas.values()):
            self.perform(replica, replica.on_brokers_changed(self.statuses, now))
        self.fetchers.wake_all()

    def _publish(self, touched: Iterable[PartitionId]) -> None:
        """Deletes, then leaders, then followers (kraft.md §11.4)."""
        leaders: list[PartitionState] = []
        followers: list[PartitionState] = []
        for partition in touched:
            state = self.image.partition(partition)
            if state is None or self.node.id not in state.replicas:
                self._stop_hosting(partition)
            elif state.leader == self.node.id:
                leaders.append(state)
            else:
                followers.append(state)
        for state in (*leaders, *followers):
            self._apply_state(state)
        self.fetchers.wake_all()

    def _apply_state(self, state: PartitionState) -> None:
        replica = self.replicas.get(state.id) or self._host(state)
        now = self.node.now_ms()
        min_isr = self._min_insync_replicas(state)
        was_leading = isinstance(replica.role, LeaderReplica)
        epoch_before, leader_before = replica.leader_epoch, replica.leader
        settings = self.settings[state.id]
        if settings.min_insync_replicas != min_isr:
            settings.min_insync_replicas = min_isr
            self.perform(replica, replica.on_settings_changed(now))
        isr_before = replica.role.isr if isinstance(replica.role, LeaderReplica) else ()
        effects = replica.apply_metadata(_metadata(state), self.statuses, now)
        role = replica.role
        if isinstance(role, LeaderReplica):
            self.fetchers.drop(state.id)
            if not was_leading or replica.leader_epoch != epoch_before:
                self.node.judge.became_leader(replica, bool(state.leader_recovery_state))
            elif role.isr != isr_before:
                self.node.judge.isr_adopted(replica, isr_before)
            if was_leading and replica.leader_epoch > epoch_before + 1:
                self.node.marks.add("leader_missed_an_epoch")
        elif replica.leader_epoch != epoch_before or replica.leader != leader_before:
            self.fetchers.follow(state.id, replica)
            self.node.judge.became_follower(replica)
        self.perform(replica, effects)
        if self.coordination is not None:
            self.coordination.follow(replica)
        if was_leading and replica.leader_epoch != epoch_before:
            self.reads.wake(state.id)

    def _host(self, state: PartitionState) -> Replica:
        log = self.node.disk.log(state.id, self.image.topics[state.id.topic_id].name)
        checkpoint = self.node.disk.high_watermarks.get(state.id, 0)
        settings = ReplicaSettings(
            replica_lag_time_max_ms=self.node.plan.timings.replica_lag_time_max_ms,
            replica_fetch_backoff_ms=self.node.plan.timings.replica_fetch_backoff_ms,
            min_insync_replicas=self._min_insync_replicas(state),
            replica_selector=self.node.replica_selector,
        )
        self.settings[state.id] = settings
        replica = Replica(
            state.id,
            self.node.id,
            log,
            settings,
            high_watermark=min(max(checkpoint, log.log_start_offset), log.log_end_offset),
        )
        self.replicas[state.id] = replica
        return replica

    def _min_insync_replicas(self, state: PartitionState) -> int:
        topic = self.image.topics[state.id.topic_id].name
        return int(self.image.topic_config(topic, "min.insync.replicas") or "1")

    def _stop_hosting(self, partition: PartitionId) -> None:
        replica = self.replicas.pop(partition, None)
        if replica is not None:
            if self.coordination is not None:
                self.coordination.resigned(partition)
            self.perform(replica, replica.stop(self.node.now_ms()))
            self.fetchers.drop(partition)
            self.reads.wake(partition)
            self.settings.pop(partition, None)
            self.dirty.pop(partition, None)
        self.node.disk.remove_log(partition)

    # -- produce

    def on_produce(self, client: int, request: m.Produce) -> None:
        replica = self.replicas.get(request.partition)
        role = replica.role if replica is not None else None
        if replica is None or not isinstance(role, LeaderReplica):
            self.refuse_produce(client, request, Error.NOT_LEADER_OR_FOLLOWER)
        elif self.coordination is not None and request.transactional_id:
            self.coordination.checks.on_produce(client, request, replica)
        else:
            self.produce(client, request, replica)

    def produce(
        self, client: int, request: m.Produce, replica: Replica, *, verified: bool = False
    ) -> None:
        """Append it, or say why not."""
        role = replica.role
        assert isinstance(role, LeaderReplica), f"{replica.partition} is not led here"
        end_before = replica.log.log_end_offset
        check = role.check_produce(request.batch, request.acks, verified=verified)
        if check.error != Error.NONE:
            self.node.judge.produce_refused(replica, check.error, end_before)
            self.refuse_produce(client, request, check.error)
            return
        if check.duplicate is not None:
            token = ProduceToken(client, request, appended=request.batch, original=check.duplicate)
            if check.duplicate.first_offset < role.leader_epoch_start_offset:
                self.node.marks.add("duplicate_found_by_next_leader")
            self._acknowledge_duplicate(replica, role, token, check.duplicate)
            return
        try:
            batch = self.append(replica, role, request.batch)
        except NoSpace as error:
            self.node.marks.add("produce_refused_by_full_disk")
            self.node.judge.produce_refused(replica, error.kafka_error, end_before)
            self.refuse_produce(client, request, error.kafka_error)
            return
        token = ProduceToken(client, request, appended=batch)
        self._acknowledge(replica, role, token, batch.last_offset + 1)
        self.reads.wake(request.partition)

    def append(self, replica: Replica, role: LeaderReplica, batch: SimBatch) -> SimBatch:
        """As the leader; raises NoSpace. Whoever waits for records has to be woken after it."""
        log = self.node.disk.logs[replica.partition]
        appended = log.append_as_leader(batch, replica.leader_epoch)
        self.node.judge.leader_appended(replica, appended)
        if batch.is_control and self.coordination is not None:
            # Before anything else: offsets of the transaction count from here on, or never.
            self.coordination.marker_appended(replica.partition, marker_of(appended))
        self.mark_dirty(replica.partition, log)
        self.perform(replica, role.on_appended(self.node.now_ms()))
        return appended

    def _acknowledge(
        self, replica: Replica, role: LeaderReplica, token: ProduceToken, required_offset: int
    ) -> None:
        if self._waits_for_commit(replica, token):
            self.perform(replica, role.await_commit(token, required_offset, self.node.now_ms()))

    def _acknowledge_duplicate(
        self, replica: Replica, role: LeaderReplica, token: ProduceToken, original: AppendedBatch
    ) -> None:
        if self._waits_for_commit(replica, token):
            if original.last_offset >= replica.high_watermark:
                self.node.marks.add("duplicate_waited_for_commit")
            self.perform(replica, role.await_duplicate(token, original, self.node.now_ms()))

    def _waits_for_commit(self, replica: Replica, token: ProduceToken) -> bool:
        """acks=0 is silent, acks=1 is answered now, acks=all waits for the high watermark."""
        if token.acks == ACKS_ALL:
            timeout_ms = self.node.plan.timings.produce_timeout_ms
            self.node.after_ms(timeout_ms, self.wait_over, (replica, token))
            return True
        if token.acks != ACKS_NONE:
            self._reply_produce(replica, token, Error.NONE)
        return False

    def wait_over(self, parked: tuple[Replica, ProduceToken | MarkerToken]) -> None:
        """It was not committed in time."""
        replica, token = parked
        if isinstance(replica.role, LeaderReplica):
            self.perform(replica, replica.role.on_produce_timeout(token, self.node.now_ms()))

    def refuse_produce(self, client: int, request: m.Produce, error: Error) -> None:
        if request.acks != ACKS_NONE:
            self.node.send(client, m.ProduceReply(request.request_id, error, NO_OFFSET))

    def _reply_produce(self, replica: Replica, token: ProduceToken, error: Error) -> None:
        judge = self.node.judge
        if error == Error.NONE and token.original is None:
            judge.produce_acked(replica, token.appended, token.acks)
        elif error == Error.NONE:
            judge.duplicate_answered(replica, token.original, token.appended, token.acks)
        else:
            self.node.data_marks.failed_parked(error)
        self.node.send(token.client, m.ProduceReply(token.request_id, error, token.base_offset))

    # -- deleting records

    def trim(self, partition: PartitionId, permille: int) -> bool:
        """Delete records up to this share of what is committed; False if we do not lead."""
        replica = self.replicas.get(partition)
        if replica is None or not isinstance(replica.role, LeaderReplica):
            return False
        answer = replica.role.check_delete_records(replica.high_watermark * permille // 1000)
        if answer.error != Error.NONE:
            return False
        self.node.disk.logs[partition].raise_log_start(answer.offset)
        return True

    # -- durability

    def mark_dirty(self, partition: PartitionId, log: NodeLog) -> None:
        """Ask for a sync; one pass later covers every log that became dirty until then."""
        if not self.dirty:
            self.node.after_us(self.node.draw_sync_delay_us(), self._sync, None)
        self.dirty[partition] = log

    def _sync(self, _: None) -> None:
        dirty, self.dirty = self.dirty, {}
        now = self.node.now_ms()
        for partition, log in dirty.items():
            log.sync()
            replica = self.replicas.get(partition)
            if replica is not None and log.fsync:
                if isinstance(replica.role, LeaderReplica):
                    self.perform(replica, replica.role.on_durable(now))
                else:
                    self.fetchers.wake(partition)

    def checkpoint_high_watermarks(self) -> None:
        checkpoint = self.node.disk.high_watermarks
        for partition, replica in self.replicas.items():
            checkpoint[partition] = replica.high_watermark
        self.node.disk.store_checkpoints()

    # -- in-sync replicas

    def check_isr(self) -> None:
        now = self.node.now_ms()
        for replica in list(self.replicas.values()):
            if isinstance(replica.role, LeaderReplica):
                self.perform(replica, replica.role.check_isr(now))

    # -- effects

    def perform(self, replica: Replica, effects: Sequence[e.Effect]) -> None:
        for effect in effects:
            perform = self._perform.get(type(effect))
            if perform is not None:
                perform(replica, effect)
            else:
                self.node.emit(effect)

    def _answer_produce(self, replica: Replica, effect: e.AnswerProduce) -> None:
        if isinstance(effect.token, MarkerToken):
            effect.token.done(effect.error)
            return
        assert isinstance(effect.token, ProduceToken)
        self._reply_produce(replica, effect.token, effect.error)

    def _propose_isr(self, replica: Replica, effect: e.ProposeIsr) -> None:
        self.node.judge.isr_proposed(replica, effect.proposal)
        self.node.link.propose(effect.proposal)

    def _assign_epoch(self, replica: Replica, effect: e.AssignEpoch) -> None:
        log = self.node.disk.logs[replica.partition]
        log.assign_epoch(effect.leader_epoch, effect.start_offset)

    def _truncate(self, replica: Replica, effect: e.TruncateLog) -> None:
        log = self.node.disk.logs[replica.partition]
        previous_end = log.log_end_offset
        self.node.data_marks.before_cut(replica, log, effect.offset)
        log.truncate_to(effect.offset)
        self.node.judge.truncated(replica, previous_end)
        self._after_cut(replica)

    def _restart_log(self, replica: Replica, effect: e.RestartLog) -> None:
        log = self.node.disk.logs[replica.partition]
        previous_end = log.log_end_offset
        self.node.marks.add("log_restarted")
        log.truncate_fully_and_start_at(effect.offset)
        self.node.judge.truncated(replica, previous_end)
        self._after_cut(replica)

    def _after_cut(self, replica: Replica) -> None:
        assert isinstance(replica.role, FollowerReplica), replica.role
        self.perform(replica, replica.role.on_truncated(self.node.now_ms()))
        self.reads.wake(replica.partition)

    def _append_batches(self, replica: Replica, effect: e.AppendBatches) -> None:
        log = self.node.disk.logs[replica.partition]
        assert isinstance(replica.role, FollowerReplica), replica.role
        try:
            log.append_as_follower(effect.batches)  # type: ignore[arg-type]
        except NoSpace:
            self._append_what_fitted(replica, log, effect)
            return
        self.node.judge.follower_appended(replica, effect.batches)
        self.mark_dirty(replica.partition, log)
        self.perform(replica, replica.role.on_appended(effect, self.node.now_ms()))

    def _append_what_fitted(self, replica: Replica, log: NodeLog, effect: e.AppendBatches) -> None:
        """The disk is full: the rest is fetched again when there is space."""
        self.node.marks.add("follower_disk_full")
        fitted = tuple(b for b in effect.batches if b.last_offset < log.log_end_offset)
        if fitted:
            self.node.judge.follower_appended(replica, fitted)
            self.mark_dirty(replica.partition, log)
        assert isinstance(replica.role, FollowerReplica), replica.role
        replica.role.on_append_failed(self.node.now_ms())

    def _raise_log_start(self, replica: Replica, effect: e.RaiseLogStart) -> None:
        self.node.marks.add("log_start_followed")
        self.node.disk.logs[replica.partition].raise_log_start(effect.offset)

    def _ask_leader_offsets(self, replica: Replica, effect: e.AskLeaderOffsets) -> None:
        self.node.send(effect.leader, m.OffsetsAsk(effect.partition, effect.leader_epoch))
        # The partition is out of the fetch loop while it asks: nothing else would wake it.
        timeout_ms = self.node.plan.timings.request_timeout_ms
        self.node.after_ms(timeout_ms, self._ask_timed_out, (replica, replica.role))

    def _ask_timed_out(self, asked: tuple[Replica, object]) -> None:
        replica, role = asked
        if replica.role is role and isinstance(role, FollowerReplica) and role.phase == ASKING:
            role.on_fetch_failed(self.node.now_ms())
            self.fetchers.wake(replica.partition)

    def _high_watermark_moved(
        self,
        replica: Replica,
        event: events.HighWatermarkAdvanced | events.HighWatermarkLowered,
    ) -> None:
        self.node.judge.high_watermark_moved(replica, event.previous)
        self.node.emit(event)
        self.reads.wake_consumers(replica.partition)
        if self.coordination is not None:
            self.coordination.moved(replica.partition)

    def _isr_changed(self, replica: Replica, event: events.IsrChanged) -> None:
        """A high watermark that moved with it is told first: the judge hears in that order."""
        self.node.emit(event)
        assert self.coordination is not None, "only coordinators want to hear of it"
        self.node.after_us(0, self.coordination.moved, replica.partition)


def _metadata(state: PartitionState) -> PartitionMetadata:
    return PartitionMetadata(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
        isr=state.isr,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
        leader_recovery_state=state.leader_recovery_state,
    )
