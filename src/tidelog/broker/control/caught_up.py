"""Waiting until this broker's own metadata shows what a controller has done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.host import tasks

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.host.timers import TimerWheel


async def caught_up(
    metadata: LocalMetadata, timers: TimerWheel, condition: Callable[[], bool], timeout_ms: int
) -> bool:
    """Whether the condition held in time. It is asked again whenever metadata was applied."""
    deadline_ms = timers.now_ms() + timeout_ms
    while not condition():
        if timers.now_ms() >= deadline_ms:
            return False
        await _next_metadata(metadata, timers, deadline_ms)
    return True


async def _next_metadata(metadata: LocalMetadata, timers: TimerWheel, deadline_ms: int) -> None:
    """Until something was applied, or the deadline."""
    woken: asyncio.Future[None] = tasks.promise()
    wake = partial(tasks.fulfil, woken)
    timer = timers.add(deadline_ms, wake)
    metadata.when_followed(metadata.offset + 1, wake)
    try:
        await woken
    finally:
        timer.cancel()
