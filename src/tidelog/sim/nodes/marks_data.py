"""Recognises the marks of the data plane: reconciling, leading, in-sync replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.replication.isr import CommittedIsr, PendingExpand
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.types import PartitionId
from tidelog.sim.rules.chronicle import Chronicle
from tidelog.sim.rules.view import LogFace, RecordBatch, ReplicaFace

if TYPE_CHECKING:
    from tidelog.core.replication.replica import Replica
    from tidelog.sim.nodes.marks import Surroundings

FETCH_REFUSALS: Final = {
    Error.FENCED_LEADER_EPOCH: "fetch_fenced",
    Error.UNKNOWN_LEADER_EPOCH: "fetch_of_unknown_epoch",
    Error.NOT_LEADER_OR_FOLLOWER: "fetch_of_former_incarnation",
    Error.OFFSET_OUT_OF_RANGE: "fetch_out_of_range",
}
"""A leader's answers to a follower; who does not lead at all answers elsewhere."""

READ_REFUSALS: Final = {
    Error.FENCED_LEADER_EPOCH: "consumer_fenced",
    Error.UNKNOWN_LEADER_EPOCH: "consumer_ahead_of_broker",
    Error.OFFSET_OUT_OF_RANGE: "consumer_out_of_range",
    Error.OFFSET_NOT_AVAILABLE: "consumer_told_offset_not_available",
}

PRODUCE_REFUSALS: Final = {
    Error.NOT_ENOUGH_REPLICAS: "produce_below_min_isr",
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: "produce_out_of_order",
}

PARKED_FAILURES: Final = {
    Error.NOT_LEADER_OR_FOLLOWER: "produce_parked_at_demotion",
    Error.REQUEST_TIMED_OUT: "produce_parked_too_long",
}


