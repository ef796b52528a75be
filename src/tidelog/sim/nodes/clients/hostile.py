"""Peers that mean no good, or are broken. Nobody else may suffer from them."""

import asyncio
from random import Random
from typing import Final

from tidelog.host import tasks
from tidelog.sim.nodes.client_plan import (
    GARBAGE,
    HALF_FRAME,
    HUGE_FRAME,
    PIPELINED,
    SILENT,
    SLOW_READER,
    UNKNOWN_API,
    UNKNOWN_VERSION,
    HostilePlan,
)
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import Stage, pause_s
from tidelog.wire.protocol import RequestHeader, encode_request
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest

AT_ONCE: Final = 200
"""Requests that are sent before the first answer is read."""
STAYS_MS: Final = 1_500
CONNECT_WITHIN_MS: Final = 3_000


class Wire(asyncio.BaseProtocol):
    """Takes whatever comes, and makes nothing of it."""

    def __init__(self) -> None:
        self._buffer = bytearray(64 * 1024)

    def get_buffer(self, _size_hint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, _size: int) -> None:
        """It does not look."""

    def eof_received(self) -> None:
        """The other end has had enough."""


class Hostile:
    """One connection after the other, each for one kind of mischief."""

    __slots__ = ("_entropy", "_plan", "_stage")

    def __init__(self, stage: Stage, name: str, plan: HostilePlan) -> None:
        self._stage = stage
        self._plan = plan
        self._entropy: Random = stage.stream(name)

    async def run(self, process: ClientProcess) -> None:
        while not self._stage.stopped:
            host, port = self._stage.any_listener(self._entropy)
            try:
                async with tasks.within(CONNECT_WITHIN_MS):
                    transport = await process.connect(Wire(), host, port)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.5)
                continue
            kind = self._entropy.choice(self._plan.kinds)
            self._annoy(transport, kind)
            self._stage.history.done[kind] += 1
            await asyncio.sleep(pause_s(self._entropy, STAYS_MS))
            transport.resume_reading()
            if self._entropy.random() < 0.5:
                transport.abort()
            else:
                transport.close()
            await asyncio.sleep(pause_s(self._entropy, self._plan.pause_ms))

    def _annoy(self, transport: asyncio.Transport, kind: str) -> None:
        entropy = self._entropy
        request = _frame(ApiVersionsRequest(), 0, 1)
        if kind == GARBAGE:
            transport.write(entropy.randbytes(entropy.choice((1, 40, 5_000))))
        elif kind == HALF_FRAME:
            transport.write(request[: entropy.randrange(1, len(request))])
        elif kind == HUGE_FRAME:
            size = entropy.choice((-1, -(2**31), 2**31 - 1, 200_000_000))
            transport.write(size.to_bytes(4, "big", signed=True) + entropy.randbytes(100))
        elif kind == UNKNOWN_API:
            key = entropy.choice((-1, 999, 2**15 - 1, 4, 52))
            transport.write(request[:4] + key.to_bytes(2, "big", signed=True) + request[6:])
        elif kind == UNKNOWN_VERSION:
            version = entropy.choice((-1, 99, 2**15 - 1))
            transport.write(request[:6] + version.to_bytes(2, "big", signed=True) + request[8:])
        elif kind in (PIPELINED, SLOW_READER):
            if kind == SLOW_READER:
                transport.pause_reading()
            for number in range(AT_ONCE):
                transport.write(_frame(MetadataRequest(topics=None), 9, number))
        else:
            assert kind == SILENT, kind


def _frame(message: ApiVersionsRequest | MetadataRequest, version: int, number: int) -> bytes:
    header = RequestHeader(message.__api_key__, version, number, "hostile")
    body = b"".join(bytes(part) for part in encode_request(header, message))
    return len(body).to_bytes(4, "big") + body
