"""Marks of what only a whole node has: its logs and disks, its connections, its start and end."""

from collections.abc import Callable
from typing import Any

from tidelog.broker.fetch.fetch_sessions import FetchSessions
from tidelog.broker.logs.mending import Mending
from tidelog.broker.produce.leader_writes import LeaderWrites
from tidelog.broker.replication.fetcher import Fetcher
from tidelog.controller import liveness
from tidelog.coordinators.shard import Shard
from tidelog.coordinators.shards import Seat, Shards
from tidelog.core.coordination import CoordinatorMachine
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.controller import Controller
from tidelog.core.quorum import messages as m
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.isr import CommittedIsr
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.replica import Replica
from tidelog.core.requests import AlterPartitionRequest
from tidelog.core.types import NO_EPOCH, LogEntry
from tidelog.host.frames import FrameStream
from tidelog.quorum.member import QuorumMember
from tidelog.sim.nodes.loop import running_owner
from tidelog.sim.nodes.marks import NodeMarks, Witnesses
from tidelog.sim.nodes.probes import Method, Probe
from tidelog.sim.nodes.probes_coordination import partition_of
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.view import NodesView
from tidelog.sim.recovery_facts import POWER_LOSS, Recovery
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts
from tidelog.sim.rules.plain_image import Committed
from tidelog.storage.errors import NoSpace
from tidelog.storage.log import Log
from tidelog.storage.metadata_log import MetadataLog

Look = Callable[..., None]


