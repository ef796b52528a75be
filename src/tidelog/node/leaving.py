"""Leaving a cluster in order: the controller, if there can be one, first moves our leaders away."""

import asyncio
from contextlib import suppress

from tidelog.broker.control.controller_link import ControllerLink
from tidelog.core.quorum.rules import majority
from tidelog.core.types import NO_LEADER
from tidelog.host import tasks
from tidelog.host.ports import Network, NetworkError, PeerRefused
from tidelog.quorum.member import QuorumMember
from tidelog.quorum.membership import Address

STOP_TIMEOUT_MS = 30_000
"""How long a clean stop waits for the controller to move our leaders."""
LEADERLESS_TIMEOUT_MS = 1_000
STOP_POLL_MS = 50
LOOK_EVERY_MS = 200
"""The usual answer takes one commit; who waits longer finds out whether one can come."""
PROBE_TIMEOUT_MS = 1_000


class Leaving:
    """Waits for the controller's permission to stop, for as long as there may be one.

    When a whole cluster stops at once, the last nodes ask a quorum whose majority has ended. Its
    silence alone could be a slow election; processes that refuse connections are gone.
    """

    __slots__ = ("_link", "_network", "_node_id", "_quorum", "_voters")

    def __init__(
        self,
        link: ControllerLink,
        quorum: QuorumMember,
        voters: dict[int, Address],
        node_id: int,
        network: Network,
    ) -> None:
        self._link = link
        self._network = network
        self._quorum = quorum
        self._voters = voters
        self._node_id = node_id

    async def wait(self) -> None:
        link = self._link
        link.begin_shutdown()
        waited_ms = leaderless_ms = 0
        while waited_ms < STOP_TIMEOUT_MS and leaderless_ms < LEADERLESS_TIMEOUT_MS:
            with suppress(TimeoutError):
                async with tasks.within(STOP_POLL_MS):
                    await link.stopped.wait()
            if link.stopped.is_set():
                return
            waited_ms += STOP_POLL_MS
            known = self._quorum.leader_id != NO_LEADER
            leaderless_ms = 0 if known else leaderless_ms + STOP_POLL_MS
            if waited_ms % LOOK_EVERY_MS == 0 and await self._majority_is_gone():
                return

    async def _majority_is_gone(self) -> bool:
        others = [address for node_id, address in self._voters.items() if node_id != self._node_id]
        refused = await asyncio.gather(*(_is_refused(self._network, each) for each in others))
        return len(self._voters) - sum(refused) < majority(len(self._voters))


async def _is_refused(network: Network, address: Address) -> bool:
    try:
        connection = await network.connect(*address, timeout_ms=PROBE_TIMEOUT_MS)
    except PeerRefused:
        return True
    except NetworkError:
        return False
    connection.close()
    return False
