"""A voter votes once: no other process may answer at this node's address in the quorum.

A copied data directory makes a second process with the same voter id. Both would vote, and two
leaders could be elected in one epoch. The others cannot tell them apart, but the copy can: it
asks at its own address in `controller.quorum.voters`, and somebody else answers.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum

from tidelog.host import tasks
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import NetworkError
from tidelog.host.timers import pause
from tidelog.node.disks import CannotStart
from tidelog.rpc import Call, Peer
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest

ASK_TIMEOUT_MS = 1_000
ASK_AGAIN_MS = 1_000
TIMES = 3
"""A process that is being replaced may answer for a moment longer."""
LOOK_AGAIN_MS = 5_000

_LOGGER = logging.getLogger("tidelog.node")


class Answers(Enum):
    OURSELVES = "ourselves"
    ANOTHER = "another process"
    NOBODY = "nobody"
    """No way there, or not yet: nothing is proved."""


class OwnAddress:
    """Finds out who answers at this voter's address, before it votes and until it is known."""

    __slots__ = ("_address", "_host", "_name", "_node_id", "_reached", "_task")

    def __init__(self, host: NodeHost, node_id: int, address: tuple[str, int]) -> None:
        self._host = host
        self._node_id = node_id
        self._address = address
        self._name = f"voter-{node_id}-{host.entropy.uuid().hex()}"
        """Of the client that asks; nobody else can know it."""
        self._reached = False
        self._task: asyncio.Task[None] | None = None

    def on_opened(self, call: Call) -> None:
        """For `rpc.serve` of the controller listener: perhaps it is our own question."""
        self._reached = self._reached or call.client_id == self._name

    async def check(self, fail: Callable[[Exception], None]) -> None:
        """CannotStart if another process answers there. If nobody does, look again later, and
        tell `fail` when somebody else turns up."""
        if await self._find_out() is Answers.NOBODY:
            self._task = tasks.begin(self._keep_looking(fail))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _keep_looking(self, fail: Callable[[Exception], None]) -> None:
        try:
            while True:
                await pause(self._host.timers, LOOK_AGAIN_MS)
                if await self._find_out() is Answers.OURSELVES:
                    return
        except CannotStart as error:
            fail(error)

    async def _find_out(self) -> Answers:
        for _ in range(TIMES):
            answers = await self._ask()
            if answers is not Answers.ANOTHER:
                return answers
            await pause(self._host.timers, ASK_AGAIN_MS)
        host, port = self._address
        raise CannotStart(
            f"another process is running as controller {self._node_id} at {host}:{port}",
            advice="stop one of the two; if its directory was copied, format a new one. If this is "
            "the right process, controller.quorum.voters must lead to it",
        )

    async def _ask(self) -> Answers:
        self._reached = False
        peer = Peer(
            self._host.to_controllers, self._address, self._name, connect_timeout_ms=ASK_TIMEOUT_MS
        )
        try:
            await peer.ask(ApiVersionsRequest(), 0, timeout_ms=ASK_TIMEOUT_MS)
        except NetworkError as error:
            _LOGGER.debug("nobody answers at our own address %s: %s", self._address, error)
            return Answers.OURSELVES if self._reached else Answers.NOBODY
        finally:
            peer.close()
        return Answers.OURSELVES if self._reached else Answers.ANOTHER
