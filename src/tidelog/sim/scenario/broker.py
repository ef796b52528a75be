"""A broker of a story: a disk, and a process that may be gone.

The process does what the real broker does with sockets and files: look up the replica, ask the
state machine, perform its effects in order and note them. It decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.replay import replay
from tidelog.core.replication import effects as e
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import BrokerStatus, PartitionMetadata, ReplicaSettings
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.replica import Replica
from tidelog.core.replication.selector import rack_aware
from tidelog.core.requests import IsrResult
from tidelog.core.types import NEVER_MS, NO_EPOCH, LogEntry, PartitionId
from tidelog.sim.scenario import wire
from tidelog.sim.scenario.link import ControllerLink
from tidelog.sim.sim_log import SimBatch, SimLog

if TYPE_CHECKING:
    from tidelog.sim.scenario.stage import Stage

REPLICA_LAG_TIME_MAX_MS = 30_000


class StageDisk:
    """What is left when the process is gone."""

    def __init__(self) -> None:
        self.logs: dict[PartitionId, SimLog] = {}
        self.high_watermarks: dict[PartitionId, int] = {}
        """The checkpoint: a hint, never a reason to truncate."""
        self.clean_broker_epoch = NO_EPOCH

    def log(self, partition: PartitionId) -> SimLog:
        return self.logs.setdefault(partition, SimLog(fsync=False))


class ParkedProduce:
    """An acks=all produce whose answer is open; its identity is the token."""

    __slots__ = ("deadline_ms", "name")

    def __init__(self, name: str, deadline_ms: int) -> None:
        self.name = name
        self.deadline_ms = deadline_ms


class StageBroker:
    def __init__(self, stage: Stage, broker_id: int, rack: str | None) -> None:
        self.stage = stage
        self.id = broker_id
        self.name = stage.cast.name_of(broker_id)
        self.rack = rack
        self.disk = StageDisk()
        self.running = False
        self.paused = False
        self.metadata_held = False
        self.stopped_cleanly = False
        self.tells_roles = False
        """Whoever applies metadata at once, with everybody else, says nothing about it."""
        self.told_high_watermark: int | None = None
        """What the answer being received says; learning exactly that is not told again."""
        self._forget()

    def _forget(self) -> None:
        """Everything that lives in memory only."""
        self.image = MetadataImage()
        self.applied_offset = 0
        self.serving = False
        self.statuses: dict[int, BrokerStatus] = {}
        self.replicas: dict[PartitionId, Replica] = {}
        self.settings: dict[PartitionId, ReplicaSettings] = {}
        self.parked: list[ParkedProduce] = []
        self.next_isr_check_ms = NEVER_MS
        self._applied_entries = 0

    # -- life

    @property
    def awake(self) -> bool:
        return self.running and not self.paused

    def start(self, *, clean: bool = False) -> None:
        assert not self.running, f"{self.name} runs already"
        control = self.stage.control
        previous_epoch = self.disk.clean_broker_epoch if clean else NO_EPOCH
        self._forget()
        for log in self.disk.logs.values():
            log.reload()
        self.running, self.paused, self.stopped_cleanly = True, False, False
        self.link = ControllerLink(self, control.make_uuid(), previous_epoch)
        self.next_isr_check_ms = self.stage.now_ms + REPLICA_LAG_TIME_MAX_MS // 2
        self.stage.later(self.link.poke)

    def crash(self) -> None:
        """The process is gone; what it wrote is still in the page cache."""
        assert self.running, f"{self.name} is down already"
        for partition, replica in self.replicas.items():
            self.disk.high_watermarks[partition] = replica.high_watermark
        self.disk.clean_broker_epoch = self.link.lifecycle.broker_epoch
        for produce in self.parked:
            self.note(f"produce {produce.name} is never answered")
        self.running = False
        self._forget()

    def finish_clean_stop(self) -> None:
        if self.running:
            self.crash()
            self.stopped_cleanly = True

    def begin_serving(self) -> None:
        """Our own registration is replayed; metadata from before it spoke of the incarnation
        that is gone."""
        self.serving = True
        self._drop_strays()
        self._publish([state.id for state in self.image.partitions()])

    def _drop_strays(self) -> None:
        """A log whose topic id is unknown belongs to a topic that was deleted."""
        for partition in list(self.disk.logs):
            if self.image.partition(partition) is None:
                del self.disk.logs[partition]
                self.note("puts a log of an unknown topic id aside as stray")

    # -- metadata

    def catch_up_metadata(self, limit: int | None = None) -> None:
        """Apply what the controller has committed; what has piled up is published as one."""
        entries = self.stage.control.entries
        end = len(entries) if limit is None else min(len(entries), self._applied_entries + limit)
        touched: dict[PartitionId, None] = {}
        for entry in entries[self._applied_entries : end]:
            self._replay(entry, touched)
        self._applied_entries = end
        self.statuses = {
            broker.broker_id: BrokerStatus(broker.broker_epoch, broker.active, broker.rack)
            for broker in self.image.brokers.values()
        }
        own = self.statuses.get(self.id)
        if self.serving:
            self._publish(touched)
            for replica in list(self.replicas.values()):
                self.perform(replica, replica.on_brokers_changed(self.statuses, self.stage.now_ms))
        elif own is not None and own.broker_epoch == self.link.lifecycle.broker_epoch:
            self.begin_serving()

    def _replay(self, entry: LogEntry, touched: dict[PartitionId, None]) -> None:
        for record in cast("tuple[r.MetadataRecord, ...]", entry.records):
            if isinstance(record, r.RemoveTopic):
                topic = self.image.topics[record.topic_id]
                touched.update(dict.fromkeys(state.id for state in topic.partitions.values()))
            elif isinstance(record, (r.Partition, r.PartitionChange)):
                touched[PartitionId(record.topic_id, record.partition)] = None
            elif isinstance(record, r.Config):
                touched.update(dict.fromkeys(self.replicas))
            replay(self.image, record)
        self.applied_offset = entry.next_offset

    def _publish(self, touched: Sequence[PartitionId] | dict[PartitionId, None]) -> None:
        """Deletes first, then what this broker hosts (kraft.md §11.4)."""
        hosted: list[PartitionState] = []
        for partition in touched:
            state = self.image.partition(partition)
            if state is not None and self.id in state.replicas:
                hosted.append(state)
            else:
                self._stop_hosting(partition)
        for state in hosted:
            self._apply_state(state)

    def _apply_state(self, state: PartitionState) -> None:
        replica = self.replicas.get(state.id) or self._host(state)
        now_ms = self.stage.now_ms
        topic = self.image.topics[state.id.topic_id].name
        minimum = int(self.image.topic_config(topic, "min.insync.replicas") or "1")
        settings = self.settings[state.id]
        if settings.min_insync_replicas != minimum:
            settings.min_insync_replicas = minimum
            self.perform(replica, replica.on_settings_changed(now_ms))
        metadata = PartitionMetadata(
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            state.replicas,
            state.isr,
            state.adding_replicas,
            state.removing_replicas,
            state.leader_recovery_state,
        )
        self.perform(replica, replica.apply_metadata(metadata, self.statuses, now_ms))

    def _host(self, state: PartitionState) -> Replica:
        settings = ReplicaSettings(
            replica_lag_time_max_ms=REPLICA_LAG_TIME_MAX_MS, replica_selector=rack_aware
        )
        replica = Replica(
            state.id,
            self.id,
            self.disk.log(state.id),
            settings,
            high_watermark=self.disk.high_watermarks.get(state.id, 0),
        )
        self.settings[state.id] = settings
        self.replicas[state.id] = replica
        return replica

    def _stop_hosting(self, partition: PartitionId) -> None:
        replica = self.replicas.pop(partition, None)
        if replica is not None:
            self.perform(replica, replica.stop(self.stage.now_ms))
            self.settings.pop(partition)
            self.disk.logs.pop(partition)
            self.disk.high_watermarks.pop(partition, None)
            self.note("deletes its log")

    # -- timers

    @property
    def next_deadline_ms(self) -> int:
        if not self.awake:
            return NEVER_MS
        timeouts = [produce.deadline_ms for produce in self.parked]
        return min(self.link.next_deadline_ms, self.next_isr_check_ms, *timeouts)

    def on_timer(self) -> None:
        now_ms = self.stage.now_ms
        self.link.poke()
        if now_ms >= self.next_isr_check_ms:
            self.next_isr_check_ms = now_ms + REPLICA_LAG_TIME_MAX_MS // 2
            for replica in self.replicas.values():
                if isinstance(replica.role, LeaderReplica):
                    self.perform(replica, replica.role.check_isr(now_ms))
        for produce in [p for p in self.parked if now_ms >= p.deadline_ms]:
            for replica in self.replicas.values():
                if isinstance(replica.role, LeaderReplica):
                    self.perform(replica, replica.role.on_produce_timeout(produce, now_ms))

    # -- effects

    def note(self, text: str) -> None:
        self.stage.narrator.note(self.name, text)

    def on_isr_result(self, result: IsrResult) -> None:
        replica = self.replicas.get(result.partition)
        if replica is not None and isinstance(replica.role, LeaderReplica):
            self.perform(replica, replica.role.on_isr_result(result, self.stage.now_ms))

    def perform(self, replica: Replica, effects: list[e.Effect]) -> None:
        log = self.disk.logs.get(replica.partition)
        assert log is not None, f"{self.name} has no log"
        assert log is replica.log, f"{self.name} has another log than its replica"
        for effect in effects:
            if isinstance(effect, e.AssignEpoch):
                log.assign_epoch(effect.leader_epoch, effect.start_offset)
            elif isinstance(effect, (e.TruncateLog, e.RestartLog)):
                self._truncate(replica, log, effect)
            elif isinstance(effect, e.AppendBatches):
                log.append_as_follower(cast("tuple[SimBatch, ...]", effect.batches))
                assert isinstance(replica.role, FollowerReplica), replica.role
                self.perform(replica, replica.role.on_appended(effect, self.stage.now_ms))
            elif isinstance(effect, e.RaiseLogStart):
                log.raise_log_start(effect.offset)
                self.note(f"log start {effect.offset}")
            elif isinstance(effect, e.ProposeIsr):
                self.link.propose(effect.proposal)
            elif isinstance(effect, e.AnswerProduce):
                self._answer(effect)
            elif isinstance(effect, e.AskLeaderOffsets):
                self.stage.later(lambda: self._ask_leader_offsets(replica))
            else:
                self._note_event(replica, effect)

    def _truncate(
        self, replica: Replica, log: SimLog, effect: e.TruncateLog | e.RestartLog
    ) -> None:
        end, epochs = log.log_end_offset, list(log.epochs.entries)
        if isinstance(effect, e.TruncateLog):
            log.truncate_to(effect.offset)
        else:
            log.truncate_fully_and_start_at(effect.offset)
            self.note(f"start the log again at offset={effect.offset}")
        if log.log_end_offset == end and log.epochs.entries != epochs:
            self.note(f"forget leader-epoch={epochs[-1][0]}, which wrote nothing")
        assert isinstance(replica.role, FollowerReplica), replica.role
        self.perform(replica, replica.role.on_truncated(self.stage.now_ms))

    def _answer(self, effect: e.AnswerProduce) -> None:
        produce = effect.token
        assert isinstance(produce, ParkedProduce), effect
        if produce in self.parked:
            self.parked.remove(produce)
        error = "" if effect.error is Error.NONE else f" {effect.error.name}"
        self.note(f"answered produce {produce.name}{error}")

    def _ask_leader_offsets(self, replica: Replica) -> None:
        """The ladder of replication.md §7.2, with both questions in one."""
        role = replica.role
        if not isinstance(role, FollowerReplica):
            return
        told = [f"{self.name} -> {self.stage.cast.name_of(role.leader)} list-offsets"]
        leader = self.stage.leader_role(self, role.leader, replica.partition)
        if leader is None:
            told.append("no answer")
            role.on_fetch_failed(self.stage.now_ms)
        else:
            start = leader.state.log.log_start_offset
            end = leader.state.log.log_end_offset
            told.append(f"log-start={start} log-end={end}")
            self.perform(replica, role.on_leader_offsets(start, end, self.stage.now_ms))
        self.stage.narrator.line(" | ".join([*told, *self.stage.narrator.take_notes()]))

    def _note_event(self, replica: Replica, event: object) -> None:
        name_of, names_of = self.stage.cast.name_of, self.stage.cast.names_of
        if isinstance(event, (events.HighWatermarkAdvanced, events.HighWatermarkLowered)):
            if event.high_watermark != self.told_high_watermark:
                self.note(f"high-watermark {event.previous} -> {event.high_watermark}")
            if isinstance(replica.role, LeaderReplica):
                self.stage.ledger.on_committed(
                    self.disk.logs[replica.partition], event.high_watermark
                )
        elif isinstance(event, events.LogTruncated):
            below = " below its high watermark" if event.below_high_watermark else ""
            self.note(f"truncate {event.previous_end} -> {event.log_end_offset}{below}")
        elif isinstance(event, events.BecameFollower):
            self.link.proposals.withdraw(replica.partition)
            if self.tells_roles:
                self.note(f"follows {name_of(event.leader)} in leader-epoch={event.leader_epoch}")
        elif isinstance(event, events.IsrProposed):
            self.note(f"proposes isr={names_of(event.proposed)}")
        elif self.tells_roles:
            if isinstance(event, events.BecameLeader):
                self.note(
                    f"leads in leader-epoch={event.leader_epoch} from offset={event.start_offset}"
                )
            elif isinstance(event, events.IsrChanged):
                self.note(f"isr={names_of(event.isr)}")

    # -- reaching it

    @property
    def answers(self) -> bool:
        """Before its registration a broker has no metadata to act on, and does not listen."""
        return self.awake and self.serving

    def reaches(self, other: StageBroker) -> bool:
        return other.answers and self.stage.wire.connects(self.id, other.id)

    @property
    def hears_controller(self) -> bool:
        connected = self.stage.wire.connects(self.id, wire.CONTROLLER)
        return self.awake and connected and not self.metadata_held
