"""Where other brokers are, for brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


def address_of(broker: Broker, broker_id: int) -> tuple[str, int] | None:
    """Where other brokers reach this one, if it is known."""
    registration = broker.image.brokers.get(broker_id)
    for endpoint in registration.endpoints if registration is not None else ():
        if endpoint.name == broker.config.inter_broker_listener:
            return endpoint.host, endpoint.port
    return None
