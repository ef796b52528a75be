"""How each happening reads: one sentence, in the words of the glossary."""

from collections.abc import Callable
from typing import Any, Final

from tidelog.core import events
from tidelog.core.types import PartitionId
from tidelog.observe.sentences import ids, sentence
from tidelog.sim import happenings
from tidelog.sim.fault_words import describe_fault
from tidelog.sim.marks import sentence as mark_sentence

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

_MARKS: Final[dict[type, str]] = {
    events.BecameLeader: CROWN,
    events.QuorumLeaderElected: CROWN,
    events.ControllerClaimed: CROWN,
    events.LogTruncated: "↓",
    events.IsrCommitted: "",
    events.LeaderElected: "",
    events.BrokerRegistered: "",
    events.BrokerFenced: "",
    events.BrokerUnfenced: "",
    events.ControlledShutdownStarted: "",
}
"""In the column of the node an event is about. What the controller decided is in nobody's."""

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
            return _MARKS.get(type(happening), HERE), sentence(happening, self.partition)
        return teller(self, happening)

    def partition(self, partition: PartitionId) -> str:
        topic = self.topics.get(partition.topic_id, partition.topic_id.hex()[:6])
        return f"{topic}-{partition.partition}"


def _phase(_: Narrator, event: happenings.PhaseBegan) -> tuple[str, str]:
    return "", f"── {event.phase}"


def _injected(narrator: Narrator, event: happenings.FaultInjected) -> tuple[str, str]:
    return "", f"fault: {describe_fault(event.fault, narrator.planned)}"


def _declined(_: Narrator, event: happenings.FaultDeclined) -> tuple[str, str]:
    kind = event.fault.kind.replace("_", " ")
    return "", f"{kind} declined: pointless now, or more than the promises cover"


def _ended(_: Narrator, event: happenings.FaultEnded) -> tuple[str, str]:
    return "", f"over: {event.kind.replace('_', ' ')}, node {ids(event.nodes)}"


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
    return "", f"mark {event.name}: {mark_sentence(event.name)}"


def _broken(_: Narrator, event: happenings.RuleBroken) -> tuple[str, str]:
    return "!", f"BROKEN {event.rule}: {event.text}"


def _note(_: Narrator, event: happenings.Note) -> tuple[str, str]:
    return HERE, event.text


_TELLERS: Final[dict[type, Callable[[Narrator, Any], tuple[str, str]]]] = {
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
