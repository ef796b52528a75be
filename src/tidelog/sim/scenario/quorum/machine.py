"""A machine of the quorum: a disk that survives and a process that may be gone.

The process performs the effects of the real quorum node in order, and feeds committed entries
to whatever runs on top: a controller, a broker, or just a list of records. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from tidelog.core import events
from tidelog.core.failover import Suspicion
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.effects import Answer, AppendRecords
from tidelog.core.metadata.effects import Effect as ControllerEffect
from tidelog.core.metadata.lifecycle import RUNNING
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.quorum import effects as q
from tidelog.core.quorum import rules
from tidelog.core.quorum.messages import (
    EndEpochRequest,
    LeaderChange,
    QuorumMessage,
    SnapshotId,
    VoteResponse,
    VoterKey,
    VotersRecord,
)
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.quorum.state import QuorumLostLog, QuorumState
from tidelog.core.types import NEVER_MS, NO_EPOCH, NO_LEADER, NO_OFFSET, LogEntry
from tidelog.sim.raft_log import RaftLog, Snapshot
from tidelog.sim.scenario.quorum.broker import CLUSTER_ID, BrokerProcess
from tidelog.sim.scenario.quorum.messages import (
    Call,
    Envelope,
    Synced,
    answer_text,
    kind_of,
    log_text,
)
from tidelog.sim.scenario.script import ArgumentError

if TYPE_CHECKING:
    from tidelog.sim.scenario.quorum.stage import QuorumStage

BEFORE_VOTE, AFTER_VOTE, AFTER_SNAPSHOT = (
    "before-storing-vote",
    "after-storing-vote",
    "after-snapshot",
)
REGISTRATION_MS = 1000
TRAPS = (BEFORE_VOTE, AFTER_VOTE, AFTER_SNAPSHOT)
"""Moments inside one step of a process at which a story may let it die."""


class QuorumDisk:
    """What is left when the process is gone."""

    def __init__(self) -> None:
        self.log = RaftLog()
        self.stored = QuorumState(0, NO_LEADER, None)
        self.committed = NO_OFFSET
        """What the process knew to be committed, and had synced."""
        self.slow = False
        """A slow disk has written nothing for good until it is asked again."""
        self.clean_broker_epoch = NO_EPOCH


class Machine:
    def __init__(self, stage: QuorumStage, address: int, name: str, key: VoterKey) -> None:
        self.stage = stage
        self.address = address
        self.name = name
        self.key = key
        self.disk = QuorumDisk()
        self.is_broker = False
        self.trap: str | None = None
        self._forget()

    def _forget(self) -> None:
        """Everything that lives in memory only."""
        self.node: QuorumNode | None = None
        self.controller: Controller | None = None
        self.broker: BrokerProcess | None = None
        self.applied: list[object] = []
        self.applied_offset = 0
        self._afterwards: list[Callable[[], None]] = []

    # -- life

    @property
    def running(self) -> QuorumNode:
        assert self.node is not None, f"{self.name} is down"
        return self.node

    def start(self, *, clean: bool = False) -> None:
        assert self.node is None, f"{self.name} runs already"
        stage, log = self.stage, self.disk.log
        if self.is_broker:
            previous_epoch = self.disk.clean_broker_epoch if clean else NO_EPOCH
            self.broker = BrokerProcess(self, stage.make_uuid(), previous_epoch)
        elif stage.controller_settings is not None:
            self.controller = Controller(
                self.key.node_id, stage.controller_settings, lambda limit: 0, stage.make_uuid
            )
        self._recover()
        self.node = QuorumNode(
            key=self.key,
            cluster_id=CLUSTER_ID,
            voters=stage.voters,
            log=log,
            stored=self.disk.stored,
            settings=stage.settings,
            draw_timeout=lambda timeout_ms: stage.draw_timeout(self.address, timeout_ms),
            now_ms=stage.now_ms,
            committed_before=self.disk.committed,
        )
        if not self.is_broker:
            self.note(f"starts as {self.node.role} in epoch={self.node.epoch}")
        self.poke()

    def _recover(self) -> None:
        """Start-up of kraft.md §9: a snapshot the log does not lead up to replaces it."""
        log = self.disk.log
        latest = log.snapshots[-1] if log.snapshots else None
        if latest is None:
            return
        if rules.snapshot_replaces_log(
            latest.id, log.log_start_offset, log.log_end_offset, log.epochs
        ):
            self.note(f"drops its log and starts at snapshot={tuple(latest.id)}")
            log.install_snapshot(latest)
        self._load(latest)

    def start_serving(self, *, clean: bool = False) -> None:
        """A broker starts, and a moment passes in which it may register and be unfenced."""
        self.start(clean=clean)
        self.stage.run_until(self.stage.now_ms + REGISTRATION_MS, self._is_serving)

    def _is_serving(self) -> bool:
        return self.broker is not None and self.broker.lifecycle.state == RUNNING

    def crash(self, *, lose_tail: bool = False) -> None:
        """The process is gone. With the power also what was not synced."""
        log = self.disk.log
        if lose_tail:
            log.lose_tail(log.durable_offset)
        log.sync()
        self.disk.slow = False
        if self.broker is not None:
            self.disk.clean_broker_epoch = self.broker.lifecycle.broker_epoch
        self._forget()
        self.stage.on_gone(self)

    def finish_clean_stop(self) -> None:
        self.stage.later(self.crash)

    # -- time and messages

    @property
    def next_deadline_ms(self) -> int:
        if self.node is None:
            return NEVER_MS
        deadlines = [self.node.next_deadline_ms]
        if self.controller is not None:
            deadlines.append(self.controller.next_deadline_ms)
        if self.broker is not None:
            deadlines.append(self.broker.lifecycle.next_deadline_ms)
        return min(deadlines)

    def poke(self) -> None:
        """Do what is due."""
        now_ms = self.stage.now_ms
        if self.node is not None and self.node.next_deadline_ms <= now_ms:
            self.perform(self.node.tick(now_ms))
        if self.controller is not None and self.controller.next_deadline_ms <= now_ms:
            self.perform_controller(self.controller.tick(now_ms))
        if self.broker is not None:
            self.broker.poke()

    def receive(self, envelope: Envelope) -> None:
        node, now_ms, message = self.running, self.stage.now_ms, envelope.message
        if isinstance(message, Synced):
            self.perform(node.on_durable(now_ms))
        elif not isinstance(message, Call):
            self._hear(envelope.source, message)
        elif envelope.source == message.target:
            self._receive_answer(message)
        elif self.controller is None:
            self.stage.on_lost(message)
        else:
            self.perform_controller(self.controller.handle(message, message.request, now_ms))

    def _hear(self, source: int, message: QuorumMessage) -> None:
        try:
            effects = self.running.on_message(source, message, self.stage.now_ms)
        except QuorumLostLog as reason:
            self.note(f"stops: {reason}")
            self.crash()
        else:
            self.perform(effects)

    def _receive_answer(self, call: Call) -> None:
        assert self.broker is not None, f"{self.name} asked nothing"
        if call.kind == "proposal":
            self.note(answer_text(call))
        else:
            self.broker.on_response(call)

    def sync(self) -> None:
        self.disk.log.sync()
        self.stage.post_first(Envelope(self.address, self.address, "synced", Synced()))

    # -- the quorum's effects

    def note(self, text: str) -> None:
        self.stage.narrator.note(self.name, text)

    def perform(self, effects: list[q.Effect]) -> None:
        """In order. The node is not called again before all of them are done; what a commit
        or a claim sets off in the controller comes afterwards."""
        ends = [e.message for e in effects if isinstance(e, q.Send) and _resigns(e)]
        for effect in effects:
            if self.node is None:
                return  # it died in the middle; the rest never happens
            self._perform(effect)
        if ends:
            message = cast("EndEpochRequest", ends[0])
            self.note(f"proposes {', '.join(map(str, message.preferred_candidates))} in this order")
        afterwards, self._afterwards = self._afterwards, []
        for step in afterwards:
            step()

    def _perform(self, effect: q.Effect) -> None:
        log = self.disk.log
        if isinstance(effect, q.Send):
            self._send(effect)
        elif isinstance(effect, q.PersistState):
            self._persist(effect.state)
        elif isinstance(effect, q.AppendEntries):
            self._append(effect.entries)
        elif isinstance(effect, q.TruncateTo):
            self.note(f"truncate {log.log_end_offset} -> {effect.offset}")
            log.truncate_to(effect.offset)
        elif isinstance(effect, q.InstallSnapshot):
            self._install(effect)
        elif isinstance(effect, q.CommitAdvanced):
            self._commit(effect.high_watermark)
        elif isinstance(effect, q.LeadershipClaimable):
            self._afterwards.append(lambda: self._claim(effect.epoch))
        elif isinstance(effect, q.LeadershipLost):
            self._afterwards.append(self._renounce)
        else:
            self._note_event(effect)

    def _send(self, effect: q.Send) -> None:
        message = effect.message
        if isinstance(message, VoteResponse):
            verb = "grants" if message.granted else "refuses"
            what = kind_of(message).removesuffix("-answer")
            target = self.stage.name_of(effect.target)
            self.note(f"{verb} {target} its {what} in epoch={message.epoch}")
            if message.granted and not message.pre_vote:
                self.stage.history.on_vote_sent(self.address, message.epoch, effect.target)
        self.stage.post(Envelope(self.address, effect.target, kind_of(message), message))

    def _persist(self, state: QuorumState) -> None:
        voted = state.voted
        votes = voted is not None and state != self.disk.stored and voted != self.key
        if not votes or self.trap not in (BEFORE_VOTE, AFTER_VOTE):
            self.disk.stored = state
            return
        assert voted is not None, state
        if self.trap == AFTER_VOTE:
            self.disk.stored = state
            self.note(f"stores its vote for {voted.node_id} in epoch={state.epoch}")
        self._spring()

    def _spring(self) -> None:
        self.trap = None
        self.note("dies")
        self.crash()

    def _append(self, entries: tuple[LogEntry, ...]) -> None:
        self.disk.log.append(entries)
        telling = [e for e in entries if not isinstance(e.records[0], LeaderChange)]
        if telling and self.running.role != "leader" and self._tells_entries:
            self.note(f"append {log_text(telling)}")
        if not self.disk.slow:
            self.sync()

    @property
    def _tells_entries(self) -> bool:
        """Where controllers run, what is committed is told by what they decided."""
        return self.stage.controller_settings is None

    def _install(self, effect: q.InstallSnapshot) -> None:
        assert isinstance(effect.content, tuple), "records, not bytes"
        snapshot = Snapshot(effect.snapshot, effect.content)
        if self.trap == AFTER_SNAPSHOT:
            self.disk.log.snapshots.append(snapshot)
            self.note(f"stores snapshot={tuple(snapshot.id)}")
            self._spring()
            return
        self.note(f"installs snapshot={tuple(snapshot.id)}")
        self.disk.log.install_snapshot(snapshot)
        self._load(snapshot)
        self.sync()

    def _commit(self, high_watermark: int) -> None:
        previous, node = self.applied_offset, self.running
        for entry in self.disk.log.entries_from(previous, high_watermark):
            if entry.next_offset <= high_watermark:
                self.stage.history.on_committed(self.address, entry)
                self._apply(entry)
        assert self.applied_offset == high_watermark, (self.applied_offset, high_watermark)
        self.disk.committed = min(high_watermark, self.disk.log.durable_offset)
        if node.role == "leader" and self._tells_entries:
            self.note(f"high-watermark {previous} -> {high_watermark}")

    def _apply(self, entry: LogEntry) -> None:
        self.applied_offset = entry.next_offset
        if not entry.control:
            self.applied.extend(entry.records)
            if self.broker is not None:
                self.broker.apply(entry.records)
        controller = self.controller
        if controller is not None:
            before = self.stage.telling.before(controller)
            effects = controller.on_committed(entry, self.stage.now_ms)
            if controller.active and not entry.control:
                self._afterwards.append(lambda: self.stage.telling.tell(controller, entry, before))
            self._afterwards.append(lambda: self.perform_controller(effects))

    def take_snapshot(self) -> None:
        """Of everything that is known to be committed; the log before it is dropped."""
        log, node, end_offset = self.disk.log, self.running, self.applied_offset
        snapshot_id = SnapshotId(end_offset, log.epochs.epoch_at(end_offset - 1))
        if not node.snapshot_allowed(snapshot_id):
            raise ArgumentError(f"{self.name} may not take a snapshot at {end_offset}")
        records: tuple[object, ...] = tuple(self.applied)
        if self.controller is not None:
            records = self.controller.snapshot_records()
        control = node.snapshot_control_records(end_offset)
        log.take_snapshot(Snapshot(snapshot_id, (*control, *records)))
        self.note(f"takes snapshot={tuple(snapshot_id)}, log starts at {log.log_start_offset}")

    def _load(self, snapshot: Snapshot) -> None:
        """The state machine begins again with what the snapshot holds."""
        records = tuple(r for r in snapshot.records if not isinstance(r, VotersRecord))
        self.applied = list(records)
        self.applied_offset = snapshot.id.end_offset
        if self.broker is not None:
            self.broker.apply(records)
        if self.controller is not None:
            self.controller.load_snapshot(
                cast("tuple[MetadataRecord, ...]", records),
                snapshot.id.end_offset,
                self.stage.now_ms,
            )

    def _note_event(self, event: events.QuorumLeaderElected | events.QuorumRoleChanged) -> None:
        if isinstance(event, events.QuorumLeaderElected):
            self.stage.history.on_elected(self.address, event.leader_epoch)
            self.note(f"leads epoch={event.leader_epoch} from offset={event.start_offset}")
            return
        epoch = f"epoch={event.leader_epoch}"
        if self.is_broker or not self.running.is_voter:
            return
        if event.role == "prospective":
            self.note(f"asks for pre-votes in {epoch}")
        elif event.role == "candidate":
            self.note(f"candidate in {epoch}")
        elif event.role == "resigned":
            self.note(f"resigns from {epoch}")
        elif event.previous == "prospective":
            self.note("gives up" if event.role == "unattached" else "goes back to its leader")
        elif event.previous in ("candidate", "leader", "resigned") and event.role != "leader":
            led_by = f" led by {self.running.leader_id}" if event.role == "follower" else ""
            self.note(f"{event.role} in {epoch}{led_by}")

    # -- the controller's effects

    def _claim(self, epoch: int) -> None:
        if self.controller is not None and self.running.role == "leader":
            next_offset = self.disk.log.log_end_offset
            self.perform_controller(self.controller.claim(epoch, next_offset, self.stage.now_ms))

    def _renounce(self) -> None:
        if self.controller is not None:
            self.perform_controller(self.controller.renounce(self.stage.now_ms))

    def confirmed_gone(self, suspicion: Suspicion) -> None:
        node_id, broker_epoch, leader_epoch = suspicion
        now_ms = self.stage.now_ms
        if self.controller is not None:
            gone = self.controller.on_broker_gone(node_id, broker_epoch, now_ms)
            self.perform_controller(gone)
        self.perform(self.running.on_leader_gone(node_id, leader_epoch, now_ms))

    def perform_controller(self, effects: list[ControllerEffect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendRecords):
                offset, more = self.running.append(effect.records, self.stage.now_ms)
                assert offset == effect.base_offset, (offset, effect.base_offset)
                self.perform(more)
            elif isinstance(effect, Answer):
                assert isinstance(effect.token, Call), effect
                effect.token.response = effect.response
                self.stage.post_answer(effect.token)
            elif isinstance(effect, events.ControllerClaimed):
                self.note(f"is the active controller in epoch={effect.controller_epoch}")
            elif isinstance(effect, events.ControllerRenounced):
                self.note("is no longer the active controller")


def _resigns(effect: q.Send) -> bool:
    return isinstance(effect.message, EndEpochRequest)
