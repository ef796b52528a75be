"""How each happening reads: one sentence, in the words of the glossary."""

import re
from collections.abc import Callable
from typing import Any, Final

from tidelog.core import events
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim import happenings
from tidelog.sim.fault_words import describe_fault
from tidelog.sim.marks import sentence

CROWN = "♛"
HERE = "•"
CROSS = "✗"

LEGEND: Final = (
    "columns: nodes 1, 2, …   . up   ✗ down   ‖ paused   ≠ cut off   ♛ leads now   ↑ starts"
    "   ↓ truncates   • acts   ! broken rule"
)

SILENT: Final = (
    events.RecordsAppended,
    events.HighWatermarkAdvanced,
    events.IsrProposed,
    events.IsrChanged,
    events.BecameFollower,
    happenings.MarkReached,
)
"""True but too many, or told again by a fact that follows; shown on request."""

TOLD_ROLES: Final = ("candidate", "resigned")
"""Of the roles in the quorum. Who leads is a fact of its own; the rest is waiting."""


def is_silent(happening: tuple[object, ...]) -> bool:
    """Left out of a story unless everything is asked for."""
    if type(happening) is events.QuorumRoleChanged:
        return happening.role not in TOLD_ROLES
    return type(happening) in SILENT


class Narrator:
    """Turns happenings into (mark for the node's column, sentence)."""

    __slots__ = ("planned", "topics")

    def __init__(self, planned: tuple[str, ...] = ()) -> None:
        """`planned` names the topics of the plan, which faults speak of by number."""
        self.planned = planned
        self.topics: dict[bytes, str] = {}

    def tell(self, happening: tuple[object, ...]) -> tuple[str, str]:
        teller = _TELLERS.get(type(happening))
        if teller is None:
            return HERE, self._plainly(happening)
        return teller(self, happening)

    def partition(self, partition: PartitionId) -> str:
        topic = self.topics.get(partition.topic_id, partition.topic_id.hex()[:6])
        return f"{topic}-{partition.partition}"

    def _plainly(self, happening: tuple[object, ...]) -> str:
        """For a fact without a sentence of its own: its name and its fields as words."""
        name = re.sub(r"(?<!^)(?=[A-Z])", " ", type(happening).__name__).lower()
        fields: tuple[str, ...] = getattr(happening, "_fields", ())
        parts = []
        for field, value in zip(fields, happening, strict=True):
            if isinstance(value, PartitionId):
                name = f"{self.partition(value)} {name}"
            else:
                shown = _ids(value) if type(value) is tuple else value
                parts.append(f"{field.replace('_', ' ')} {shown}")
        return f"{name}: {', '.join(parts)}" if parts else name


def _ids(nodes: tuple[object, ...]) -> str:
    return ",".join(str(node) for node in nodes) or "nobody"


def _appended(narrator: Narrator, event: events.RecordsAppended) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, (
        f"{where} broker {event.broker} appends offsets {event.base_offset} to"
        f" {event.next_offset - 1}, leader epoch {event.leader_epoch}"
    )


def _raised(narrator: Narrator, event: events.HighWatermarkAdvanced) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, (
        f"{where} high watermark of broker {event.broker} {event.previous} → {event.high_watermark}"
    )


def _lowered(narrator: Narrator, event: events.HighWatermarkLowered) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, (
        f"{where} follower {event.broker} takes over a lower high watermark,"
        f" {event.previous} → {event.high_watermark}"
    )


def _became_leader(narrator: Narrator, event: events.BecameLeader) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return CROWN, (
        f"{where} broker {event.broker} leads, leader epoch {event.leader_epoch} from offset"
        f" {event.start_offset}, high watermark {event.high_watermark}"
    )


def _became_follower(narrator: Narrator, event: events.BecameFollower) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    whom = "nobody" if event.leader == NO_LEADER else f"{event.leader}"
    return HERE, (
        f"{where} broker {event.broker} follows {whom}, leader epoch {event.leader_epoch}"
    )


def _isr_proposed(narrator: Narrator, event: events.IsrProposed) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, (
        f"{where} leader {event.broker} proposes ISR {_ids(event.isr)} → {_ids(event.proposed)}"
    )


def _isr_changed(narrator: Narrator, event: events.IsrChanged) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, (
        f"{where} leader {event.broker} adopts ISR {_ids(event.previous)} → {_ids(event.isr)},"
        f" partition epoch {event.partition_epoch}"
    )


def _isr_committed(narrator: Narrator, event: events.IsrCommitted) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    eligible = f"eligible leader replicas {_ids(event.elr)}"
    if event.previous == event.isr:
        change = f"{eligible} from now on, ISR stays {_ids(event.isr)}"
    else:
        change = f"ISR {_ids(event.previous)} → {_ids(event.isr)}"
        change += f", {eligible}" if event.elr else ""
    return "", f"{where} {change}, partition epoch {event.partition_epoch}"


def _diverged(narrator: Narrator, event: events.FetchDiverged) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, (
        f"{where} leader {event.broker} tells {event.replica}, which asks from offset"
        f" {event.fetch_offset} with last fetched epoch {event.last_fetched_epoch}:"
        f" leader epoch {event.end_epoch} ends at {event.end_offset}"
    )