class DataMarks:
    """A witness of the judge; `events` is what else it wants to see."""

    __slots__ = ("_chronicle", "_diverged", "_latest", "_leaders", "_marks", "_world", "events")

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._marks = world.marks
        # Diverging answers since the partition's last leader began, by follower.
        self._diverged: dict[PartitionId, dict[int, int]] = {}
        self._leaders: dict[PartitionId, events.BecameLeader] = {}
        self._latest: dict[PartitionId, int] = {}
        self.events: dict[type, Callable[[Any], None]] = {
            events.FetchDiverged: self._on_diverged,
            events.BecameLeader: self._on_leader,
            events.LogTruncated: self._on_truncated,
            events.HighWatermarkLowered: self._on_lowered,
            events.IsrChanged: self._on_isr,
            events.BrokerFenced: self._on_fenced,
        }

    def attend(self, chronicle: Chronicle) -> None:
        """Hooks find the facts of a partition here; asked at every append, so kept at hand."""
        self._chronicle = chronicle

    def latest_answered(self, replica: ReplicaFace, offset: int) -> None:
        if offset < self._latest.get(replica.partition, 0):
            self._marks.add("latest_went_back")
        self._latest[replica.partition] = offset

    # -- events

    def _on_diverged(self, event: events.FetchDiverged) -> None:
        rounds = self._diverged.setdefault(event.partition, {})
        rounds[event.replica] = rounds.get(event.replica, 0) + 1
        if rounds[event.replica] == 2:
            self._marks.add("diverging_two_rounds")
        if event.fetch_offset == event.end_offset:
            self._marks.add("diverging_epoch_only")

    def _on_leader(self, event: events.BecameLeader) -> None:
        previous = self._leaders.get(event.partition)
        self._leaders[event.partition] = event
        self._diverged.pop(event.partition, None)
        if event.high_watermark < event.start_offset:
            self._marks.add("new_leader_below_epoch_start")
        if previous is not None and event.leader_epoch > previous.leader_epoch:
            if event.broker == previous.broker:
                self._marks.add("leader_reelected")
            if event.start_offset == previous.start_offset:
                self._marks.add("epoch_without_records")

    def _on_truncated(self, event: events.LogTruncated) -> None:
        if event.log_end_offset < event.previous_end:
            self._marks.add("log_truncated")
        if event.below_high_watermark:
            self._marks.add("truncated_below_high_watermark")

    def _on_lowered(self, event: events.HighWatermarkLowered) -> None:
        self._marks.add("follower_high_watermark_lowered")

    def _on_isr(self, event: events.IsrChanged) -> None:
        if len(event.isr) == 1:
            self._marks.add("isr_of_one")

    def _on_fenced(self, event: events.BrokerFenced) -> None:
        for role in self._leading():
            state = role.isr_state
            if type(state) is CommittedIsr:
                continue
            if role.state.broker_id == event.broker:
                self._marks.add("change_in_flight_when_leader_fenced")
            elif event.broker in state.maximal_isr and event.broker not in state.isr:
                self._marks.add("expand_in_flight_when_fenced")

    def _leading(self) -> list[LeaderReplica]:
        return [
            replica.role
            for node in self._world.nodes.values()
            if node.running
            for replica in node.broker.replicas.values()
            if isinstance(replica.role, LeaderReplica)
        ]

    # -- hooks of the judge

    def became_leader(self, replica: ReplicaFace, _unclean: bool) -> None:
        if replica.high_watermark < self._chronicle.facts(replica.partition).committed_end:
            self._marks.add("hw_lower_than_predecessor")
        self._see_frozen(replica)

    def isr_adopted(self, replica: ReplicaFace, _previous: tuple[int, ...]) -> None:
        self._see_frozen(replica)

    def _see_frozen(self, replica: ReplicaFace) -> None:
        role = replica.role
        if replica.log.log_end_offset > replica.high_watermark and (
            not role.enough_replicas_to_commit(role.isr)
        ):
            self._marks.add("hw_frozen_by_min_isr")

    def leader_appended(self, replica: ReplicaFace, _batch: RecordBatch) -> None:
        if type(replica.role.isr_state) is PendingExpand:
            self._marks.add("hw_waits_for_pending_expand")
        facts = self._chronicle.facts(replica.partition)
        if facts.state.leader_epoch > replica.leader_epoch:
            self._marks.add("zombie_leader_appended")

    def consumer_read(
        self, _consumer: int, replica: ReplicaFace, _batches: Sequence[RecordBatch], _from: int
    ) -> None:
        if replica.leader != replica.broker_id:
            self._marks.add("consumer_served_by_follower")
            return
        facts = self._chronicle.facts(replica.partition)
        if facts.state.leader_epoch > replica.leader_epoch:
            self._marks.add("zombie_leader_read")

    def produce_refused(self, _replica: ReplicaFace, error: Error, _end: int) -> None:
        if (name := PRODUCE_REFUSALS.get(error)) is not None:
            self._marks.add(name)

    # -- what the shell tells, where it happens

    def before_cut(self, replica: Replica, log: LogFace, offset: int) -> None:
        """A follower is about to remove what it holds from `offset` on."""
        first, last = log.batch_at(offset), log.batch_at(log.log_end_offset - 1)
        if first is None or last is None:
            return
        if first.leader_epoch != last.leader_epoch:
            self._marks.add("truncated_two_epochs")
        led = self._chronicle.facts(replica.partition).leader_of_epoch
        if led.get(last.leader_epoch) == replica.broker_id:
            self._marks.add("former_leader_truncated")

    def refused_fetch(self, error: Error) -> None:
        if (name := FETCH_REFUSALS.get(error)) is not None:
            self._marks.add(name)

    def refused_read(self, error: Error) -> None:
        if (name := READ_REFUSALS.get(error)) is not None:
            self._marks.add(name)

    def failed_parked(self, error: Error) -> None:
        if (name := PARKED_FAILURES.get(error)) is not None:
            self._marks.add(name)
