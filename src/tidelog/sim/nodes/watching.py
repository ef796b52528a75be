"""How an operator watches a simulated node: its observation, as `node.process` starts it.

Whatever state a node is in, it can say how it is: the questions that its HTTP port would answer
are asked now and then, and a question that fails breaks rule N6. Sockets for it are left out.
"""

import asyncio
from random import Random
from typing import Final

from tidelog.host import tasks
from tidelog.host.network import TcpNetwork
from tidelog.host.ports import Clock
from tidelog.node.node import Node
from tidelog.node.observation import Observation
from tidelog.observe.counts import LoopDelay
from tidelog.observe.http_server import Request
from tidelog.observe.journal import JournalHandler
from tidelog.observe.stream import EventStream

PATHS: Final = ("/healthz", "/state", "/events?since=0", "/events", "/healthz", "/metrics")
PAUSE_MS: Final = (500, 4_000)
EVENTS_READ: Final = 3
ANSWERS: Final = (200, 503)


class Watching:
    """The observation of one process of a node."""

    __slots__ = ("_asking", "_entropy", "_observation")

    def __init__(
        self, node: Node, stream: EventStream, network: TcpNetwork, clock: Clock, entropy: Random
    ) -> None:
        journal = JournalHandler(_read_by_nobody, clock)
        self._observation = Observation(node, stream, journal, network, None, delay=LoopDelay())
        self._entropy = entropy
        self._asking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._observation.start()
        self._asking = tasks.begin(self._ask_for_ever())
        self._asking.add_done_callback(_tell_failure)

    async def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        await self._observation.stop()

    async def _ask_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._entropy.randrange(*PAUSE_MS) / 1000)
            await self._ask(self._entropy.choice(PATHS))

    async def _ask(self, target: str) -> None:
        path, _, since = target.partition("?since=")
        query = {"since": since} if since else {}
        response = await self._observation.answer(Request("GET", path, query, {}, b""))
        assert response.status in ANSWERS, f"{target} was answered with {response.status}"
        if response.stream is not None:
            for _ in range(EVENTS_READ):
                await anext(response.stream)
                if self._entropy.getrandbits(1):
                    break
            await response.stream.aclose()


def _tell_failure(asking: asyncio.Task[None]) -> None:
    """What a callback raises is heard by the loop, and breaks a rule."""
    if not asking.cancelled():
        asking.result()


def _read_by_nobody(_line: str) -> None:
    """Events tell what happens."""
