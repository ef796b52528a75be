"""Producer ids, from blocks that the active controller gives out (KIP-730)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidelog.broker.control.controller_messages import error_of
from tidelog.core.errors import NO_ERROR
from tidelog.host import tasks
from tidelog.host.ports import NetworkError
from tidelog.wire.protocol.schemas.allocate_producer_ids_request import AllocateProducerIdsRequest
from tidelog.wire.protocol.schemas.allocate_producer_ids_response import (
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.control.controller_link import ControllerLink

ALLOCATE_VERSION = 0
ALLOCATE_TIMEOUT_MS = 5_000
LOW_MARK_PERCENT = 10
"""When this much of a block is left, the next one is asked for: nobody then waits for it."""


class NoProducerIds(Exception):  # noqa: N818 - it names a state, not an accident
    """The controller gave no ids; the client should try again."""


class ProducerIds:
    """Every id is given once: a block belongs to this broker alone, also after a restart."""

    __slots__ = ("_asking", "_broker_id", "_end", "_link", "_low_mark", "_next", "_spare")

    def __init__(self, broker_id: int, link: ControllerLink) -> None:
        self._broker_id = broker_id
        self._link = link
        self._next = self._end = 0
        self._low_mark = 0
        self._spare: range | None = None
        self._asking: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        """A new id, or None while there is none: then `wait` for the next block."""
        if self._next == self._end and not self._open_spare():
            return None
        producer_id = self._next
        self._next += 1
        if self._end - self._next <= self._low_mark and self._spare is None:
            self._ask()
        return producer_id

    async def wait(self) -> int:
        """A new id, once the controller has given a block. NoProducerIds if it does not."""
        while True:
            producer_id = self.take()
            if producer_id is not None:
                return producer_id
            await asyncio.shield(self._ask())
            if self._spare is None and self._next == self._end:
                raise NoProducerIds("the controller gave no block of producer ids")

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def _open_spare(self) -> bool:
        spare, self._spare = self._spare, None
        if not spare:
            return False
        self._next, self._end = spare.start, spare.stop
        self._low_mark = len(spare) * LOW_MARK_PERCENT // 100
        return True

    def _ask(self) -> asyncio.Task[None]:
        if self._asking is None:
            self._asking = tasks.begin(self._allocate())
            self._asking.add_done_callback(self._asked)
        return self._asking

    def _asked(self, _: asyncio.Task[None]) -> None:
        self._asking = None

    async def _allocate(self) -> None:
        link = self._link
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=link.broker_epoch
        )
        try:
            answer = await link.forward(request, ALLOCATE_VERSION, ALLOCATE_TIMEOUT_MS)
        except NetworkError:
            return  # who waits is told; who does not asks again with the next id
        assert isinstance(answer, AllocateProducerIdsResponse), answer
        if error_of(answer.error_code) is NO_ERROR and answer.producer_id_len > 0:
            start = answer.producer_id_start
            self._spare = range(start, start + answer.producer_id_len)
