"""A node is cut off from its peers, or slowed down, from within: over real connections."""

import asyncio

import pytest

from support.loopback import Script, answer_of, echo, loopback, pass_time, run, until
from tidelog.host.gate import Faults, GatedNetwork
from tidelog.host.ports import ConnectionClosed, PeerRefused, PeerTimedOut, RequestTimedOut

PEER = 2


class Wires:
    """A gated network, and a peer that answers everything."""

    def __init__(self, network, script, listener):
        self.network = network
        self.gate = GatedNetwork(network, network.wheel)
        self.script = script
        self.port = listener.port
        self.gate.know(PEER, [("127.0.0.1", self.port)])

    def cut(self):
        self.gate.set(Faults(frozenset({PEER})))

    def heal(self):
        self.gate.set(Faults())

    async def connect(self, timeout_ms=1000):
        return await self.gate.connect("127.0.0.1", self.port, timeout_ms=timeout_ms)


def wired(story, on_request=echo):
    async def whole():
        async with loopback() as network:
            script = Script(on_request)
            listener = await network.listen("127.0.0.1", 0, script.accept)
            wires = Wires(network, script, listener)
            try:
                await story(wires)
            finally:
                wires.gate.close()
                await listener.stop(timeout_ms=0)

    run(whole)


async def turns(count=20):
    """Long enough for anything on the loopback interface that could come."""
    for _ in range(count):
        await asyncio.sleep(0.001)


def test_an_open_gate_changes_nothing():
    async def story(wires):
        connection = await wires.connect()
        assert bytes(await answer_of(connection, [b"a", b"b"], timeout_ms=1000)) == b"re:ab"
        connection.close()
        await until(lambda: wires.script.closed)

    wired(story)


def test_connecting_through_a_cut_wire_takes_its_whole_timeout():
    async def story(wires):
        wires.cut()
        connecting = asyncio.ensure_future(wires.connect(timeout_ms=1000))
        await turns()
        pass_time(wires.network, 995)
        await turns()
        assert not connecting.done()
        pass_time(wires.network, 10)
        with pytest.raises(PeerTimedOut, match="did not answer to connecting"):
            await connecting
        assert wires.script.connections == []

    wired(story)


def test_connections_through_a_cut_wire_time_out_each_at_its_own_time():
    async def story(wires):
        wires.cut()
        first = asyncio.ensure_future(wires.connect(timeout_ms=500))
        second = asyncio.ensure_future(wires.connect(timeout_ms=1000))
        await turns()
        pass_time(wires.network, 505)
        with pytest.raises(PeerTimedOut):
            await first
        await turns()
        assert not second.done()
        pass_time(wires.network, 500)
        with pytest.raises(PeerTimedOut):
            await second

    wired(story)


def test_a_wire_that_heals_in_time_lets_the_connection_through():
    async def story(wires):
        wires.cut()
        connecting = asyncio.ensure_future(wires.connect())
        await turns()
        wires.heal()
        connection = await connecting
        assert bytes(await answer_of(connection, [b"x"], timeout_ms=1000)) == b"re:x"
        connection.close()

    wired(story)


def test_a_cut_wire_is_no_refusal_and_an_open_one_still_tells_who_is_gone():
    async def story(wires):
        gone = await wires.network.listen("127.0.0.1", 0, wires.script.accept)
        port = gone.port
        wires.gate.know(3, [("127.0.0.1", port)])
        await gone.stop(timeout_ms=0)
        with pytest.raises(PeerRefused):
            await wires.gate.connect("127.0.0.1", port, timeout_ms=1000)
        wires.gate.set(Faults(frozenset({3})))
        connecting = asyncio.ensure_future(wires.gate.connect("127.0.0.1", port, timeout_ms=100))
        await turns()
        pass_time(wires.network, 105)
        with pytest.raises(PeerTimedOut):
            await connecting

    wired(story)


