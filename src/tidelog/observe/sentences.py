"""How each event reads: one sentence, in the words of the glossary.

Stories of the simulator, the log of a node and its event topic all say these same words.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidelog.core import events
from tidelog.core.types import NO_LEADER, PartitionId

NamePartition = Callable[[PartitionId], str]
"""Topics have ids in events and names for people: `orders-0`."""


def sentence(event: tuple[object, ...], name: NamePartition) -> str:
    """One line about anything that happened; facts without words of their own are spelled out."""
    teller = _SENTENCES.get(type(event))
    return spelled_out(event, name) if teller is None else teller(event, name)


def spelled_out(event: tuple[object, ...], name: NamePartition) -> str:
    """The name of a fact and its fields, as words."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(event).__name__).lower()
    fields: tuple[str, ...] = getattr(event, "_fields", ())
    parts = []
    for field, value in zip(fields, event, strict=True):
        if isinstance(value, PartitionId):
            words = f"{name(value)} {words}"
        else:
            shown = ids(value) if type(value) is tuple else value
            parts.append(f"{field.replace('_', ' ')} {shown}")
    return f"{words}: {', '.join(parts)}" if parts else words


def ids(nodes: Sequence[object]) -> str:
    return ",".join(str(node) for node in nodes) or "nobody"


def _appended(event: events.RecordsAppended, name: NamePartition) -> str:
    return (
        f"{name(event.partition)} broker {event.broker} appends offsets {event.base_offset} to"
        f" {event.next_offset - 1}, leader epoch {event.leader_epoch}"
    )


def _raised(event: events.HighWatermarkAdvanced, name: NamePartition) -> str:
    return (
        f"{name(event.partition)} high watermark of broker {event.broker}"
        f" {event.previous} → {event.high_watermark}"
    )


def _lowered(event: events.HighWatermarkLowered, name: NamePartition) -> str:
    return (
        f"{name(event.partition)} follower {event.broker} takes over a lower high watermark,"
        f" {event.previous} → {event.high_watermark}"
    )


def _became_leader(event: events.BecameLeader, name: NamePartition) -> str:
    return (
        f"{name(event.partition)} broker {event.broker} leads, leader epoch {event.leader_epoch}"
        f" from offset {event.start_offset}, high watermark {event.high_watermark}"
    )


def _became_follower(event: events.BecameFollower, name: NamePartition) -> str:
    whom = "nobody" if event.leader == NO_LEADER else f"{event.leader}"
    return (
        f"{name(event.partition)} broker {event.broker} follows {whom},"
        f" leader epoch {event.leader_epoch}"
    )


def _isr_proposed(event: events.IsrProposed, name: NamePartition) -> str:
    return (
        f"{name(event.partition)} leader {event.broker} proposes ISR"
        f" {ids(event.isr)} → {ids(event.proposed)}"
    )


def _isr_changed(event: events.IsrChanged, name: NamePartition) -> str:
    return (
        f"{name(event.partition)} leader {event.broker} adopts ISR"
        f" {ids(event.previous)} → {ids(event.isr)}, partition epoch {event.partition_epoch}"
    )


def _isr_committed(event: events.IsrCommitted, name: NamePartition) -> str:
    eligible = f"eligible leader replicas {ids(event.elr)}"
    if event.previous == event.isr:
        change = f"{eligible} from now on, ISR stays {ids(event.isr)}"
    else:
        change = f"ISR {ids(event.previous)} → {ids(event.isr)}"
        change += f", {eligible}" if event.elr else ""
    return f"{name(event.partition)} {change}, partition epoch {event.partition_epoch}"


def _diverged(event: events.FetchDiverged, name: NamePartition) -> str:
    return (
        f"{name(event.partition)} leader {event.broker} tells {event.replica}, which asks from"
        f" offset {event.fetch_offset} with last fetched epoch {event.last_fetched_epoch}:"
        f" leader epoch {event.end_epoch} ends at {event.end_offset}"
    )


def _truncated(event: events.LogTruncated, name: NamePartition) -> str:
    below = ", below its high watermark" if event.below_high_watermark else ""
    why = ": damaged, to be fetched again" if event.is_damaged else ""
    return (
        f"{name(event.partition)} follower {event.broker} truncates its log, end"
        f" {event.previous_end} → {event.log_end_offset}{below}{why}"
    )


def _deleted(event: events.LogDeleted, name: NamePartition) -> str:
    return (
        f"{name(event.partition)} broker {event.broker} deletes its log, which ended at"
        f" {event.log_end_offset}"
    )


