"""Brokers that may be dead: their connection broke and the controller has not decided yet.

A client whose leader dies asks the next broker within a millisecond. An answer that names the dead
leader again is worse than a late one: librdkafka asks only once a second. So such an answer waits
for the controller, which needs a few milliseconds (ADR 0017), and not longer than it ever needs.

The client may even have seen its connection break before ours does: a process that is killed closes
its sockets one after the other. Therefore a leader is asked for a sign of life before a client gets
its address. That takes one round trip, also if the process is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.control.caught_up import caught_up
from tidelog.host import tasks
from tidelog.host.ports import ConnectionClosed, NetworkError, PeerRefused, PeerReset
from tidelog.rpc import Answer, Peer
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.host.node_host import NodeHost

SUSPECTED_MS = 500
SIGN_OF_LIFE_MS = 100
"""A leader that is merely slow is told of after this time."""
API_VERSIONS_VERSION = 3


class SuspectedBrokers:
    """Who is suspected, and until when."""

    __slots__ = ("_asked", "_host", "_metadata", "_now_ms", "_peers", "_until_ms")

    def __init__(self, metadata: LocalMetadata, host: NodeHost) -> None:
        self._metadata = metadata
        self._host = host
        self._now_ms = host.clock.monotonic_ms
        self._until_ms: dict[int, int] = {}
        """Kept after the time is over, until the broker answers or is fenced: somebody who cannot
        reach it, while the controller can, is not to delay every client again."""
        self._peers: dict[int, Peer] = {}
        self._asked: dict[int, asyncio.Future[None]] = {}

    def begin(self, broker_id: int) -> None:
        """Its end of a connection was closed, or refuses a new one."""
        self._until_ms.setdefault(broker_id, self._now_ms() + SUSPECTED_MS)

    def end(self, broker_id: int) -> None:
        """It answered."""
        if self._until_ms:
            self._until_ms.pop(broker_id, None)

    def remain(self) -> bool:
        """Whether what metadata say of some broker should not be told yet."""
        if not self._until_ms:
            return False
        brokers = self._metadata.image.brokers
        for broker_id in list(self._until_ms):
            registration = brokers.get(broker_id)
            if registration is None or registration.fenced:
                del self._until_ms[broker_id]
        now = self._now_ms()
        return any(until_ms > now for until_ms in self._until_ms.values())

    async def settled(self, leaders: Collection[int]) -> None:
        """Until these leaders have given a sign of life, or the controller has decided about
        those in doubt; not longer than `SIGN_OF_LIFE_MS` and `SUSPECTED_MS`."""
        signs = [sign for leader in leaders if (sign := self._ask(leader)) is not None]
        if signs:
            await asyncio.wait(signs)
        if self.remain():
            # Not SUSPECTED_MS from now: nothing is applied when a doubt has lasted long enough.
            left_ms = max(self._until_ms.values()) - self._now_ms()
            await caught_up(self._metadata, self._host.timers, lambda: not self.remain(), left_ms)

    def close(self) -> None:
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()

    def _ask(self, broker_id: int) -> asyncio.Future[None] | None:
        """One question for all that wait for the same sign."""
        asked = self._asked.get(broker_id)
        if asked is not None:
            return asked
        address = self._metadata.address_of(broker_id)
        if address is None:
            return None
        peer = self._peers.get(broker_id)
        if peer is None or peer.address != address:
            if peer is not None:
                peer.close()
            client_id = f"broker-{self._metadata.own_id}-metadata"
            peer = Peer(
                self._host.to_brokers,
                address,
                client_id,
                connect_timeout_ms=SIGN_OF_LIFE_MS,
            )
            self._peers[broker_id] = peer
        asked = tasks.promise()
        self._asked[broker_id] = asked
        request = ApiVersionsRequest(client_software_name="tidelog", client_software_version="0")
        heard = partial(self._on_sign, broker_id)
        peer.send(request, API_VERSIONS_VERSION, heard, timeout_ms=SIGN_OF_LIFE_MS)
        return asked

    def _on_sign(self, broker_id: int, answer: Answer) -> None:
        if isinstance(answer, PeerReset | PeerRefused | ConnectionClosed):
            self.begin(broker_id)
        elif not isinstance(answer, NetworkError):
            until_ms = self._until_ms.get(broker_id)
            if until_ms is not None and until_ms <= self._now_ms():
                self.end(broker_id)  # an earlier answer could have overtaken the news of its end
        asked = self._asked.pop(broker_id, None)
        if asked is not None and not asked.done():
            asked.set_result(None)
