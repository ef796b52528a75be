"""TCP of the simulator: what it promises, and how it breaks."""

import asyncio
from random import Random

import pytest

from tidelog.host.network import TcpNetwork
from tidelog.host.ports import ConnectionClosed, PeerRefused, PeerReset, PeerTimedOut
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.loop import VirtualLoop
from tidelog.sim.nodes.tcp import WINDOW_BYTES, Internet

PORT = 9092


class Echo:
    """Answers every request with the same bytes, unless it is told to wait."""

    def __init__(self, connection, site):
        connection.trusted = True
        self.site = site

    def on_request(self, frame, slot):
        self.site.received.append(bytes(frame))
        if self.site.answers:
            slot.answer([bytes(frame)])

    def on_closed(self, reason):
        self.site.closed.append(reason)


class Site:
    """A server and a client, on the production network code."""

    def __init__(self):
        self.kernel = Kernel()
        self.internet = Internet(self.kernel, Random(1))
        self.received, self.closed, self.errors, self.answers = [], [], [], True
        self.server, self.server_loop = self.machine("server", 1)
        self.client, self.client_loop = self.machine("client", 2)
        self.network = None

    def machine(self, name, owner):
        machine = self.internet.add_machine(name, owner)
        loop = VirtualLoop(
            self.kernel,
            machine,
            MachineClock(self.kernel),
            lambda *error: self.errors.append(error),
        )
        return machine, loop

    def spawn(self, loop, work):
        tasks = []
        loop.perform(lambda: tasks.append(loop.create_task(work)))
        return tasks[0]

    def run(self, seconds):
        self.kernel.run(self.kernel.now_us + int(seconds * 1_000_000), 1_000_000)

    def finish(self, task, seconds=30):
        end_us = self.kernel.now_us + seconds * 1_000_000
        while not task.done() and self.kernel.now_us < end_us:
            self.run(0.01)
        assert task.done(), "it still waits"
        return task.result()

    def listen(self):
        async def listen():
            network = TcpNetwork(MachineClock(self.kernel))
            await network.listen("server", PORT, lambda connection: Echo(connection, self))

        self.finish(self.spawn(self.server_loop, listen()))

    async def connect(self, timeout_ms=5_000):
        self.network = self.network or TcpNetwork(MachineClock(self.kernel))
        return await self.network.connect("server", PORT, timeout_ms=timeout_ms)

    def ask(self, connection, payload, timeout_ms=5_000):
        async def ask():
            answer = asyncio.get_running_loop().create_future()

            def settle(outcome):
                if isinstance(outcome, Exception):
                    answer.set_exception(outcome)
                else:
                    answer.set_result(bytes(outcome))

            connection.send([payload], settle, timeout_ms=timeout_ms)
            return await answer

        return self.spawn(self.client_loop, ask())

    def connected(self):
        self.listen()
        return self.finish(self.spawn(self.client_loop, self.connect()))


def test_frames_arrive_whole_and_in_order_although_segments_are_split():
    site = Site()
    connection = site.connected()
    sent = [b"%d" % number * 50 for number in range(200)]
    asked = [site.ask(connection, payload) for payload in sent]
    assert [site.finish(each) for each in asked] == sent
    assert site.received == sent
    assert site.errors == []


def test_a_frame_larger_than_the_window_arrives():
    site = Site()
    connection = site.connected()
    payload = bytes(3 * WINDOW_BYTES)
    assert site.finish(site.ask(connection, payload)) == payload


def test_nobody_listens_is_refused_and_a_dead_machine_is_silent():
    site = Site()
    with pytest.raises(PeerRefused):
        site.finish(site.spawn(site.client_loop, site.connect()))
    site.server.on_process_gone(power_lost=True)
    with pytest.raises(PeerTimedOut):
        site.finish(site.spawn(site.client_loop, site.connect(timeout_ms=3_000)))


def test_a_cut_delays_and_loses_nothing():
    site = Site()
    connection = site.connected()
    site.internet.cut(site.client, site.server)
    asked = site.ask(connection, b"late")
    site.run(1)
    assert site.received == []
    site.internet.restore(site.client, site.server)
    assert site.finish(asked) == b"late"


