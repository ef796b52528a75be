"""Waiting until this broker's own metadata shows what a controller has done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.host import tasks

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


async def caught_up(broker: Broker, condition: Callable[[], bool], timeout_ms: int) -> bool:
    """Whether the condition held in time. It is asked again whenever metadata was applied."""
    deadline_ms = broker.now_ms() + timeout_ms
    while not condition():
        if broker.now_ms() >= deadline_ms:
            return False
        await _next_metadata(broker, deadline_ms)
    return True


async def _next_metadata(broker: Broker, deadline_ms: int) -> None:
    """Until something was applied, or the deadline."""
    woken: asyncio.Future[None] = tasks.promise()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timer = broker.host.timers.add(deadline_ms, wake)
    broker.on_metadata(broker.metadata_offset + 1, wake)
    try:
        await woken
    finally:
        timer.cancel()
