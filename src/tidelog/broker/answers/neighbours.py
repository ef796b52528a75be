"""The brokers of the cluster as a client sees them through one listener.

A client that came in through one listener can only be expected to reach brokers through the
listener of the same name, so a broker without it is not there for this client.
"""

from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata.image import BrokerRegistration, MetadataImage, PartitionState
from tidelog.core.types import NO_LEADER

NOBODY = -1


class Neighbour(NamedTuple):
    broker_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


class SeenLeader(NamedTuple):
    """Who leads a partition, for a client: -1 and a reason if nobody it can reach."""

    broker_id: int
    error: Error


def neighbours(
    image: MetadataImage, listener: str, *, with_fenced: bool = False
) -> dict[int, Neighbour]:
    """By id, in ascending order; the live ones, or all that are registered."""
    found = {}
    for broker_id in sorted(image.brokers):
        broker = image.brokers[broker_id]
        if broker.fenced and not with_fenced:
            continue
        neighbour = _through(broker, listener)
        if neighbour is not None:
            found[broker_id] = neighbour
    return found


def controller_for_clients(live: dict[int, Neighbour], own_id: int) -> int:
    """Whom admin clients shall ask. Every broker passes such requests on, and this one is
    reached already."""
    return own_id if own_id in live else next(iter(live), NOBODY)


def seen_leader(
    image: MetadataImage, state: PartitionState, live: dict[int, Neighbour]
) -> SeenLeader:
    if state.leader in live:
        return SeenLeader(state.leader, Error.NONE)
    has_other_listeners = state.leader != NO_LEADER and state.leader in image.brokers
    error = Error.LISTENER_NOT_FOUND if has_other_listeners else Error.LEADER_NOT_AVAILABLE
    return SeenLeader(NO_LEADER, error)


def offline_replicas(state: PartitionState, live: dict[int, Neighbour]) -> list[int]:
    return [replica for replica in state.replicas if replica not in live]


def _through(broker: BrokerRegistration, listener: str) -> Neighbour | None:
    for endpoint in broker.endpoints:
        if endpoint.name == listener:
            return Neighbour(
                broker.broker_id, endpoint.host, endpoint.port, broker.rack, broker.fenced
            )
    return None
