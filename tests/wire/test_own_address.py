"""A voter finds out whether it is the one that answers where the quorum knows it."""

import asyncio

import pytest

from support.loopback import loopback, pass_time, until
from tidelog.host.entropy import SystemEntropy
from tidelog.host.node_host import NodeHost
from tidelog.node.disks import CannotStart
from tidelog.node.own_address import ASK_AGAIN_MS, LOOK_AGAIN_MS, OwnAddress
from tidelog.rpc import ApiTable, serve
from tidelog.wire.protocol import Listener
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersionsResponse

HOST = "127.0.0.1"
TABLE = ApiTable(Listener.CLUSTER, {18: lambda call: call.answer(ApiVersionsResponse())})


class Voter(OwnAddress):
    """One that can be seen asking: real sockets answer in their own time, so the clock of the
    story stands still meanwhile."""

    __slots__ = ("asking",)

    async def _ask(self):
        self.asking = True
        try:
            return await super()._ask()
        finally:
            self.asking = False


def voter(network, port):
    wheel = network.wheel
    host = NodeHost(wheel.clock, wheel, network, SystemEntropy(), lambda event: None)
    own = Voter(host, 1, (HOST, port))
    own.asking = False
    return own


def never(error):
    raise AssertionError(error)


async def close(listener):
    """Its peers hang up first: an event loop with sockets that owe bytes does not close."""
    await until(lambda: not listener.connections)
    await listener.stop(timeout_ms=0)


async def while_time_passes(network, own, work):
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        if not own.asking:
            pass_time(network, ASK_AGAIN_MS)
    return await task


def test_a_voter_that_reaches_itself_is_the_voter(tell):
    async def story():
        async with loopback() as network:
            listener = await network.listen(HOST, 0, serve(TABLE, "CONTROLLER"))
            port = listener.port
            await listener.stop(timeout_ms=0)
            own = voter(network, port)
            accept = serve(TABLE, "CONTROLLER", on_opened=own.on_opened)
            listener = await network.listen(HOST, port, accept)
            await own.check(never)
            pass_time(network, 10 * LOOK_AGAIN_MS)
            await close(listener)

    tell(story)


def test_a_copy_finds_the_first_holder_at_its_own_address(tell):
    async def story():
        async with loopback() as network:
            first = await network.listen(HOST, 0, serve(TABLE, "CONTROLLER"))
            copy = voter(network, first.port)
            with pytest.raises(
                CannotStart, match=f"running as controller 1 at {HOST}:{first.port}"
            ):
                await while_time_passes(network, copy, copy.check(never))
            await close(first)

    tell(story)


def test_a_copy_that_was_there_first_stops_when_the_first_holder_comes_back(tell):
    async def story():
        async with loopback() as network:
            listener = await network.listen(HOST, 0, serve(TABLE, "CONTROLLER"))
            port = listener.port
            await listener.stop(timeout_ms=0)
            copy, failures = voter(network, port), []
            await copy.check(failures.append)
            listener = await network.listen(HOST, port, serve(TABLE, "CONTROLLER"))

            async def stopped():
                await until(lambda: failures)

            await while_time_passes(network, copy, stopped())
            assert isinstance(failures[0], CannotStart)
            await close(listener)

    tell(story)
