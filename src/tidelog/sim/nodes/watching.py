"""How an operator watches a simulated node: its observation, as `cli.node_process` starts it.

Whatever state a node is in, it can say how it is: questions are asked now and then, over HTTP
where the node listens for it, and a question that fails breaks rule N6. Where chaos is allowed,
the node is cut off from others for a moment.
"""

import asyncio
import json
from contextlib import suppress
from random import Random
from typing import Any, Final

from tidelog.host import tasks
from tidelog.host.gate import GatedNetwork
from tidelog.host.network import TcpNetwork
from tidelog.host.ports import Clock
from tidelog.node.node import Node
from tidelog.node.observation import Observation
from tidelog.observe.counts import LoopDelay
from tidelog.observe.http_server import BadRequest, Request
from tidelog.observe.journal import JournalHandler
from tidelog.observe.stream import EventStream

PATHS: Final = ("/healthz", "/state", "/events?since=0", "/events", "/healthz", "/metrics")
CHAOS: Final = "/chaos"
BROKEN: Final[tuple[dict[str, Any], ...]] = (
    {"blocked": [1]},
    {"blocked": [2, 3]},
    {"latency_ms": {"1": 20, "3": 5}},
    {"blocked": [77]},
)
PAUSE_MS: Final = (500, 4_000)
CHAOS_MS: Final = (50, 1_000)
EVENTS_READ: Final = 3
ANSWERS: Final = (200, 503)
REFUSALS: Final = (400, 403)
"""Of chaos: a node is not cut off from itself."""
LOGIN_NEEDED: Final = 401
"""By a secured node, which does not know this operator."""
ANSWER_WITHIN_MS: Final = 5_000


class Watching:
    """The observation of one process of a node."""

    __slots__ = ("_asking", "_entropy", "_host", "_observation", "_secured")

    def __init__(
        self,
        node: Node,
        stream: EventStream,
        network: TcpNetwork,
        gate: GatedNetwork | None,
        entropy: Random,
    ) -> None:
        clock: Clock = node.host.clock
        journal = JournalHandler(_read_by_nobody, clock)
        self._observation = Observation(node, stream, journal, network, gate, delay=LoopDelay())
        self._host = "" if node.config.http_listener is None else node.config.http_listener.host
        self._secured = node.config.is_secured
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
            target = self._entropy.choice(PATHS)
            path, _, since = target.partition("?since=")
            await self._ask(Request("GET", path, {"since": since} if since else {}, {}, b""))
            if self._observation.has_chaos:
                await self._break_for_a_moment()

    async def _break_for_a_moment(self) -> None:
        body = json.dumps(self._entropy.choice(BROKEN)).encode()
        headers = {"content-type": "application/json"}
        await self._ask(Request("POST", CHAOS, {}, headers, body))
        await asyncio.sleep(self._entropy.randrange(*CHAOS_MS) / 1000)
        await self._ask(Request("GET", CHAOS, {}, {}, b""))
        await self._ask(Request("DELETE", CHAOS, {}, {}, b""))

    async def _ask(self, request: Request) -> None:
        known = (*ANSWERS, *REFUSALS) if request.path == CHAOS else ANSWERS
        if self._observation.http_port is None:
            status = await self._ask_inside(request)
        else:
            status = await self._ask_over_http(request, self._observation.http_port)
            known = (*known, LOGIN_NEEDED) if self._secured else known
        assert status in known, f"{request.method} {request.path} was answered with {status}"

    async def _ask_inside(self, request: Request) -> int:
        try:
            response = await self._observation.answer(request)
        except BadRequest as refusal:
            return refusal.status
        if response.stream is not None:
            for _ in range(EVENTS_READ):
                await anext(response.stream)
                if self._entropy.getrandbits(1):
                    break
            await response.stream.aclose()
        return response.status

    async def _ask_over_http(self, request: Request, port: int) -> int:
        """On a connection of its own, which may be lost like any other."""
        query = "".join(f"?{name}={value}" for name, value in request.query.items())
        lines = [f"{request.method} {request.path}{query} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        lines += [f"Content-Length: {len(request.body)}", "", ""]
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with tasks.within(ANSWER_WITHIN_MS):
                reader, writer = await asyncio.open_connection(self._host, port)
                writer.write("\r\n".join(lines).encode() + request.body)
                status = int((await reader.readuntil(b"\r\n")).split()[1])
                await reader.read(self._entropy.choice((1, 1_000)))
                writer.close()
                return status
        return ANSWERS[0]


def _tell_failure(asking: asyncio.Task[None]) -> None:
    """What a callback raises is heard by the loop, and breaks a rule."""
    if not asking.cancelled():
        asking.result()


def _read_by_nobody(_line: str) -> None:
    """Events tell what happens."""
