"""What the kernel says of processes that stand still, and of those that are gone."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator

from support.controller_node import StoryBroker, controller_node
from support.loopback import run, until
from tidelog.controller.liveness import RETRY_AFTER_MS

LISTENS = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
time.sleep(600)
"""


@contextlib.asynccontextmanager
async def listening_process() -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LISTENS, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process, int(await process.stdout.readline())
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def test_a_paused_process_is_left_alone_and_a_killed_one_is_fenced_at_once() -> None:
    async def story() -> None:
        async with controller_node() as node, listening_process() as (process, port):
            liveness = node.controller.liveness
            broker = StoryBroker(node, 1)
            broker.broker_epoch = (await broker.register(port)).broker_epoch
            assert not (await broker.beat()).is_fenced
            process.send_signal(signal.SIGSTOP)
            broker.peer.close()
            await until(lambda: liveness.pausing)
            node.pass_time(RETRY_AFTER_MS[0] + 5)
            await until(lambda: liveness.pausing)
            assert not node.broker(1).fenced, "its kernel accepts for it"
            process.kill()
            await process.wait()
            node.pass_time(RETRY_AFTER_MS[1] + 5)
            await until(lambda: node.broker(1).fenced)

    run(story)
