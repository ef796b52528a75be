"""Fast failover: from a closed connection to the death of a process (ADR 0017).

A connection that closes is a hint and nothing more: networks reset connections of processes
that are well. So the shell connects once more and tells what came of it. Only a refusal proves
something: the machine answers, and nobody listens there. A process opens its listener before
it registers or leads and closes it last, so whoever was registered before the probe was sent,
and is refused, is gone. Slow, paused and cut-off processes are left to their timeouts.

    closed → suspect() → probe → confirms_death() → on_broker_gone(), on_leader_gone()
"""

from enum import Enum
from typing import NamedTuple, Protocol

from tidelog.core.types import NO_EPOCH


class KnowsBrokers(Protocol):
    """The controller of this node, active or not."""

    def registered_epoch(self, broker_id: int) -> int: ...


class FollowsLeader(Protocol):
    """The quorum node of this node."""

    @property
    def epoch(self) -> int: ...
    def follows(self, leader_id: int) -> bool: ...


class ProbeOutcome(Enum):
    """What became of an attempt to connect."""

    REFUSED = "refused"
    ACCEPTED = "accepted"
    UNANSWERED = "unanswered"
    """Timed out, or no way there: says nothing about the process."""


class Suspicion(NamedTuple):
    """Who may be gone. Taken *before* the probe is sent: a refusal is about the incarnation that
    was known by then, not about one that has registered since."""

    node_id: int
    broker_epoch: int
    """-1: no broker that this node controls."""
    leader_epoch: int
    """-1: not the quorum's leader that this node follows."""


def suspect(
    node_id: int, controller: KnowsBrokers | None, quorum: FollowsLeader
) -> Suspicion | None:
    """What to ask when a connection to this node has closed; None if nothing depends on it."""
    broker_epoch = controller.registered_epoch(node_id) if controller is not None else NO_EPOCH
    leader_epoch = quorum.epoch if quorum.follows(node_id) else NO_EPOCH
    if broker_epoch == NO_EPOCH and leader_epoch == NO_EPOCH:
        return None
    return Suspicion(node_id, broker_epoch, leader_epoch)


def confirms_death(outcome: ProbeOutcome) -> bool:
    """Does this outcome prove that the process is gone?"""
    return outcome is ProbeOutcome.REFUSED
