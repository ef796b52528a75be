"""Clients that come before the broker serves: answered when it does, sent away when it does not."""

import logging

from support.loopback import Script, echo, framed, loopback, pass_time, raw_peer, until
from tidelog.host.entropy import SystemEntropy
from tidelog.host.node_host import NodeHost
from tidelog.node.held_connections import LONGEST_WAIT_MS, HeldConnections

HOST = "127.0.0.1"


def held_by(network):
    wheel = network.wheel
    return HeldConnections(
        NodeHost(wheel.clock, wheel, network, SystemEntropy(), lambda event: None)
    )


def test_a_client_that_came_early_is_answered_when_the_broker_serves(tell):
    async def story():
        script = Script(echo)
        async with loopback() as network:
            held = held_by(network)
            server = await network.listen(HOST, 0, held.guard(script.accept))
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"hello"))
                await until(lambda: script.connections)
                pass_time(network, LONGEST_WAIT_MS - 100)
                held.open_all()
                assert await peer.frame() == b"re:hello"
                pass_time(network, LONGEST_WAIT_MS)
                await peer.send(framed(b"again"))
                assert await peer.frame() == b"re:again"
            await server.stop(timeout_ms=0)

    tell(story)


def test_a_client_does_not_wait_for_ever_for_a_broker_that_does_not_serve(tell, caplog):
    async def story():
        script = Script(echo)
        async with loopback() as network:
            held = held_by(network)
            server = await network.listen(HOST, 0, held.guard(script.accept))
            async with raw_peer(server.port) as first, raw_peer(server.port) as second:
                await first.send(framed(b"hello"))
                await until(lambda: len(script.connections) == 2)
                pass_time(network, LONGEST_WAIT_MS - 5_000)
                async with raw_peer(server.port) as third:
                    await until(lambda: len(script.connections) == 3)
                    pass_time(network, 5_000)
                    await first.ended()
                    await second.ended()
                    held.open_all()
                    await third.send(framed(b"patient"))
                    assert await third.frame() == b"re:patient"
            assert script.requests == [b"patient"], "who was sent away was not served"
            await server.stop(timeout_ms=0)

    with caplog.at_level(logging.WARNING, logger="tidelog.node"):
        tell(story)
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.startswith("closed 2 connections of clients that waited for 10 s")
