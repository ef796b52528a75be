"""One simulated node: quorum replica, controller and broker around one disk.

A node is what a process is. Crashing drops everything but `disk`; starting builds the state
machines again from it, exactly as the real node does from its files.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.core.events import QuorumLeaderElected
from tidelog.core.failover import Suspicion
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.effects import Answer, AppendRecords
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import image_records, replay
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.quorum import effects as q
from tidelog.core.quorum import rules
from tidelog.core.quorum.messages import FetchRequest, QuorumMessage, SnapshotId, VoteResponse
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.quorum.state import QuorumSettings
from tidelog.core.replication.inputs import ReplicaSelector
from tidelog.core.replication.selector import rack_aware
from tidelog.core.types import NO_EPOCH
from tidelog.sim import messages as m
from tidelog.sim.broker import SimBroker
from tidelog.sim.controller_link import ControllerLink
from tidelog.sim.hints import Detector
from tidelog.sim.node_disk import NodeDisk
from tidelog.sim.raft_log import Snapshot

if TYPE_CHECKING:
    from tidelog.sim.world import World

Argument = TypeVar("Argument")
EVERYTHING = 1 << 40


class SimNode:
    """Its clock runs at its own rate; every deadline goes through `at_ms`."""

    def __init__(self, world: World, node_id: int, disk: NodeDisk) -> None:
        plan = world.plan
        self.id = node_id
        self.world = world
        self.plan = plan
        self.kernel = world.kernel
        self.network = world.network
        self.judge = world.judge
        self.marks = world.marks
        self.data_marks = world.data_marks
        self.control_marks = world.control_marks
        self.coordination_marks = world.coordination_marks
        self.cluster_id = world.cluster_id
        self.voters = world.voters
        self.key = world.key_of(node_id)
        self.rack = plan.racks[node_id - 1] if plan.racks else None
        self.replica_selector: ReplicaSelector | None = rack_aware if plan.racks else None
        self.disk = disk
        self.entropy: random.Random = world.node_entropy(node_id)
        clock = plan.clocks[node_id - 1]
        self._rate_ppm = clock.rate_ppm
        # Two monotonic clocks never agree: nothing may compare them.
        self._offset_us = 1_000_000 * (100 + 37 * node_id)
        self.wall_offset_ms = clock.offset_ms
        self.sync_delay_extra_us = 0
        self.proposals_late_ms = 0
        self.proposals_copied = False
        self.fetches_late_ms = 0
        self.fetch_max_batches = plan.fetch_max_batches
        self.running = False
        self.stopping = False
        self._request_ids = node_id << 40
        self._receive: dict[type, Callable[[int, Any], None]] = {}

    # -- life

    def start(self) -> bool:
        """False if its disk does not let it."""
        assert not self.running, f"node {self.id} runs already"
        self.disk.reload()
        self._finish_snapshot_install()
        previous_broker_epoch = self.disk.take_intact_mark()
        self.running = True
        self.stopping = False
        self.applied_offset = 0
        self._quorum_timer_ms = 0
        self._controller_timer_ms = 0
        self._raft_sync_scheduled = False
        self._snapshot_offset = 0
        self.controller = self._make_controller() if self.key in self.voters else None
        self.quorum = self._make_quorum()
        self.control_marks.started_quorum(self.disk.quorum_state, self.quorum.role)
        self.broker = SimBroker(self)
        self.link = ControllerLink(self, previous_broker_epoch)
        self.detector = Detector(self)
        self._receive = self._routes()
        self.network.open(self.id)
        self.world.hints.started(self.id)
        self.judge.node_started(self.id)
        if self.disk.raft_log.snapshots:
            self._load_snapshot(self.disk.raft_log.snapshots[-1])
        self.perform_quorum(self.quorum.tick(self.now_ms()))
        self.link.poke()
        self.after_ms(self._isr_interval_ms(), self._check_isr, None)
        self.after_ms(self.plan.timings.session_timeout_ms, self._checkpoint, None)
        return True

    def _finish_snapshot_install(self) -> None:
        """A power loss may leave a snapshot that reaches further than the log (k07)."""
        log = self.disk.raft_log
        if rules.snapshot_replaces_log(
            log.latest_snapshot, log.log_start_offset, log.log_end_offset, log.epochs
        ):
            log.install_snapshot(log.snapshots[-1])
            self.marks.add("snapshot_replaced_log_at_start")

    def crash(self, kind: str) -> None:
        """The process is gone; what it had scheduled or was told since never happens."""
        assert self.running, f"node {self.id} is down already"
        self.running = False
        self.kernel.revoke(self.id)
        self.network.close(self.id)
        self.judge.node_stopped(self.id, kind)
        self.world.hints.ended(self.id, kind)

    def complaints(self) -> list[str]:
        """What is wrong on its disk at the end of a run: nothing, where there are only objects."""
        return []

    def begin_clean_stop(self) -> None:
        if self.running and not self.stopping:
            self.stopping = True
            self.link.lifecycle.begin_shutdown(self.now_ms())
            self.link.poke()

    def finish_clean_stop(self) -> None:
        """Nothing is led here any more: sync, write the checkpoints, then the marker."""
        if not self.running:
            return
        self.perform_quorum(self.quorum.shutdown(self.now_ms()))
        self.broker.checkpoint_high_watermarks()
        self.disk.on_clean_stop(self.link.broker_epoch)
        self.crash("clean stop")
        self.world.stopped_cleanly(self.id)

    def _make_controller(self) -> Controller:
        timings = self.plan.timings
        settings = ControllerSettings(
            cluster_id=self.cluster_id,
            session_timeout_ms=timings.session_timeout_ms,
            elr_enabled=self.plan.elr,
            leader_imbalance_check_interval_ms=timings.imbalance_check_interval_ms,
            max_idle_interval_ms=timings.max_idle_interval_ms,
            unclean_check_interval_ms=timings.imbalance_check_interval_ms,
        )
        return Controller(self.id, settings, self.draw, self.draw_uuid)

    def _make_quorum(self) -> QuorumNode:
        timings = self.plan.timings
        return QuorumNode(
            key=self.key,
            cluster_id=self.cluster_id,
            voters=self.voters,
            log=self.disk.raft_log,
            stored=self.disk.quorum_state,
            settings=QuorumSettings(
                election_timeout_ms=timings.election_timeout_ms,
                fetch_timeout_ms=timings.quorum_fetch_timeout_ms,
                election_backoff_max_ms=timings.election_backoff_max_ms,
                fetch_max_wait_ms=timings.quorum_fetch_wait_ms,
                request_timeout_ms=timings.quorum_request_timeout_ms,
                retry_backoff_ms=timings.quorum_retry_backoff_ms,
            ),
            draw_timeout=lambda timeout_ms: timeout_ms + self.draw(timeout_ms),
            now_ms=self.now_ms(),
            committed_before=self.disk.committed_offset,
        )

    def _routes(self) -> dict[type, Callable[[int, Any], None]]:
        broker = self.broker
        return {
            m.ReplicaFetch: broker.reads.on_replica_fetch,
            m.ReplicaFetchReply: broker.fetchers.on_reply,
            m.OffsetsAsk: broker.reads.on_offsets_ask,
            m.OffsetsReply: lambda _, reply: broker.fetchers.on_offsets(reply),
            m.Produce: broker.on_produce,
            m.ConsumerRead: broker.reads.on_consumer_read,
            m.LatestAsk: broker.reads.on_latest_ask,
            m.WhoLeads: broker.reads.on_who_leads,
            m.ControllerCall: self._on_controller_call,
            m.ControllerReply: lambda _, reply: self.link.on_reply(reply),
            **self._coordinator_routes(),
        }

    def _coordinator_routes(self) -> dict[type, Callable[[int, Any], None]]:
        coordination = self.broker.coordination
        if coordination is None:
            return {}
        return {
            m.CoordinatorCall: coordination.on_call,
            m.ConnectionClosed: coordination.on_connection_closed,
            m.CoordinatorReply: coordination.checks.on_reply,
            m.OffsetsOfTransaction: coordination.checks.on_offsets,
            m.WriteMarkers: coordination.markers.on_request,
            m.WriteMarkersReply: coordination.markers.on_reply,
        }

    # -- time and chance

    def _local_us(self) -> int:
        return self.kernel.now_us * self._rate_ppm // 1_000_000 + self._offset_us

    def now_ms(self) -> int:
        return (self.kernel.now_us * self._rate_ppm // 1_000_000 + self._offset_us) // 1000

    def wall_ms(self) -> int:
        return self.kernel.now_ms + self.wall_offset_ms

    def at_ms(self, at_ms: int, callback: Callable[[Argument], None], argument: Argument) -> None:
        """At this time by the node's own clock; never earlier."""
        wait_us = max(0, at_ms * 1000 - self._local_us())
        self.kernel.call_in(-(-wait_us * 1_000_000 // self._rate_ppm), self.id, callback, argument)

    def after_ms(
        self, delay_ms: int, callback: Callable[[Argument], None], argument: Argument
    ) -> None:
        self.kernel.call_in(delay_ms * 1000, self.id, callback, argument)

    def after_us(
        self, delay_us: int, callback: Callable[[Argument], None], argument: Argument
    ) -> None:
        self.kernel.call_in(delay_us, self.id, callback, argument)

    def draw(self, limit: int) -> int:
        return self.entropy.randrange(limit)

    def draw_uuid(self) -> bytes:
        return self.entropy.getrandbits(128).to_bytes(16, "big")

    def draw_sync_delay_us(self) -> int:
        """Group commit in fsync mode; in page-cache mode the kernel writes back much later."""
        timings = self.plan.timings
        delay_us = timings.sync_delay_us_min + self.draw(
            timings.sync_delay_us_max - timings.sync_delay_us_min + 1
        )
        if not self.disk.fsync:
            delay_us += 1_000_000 + self.draw(4_000_000)
        return delay_us + self.sync_delay_extra_us

    def next_request_id(self) -> int:
        self._request_ids += 1
        return self._request_ids

    # -- messages

    def send(self, target: int, message: object) -> None:
        self.network.send(self.id, target, message)

    def emit(self, event: Any) -> None:
        self.world.happened(self.id, event)

    def receive(self, source: int, message: object) -> None:
        route = self._receive.get(type(message))
        if route is not None:
            route(source, message)
        else:
            self._on_quorum_message(source, message)  # type: ignore[arg-type]

    def _on_quorum_message(self, source: int, message: QuorumMessage) -> None:
        effects = self.quorum.on_message(source, message, self.now_ms())
        if effects:
            self.perform_quorum(effects)
        self._arm_quorum()

    def _on_controller_call(self, source: int, call: m.ControllerCall) -> None:
        token = (source, call.request_id, call.request)
        if self.controller is None:
            return
        self.perform_controller(self.controller.handle(token, call.request, self.now_ms()))
        self._arm_controller()

    # -- the quorum's effects

    def perform_quorum(self, effects: Sequence[Any]) -> None:
        claim: q.LeadershipClaimable | None = None
        for effect in effects:
            kind = type(effect)
            if kind is q.Send:
                self._send_quorum(effect)
            elif kind is q.CommitAdvanced:
                self.judge.quorum_high_watermark(self.id, effect.high_watermark)
                self._apply_committed(effect.high_watermark)
            elif kind is q.PersistState:
                self.disk.quorum_state = effect.state
                self.judge.quorum_state_persisted(self.id, effect.state)
            elif kind is q.AppendEntries:
                self._append_metadata(effect)
            elif kind is q.TruncateTo:
                self.marks.add("metadata_truncated")
                self.disk.raft_log.truncate_to(effect.offset)
                self.judge.metadata_truncated(self.id, effect.offset, self.quorum.high_watermark)
            elif kind is q.InstallSnapshot:
                self._install_snapshot(effect)
            elif kind is q.LeadershipClaimable:
                claim = effect  # it appends, so it waits until this list is performed
            elif kind is q.LeadershipLost:
                self._renounce()
            else:
                if kind is QuorumLeaderElected:
                    self.judge.quorum_leader(self.id, effect.leader_epoch, effect.start_offset)
                self.emit(effect)
        if claim is not None:
            self._claim(claim)
        self._arm_quorum()

    def _send_quorum(self, effect: q.Send) -> None:
        message = effect.message
        if type(message) is FetchRequest:
            durable_offset = self.disk.raft_log.durable_offset
            self.judge.quorum_fetch_sent(self.id, message.fetch_offset, durable_offset)
        elif type(message) is VoteResponse:
            self.control_marks.voted(message)
            if message.granted and not message.pre_vote:
                self.judge.vote_sent(self.id, message.epoch, effect.target)
        self.network.send(self.id, effect.target, message)

    def _append_metadata(self, effect: q.AppendEntries) -> None:
        self.disk.raft_log.append(effect.entries)
        for entry in effect.entries:
            self.judge.metadata_appended(self.id, entry)
        self._schedule_raft_sync()

    def _schedule_raft_sync(self) -> None:
        if not self._raft_sync_scheduled:
            self._raft_sync_scheduled = True
            timings = self.plan.timings
            spread_us = timings.sync_delay_us_max - timings.sync_delay_us_min
            delay_us = timings.sync_delay_us_min + self.draw(spread_us + 1)
            self.after_us(delay_us + self.sync_delay_extra_us, self._raft_synced, None)

    def _raft_synced(self, _: None) -> None:
        self._raft_sync_scheduled = False
        self.disk.raft_log.sync()
        self.perform_quorum(self.quorum.on_durable(self.now_ms()))

    def _arm_quorum(self) -> None:
        """Keep one timer at or before the deadline; a timer that comes too early re-arms."""
        deadline_ms = self.quorum.next_deadline_ms
        if self._quorum_timer_ms and self._quorum_timer_ms <= deadline_ms:
            return
        self._quorum_timer_ms = deadline_ms
        self.at_ms(deadline_ms, self._quorum_timer, deadline_ms)

    def _quorum_timer(self, armed_ms: int) -> None:
        if armed_ms != self._quorum_timer_ms:
            return
        self._quorum_timer_ms = 0
        now = self.now_ms()
        if now >= self.quorum.next_deadline_ms:
            self.perform_quorum(self.quorum.tick(now))
        self._arm_quorum()

    # -- committed metadata

    def _apply_committed(self, high_watermark: int) -> None:
        disk = self.disk
        disk.committed_offset = min(high_watermark, disk.raft_log.durable_offset)
        for entry in self.disk.raft_log.entries_from(self.applied_offset, EVERYTHING):
            if entry.offset < self.applied_offset:
                continue
            if entry.next_offset > high_watermark:
                break
            self.applied_offset = entry.next_offset
            self.world.metadata_committed(entry)
            self.judge.metadata_committed(self.id, entry)
            if self.controller is not None:
                effects = self.controller.on_committed(entry, self.now_ms())
                if not self.controller.active:
                    self.control_marks.former_controller_told(effects)
                self.perform_controller(effects)
            if not entry.control:
                self.broker.apply_entry(entry)
        self._maybe_snapshot()
        self._arm_controller()
        self.link.poke()

    def _maybe_snapshot(self) -> None:
        """Of committed state only; the log before the previous snapshot is then dropped."""
        if self.applied_offset - self._snapshot_offset < self.plan.snapshot_every_records:
            return
        epoch = self.disk.raft_log.epochs.epoch_at(self.applied_offset - 1)
        snapshot_id = SnapshotId(self.applied_offset, epoch)
        if not self.quorum.snapshot_allowed(snapshot_id):
            return
        if self.controller is not None:
            snapshot = Snapshot(snapshot_id, self.controller.snapshot_records())
        else:
            snapshot = Snapshot(snapshot_id, image_records(self.broker.image))
        self.judge.snapshot_taken(
            self.id, self.applied_offset, snapshot.records, self.quorum.high_watermark
        )
        self.disk.raft_log.take_snapshot(snapshot)
        self._snapshot_offset = self.applied_offset

    def _install_snapshot(self, effect: q.InstallSnapshot) -> None:
        assert isinstance(effect.content, tuple), "records, at this depth"
        snapshot = Snapshot(effect.snapshot, effect.content)
        self.disk.raft_log.install_snapshot(snapshot)
        self._load_snapshot(snapshot)
        self.judge.snapshot_installed(self.id, snapshot.id.end_offset, self.broker.image)
        self.marks.add("metadata_snapshot_installed")
        if self.broker.serving and self.broker.replicas:
            self.marks.add("snapshot_installed_while_serving")
        self._schedule_raft_sync()

    def _load_snapshot(self, snapshot: Snapshot) -> None:
        image = MetadataImage()
        for record in snapshot.records:
            replay(image, record)  # type: ignore[arg-type]
        self.applied_offset = self._snapshot_offset = snapshot.id.end_offset
        if self.controller is not None:
            self.controller.load_snapshot(
                snapshot.records,  # type: ignore[arg-type]
                snapshot.id.end_offset,
                self.now_ms(),
            )
        self.broker.load_image(image)

    # -- the controller's effects

    def perform_controller(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is AppendRecords:
                offset, more = self.quorum.append(effect.records, self.now_ms())
                assert offset == effect.base_offset, (offset, effect.base_offset)
                self.perform_quorum(more)
            elif kind is Answer:
                source, request_id, request = effect.token
                self.judge.controller_answered(self.id, request, effect.response)
                self.send(source, m.ControllerReply(request_id, effect.response))
            else:
                self.emit(effect)

    def _claim(self, effect: q.LeadershipClaimable) -> None:
        if self.controller is None:
            return
        self.judge.controller_claimed(self.id, effect.epoch)
        next_offset = self.disk.raft_log.log_end_offset
        self.perform_controller(self.controller.claim(effect.epoch, next_offset, self.now_ms()))
        self._arm_controller()
        self.detector.look_at(list(self.controller.committed.brokers))

    def _renounce(self) -> None:
        if self.controller is None or not self.controller.active:
            return
        epoch = self.controller.epoch
        if self.controller.pending_answers:
            self.marks.add("renounced_with_pending_answers")
        self.perform_controller(self.controller.renounce(self.now_ms()))
        self.judge.controller_renounced(self.id, epoch, self.controller)

    def _arm_controller(self) -> None:
        if self.controller is None or not self.controller.active:
            return
        deadline_ms = self.controller.next_deadline_ms
        if self._controller_timer_ms and self._controller_timer_ms <= deadline_ms:
            return
        self._controller_timer_ms = deadline_ms
        self.at_ms(deadline_ms, self._controller_timer, deadline_ms)

    def _controller_timer(self, armed_ms: int) -> None:
        if armed_ms != self._controller_timer_ms:
            return
        self._controller_timer_ms = 0
        if self.controller is not None and self.controller.active:
            now = self.now_ms()
            if now >= self.controller.next_deadline_ms:
                effects = self.controller.tick(now)
                self.control_marks.controller_ticked(effects)
                self.perform_controller(effects)
            self._arm_controller()

    # -- processes that are gone

    def confirmed_gone(self, suspicion: Suspicion) -> None:
        if self.controller is not None:
            self._broker_gone(self.controller, suspicion)
        effects = self.quorum.on_leader_gone(
            suspicion.node_id, suspicion.leader_epoch, self.now_ms()
        )
        if effects and self.key in self.voters:
            self.marks.add("quorum_hint_started_election")
        self.perform_quorum(effects)

    def _broker_gone(self, controller: Controller, suspicion: Suspicion) -> None:
        broker, broker_epoch, _ = suspicion
        effects = controller.on_broker_gone(broker, broker_epoch, self.now_ms())
        if effects and controller.current is not None:
            incarnation_id = controller.current.brokers[broker].incarnation_id
            self.judge.fenced_by_hint(self.id, broker, incarnation_id)
        elif NO_EPOCH < broker_epoch < controller.registered_epoch(broker):
            self.marks.add("hint_of_former_incarnation")
        self.perform_controller(effects)
        self._arm_controller()

    # -- periodic duties of the broker

    def _isr_interval_ms(self) -> int:
        return max(1, self.plan.timings.replica_lag_time_max_ms // 2)

    def _check_isr(self, _: None) -> None:
        self.broker.check_isr()
        self.after_ms(self._isr_interval_ms(), self._check_isr, None)

    def _checkpoint(self, _: None) -> None:
        self.broker.checkpoint_high_watermarks()
        self.after_ms(self.plan.timings.session_timeout_ms, self._checkpoint, None)