def _truncated(narrator: Narrator, event: events.LogTruncated) -> tuple[str, str]:
    below = ", below its high watermark" if event.below_high_watermark else ""
    where = narrator.partition(event.partition)
    return "↓", (
        f"{where} follower {event.broker} truncates its log, end"
        f" {event.previous_end} → {event.log_end_offset}{below}"
    )


def _elected(narrator: Narrator, event: events.LeaderElected) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    before = "" if event.previous == NO_LEADER else f" (was {event.previous})"
    how = "elected uncleanly, records may be lost" if event.unclean else "elected"
    who = f"leader {event.leader}{before} {how}"
    if event.leader == NO_LEADER:
        who = f"offline, nobody can lead{before}"
    return "", (
        f"{where} {who}, leader epoch {event.leader_epoch}, ISR {_ids(event.isr)},"
        f" partition epoch {event.partition_epoch}"
    )


def _registration(verb: str) -> Callable[[Narrator, Any], tuple[str, str]]:
    return lambda _, event: (
        "",
        f"broker {event.broker} {verb}, broker epoch {event.broker_epoch}",
    )


def _quorum_leader(_: Narrator, event: events.QuorumLeaderElected) -> tuple[str, str]:
    return CROWN, f"node {event.node} leads the metadata quorum, epoch {event.leader_epoch}"


_ROLES: Final = {
    "unattached": "knows no leader of the metadata quorum",
    "prospective": "asks the voters whether they would elect it",
    "candidate": "campaigns for the metadata quorum",
    "leader": "wins the metadata quorum",
    "follower": "follows the leader of the metadata quorum",
    "resigned": "resigns as leader of the metadata quorum",
}


def _quorum_role(_: Narrator, event: events.QuorumRoleChanged) -> tuple[str, str]:
    return HERE, f"node {event.node} {_ROLES[event.role]}, epoch {event.leader_epoch}"


def _claimed(_: Narrator, event: events.ControllerClaimed) -> tuple[str, str]:
    return CROWN, (
        f"node {event.node} is the active controller, controller epoch {event.controller_epoch}"
    )


def _renounced(_: Narrator, event: events.ControllerRenounced) -> tuple[str, str]:
    return HERE, (
        f"node {event.node} is no longer the active controller,"
        f" controller epoch {event.controller_epoch}"
    )


def _phase(_: Narrator, event: happenings.PhaseBegan) -> tuple[str, str]:
    return "", f"── {event.phase}"


def _injected(narrator: Narrator, event: happenings.FaultInjected) -> tuple[str, str]:
    return "", f"fault: {describe_fault(event.fault, narrator.planned)}"


def _declined(_: Narrator, event: happenings.FaultDeclined) -> tuple[str, str]:
    kind = event.fault.kind.replace("_", " ")
    return "", f"{kind} declined: pointless now, or more than the promises cover"


def _ended(_: Narrator, event: happenings.FaultEnded) -> tuple[str, str]:
    return "", f"over: {event.kind.replace('_', ' ')}, node {_ids(event.nodes)}"


_STOPS: Final = {
    "crash": "crashes",
    "power loss": "loses its power",
    "clean stop": "has stopped cleanly",
    "data disk lost": "goes down and its data disk is gone",
    "left broken": "stays down: it is not part of the core",
}


def _stopped(_: Narrator, event: happenings.NodeStopped) -> tuple[str, str]:
    lost = f", {event.lost_records} records lost" if event.lost_records else ""
    return CROSS, f"node {event.node} {_STOPS.get(event.kind, event.kind)}{lost}"


def _started(_: Narrator, event: happenings.NodeStarted) -> tuple[str, str]:
    return "↑", f"node {event.node} starts"


def _mark(_: Narrator, event: happenings.MarkReached) -> tuple[str, str]:
    return "", f"mark {event.name}: {sentence(event.name)}"


def _broken(_: Narrator, event: happenings.RuleBroken) -> tuple[str, str]:
    return "!", f"BROKEN {event.rule}: {event.text}"


def _note(_: Narrator, event: happenings.Note) -> tuple[str, str]:
    return HERE, event.text


_TELLERS: Final[dict[type, Callable[[Narrator, Any], tuple[str, str]]]] = {
    events.RecordsAppended: _appended,
    events.HighWatermarkAdvanced: _raised,
    events.HighWatermarkLowered: _lowered,
    events.BecameLeader: _became_leader,
    events.BecameFollower: _became_follower,
    events.IsrProposed: _isr_proposed,
    events.IsrChanged: _isr_changed,
    events.IsrCommitted: _isr_committed,
    events.FetchDiverged: _diverged,
    events.LogTruncated: _truncated,
    events.LeaderElected: _elected,
    events.BrokerRegistered: _registration("registered"),
    events.BrokerFenced: _registration("fenced"),
    events.BrokerUnfenced: _registration("unfenced"),
    events.ControlledShutdownStarted: _registration("is shutting down"),
    events.QuorumLeaderElected: _quorum_leader,
    events.QuorumRoleChanged: _quorum_role,
    events.ControllerClaimed: _claimed,
    events.ControllerRenounced: _renounced,
    happenings.PhaseBegan: _phase,
    happenings.FaultInjected: _injected,
    happenings.FaultDeclined: _declined,
    happenings.FaultEnded: _ended,
    happenings.NodeStopped: _stopped,
    happenings.NodeStarted: _started,
    happenings.MarkReached: _mark,
    happenings.RuleBroken: _broken,
    happenings.Note: _note,
}