@pytest.mark.parametrize("attempt", range(4))
def test_a_killed_process_ends_its_connections(attempt):
    site = Site()
    for _ in range(attempt):
        site.internet.entropy.getrandbits(1)  # it closes or resets, as drawn
    site.answers = False
    connection = site.connected()
    asked = site.ask(connection, b"unanswered")
    site.run(0.1)
    site.server_loop.kill()
    site.kernel.revoke(site.server.owner)
    site.server.on_process_gone(power_lost=False)
    with pytest.raises((PeerReset, ConnectionClosed)):
        site.finish(asked)
    assert connection.is_closed


def test_a_machine_that_lost_power_resets_connections_when_it_is_back():
    site = Site()
    site.answers = False
    connection = site.connected()
    asked = site.ask(connection, b"first", timeout_ms=60_000)
    site.run(0.1)
    site.server_loop.kill()
    site.kernel.revoke(site.server.owner)
    site.server.on_process_gone(power_lost=True)
    site.run(5)
    assert not asked.done()
    again = site.ask(connection, b"second", timeout_ms=60_000)
    site.run(5)
    assert not again.done()
    site.server.boot()
    for each in (asked, again):
        with pytest.raises(PeerReset):
            site.finish(each)


def test_connecting_to_a_paused_process_works_and_it_answers_later():
    site = Site()
    site.listen()
    site.kernel.pause(site.server.owner)
    connection = site.finish(site.spawn(site.client_loop, site.connect()))
    asked = site.ask(connection, b"hello")
    site.run(2)
    assert not asked.done()
    site.kernel.resume(site.server.owner)
    assert site.finish(asked) == b"hello"


def test_half_of_a_torn_write_arrives_and_both_ends_are_reset():
    site = Site()
    connection = site.connected()
    site.finish(site.ask(connection, b"first"))
    (server_end,) = site.server.transports
    fed = []
    hand_over = server_end._hand_over
    server_end._hand_over = lambda: (fed.append(len(server_end._received)), hand_over())
    site.internet.tear_connections(site.client)
    asked = site.ask(connection, b"x" * 1_000)
    with pytest.raises(PeerReset):
        site.finish(asked)
    assert max(fed) == 502, "half of the frame and its length"
    assert site.received == [b"first"]
    site.run(1)
    assert len(site.closed) == 1
    assert not site.server.transports


def test_requests_in_flight_both_ways_are_lost_by_a_reset():
    site = Site()
    connection = site.connected()
    asked = [site.ask(connection, b"%d" % number) for number in range(50)]
    site.run(0.0004)
    assert site.internet.reset_all(site.server) == 1
    for each in asked[-10:]:
        with pytest.raises(PeerReset):
            site.finish(each)
    assert len(site.received) < 50


@pytest.mark.parametrize("drop", [False, True])
def test_a_connection_is_accepted_and_not_served(drop):
    site = Site()
    site.listen()
    site.server.let_wait()
    connection = site.finish(site.spawn(site.client_loop, site.connect()))
    asked = site.ask(connection, b"hello", timeout_ms=60_000)
    site.run(10)
    assert not asked.done()
    site.server.serve_waiting(drop=drop)
    if drop:
        with pytest.raises((PeerReset, ConnectionClosed)):
            site.finish(asked)
    else:
        assert site.finish(asked) == b"hello"


def test_whoever_waits_to_be_served_and_leaves_is_forgotten():
    site = Site()
    site.listen()
    site.server.let_wait()
    connection = site.finish(site.spawn(site.client_loop, site.connect()))
    site.client_loop.perform(connection.close)
    site.run(1)
    site.server.serve_waiting(drop=False)
    site.run(1)
    assert site.errors == []
    assert not site.server.transports


def test_a_closed_window_holds_everything_and_a_narrow_one_lets_it_trickle():
    site = Site()
    connection = site.connected()
    site.server.set_window(0)
    asked = site.ask(connection, bytes(2_000), timeout_ms=60_000)
    site.run(5)
    assert not asked.done()
    steps = site.kernel.steps
    site.server.set_window(100)
    assert site.finish(asked) == bytes(2_000)
    assert site.kernel.steps - steps > 40, "in at least twenty pieces"


def test_a_clogged_link_is_slow_one_way():
    site = Site()
    site.internet.clog(site.client, site.server, 1_000)
    there = [site.internet.delay_us(site.client, site.server) for _ in range(50)]
    back = [site.internet.delay_us(site.server, site.client) for _ in range(50)]
    assert max(there) > 100_000
    assert max(back) < 20_000
    site.internet.clog(site.client, site.server, 1)
    assert max(site.internet.delay_us(site.client, site.server) for _ in range(50)) < 20_000