def _set_aside(event: events.StraySetAside, name: NamePartition) -> str:
    return (
        f"{name(event.partition)} broker {event.broker} sets its log aside as"
        f" {event.directory}: metadata does not place it here"
    )


def _elected(event: events.LeaderElected, name: NamePartition) -> str:
    before = "" if event.previous == NO_LEADER else f" (was {event.previous})"
    how = "elected uncleanly, records may be lost" if event.unclean else "elected"
    who = f"leader {event.leader}{before} {how}"
    if event.leader == NO_LEADER:
        who = f"offline, nobody can lead{before}"
    return (
        f"{name(event.partition)} {who}, leader epoch {event.leader_epoch},"
        f" ISR {ids(event.isr)}, partition epoch {event.partition_epoch}"
    )


def _registration(verb: str) -> Callable[[Any, NamePartition], str]:
    return lambda event, _: f"broker {event.broker} {verb}, broker epoch {event.broker_epoch}"


def _quorum_leader(event: events.QuorumLeaderElected, _: NamePartition) -> str:
    return f"node {event.node} leads the metadata quorum, epoch {event.leader_epoch}"


_ROLES: Final = {
    "unattached": "knows no leader of the metadata quorum",
    "prospective": "asks the voters whether they would elect it",
    "candidate": "campaigns for the metadata quorum",
    "leader": "wins the metadata quorum",
    "follower": "follows the leader of the metadata quorum",
    "resigned": "resigns as leader of the metadata quorum",
}


def _quorum_role(event: events.QuorumRoleChanged, _: NamePartition) -> str:
    return f"node {event.node} {_ROLES[event.role]}, epoch {event.leader_epoch}"


def _claimed(event: events.ControllerClaimed, _: NamePartition) -> str:
    return f"node {event.node} is the active controller, controller epoch {event.controller_epoch}"


def _renounced(event: events.ControllerRenounced, _: NamePartition) -> str:
    return (
        f"node {event.node} is no longer the active controller,"
        f" controller epoch {event.controller_epoch}"
    )


def _group_state(event: events.GroupStateChanged, _: NamePartition) -> str:
    members = "1 member" if event.members == 1 else f"{event.members} members"
    return (
        f"group {event.group_id} is {event.state}, generation {event.generation},"
        f" {members}: {event.reason}"
    )


def _member_left(event: events.MemberLeft, _: NamePartition) -> str:
    return f"group {event.group_id} loses member {event.member_id}: {event.reason}"


def _transaction_aborted(event: events.TransactionAborted, _: NamePartition) -> str:
    partitions = "1 partition" if event.partitions == 1 else f"{event.partitions} partitions"
    return (
        f"transaction of {event.transactional_id} is aborted in {partitions},"
        f" producer {event.producer_id}: {event.reason}"
    )


def _access_denied(event: events.AccessDenied, _: NamePartition) -> str:
    often = f", {event.times} times" if event.times > 1 else ""
    return (
        f"{event.principal} from {event.host or 'nowhere'} may not {event.operation}"
        f" {event.resource} ({event.api}{often})"
    )


def _administrative_change(event: events.AdministrativeChange, _: NamePartition) -> str:
    return f"{event.principal} from {event.host or 'nowhere'}: {event.api}, {event.subject}"


def _finding_raised(event: events.FindingRaised, _: NamePartition) -> str:
    return f"{event.kind} {event.subject}: {event.problem}"


def _finding_cleared(event: events.FindingCleared, _: NamePartition) -> str:
    return f"{event.kind} {event.subject}: over"


_SENTENCES: Final[dict[type, Callable[[Any, NamePartition], str]]] = {
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
    events.LogDeleted: _deleted,
    events.StraySetAside: _set_aside,
    events.LeaderElected: _elected,
    events.BrokerRegistered: _registration("registered"),
    events.BrokerFenced: _registration("fenced"),
    events.BrokerUnfenced: _registration("unfenced"),
    events.ControlledShutdownStarted: _registration("is shutting down"),
    events.QuorumLeaderElected: _quorum_leader,
    events.QuorumRoleChanged: _quorum_role,
    events.ControllerClaimed: _claimed,
    events.ControllerRenounced: _renounced,
    events.GroupStateChanged: _group_state,
    events.MemberLeft: _member_left,
    events.TransactionAborted: _transaction_aborted,
    events.AccessDenied: _access_denied,
    events.AdministrativeChange: _administrative_change,
    events.FindingRaised: _finding_raised,
    events.FindingCleared: _finding_cleared,
}
