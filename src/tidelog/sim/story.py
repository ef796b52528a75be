"""How each happening reads: one sentence, in the words of the glossary."""

import re
from collections.abc import Callable
from typing import Any, Final

from tidelog.core import events
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim import happenings
from tidelog.sim.faults import Fault

CROWN = "♛"
HERE = "•"
CROSS = "✗"

SILENT: Final = (
    events.RecordsAppended,
    events.HighWatermarkAdvanced,
    events.IsrProposed,
    events.FetchDiverged,
    events.BecameFollower,
)
"""True but too many, or told again by a fact that follows; shown on request."""


class Narrator:
    """Turns happenings into (mark for the node's column, sentence)."""

    __slots__ = ("topics",)

    def __init__(self) -> None:
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


def describe_fault(fault: Fault) -> str:
    """`crash 3 for 1.2 s`, `isolate leader of 0-1 for 300 ms`."""
    who = _ids(fault.nodes) if fault.nodes else ""
    if fault.aim:
        of = "" if fault.aim == "controller" else f" of topic {fault.topic} p{fault.partition}"
        who = f"{fault.aim}{of} (or {who})"
    duration = f"for {fault.duration_ms / 1000:g} s" if fault.duration_ms else ""
    args = f"[{' '.join(str(value) for value in fault.args)}]" if fault.args else ""
    return " ".join(part for part in (fault.kind, who, duration, args) if part)


def _appended(narrator: Narrator, event: events.RecordsAppended) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    span = f"{event.base_offset}..{event.next_offset - 1}"
    return HERE, f"{where} append {span}, leader epoch {event.leader_epoch}"


def _watermark(
    narrator: Narrator, event: events.HighWatermarkAdvanced | events.HighWatermarkLowered
) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, f"{where} high watermark {event.previous} → {event.high_watermark}"


def _became_leader(narrator: Narrator, event: events.BecameLeader) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return CROWN, (
        f"{where} leads, leader epoch {event.leader_epoch} from {event.start_offset}, "
        f"high watermark {event.high_watermark}"
    )


def _became_follower(narrator: Narrator, event: events.BecameFollower) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, f"{where} follows {event.leader}, leader epoch {event.leader_epoch}"


def _isr_proposed(narrator: Narrator, event: events.IsrProposed) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, f"{where} proposes ISR {_ids(event.isr)} → {_ids(event.proposed)}"


def _isr_changed(narrator: Narrator, event: events.IsrChanged) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, (
        f"{where} ISR {_ids(event.previous)} → {_ids(event.isr)}, "
        f"partition epoch {event.partition_epoch}"
    )


def _diverged(narrator: Narrator, event: events.FetchDiverged) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    return HERE, (
        f"{where} fetch of {event.replica} at {event.fetch_offset}, last epoch "
        f"{event.last_fetched_epoch}: epoch {event.end_epoch} ends at {event.end_offset}"
    )


def _truncated(narrator: Narrator, event: events.LogTruncated) -> tuple[str, str]:
    below = ", below its high watermark" if event.below_high_watermark else ""
    where = narrator.partition(event.partition)
    return "↓", f"{where} truncated {event.previous_end} → {event.log_end_offset}{below}"


def _elected(narrator: Narrator, event: events.LeaderElected) -> tuple[str, str]:
    where = narrator.partition(event.partition)
    who = "no leader" if event.leader == NO_LEADER else f"leader {event.leader}"
    before = "" if event.previous == NO_LEADER else f" (was {event.previous})"
    unclean = ", unclean" if event.unclean else ""
    return "", (
        f"{where} {who}{before}, leader epoch {event.leader_epoch}, ISR {_ids(event.isr)}, "
        f"partition epoch {event.partition_epoch}{unclean}"
    )


def _registration(verb: str) -> Callable[[Narrator, Any], tuple[str, str]]:
    return lambda _, event: ("", f"broker {event.broker} {verb}, broker epoch {event.broker_epoch}")


def _quorum_leader(_: Narrator, event: events.QuorumLeaderElected) -> tuple[str, str]:
    return CROWN, f"quorum leader {event.node}, epoch {event.leader_epoch}"


def _quorum_role(_: Narrator, event: events.QuorumRoleChanged) -> tuple[str, str]:
    return HERE, f"quorum {event.previous} → {event.role}, epoch {event.leader_epoch}"


def _claimed(_: Narrator, event: events.ControllerClaimed) -> tuple[str, str]:
    return CROWN, f"active controller {event.node}, controller epoch {event.controller_epoch}"


def _renounced(_: Narrator, event: events.ControllerRenounced) -> tuple[str, str]:
    return HERE, f"no longer active controller, controller epoch {event.controller_epoch}"


def _phase(_: Narrator, event: happenings.PhaseBegan) -> tuple[str, str]:
    return "", f"── {event.phase}"


def _injected(_: Narrator, event: happenings.FaultInjected) -> tuple[str, str]:
    return "", f"fault: {describe_fault(event.fault)}"


def _declined(_: Narrator, event: happenings.FaultDeclined) -> tuple[str, str]:
    return "", f"declined: {describe_fault(event.fault)}"


def _ended(_: Narrator, event: happenings.FaultEnded) -> tuple[str, str]:
    return "", f"over: {event.kind} {_ids(event.nodes)}"


def _stopped(_: Narrator, event: happenings.NodeStopped) -> tuple[str, str]:
    lost = f", {event.lost_records} records lost" if event.lost_records else ""
    return CROSS, f"node {event.node} {event.kind.replace('_', ' ')}{lost}"


def _started(_: Narrator, event: happenings.NodeStarted) -> tuple[str, str]:
    return "↑", f"node {event.node} starts"


def _mark(_: Narrator, event: happenings.MarkReached) -> tuple[str, str]:
    return HERE, f"mark: {event.name}"


def _broken(_: Narrator, event: happenings.RuleBroken) -> tuple[str, str]:
    return "!", f"BROKEN {event.rule}: {event.text}"


def _note(_: Narrator, event: happenings.Note) -> tuple[str, str]:
    return HERE, event.text


_TELLERS: Final[dict[type, Callable[[Narrator, Any], tuple[str, str]]]] = {
    events.RecordsAppended: _appended,
    events.HighWatermarkAdvanced: _watermark,
    events.HighWatermarkLowered: _watermark,
    events.BecameLeader: _became_leader,
    events.BecameFollower: _became_follower,
    events.IsrProposed: _isr_proposed,
    events.IsrChanged: _isr_changed,
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
