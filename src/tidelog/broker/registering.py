"""A broker that cannot register says so: in /healthz, the journal and the metrics.

Until it is registered it serves nobody, and nothing else of the node shows why: the controller in
the same process may even be the active one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.host.ports import NetworkError

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.broker.controller_link import Address
    from tidelog.rpc import Answer

NOT_REGISTERED = "not-registered"

LASTING_MS = 10_000
"""A cluster that starts, or elects a controller, takes less."""

_REASONS = {
    Error.NOT_CONTROLLER: "it is not the active controller, so most voters are missing",
    Error.INCONSISTENT_CLUSTER_ID: "it belongs to another cluster",
    Error.DUPLICATE_BROKER_REGISTRATION: "another process is registered under this id",
    Error.INVALID_REGISTRATION: "it refuses our id or our log directories",
}

_ADVICE = {
    Error.NOT_CONTROLLER: "start the other nodes of controller.quorum.voters",
    Error.INCONSISTENT_CLUSTER_ID: "format this node with the cluster id of the others",
    Error.DUPLICATE_BROKER_REGISTRATION: "stop one of the two; each node needs a node.id and "
    "directories of its own",
    Error.INVALID_REGISTRATION: "look whether log.dirs was copied from another node",
}


class Registering:
    """Reports `not-registered` while that lasts, with what was heard last."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def look(self, address: Address, answer: Answer, error: Error) -> None:
        """After every answer: `error` is what it says, if it is an answer at all."""
        broker = self._broker
        findings, subject = broker.host.findings, f"broker {broker.id}"
        waited_ms = broker.link.lifecycle.unregistered_ms(broker.host.now_ms())
        if waited_ms == 0:
            findings.clear(NOT_REGISTERED, subject)
        elif waited_ms >= LASTING_MS:
            findings.report(
                NOT_REGISTERED,
                subject,
                f"broker {broker.id} has been trying to register for {waited_ms // 1000} s and "
                f"serves nobody; {address[0]}:{address[1]} was asked last: {_why(answer, error)}",
                advice=_ADVICE.get(
                    error,
                    "start the nodes of controller.quorum.voters, and look "
                    "at the network between them and this one",
                ),
            )


def _why(answer: Answer, error: Error) -> str:
    if isinstance(answer, NetworkError):
        return str(answer)
    return _REASONS.get(error, error.name)