def after(look: Look) -> Callable[[Method], Method]:
    """`look(result, *arguments)` when the method has returned, in a process that lives."""

    def around(original: Method) -> Method:
        def method(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            if running_owner() is not None:
                look(result, *arguments)
            return result

        return method

    return around


def before(look: Look) -> Callable[[Method], Method]:
    """`look(*arguments)` before the method is called."""

    def around(original: Method) -> Method:
        def method(*arguments: Any, **named: Any) -> Any:
            look(*arguments)
            return original(*arguments, **named)

        return method

    return around


class ShellMarks:
    """Probes that judge nothing, and a witness of the judge."""

    def __init__(self, marks: NodeMarks, view: NodesView, witnesses: Witnesses) -> None:
        self._add = marks.add
        self._view = view
        self._witnesses = witnesses
        self._proposals: dict[object, None] = {}
        self._removed: dict[str, None] = {}

    def attend(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle

    def all(self) -> list[Probe]:
        return [*self._of_replicas(), *self._of_control(), *self._of_coordinators(), *self._rest()]

    # -- replicas and logs

    def _of_replicas(self) -> list[Probe]:
        return [
            Probe(Log, "append_all_as_leader", self._around_leader_append),
            Probe(Log, "append_as_follower", self._around_follower_append),
            Probe(Log, "truncate_to", before(self._before_cut)),
            Probe(Log, "finish_sync", before(self._before_sync_ends)),
            Probe(Log, "raise_log_start", before(self._before_raise)),
            Probe(FollowerReplica, "on_fetch_answer", self._around_fetch_answer),
            Probe(Replica, "apply_metadata", self._around_metadata),
            Probe(Replica, "consumer_fetch", self._around_consumer_fetch),
            Probe(Replica, "list_offset", after(self._after_list_offset)),
            Probe(LeaderReplica, "check_produce", after(self._after_check)),
            Probe(LeaderReplica, "await_duplicate", before(self._before_duplicate)),
            Probe(LeaderReplica, "on_isr_result", self._around_isr_result),
            Probe(LeaderReplica, "check_marker", after(self._after_check_marker)),
            Probe(LeaderReplica, "on_follower_fetch", self._around_follower_fetch),
            Probe(LeaderReplica, "on_produce_timeout", after(self._after_failed)),
            Probe(LeaderReplica, "retire", after(self._after_failed)),
        ]

    def _around_leader_append(self, original: Method) -> Method:
        def append_all_as_leader(log: Log, batches: Any, leader_epoch: int) -> Any:
            if len(batches) > 1:
                self._add("produces_gathered")
            try:
                return original(log, batches, leader_epoch)
            except NoSpace:
                self._add("produce_refused_by_full_disk")
                raise

        return append_all_as_leader

    def _around_follower_append(self, original: Method) -> Method:
        def append_as_follower(log: Log, batches: Any, headers: Any = None) -> None:
            try:
                original(log, batches, headers)
            except NoSpace:
                self._add("follower_disk_full")
                raise

        return append_as_follower

    def _before_cut(self, log: Log, offset: int) -> None:
        hosted = self._view.of_log(log)
        if hosted is not None:
            self._witnesses.data.before_cut(hosted.replica, hosted.log, offset)

    def truncated(self, replica: Any, previous_end: int) -> None:
        """Hook of the judge."""
        log = replica.log
        if log.log_start_offset == log.log_end_offset and previous_end:
            self._add("log_restarted")

    def _before_sync_ends(self, log: Log, pending: Any, error: OSError | None) -> None:
        if pending.generation != log._generation:
            self._add("sync_ended_after_a_cut")
        elif pending.end_offset < log.recovery_point:
            self._add("sync_overtaken")
        if error is not None:
            self._add("sync_failed")

    def _before_raise(self, log: Log, offset: int) -> None:
        hosted = self._view.of_log(log)
        rises = offset > log.log_start_offset
        if rises and hosted is not None and hosted.leader != hosted.broker_id:
            self._add("log_start_followed")

    def _around_fetch_answer(self, original: Method) -> Method:
        def on_fetch_answer(role: FollowerReplica, fetch: Any, answer: Any, now_ms: int) -> Any:
            if role.ignores_answer_to(fetch, now_ms):
                self._add("fetch_answer_overtaken")
                if answer.batches:
                    self._add("fetch_answer_ignored")
            return original(role, fetch, answer, now_ms)

        return on_fetch_answer

    def _around_metadata(self, original: Method) -> Method:
        def apply_metadata(replica: Replica, *rest: Any) -> Any:
            led, epoch = isinstance(replica.role, LeaderReplica), replica.leader_epoch
            effects = original(replica, *rest)
            leads = isinstance(replica.role, LeaderReplica)
            if led and leads and replica.leader_epoch > epoch + 1:
                self._add("leader_missed_an_epoch")
            return effects

        return apply_metadata

    def _around_consumer_fetch(self, original: Method) -> Method:
        def consumer_fetch(replica: Replica, fetch: Any, now_ms: int) -> Any:
            decision = original(replica, fetch, now_ms)
            if decision.error is not NO_ERROR and running_owner() is not None:
                self._witnesses.data.refused_read(decision.error)
            return decision

        return consumer_fetch

    def _after_list_offset(self, answer: Any, *_: Any) -> None:
        if answer.error is Error.OFFSET_NOT_AVAILABLE:
            self._add("latest_told_offset_not_available")

    def _after_check(self, check: Any, role: LeaderReplica, *_: Any) -> None:
        duplicate = check.duplicate
        if duplicate is not None and duplicate.first_offset < role.leader_epoch_start_offset:
            self._add("duplicate_found_by_next_leader")

    def _before_duplicate(
        self, role: LeaderReplica, _token: object, duplicate: Any, *_: Any
    ) -> None:
        if duplicate.last_offset >= role.state.high_watermark:
            self._add("duplicate_waited_for_commit")

    def _around_isr_result(self, original: Method) -> Method:
        def on_isr_result(role: LeaderReplica, result: Any, now_ms: int) -> Any:
            was_pending, isr = not isinstance(role.isr_state, CommittedIsr), role.isr
            if not was_pending:
                self._add("isr_answer_overtaken")
            effects = original(role, result, now_ms)
            if was_pending and isinstance(role.isr_state, CommittedIsr) and role.isr == isr:
                self._add("isr_change_taken_back")
            return effects

        return on_isr_result

    def _around_follower_fetch(self, original: Method) -> Method:
        def on_follower_fetch(role: LeaderReplica, fetch: Any, now_ms: int) -> Any:
            decided = original(role, fetch, now_ms)
            error = decided[0].error
            if error is not NO_ERROR and running_owner() is not None:
                self._witnesses.data.refused_fetch(error)
            return decided

        return on_follower_fetch

    def _after_failed(self, effects: Any, *_: Any) -> None:
        for effect in effects:
            self._witnesses.data.failed_parked(effect.error)

    def _after_check_marker(self, error: Error, *_: Any) -> None:
        self._witnesses.coordination.marker_refused(error)

    def log_recovered(self, recovery: Recovery) -> None:
        """Hook of the judge."""
        lost = recovery.written.batches and (
            recovery.found.log_end_offset <= recovery.written.batches[-1].last_offset
        )
        if lost and recovery.cause == POWER_LOSS:
            self._add("power_loss_lost_records")

    # -- the quorum and the controllers

    def _of_control(self) -> list[Probe]:
        witness = self._witnesses.control
        return [
            Probe(QuorumMember, "_send", before(self._before_send)),
            Probe(QuorumNode, "on_leader_gone", after(self._after_leader_gone)),
            Probe(QuorumNode, "__init__", self._around_quorum_node),
            Probe(MetadataLog, "_start_over", before(self._before_start_over)),
            Probe(Controller, "renounce", before(self._before_renounce)),
            Probe(Controller, "on_broker_gone", before(self._before_broker_gone)),
            Probe(
                Controller, "tick", after(lambda effects, *_: witness.controller_ticked(effects))
            ),
            Probe(Controller, "on_committed", after(self._after_committed)),
            Probe(liveness, "confirms_death", after(self._after_probe)),
        ]

    def _before_send(self, _member: QuorumMember, _target: int, message: Any) -> None:
        if type(message) is m.VoteResponse:
            self._witnesses.control.voted(message)

    def _after_leader_gone(self, effects: Any, *_: Any) -> None:
        if effects:
            self._add("quorum_hint_started_election")

    def _around_quorum_node(self, original: Method) -> Method:
        def make(node: QuorumNode, **named: Any) -> None:
            original(node, **named)
            self._witnesses.control.started_quorum(named["stored"], node.role)

        return make

    def _before_start_over(self, _log: MetadataLog, _snapshot: Any) -> None:
        owner = running_owner()
        life = None if owner is None else self._view.lives.get(owner)
        if life is not None and life.quorum is None:
            self._add("snapshot_replaced_log_at_start")

    def _before_renounce(self, controller: Controller, _now_ms: int) -> None:
        if controller.active and controller.pending_answers:
            self._add("renounced_with_pending_answers")

    def _before_broker_gone(
        self, controller: Controller, broker: int, epoch: int, _ms: int
    ) -> None:
        if NO_EPOCH < epoch < controller.registered_epoch(broker):
            self._add("hint_of_former_incarnation")

    def _after_committed(self, effects: Any, controller: Controller, *_: Any) -> None:
        if not controller.active:
            self._witnesses.control.former_controller_told(effects)

    def _after_probe(self, confirmed: bool, *_: Any) -> None:
        if not confirmed:
            self._add("hint_of_live_broker_ignored")

    def metadata_truncated(self, _node: int, _offset: int, _high_watermark: int) -> None:
        self._add("metadata_truncated")

    def snapshot_installed(self, node: int, _end_offset: int, _image: object) -> None:
        self._add("metadata_snapshot_installed")
        life = self._view.lives[node]
        if life is not None and life.hosted:
            self._add("snapshot_installed_while_serving")

    def controller_answered(self, _node: int, request: object, response: Any) -> None:
        if isinstance(request, AlterPartitionRequest):
            for proposal in request.proposals:
                if proposal in self._proposals:
                    self._add("isr_proposal_repeated")
                self._proposals[proposal] = None
            if response.error is Error.NOT_CONTROLLER:
                self._add("isr_proposal_no_controller")

    def record_committed(self, record: object, _entry: LogEntry) -> None:
        if isinstance(record, r.RemoveTopic):
            self._removed[self._chronicle.image.topics.get(record.topic_id, "")] = None
            if self._view.has_stopped_holder(record.topic_id):
                self._add("topic_deleted_while_replica_down")
        elif isinstance(record, r.Topic) and record.name in self._removed:
            self._add("topic_recreated")

    def partition_changed(self, facts: PartitionFacts, before_: Committed, _record: object) -> None:
        for node in self._view.were_wiped:
            if node in facts.state.isr and node not in before_.isr and before_.replicas:
                self._add("wiped_replica_rejoined")

    # -- coordinators

    def _of_coordinators(self) -> list[Probe]:
        return [
            Probe(Seat, "request", before(self._before_seat_request)),
            Probe(Shards, "_again", before(self._before_again)),
            Probe(Shard, "finish_loading", before(self._before_loaded)),
            Probe(Shard, "resign", before(self._before_resign)),
            Probe(LeaderWrites, "_outside_transaction", before(self._before_outside)),
        ]

    def _before_seat_request(self, seat: Seat, *_: Any) -> None:
        if not seat.shard.loaded and not seat.shard.resigned:
            self._add("coordinator_asked_while_loading")

    def _before_again(self, *_: Any) -> None:
        self._add("coordinator_started_over")

    def _before_loaded(self, shard: Shard) -> None:
        machine: CoordinatorMachine = shard.machine
        self._witnesses.coordination.took_office(partition_of(shard), machine)

    def _before_resign(self, shard: Shard, *_: Any) -> None:
        if shard.loaded and not shard.resigned:
            self._witnesses.coordination.resigning(partition_of(shard))

    def _before_outside(self, _w: LeaderWrites, _role: Any, _part: Any, token: int | None) -> None:
        if token is not None:
            self._add("ended_while_verified")

    # -- connections, sessions, processes

    def _rest(self) -> list[Probe]:
        return [
            Probe(Fetcher, "_on_answer", self._around_fetcher_answer),
            Probe(FetchSessions, "open", self._around_session),
            Probe(FrameStream, "connection_lost", before(self._before_lost)),
            Probe(Mending, "_report", before(self._before_damage_is_told)),
            Probe(Server, "lose_power", before(self._before_power_loss)),
            Probe(Server, "_end", before(self._before_end)),
            Probe(Server, "_give_up", before(self._before_give_up)),
        ]

    def _around_fetcher_answer(self, original: Method) -> Method:
        def on_answer(fetcher: Fetcher, generation: int, *rest: Any) -> None:
            if generation != fetcher._generation:
                self._add("fetch_answer_late")
            original(fetcher, generation, *rest)

        return on_answer

    def _around_session(self, original: Method) -> Method:
        def open_session(sessions: FetchSessions, request: Any, version: int, **named: Any) -> Any:
            opened = original(sessions, request, version, **named)
            is_refused = isinstance(opened, Error) and opened is not NO_ERROR
            if is_refused and running_owner() is not None:
                self._add("fetch_session_refused")
            return opened

        return open_session

    def _before_lost(self, stream: FrameStream, error: Exception | None) -> None:
        if error is not None and stream._half_since_ms >= 0:
            self._add("connection_lost_within_a_frame")

    def _before_damage_is_told(self, *_: Any) -> None:
        self._add("corrupt_batch_found")

    def _before_power_loss(self, server: Server) -> None:
        log = None if server.node is None else server.node.quorum._log
        if log is not None and log.durable_offset < log.log_end_offset:
            self._add("power_loss_lost_metadata")

    def _before_end(self, server: Server) -> None:
        life = self._view.lives[server.node_id]
        if life is None or not server.running:
            return
        logs = [hosted.log for hosted in life.hosted.values()]
        if any(log.arriving for log in logs):
            self._add("crash_amid_an_append")
        if any(log.cut_to is not None for log in logs):
            self._add("crash_amid_a_cut")
        if any(log.log.recovery_point < log.log_end_offset for log in logs):
            self._add("crash_between_write_and_sync")
        if not server.ready:
            self._add("crash_during_start")
        elif server.told_to_stop and server.node is not None and logs:
            self._add("crash_during_stop")

    def _before_give_up(self, _server: Server, _loop: Any, what: str, _error: Exception) -> None:
        if what == "cannot start":
            self._add("start_refused")
