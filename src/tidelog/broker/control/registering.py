"""Reports a broker that cannot register: in /healthz, the journal and the metrics.

Until it is registered it serves nobody, and nothing else of the node shows why: the controller in
the same process may even be the active one. The one reason that does not pass by itself is
another process that runs under the same id: then this one stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.host.failures import CannotGoOn
from tidelog.host.ports import NetworkError

if TYPE_CHECKING:
    from tidelog.broker.control.controller_link import Address
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.core.metadata.image import BrokerRegistration
    from tidelog.core.metadata.lifecycle import BrokerLifecycle
    from tidelog.host.node_host import NodeHost
    from tidelog.rpc import Answer

NOT_REGISTERED = "not-registered"

LASTING_MS = 10_000
"""A cluster that starts, or elects a controller, takes less."""

ONE_OF_THE_TWO = (
    "stop one of the two; if its directories were copied, this node needs a node.id and newly "
    "formatted directories of its own"
)

_REASONS = {
    Error.NOT_CONTROLLER: "it is not the active controller, so most voters are missing",
    Error.INCONSISTENT_CLUSTER_ID: "it belongs to another cluster",
    Error.INVALID_REGISTRATION: "it refuses our id or our log directories",
}

_ADVICE = {
    Error.NOT_CONTROLLER: "start the other nodes of controller.quorum.voters",
    Error.INCONSISTENT_CLUSTER_ID: "format this node with the cluster id of the others",
    Error.DUPLICATE_BROKER_REGISTRATION: ONE_OF_THE_TWO,
    Error.INVALID_REGISTRATION: "look whether log.dirs was copied from another node",
}
_USUAL_ADVICE = (
    "start the nodes of controller.quorum.voters, and look at the network between them and this one"
)


class SeatTaken(CannotGoOn):
    """Another process is registered under our id, and alive."""


class Registering:
    """Reports `not-registered` while that lasts, with what was heard last."""

    __slots__ = ("_host", "_lifecycle", "_metadata", "on_seat_taken")

    def __init__(self, lifecycle: BrokerLifecycle, metadata: LocalMetadata, host: NodeHost) -> None:
        self._lifecycle = lifecycle
        self._metadata = metadata
        self._host = host
        self.on_seat_taken: Callable[[SeatTaken], None] = _raise
        """Told when this process has to stop."""

    def look(self, address: Address, answer: Answer, error: Error) -> None:
        """After every answer: `error` is what it says, if it is an answer at all."""
        findings, own_id = self._host.findings, self._metadata.own_id
        subject, now_ms = f"broker {own_id}", self._host.now_ms()
        waited_ms = self._lifecycle.unregistered_ms(now_ms)
        if waited_ms == 0:
            findings.clear(NOT_REGISTERED, subject)
        elif waited_ms >= LASTING_MS:
            findings.report(
                NOT_REGISTERED,
                subject,
                f"broker {own_id} has been trying to register for {waited_ms // 1000} s and "
                f"serves nobody; {address[0]}:{address[1]} was asked last: "
                f"{self._why(answer, error)}",
                advice=_ADVICE.get(error, _USUAL_ADVICE),
            )
        if self._lifecycle.rival_outlasts():
            self.on_seat_taken(SeatTaken(self._rival(), advice=ONE_OF_THE_TWO))
        elif error is Error.STALE_BROKER_EPOCH and self._was_replaced():
            why = f"our seat was taken: {self._rival()}"
            self.on_seat_taken(SeatTaken(why, advice=ONE_OF_THE_TWO))

    def _why(self, answer: Answer, error: Error) -> str:
        if isinstance(answer, NetworkError):
            return str(answer)
        if error is Error.DUPLICATE_BROKER_REGISTRATION:
            return self._rival()
        return _REASONS.get(error, error.name)

    def _rival(self) -> str:
        known = self._registered()
        where = "" if known is None else f" at {_addresses(known)}"
        return f"another process is running as node {self._metadata.own_id}{where}"

    def _registered(self) -> BrokerRegistration | None:
        return self._metadata.image.brokers.get(self._metadata.own_id)

    def _was_replaced(self) -> bool:
        """A later incarnation of this id is registered, and it is not this process."""
        known, own = self._registered(), self._lifecycle
        return (
            known is not None
            and known.incarnation_id != own.incarnation_id
            and known.broker_epoch > own.broker_epoch
        )


def _addresses(known: BrokerRegistration) -> str:
    return ", ".join(f"{each.host}:{each.port}" for each in known.endpoints)


def _raise(error: SeatTaken) -> None:
    raise error
