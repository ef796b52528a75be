"""The replicas this broker hosts: metadata in, effects performed.

It does what `core.replication` asks for, in the order it asks, and decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tidelog.broker.logs.directories import Directories
from tidelog.broker.logs.log_starts import LogStarts
from tidelog.broker.logs.refused_logs import RefusedLogs
from tidelog.broker.replication import strays
from tidelog.broker.replication.fetched_batch import FetchedBatch
from tidelog.broker.replication.hosted import Hosted
from tidelog.broker.replication.topic_settings import TopicSettings, topic_settings
from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.metadata.image import PartitionState
from tidelog.core.replication import effects as e
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import BrokerStatus, PartitionMetadata
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.replica import Replica
from tidelog.core.types import PartitionId
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.errors import CorruptSegment, DirectoryOffline, NoSpace, UnexpectedAppend
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.new_logs import Made
from tidelog.wire.records import BatchHeader

if TYPE_CHECKING:
    from tidelog.broker.control.controller_link import ControllerLink
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.broker.fetch.fetches import Fetches
    from tidelog.broker.logs.mending import Mending
    from tidelog.broker.logs.moves import Moves
    from tidelog.broker.produce.early_produces import EarlyProduces
    from tidelog.broker.replication.fetchers import Fetchers
    from tidelog.broker.replication.leaving_isr import LeavingIsr
    from tidelog.config.node_config import NodeConfig
    from tidelog.host.node_host import NodeHost


class Others(NamedTuple):
    """Who has to hear of what becomes of replicas."""

    fetches: Fetches
    early_produces: EarlyProduces
    fetchers: Fetchers
    link: ControllerLink
    leaving_isr: LeavingIsr
    moves: Moves
    mending: Mending
    coordination: Coordination


class Replicas:
    """Owner of every hosted partition."""

    __slots__ = (
        "_by_log",
        "_by_name",
        "_config",
        "_emit",
        "_metadata",
        "_now_ms",
        "_others",
        "_perform",
        "_topics",
        "_without_space",
        "coming",
        "directories",
        "hosted",
        "log_starts",
        "problems",
        "refused",
        "statuses",
        "works_beside_the_loop",
    )

    def __init__(
        self, metadata: LocalMetadata, directories: Directories, config: NodeConfig, host: NodeHost
    ) -> None:
        self._metadata = metadata
        self._config = config
        self._now_ms = host.clock.monotonic_ms
        self._emit = host.emit
        self._others: Others
        self.directories = directories
        self.log_starts = LogStarts(directories)
        self.hosted: dict[PartitionId, Hosted] = {}
        self.statuses: dict[int, BrokerStatus] = {}
        self.problems: dict[PartitionId, str] = {}
        """Partitions we should host and cannot, with the reason."""
        self._by_name: dict[PartitionName, Hosted] = {}
        self._by_log: dict[Log, Hosted] = {}
        self._topics: dict[str, TopicSettings] = {}
        self.refused = RefusedLogs(host.findings)
        self._without_space: dict[PartitionId, None] = {}
        self.coming: dict[PartitionId, None] = {}
        """Partitions whose logs are still to be made."""
        self.works_beside_the_loop = False
        """Whether logs are made and removed on other threads; else that is done at once."""
        self._perform: dict[type, Callable[[Hosted, Any], None]] = {
            e.AnswerProduce: self._answer_produce,
            e.ProposeIsr: self._propose_isr,
            e.AssignEpoch: self._assign_epoch,
            e.TruncateLog: self._truncate,
            e.AppendBatches: self._append_batches,
            e.RestartLog: self._restart_log,
            e.RaiseLogStart: self._raise_log_start,
            e.AskLeaderOffsets: self._ask_leader_offsets,
            events.HighWatermarkAdvanced: self._commit_moved,
            events.HighWatermarkLowered: self._commit_moved,
            events.IsrChanged: self._commit_moved,
        }

    def introduce(self, others: Others) -> None:
        """Once, before the first replica: they know us, too, so they are made after us."""
        self._others = others

    def named(self, topic: str, index: int) -> Hosted | None:
        return self._by_name.get((topic, index))

    def why_not_led_here(self, topic: str, index: int) -> Error:
        """What a client is told that takes us for the leader of this partition."""
        image = self._metadata.image
        topic_id = image.topic_ids.get(topic)
        if topic_id is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        known = PartitionId(topic_id, index)
        if image.partition(known) is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if known in self.problems:
            return Error.KAFKA_STORAGE_ERROR
        return Error.NOT_LEADER_OR_FOLLOWER

    # -- metadata

    def refresh_statuses(self) -> None:
        self.statuses = {
            broker.broker_id: BrokerStatus(broker.broker_epoch, broker.active, broker.rack)
            for broker in self._metadata.image.brokers.values()
        }

    def tell_about_brokers(self) -> None:
        now = self._now_ms()
        for hosted in list(self.hosted.values()):
            effects = hosted.replica.on_brokers_changed(self.statuses, now)
            if effects:
                self.perform(hosted, effects)
        self._others.fetchers.wake_all()

    def forget_settings(self, topic: str | None) -> None:
        """Settings of this topic, or of all, changed: they are read again."""
        if topic is None:
            self._topics.clear()
        else:
            self._topics.pop(topic, None)

    def publish(self, touched: Iterable[PartitionId]) -> None:
        """Deletes, then leaders, then followers (kraft.md §11.4)."""
        leaders: list[PartitionState] = []
        followers: list[PartitionState] = []
        new: dict[PartitionName, bytes] = {}
        for partition in touched:
            state = self._metadata.image.partition(partition)
            self.coming.pop(partition, None)
            if state is None or self._metadata.own_id not in state.replicas:
                self._stop_hosting(partition)
                continue
            leads = state.leader == self._metadata.own_id
            if self._is_new(state):
                name = self._name_of(state)
                if self._must_wait(name):
                    self.coming[partition] = None
                    continue
                new[name] = partition.topic_id
            if leads:
                leaders.append(state)
            else:
                followers.append(state)
        if len(new) > 1:
            # Together: that is much faster. One without space is told of when it is hosted.
            self.directories.create_logs(new)
        for state in (*leaders, *followers):
            self._apply_state(state)
        self._others.fetchers.wake_all()
        self._make_logs()
        self._remove_logs()
        self._others.early_produces.look_again()

    def _must_wait(self, name: PartitionName) -> bool:
        """A new log cannot be made here and now."""
        directories = self.directories
        return (
            self.works_beside_the_loop
            or directories.is_leaving(name)
            or directories.is_making(name)
        )

    def is_coming(self, partition: PartitionId) -> bool:
        """Its log is still being made, and it will be led here: to wait for another one would
        help nobody."""
        if partition not in self.coming and (
            partition not in self._metadata.unfollowed or partition in self.hosted
        ):
            return False
        state = self._metadata.image.partition(partition)
        return state is not None and state.leader == self._metadata.own_id

    def _remove_logs(self) -> None:
        if self.works_beside_the_loop and any(each.leaving for each in self.directories.all):
            self.directories.remove_logs(self._make_logs)

    def _make_logs(self) -> None:
        if self.coming and self.works_beside_the_loop:
            self.directories.make_logs(self._take_new, self._on_made)

    def _take_new(self, most: int) -> dict[PartitionName, bytes]:
        """The next partitions whose logs are to be made. They wait until they are hosted."""
        taken: dict[PartitionName, bytes] = {}
        for partition in list(self.coming):
            state = self._metadata.image.partition(partition)
            if state is None:  # a snapshot came without it
                del self.coming[partition]
                continue
            name = self._name_of(state)
            if self.directories.is_leaving(name):
                continue  # `_make_logs` is called again when it has left
            taken[name] = partition.topic_id
            if len(taken) == most:
                break
        return taken

    def _on_made(self, made: Mapping[PartitionName, Made]) -> None:
        """Host them, as metadata says now. What is not wanted any more goes."""
        partitions: list[PartitionId] = []
        for name, log in made.items():
            directory = self.directories.holding(name)
            if directory is None:
                if isinstance(log, NoSpace):
                    self._note_no_space(name, log)
                continue  # else it is deleted already
            partition = PartitionId(directory.topic_ids[name], name[1])
            state = self._metadata.image.partition(partition)
            if state is None or self._metadata.own_id not in state.replicas:
                self._remove(directory, name)
            else:
                partitions.append(partition)
        self.publish(partitions)

    def _note_no_space(self, name: PartitionName, error: NoSpace) -> None:
        """Told of, and tried again by `host_again`; unless it is not wanted any more."""
        topic_id = self._metadata.image.topic_ids.get(name[0])
        partition = PartitionId(topic_id or b"", name[1])
        if partition in self.coming:
            del self.coming[partition]
            self.problems[partition] = str(error)
            self._without_space[partition] = None
            self.directories.on_error(self.directories.emptiest(), error)

    def _is_new(self, state: PartitionState) -> bool:
        """Whether a log has to be made for it."""
        return (
            state.id not in self.hosted and self.directories.holding(self._name_of(state)) is None
        )

    def _name_of(self, state: PartitionState) -> PartitionName:
        return self._metadata.image.topics[state.id.topic_id].name, state.id.partition

    def _apply_state(self, state: PartitionState) -> None:
        hosted = self.hosted.get(state.id) or self._host(state)
        if hosted is None:
            return
        replica, now = hosted.replica, self._now_ms()
        self._refresh_settings(hosted)
        epoch_before, leader_before = replica.leader_epoch, replica.leader
        effects = replica.apply_metadata(_metadata(state), self.statuses, now)
        if hosted.leader is not None:
            self._others.fetchers.drop(state.id)
        elif replica.leader_epoch != epoch_before or replica.leader != leader_before:
            self._others.link.withdraw(state.id)
            self._others.fetchers.follow(hosted)
        self.perform(hosted, effects)
        self._others.leaving_isr.look_at(hosted)
        if hosted.shards is not None:
            self._others.coordination.follow(hosted)
        if replica.leader_epoch != epoch_before:
            # Also when we begin to lead, or to follow another: readers may get another answer now.
            self._others.fetches.wake(state.id)

    def _refresh_settings(self, hosted: Hosted) -> None:
        settings = self._settings_of(hosted.topic)
        if settings is hosted.topic_settings:
            return
        hosted.topic_settings = settings
        hosted.log.config.become(settings.log)
        if settings.log.compacts:
            hosted.directory.checkpoints.expect_gaps(hosted.log)
        if hosted.settings.min_insync_replicas != settings.min_insync_replicas:
            hosted.settings.min_insync_replicas = settings.min_insync_replicas
            self.perform(hosted, hosted.replica.on_settings_changed(self._now_ms()))

    def _settings_of(self, topic: str) -> TopicSettings:
        settings = self._topics.get(topic)
        if settings is None:
            settings = topic_settings(self._metadata.image, self._config, topic)
            self._topics[topic] = settings
        return settings

    # -- hosting

    def set_strays_aside(self) -> None:
        strays.set_strays_aside(self.directories.all, self._metadata, self._emit)

    def _host(self, state: PartitionState) -> Hosted | None:
        topic = self._metadata.image.topics[state.id.topic_id].name
        name = (topic, state.id.partition)
        directory = self.directories.holding(name)
        if directory is not None and directory.topic_ids[name] != state.id.topic_id:
            # Of a topic that had the same name once.
            strays.set_aside(directory, [name], self._metadata.own_id, self._emit)
            directory = None
        if directory is None:
            directory = self.directories.place_for(name)
            created = self._create(directory, name, state)
            if created is None:
                return None
            log = created
        elif name in directory.refused:
            repaired = self._repair(directory, name, state)
            if repaired is None:
                return None
            log = repaired
        else:
            log = directory.logs[name]
        return self._adopt(state, log, directory, topic)

    def _create(
        self, directory: LogDirectory, name: PartitionName, state: PartitionState
    ) -> Log | None:
        """On a full disk there is none until `host_again` finds space."""
        try:
            log = directory.create_log(name, state.id.topic_id)
        except NoSpace as error:
            self.problems[state.id] = str(error)
            self._without_space[state.id] = None
            self.directories.on_error(directory, error)
            return None
        self.problems.pop(state.id, None)
        return log

    def host_again(self) -> None:
        """What could not be created or removed for want of space is tried again."""
        self._remove_logs()
        if self._without_space:
            waiting, self._without_space = self._without_space, {}
            self.publish(waiting)

    def _repair(
        self, directory: LogDirectory, name: PartitionName, state: PartitionState
    ) -> Log | None:
        """A log with bad or missing records is cut there only if somebody else has what is cut.
        Else it is looked at again whenever metadata about it changes."""
        if state.leader == self._metadata.own_id or state.isr in ((), (self._metadata.own_id,)):
            error = directory.refused[name]
            self.problems[state.id] = str(error)
            self.refused.report(state.id, name, error)
            return None
        self.problems.pop(state.id, None)
        self.refused.clear(state.id)
        return directory.repair(name)

    def _adopt(
        self, state: PartitionState, log: Log, directory: LogDirectory, topic: str
    ) -> Hosted:
        settings = self._settings_of(topic)
        log.config.become(settings.log)
        if settings.log.compacts:
            directory.checkpoints.expect_gaps(log)
        replica_settings = self._config.replica_settings()
        replica_settings.min_insync_replicas = settings.min_insync_replicas
        replica = Replica(
            state.id,
            self._metadata.own_id,
            log,
            replica_settings,
            high_watermark=directory.initial_high_watermark((topic, state.id.partition)),
        )
        hosted = Hosted(replica, log, directory, topic, settings)
        self.hosted[state.id] = hosted
        self._by_name[hosted.name] = hosted
        self._by_log[log] = hosted
        self.directories.preferred.pop(hosted.name, None)
        self._others.coordination.adopted(hosted)
        return hosted

    def move_to(self, hosted: Hosted, directory: LogDirectory, future: Log) -> None:
        """From now on `future`, which has the same records, is the log of this partition."""
        log = directory.take_future(
            hosted.name, hosted.partition.topic_id, future, hosted.replica.high_watermark
        )
        if log.epochs.entries != hosted.log.epochs.entries:  # some have no record, or none any more
            for epoch, start_offset in hosted.log.epochs.entries:
                log.assign_epoch(epoch, start_offset)
        log.producers = hosted.log.producers
        log.config.become(hosted.topic_settings.log)
        hosted.replica.move_to(log)
        del self._by_log[hosted.log]
        former, hosted.log, hosted.directory = hosted.directory, log, directory
        self._by_log[log] = hosted
        former.delete_log(hosted.name)
        self.on_durable([log])

    def _stop_hosting(self, partition: PartitionId) -> None:
        self.problems.pop(partition, None)
        self.refused.clear(partition)
        self._without_space.pop(partition, None)
        hosted = self.hosted.pop(partition, None)
        if hosted is None:
            return
        del self._by_name[hosted.name], self._by_log[hosted.log]
        self._others.moves.forget(hosted)
        if hosted.shards is not None:
            hosted.shards.resigned(hosted.index)
        self.perform(hosted, hosted.replica.stop(self._now_ms()))
        self._others.link.withdraw(partition)
        self._others.fetchers.drop(partition)
        self._others.fetches.wake(partition)
        end, own_id = hosted.log.log_end_offset, self._metadata.own_id
        self._remove(hosted.directory, hosted.name)
        self._emit(events.LogDeleted(partition, own_id, end))

    def _remove(self, directory: LogDirectory, name: PartitionName) -> None:
        """Out of service at once. Its files go beside the loop, if anything runs there."""
        if self.works_beside_the_loop:
            directory.take_out_of_service(name)
        else:
            directory.delete_log(name)

    # -- durability

    def mark_dirty(self, hosted: Hosted) -> None:
        """Something was appended: ask for a sync, where acknowledging needs one."""
        if hosted.log.config.durability == "fsync":
            self.directories.request_sync(hosted.directory)

    def note_appended(self, hosted: Hosted, base_offset: int) -> None:
        """Records from this offset on are new in the log of a leader or a follower."""
        self.mark_dirty(hosted)
        self._emit(
            events.RecordsAppended(
                hosted.partition,
                self._metadata.own_id,
                base_offset,
                hosted.log.log_end_offset,
                hosted.replica.leader_epoch,
            )
        )

    def appended_by_leader(self, hosted: Hosted, role: LeaderReplica, base_offset: int) -> None:
        """The same, and everything else that follows from one append of a leader."""
        self.note_appended(hosted, base_offset)
        self.perform(hosted, role.on_appended(self._now_ms()))
        self._others.fetches.wake(hosted.partition)

    def on_durable(self, logs: Sequence[Log]) -> None:
        """A pass of group commit has moved the durable offset of these."""
        now = self._now_ms()
        for log in logs:
            hosted = self._by_log.get(log)
            if hosted is None:
                continue
            leader = hosted.leader
            if leader is not None:
                self.perform(hosted, leader.on_durable(now))
            else:
                self._others.fetchers.wake(hosted.partition)

    def high_watermarks(
        self, names: Iterable[PartitionName] | None = None
    ) -> dict[PartitionName, int]:
        """Of these logs, or of all; without those that are not hosted."""
        if names is None:
            return {hosted.name: hosted.replica.high_watermark for hosted in self.hosted.values()}
        found = ((name, self._by_name.get(name)) for name in names)
        return {name: each.replica.high_watermark for name, each in found if each is not None}

    # -- in-sync replicas

    def check_isr(self, some: Iterable[Hosted]) -> None:
        now = self._now_ms()
        for hosted in some:
            leader = hosted.leader
            if leader is not None:
                effects = leader.check_isr(now)
                if effects:
                    self.perform(hosted, effects)

    # -- effects

    def perform(self, hosted: Hosted, effects: Sequence[e.Effect]) -> None:
        try:
            for effect in effects:
                perform = self._perform.get(type(effect))
                if perform is not None:
                    perform(hosted, effect)
                else:
                    self._emit(effect)  # type: ignore[arg-type]  # the rest are events
        except DirectoryOffline as error:
            # Whoever caused this has nothing to do with the disk; the node must hear of it.
            self.directories.on_error(hosted.directory, error)

    def _answer_produce(self, _: Hosted, effect: e.AnswerProduce) -> None:
        effect.token.answered(effect.error)  # type: ignore[attr-defined]  # opaque to core

    def _propose_isr(self, _: Hosted, effect: e.ProposeIsr) -> None:
        self._others.link.propose(effect.proposal)

    def _assign_epoch(self, hosted: Hosted, effect: e.AssignEpoch) -> None:
        hosted.log.assign_epoch(effect.leader_epoch, effect.start_offset)

    def _truncate(self, hosted: Hosted, effect: e.TruncateLog) -> None:
        try:
            hosted.log.truncate_to(effect.offset)
        except CorruptSegment as error:  # what is to stay is damaged: first that is mended
            role = hosted.replica.role
            assert isinstance(role, FollowerReplica), role
            role.on_truncation_failed(self._now_ms())
            self._others.mending.found(hosted, error)
            return
        self._after_cut(hosted)

    def _restart_log(self, hosted: Hosted, effect: e.RestartLog) -> None:
        hosted.log.truncate_fully_and_start_at(effect.offset)
        self._after_cut(hosted)

    def _after_cut(self, hosted: Hosted) -> None:
        role = hosted.replica.role
        assert isinstance(role, FollowerReplica), role
        self._others.moves.start_over(hosted)
        self.mark_dirty(hosted)  # a pass under way may have been about what was cut
        self.perform(hosted, role.on_truncated(self._now_ms()))
        self._others.fetches.wake(hosted.partition)

    def _append_batches(self, hosted: Hosted, effect: e.AppendBatches) -> None:
        role = hosted.replica.role
        assert isinstance(role, FollowerReplica), role
        base_offset, now_ms = hosted.log.log_end_offset, self._now_ms()
        try:
            hosted.log.append_as_follower(*_received(effect))
        except (NoSpace, UnexpectedAppend) as error:
            self.problems[hosted.partition] = str(error)
            self.directories.on_error(hosted.directory, error)
            self.mark_dirty(hosted)  # the batches that fitted are kept
            role.on_append_failed(now_ms)
            return
        if self.problems:
            self.problems.pop(hosted.partition, None)
        self.note_appended(hosted, base_offset)
        self.perform(hosted, role.on_appended(effect, now_ms))

    def _raise_log_start(self, hosted: Hosted, effect: e.RaiseLogStart) -> None:
        wake = self._others.fetches.wake_consumers
        self.log_starts.raise_later(hosted, effect.offset, lambda _: wake(hosted.partition))

    def _ask_leader_offsets(self, hosted: Hosted, effect: e.AskLeaderOffsets) -> None:
        self._others.fetchers.ask_leader_offsets(hosted, effect)

    def _commit_moved(self, hosted: Hosted, event: events.Event) -> None:
        """The high watermark, or the ISR that it depends on."""
        self._emit(event)
        self._others.fetches.wake_consumers(hosted.partition)
        if hosted.shards is not None:
            self._others.coordination.moved(hosted)


def _received(effect: e.AppendBatches) -> tuple[list[memoryview], list[BatchHeader]]:
    """What the fetcher received: bytes are the shell's business, core sees headers."""
    batches = cast(Sequence[FetchedBatch], effect.batches)
    return [batch.data for batch in batches], [batch.header for batch in batches]


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
