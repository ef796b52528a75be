"""Heartbeats: what state a broker is in and which it enters next (kraft.md §5.2).

The table is `next_state`. Everything that costs more than a lookup happens only when the
state really changes.
"""

from enum import Enum
from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata import membership
from tidelog.core.metadata.decision import Decision, View, sender
from tidelog.core.metadata.image import BrokerRegistration
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.metadata.sessions import Sessions
from tidelog.core.requests import HeartbeatRequest, HeartbeatResponse


class BrokerState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"
    SHUTDOWN_NOW = "shutdown-now"
    """Fenced, and told to stop: only a new incarnation returns from here."""


class HeartbeatFacts(NamedTuple):
    """What the table asks about the sender."""

    caught_up: bool
    leads_any: bool
    departure_known: bool
    """Every active broker has applied the records that took this broker's leaders away."""


def decide_heartbeat(
    view: View, request: HeartbeatRequest, sessions: Sessions, unfences_from: int
) -> Decision:
    """`unfences_from` is the offset of the sender's RegisterBroker record, or a later one that
    only a living process can have applied."""
    broker = sender(view.image, request.broker_id, request.broker_epoch)
    if broker is None:
        return Decision(HeartbeatResponse(Error.STALE_BROKER_EPOCH))
    state = current_state(broker)
    facts = HeartbeatFacts(
        caught_up=request.current_metadata_offset >= unfences_from,
        leads_any=view.image.leads_any(broker.broker_id),
        departure_known=state is BrokerState.CONTROLLED_SHUTDOWN
        and departure_is_known(view, broker, sessions),
    )
    following = next_state(broker, request, facts)
    response = HeartbeatResponse(
        Error.NONE,
        is_caught_up=facts.caught_up,
        is_fenced=following in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=following is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(response, transition_records(view, broker, following))


def current_state(broker: BrokerRegistration) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED
    if broker.in_controlled_shutdown:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def next_state(
    broker: BrokerRegistration, request: HeartbeatRequest, facts: HeartbeatFacts
) -> BrokerState:
    state = current_state(broker)
    if state is BrokerState.FENCED:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        # Who was on the way out when it was fenced does not come back: an old heartbeat that
        # the network delivers late or twice must not unfence a process that is gone.
        returns = not request.want_fence and facts.caught_up and not broker.in_controlled_shutdown
        return BrokerState.UNFENCED if returns else BrokerState.FENCED
    if state is BrokerState.UNFENCED:
        if request.want_fence:
            return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
        if request.want_shut_down:
            return BrokerState.CONTROLLED_SHUTDOWN if facts.leads_any else BrokerState.SHUTDOWN_NOW
        return BrokerState.UNFENCED
    if facts.leads_any or not facts.departure_known:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.SHUTDOWN_NOW


def departure_is_known(view: View, broker: BrokerRegistration, sessions: Sessions) -> bool:
    """A broker may go only when nobody active still takes it for a leader, else clients and
    followers would keep asking a broker that is gone until their metadata moves on."""
    session = sessions.session(broker.broker_id)
    lowest_offset = sessions.lowest_active_offset(view.image)
    if session is None or lowest_offset is None:
        return True
    return session.shutdown_offset <= lowest_offset


def transition_records(
    view: View, broker: BrokerRegistration, following: BrokerState
) -> tuple[MetadataRecord, ...]:
    state = current_state(broker)
    if following is state:
        return ()
    if following is BrokerState.UNFENCED:
        return membership.unfence(view, broker)
    if following is BrokerState.FENCED:
        return membership.fence(view, broker)
    if following is BrokerState.CONTROLLED_SHUTDOWN:
        return membership.start_controlled_shutdown(view, broker)
    assert following is BrokerState.SHUTDOWN_NOW, following
    return membership.dismiss(view, broker)


def tells_to_stop(decision: Decision) -> bool:
    response = decision.response
    return isinstance(response, HeartbeatResponse) and response.should_shut_down
