"""Waiting by a node's own clock."""

import asyncio
from functools import partial

from tidelog.host.timers import TimerWheel


async def pause(timers: TimerWheel, delay_ms: int) -> None:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = timers.after(delay_ms, partial(_settle, over))
    try:
        await over
    finally:
        timer.cancel()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
