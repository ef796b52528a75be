"""Connections to the other brokers, one for each purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.rpc import Peer

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.host.ports import Network
    from tidelog.rpc import Call


CLIENT_ID_PREFIX = "broker-"


def is_on_a_line(call: Call) -> bool:
    """Did another broker send this? A client that takes such a name is served as one."""
    return call.client_id.startswith(CLIENT_ID_PREFIX)


class BrokerConnections:
    """The connections of one purpose: one to each broker that was ever asked, kept open. Answers
    come in order, so purposes that may wait for different things do not share one."""

    __slots__ = ("_metadata", "_network", "_peers", "_purpose")

    def __init__(self, metadata: LocalMetadata, network: Network, purpose: str) -> None:
        self._metadata = metadata
        self._network = network
        self._purpose = purpose
        self._peers: dict[int, Peer] = {}

    def to(self, broker_id: int) -> Peer | None:
        """None while its address is unknown. One that moved is asked where it is now."""
        address = self._metadata.address_of(broker_id)
        peer = self._peers.get(broker_id)
        if peer is not None and peer.address != address:
            del self._peers[broker_id]
            peer.close()
            peer = None
        if peer is None and address is not None:
            client_id = f"{CLIENT_ID_PREFIX}{self._metadata.own_id}-{self._purpose}"
            peer = self._peers[broker_id] = Peer(self._network, address, client_id)
        return peer

    def close(self) -> None:
        """Who waits for an answer gets a NetworkError."""
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()