def test_a_connection_that_was_there_goes_silent_and_its_requests_time_out():
    async def story(wires):
        connection = await wires.connect()
        wires.cut()
        asked = answer_of(connection, [b"x"], timeout_ms=300)
        await turns()
        assert wires.script.requests == []
        pass_time(wires.network, 305)
        with pytest.raises(RequestTimedOut, match="300 ms"):
            await asked
        connection.close()
        await turns()
        assert wires.script.closed == []  # the peer does not even hear that we are gone
        wires.heal()
        await until(lambda: wires.script.closed)

    wired(story)


def test_an_answer_that_was_under_way_is_held_back_until_the_wire_is_whole():
    async def story(wires):
        connection = await wires.connect()
        asked = answer_of(connection, [b"x"], timeout_ms=1000)
        await until(lambda: wires.script.slots)
        wires.cut()
        wires.script.slots[0].answer([b"late"])
        await turns()
        assert not asked.done()
        wires.heal()
        assert bytes(await asked) == b"late"
        connection.close()

    wired(story, on_request=lambda *_: None)


def test_nobody_learns_through_a_cut_wire_that_a_peer_died():
    async def story(wires):
        connection = await wires.connect()
        asked = answer_of(connection, [b"x"], timeout_ms=1000)
        await until(lambda: wires.script.connections)
        wires.cut()
        wires.script.connections[0].close()
        await turns()
        assert not asked.done()
        pass_time(wires.network, 1005)
        with pytest.raises(RequestTimedOut):
            await asked
        connection.close()

    wired(story, on_request=lambda *_: None)


def test_requests_of_a_cut_wire_arrive_in_order_when_it_heals_but_not_those_given_up():
    async def story(wires):
        connection = await wires.connect()
        wires.cut()
        short = answer_of(connection, [b"1"], timeout_ms=100)
        asked = [answer_of(connection, [name], timeout_ms=1000) for name in (b"2", b"3")]
        connection.post([b"4"])
        pass_time(wires.network, 105)
        with pytest.raises(RequestTimedOut):
            await short
        wires.heal()
        assert [bytes(each) for each in await asyncio.gather(*asked)] == [b"re:2", b"re:3"]
        await until(lambda: len(wires.script.requests) == 3)
        assert wires.script.requests == [b"2", b"3", b"4"]
        connection.close()

    wired(story)


def test_latency_delays_requests_and_keeps_their_order():
    async def story(wires):
        connection = await wires.connect()
        wires.gate.set(Faults(latency_ms={PEER: 80}))
        first = answer_of(connection, [b"1"], timeout_ms=1000)
        wires.gate.set(Faults())
        second = answer_of(connection, [b"2"], timeout_ms=1000)
        await turns()
        assert wires.script.requests == []
        pass_time(wires.network, 85)
        await asyncio.gather(first, second)
        assert wires.script.requests == [b"1", b"2"]
        connection.close()

    wired(story)


def test_latency_slows_connecting_too():
    async def story(wires):
        wires.gate.set(Faults(latency_ms={PEER: 80}))
        connecting = asyncio.ensure_future(wires.connect())
        await turns()
        assert wires.script.connections == []
        pass_time(wires.network, 85)
        (await connecting).close()

    wired(story)


def test_other_peers_are_not_concerned():
    async def story(wires):
        wires.gate.set(Faults(frozenset({7}), {8: 1000}))
        connection = await wires.connect()
        assert bytes(await answer_of(connection, [b"x"], timeout_ms=1000)) == b"re:x"
        connection.close()

    wired(story)


def test_a_node_that_moved_is_found_at_its_new_address_alone():
    async def story(wires):
        wires.gate.know(PEER, [("127.0.0.1", 1)])
        wires.cut()
        (await wires.connect()).close()
        assert wires.gate.known_nodes == (PEER,)
        assert wires.gate.blocks(("127.0.0.1", 1))

    wired(story)


def test_closing_fails_what_waits_and_nothing_is_sent_after():
    async def story(wires):
        connection = await wires.connect()
        wires.cut()
        asked = answer_of(connection, [b"x"], timeout_ms=1000)
        connection.close()
        with pytest.raises(ConnectionClosed):
            await asked
        with pytest.raises(ConnectionClosed):
            answer_of(connection, [b"y"], timeout_ms=1000)
        with pytest.raises(ConnectionClosed):
            connection.post([b"y"])

    wired(story)
