"""A server on real sockets: order, bounds, hostile peers, and the end."""

import asyncio
import contextlib
import random
import socket
import struct

import pytest

from support.loopback import RawPeer, Script, echo, framed, loopback, pass_time, raw_peer, until
from support.memory_transport import make_context
from tidelog.host.flight import REQUEST_OVERHEAD_BYTES
from tidelog.host.frames import FrameLimits
from tidelog.host.network_context import SCRATCH_BYTES
from tidelog.host.ports import BadRequest, CloseReason, PeerRefused
from tidelog.host.server import Admission, ConnectionLimits

HOST = "127.0.0.1"


def test_answers_leave_in_the_order_of_requests_whatever_order_they_are_ready_in(tell):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                names = [b"%d" % number for number in range(50)]
                await peer.send(framed(*names))
                await until(lambda: len(script.slots) == 50)
                order = list(range(50))
                random.Random(4711).shuffle(order)
                for number in order:
                    script.slots[number].answer([b"answer ", names[number]])
                    await asyncio.sleep(0)
                assert [await peer.frame() for _ in names] == [b"answer " + name for name in names]
            await server.stop(timeout_ms=1_000)
            assert network.context.flight.used_bytes == 0

    tell(story)


def test_pipelined_requests_are_answered_in_far_fewer_writes(tell):
    async def story():
        async with loopback() as network:
            server = await network.listen(HOST, 0, Script(echo).accept)
            async with raw_peer(server.port) as peer:
                names = [b"request %d" % number for number in range(2_000)]
                await peer.send(framed(*names))
                for name in names:
                    assert await peer.frame() == b"re:" + name
            await server.stop(timeout_ms=1_000)
            assert network.counters.frames_out == 2_000
            assert network.counters.writes < 200

    tell(story)


def test_a_request_without_an_answer_does_not_hold_up_the_ones_behind_it(tell):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"first", b"silent", b"third"))
                await until(lambda: len(script.slots) == 3)
                first, silent, third = script.slots
                third.answer([b"3"])
                silent.answer_nothing()
                assert network.counters.frames_out == 0
                first.answer([])
                assert [await peer.frame(), await peer.frame()] == [b"", b"3"]
            await server.stop(timeout_ms=1_000)
            assert network.counters.frames_out == 2

    tell(story)


def test_a_request_is_told_when_answers_wait_for_nothing_but_it(tell):
    async def story():
        script, told = Script(), []
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"first", b"second", b"third", b"fourth"))
                await until(lambda: len(script.slots) == 4)
                first, second, third, fourth = script.slots
                second.when_it_holds_up(lambda: told.append("second"))
                fourth.answer([b"4"])
                assert told == []  # it waits for the first one too
                first.when_it_holds_up(lambda: told.append("first"))
                assert told == ["first"]  # it was late already
                first.answer([b"1"])
                assert told == ["first", "second"]
                third.answer([b"3"])
                assert told == ["first", "second"]  # nobody is told twice
                third.when_it_holds_up(lambda: told.append("third"))
                second.answer([b"2"])
                assert [await peer.frame() for _ in range(4)] == [b"1", b"2", b"3", b"4"]
                assert told == ["first", "second"]  # who has answered holds up nothing
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_who_lost_its_connection_holds_up_nothing(tell):
    async def story():
        script, told = Script(), []
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"first", b"second"))
                await until(lambda: len(script.slots) == 2)
                script.slots[0].when_it_holds_up(lambda: told.append("first"))
            await until(lambda: script.closed)
            script.slots[0].when_it_holds_up(lambda: told.append("first"))
            script.slots[1].answer([b"2"])
            await server.stop(timeout_ms=1_000)
        assert told == []

    tell(story)


def test_a_peer_that_does_not_read_is_not_read_either_and_memory_stays_bounded(tell):
    answer = bytes(64 * 1024)
    limits = FrameLimits(write_high_bytes=512 * 1024)
    # Once the mark in the transport, once in what is about to be handed to it.
    bound = 2 * limits.write_high_bytes + len(answer) + SCRATCH_BYTES
    most = 0
    stopped = asyncio.Event()

    def answer_much(connection, _frame, slot):
        nonlocal most
        slot.answer([answer])
        most = max(most, connection.stream.buffered_bytes)
        if connection.congested:
            stopped.set()

    async def story():
        script = Script(answer_much)
        async with loopback(frame_limits=limits) as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port, receive_bytes=64 * 1024) as peer:
                await peer.send(framed(*[b"give me"] * 1_000))
                await stopped.wait()
                assert len(script.requests) < 1_000, "it was read although it does not read"
                assert script.connections[0].stream.buffered_bytes <= bound
                for _ in range(1_000):
                    assert len(await peer.frame()) == len(answer)
            await server.stop(timeout_ms=1_000)
            assert most <= bound
            assert network.counters.bytes_out == 1_000 * (len(answer) + 4)

    tell(story)


def test_a_peer_that_never_reads_is_cut_off(tell):
    async def story():
        script = Script(lambda _connection, _frame, slot: slot.answer([bytes(1024 * 1024)]))
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port, receive_bytes=4096) as peer:
                await peer.send(framed(*[b"give me"] * 100))
                await until(lambda: script.connections and script.connections[0].congested)
                pass_time(network, 30_000)
                await until(lambda: script.closed == [CloseReason.SLOW_READER])
                await peer.ended()
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_answers_that_wait_for_an_earlier_one_are_bounded_too(tell):
    async def story():
        script = Script(lambda _connection, frame, slot: frame != b"first" and slot.answer([body]))
        body = bytes(100_000)
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"first", *[b"next"] * 200))
                await until(lambda: script.connections and script.connections[0].held_bytes > 2**20)
                (connection,) = script.connections
                assert not connection.stream.reading
                assert connection.held_bytes <= 2**20 + len(body)
                script.slots[0].answer([b"1"])
                assert await peer.frame() == b"1"
                for _ in range(200):
                    assert await peer.frame() == body
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_parked_requests_of_one_connection_are_bounded(tell):
    async def story():
        script = Script()
        limits = FrameLimits(in_flight_bytes=100 * (REQUEST_OVERHEAD_BYTES + 8))
        async with loopback(frame_limits=limits) as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(*[b"8 bytes."] * 1_000))
                for turn in range(10):
                    await until(lambda turn=turn: len(script.requests) >= 100 * (turn + 1) - 50)
                    assert script.connections[0].open_requests <= 100
                    for slot in script.slots:
                        if not slot.filled:
                            slot.answer([b"done"])
                await until(lambda: len(script.requests) == 1_000)
                for slot in script.slots:
                    if not slot.filled:
                        slot.answer([b"done"])
                for _ in range(1_000):
                    assert await peer.frame() == b"done"
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_a_node_with_its_budget_used_up_stops_reading_and_later_serves_everyone(tell):
    async def story():
        script = Script()
        size = 50_000
        async with loopback(in_flight_bytes=4 * size) as network:
            flight = network.context.flight
            server = await network.listen(HOST, 0, script.accept)
            async with contextlib.AsyncExitStack() as stack:
                peers = [await stack.enter_async_context(raw_peer(server.port)) for _ in range(10)]
                for peer in peers:
                    await peer.send(framed(bytes(size)))
                await until(lambda: flight.waiting > 0 and len(script.slots) == 4)
                assert flight.peak_bytes <= 4 * size + size + REQUEST_OVERHEAD_BYTES
                for number in range(10):
                    await until(lambda number=number: len(script.slots) > number)
                    script.slots[number].answer([b"done"])
                assert [await peer.frame() for peer in peers] == [b"done"] * 10
                assert (flight.used_bytes, flight.waiting) == (0, 0)
            await server.stop(timeout_ms=1_000)

    tell(story)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", CloseReason.FRAME_TOO_LARGE),
        (b"\x16\x03\x01\x02\x00\x01\x00", CloseReason.FRAME_TOO_LARGE),  # a TLS hello
        (struct.pack(">i", 2**31 - 1), CloseReason.FRAME_TOO_LARGE),
        (struct.pack(">i", -1) + bytes(1000), CloseReason.NEGATIVE_LENGTH),
        (random.Random(7).randbytes(100_000), CloseReason.NEGATIVE_LENGTH),
    ],
    ids=["http", "tls", "giant", "negative", "noise"],
)
def test_garbage_ends_its_connection_and_no_other(tell, sent, reason):
    if reason is CloseReason.NEGATIVE_LENGTH:
        sent = b"\xff" + sent[1:]

    async def story():
        async with loopback() as network:
            server = await network.listen(HOST, 0, Script(echo).accept)
            async with raw_peer(server.port) as good, raw_peer(server.port) as bad:
                await bad.send(framed(b"first a sound one") + sent)
                await bad.ended()
                await until(lambda: network.counters.closed[reason] == 1)
                await good.send(framed(b"still there?"))
                assert await good.frame() == b"re:still there?"
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_before_it_is_trusted_a_peer_may_only_send_small_frames(tell):
    def trust(connection, frame, slot):
        connection.trusted = True
        slot.answer([b"%d" % len(frame)])

    async def story():
        async with loopback() as network:
            server = await network.listen(HOST, 0, Script(trust).accept)
            large = framed(bytes(1_000_000))
            async with raw_peer(server.port) as stranger:
                await stranger.send(large[:4])
                await stranger.ended()
            async with raw_peer(server.port) as friend:
                await friend.send(framed(b"password") + large)
                assert [await friend.frame(), await friend.frame()] == [b"8", b"1000000"]
            await server.stop(timeout_ms=1_000)
            assert network.counters.closed[CloseReason.FRAME_TOO_LARGE] == 1

    tell(story)


def test_half_a_frame_is_waited_for_and_then_no_longer(tell):
    async def story():
        script = Script(echo)
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"hello")[:6])
                await until(lambda: network.counters.bytes_in == 6)
                pass_time(network, 9_990)
                assert not script.closed
                pass_time(network, 10)
                await peer.ended()
                await until(lambda: script.closed == [CloseReason.HALF_FRAME])
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_a_thousand_idle_connections_cost_no_buffers_and_end_when_their_time_is_over(tell):
    async def story():
        script = Script(echo)
        limits = ConnectionLimits(total=2_000, per_address=2_000)
        async with loopback(connection_limits=limits) as network:
            server = await network.listen(HOST, 0, script.accept)
            async with contextlib.AsyncExitStack() as stack:
                peers = [
                    await stack.enter_async_context(raw_peer(server.port)) for _ in range(1_000)
                ]
                for peer in peers[::100]:
                    await peer.send(framed(b"hello"))
                    assert await peer.frame() == b"re:hello"
                await until(lambda: len(server.connections) == 1_000)
                assert sum(each.stream.buffered_bytes for each in server.connections) == 0
                pass_time(network, 599_990)
                await peers[0].send(framed(b"not idle"))
                assert await peers[0].frame() == b"re:not idle"
                pass_time(network, 10)
                await until(lambda: len(server.connections) == 1)
                assert network.counters.closed[CloseReason.IDLE] == 999
            await until(lambda: not server.connections)
            await server.stop(timeout_ms=1_000)
            assert len(network.wheel) == 0

    tell(story)


def test_one_byte_at_a_time_is_slow_but_right(tell):
    async def story():
        async with loopback() as network:
            server = await network.listen(HOST, 0, Script(echo).accept)
            async with raw_peer(server.port) as peer:
                data = framed(b"a", b"", b"slowly does it")
                for number, byte in enumerate(data):
                    await peer.send(bytes([byte]))
                    await until(lambda number=number: network.counters.bytes_in == number + 1)
                assert [await peer.frame() for _ in range(3)] == [
                    b"re:a",
                    b"re:",
                    b"re:slowly does it",
                ]
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_a_reset_within_a_frame_gives_everything_back(tell):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"parked", b"half of this")[:-5])
                await until(lambda: network.counters.bytes_in == 21)
                assert network.context.flight.used_bytes > 0
                peer.reset()
                await until(lambda: script.closed == [CloseReason.RESET_BY_PEER])
            script.slots[0].answer([b"too late, and harmless"])
            assert network.context.flight.used_bytes == 0
            assert (network.admission.open, len(network.wheel)) == (0, 0)
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_a_peer_that_sends_no_more_gets_what_is_ready_and_the_connection_ends(tell):
    def park_some(connection, frame, slot):
        if frame != b"park me":
            echo(connection, frame, slot)

    async def story():
        script = Script(park_some)
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"now", b"park me", b"behind it"))
                peer.sock.shutdown(socket.SHUT_WR)
                assert [await peer.frame(), await peer.frame()] == [b"re:now", None]
                await until(lambda: script.closed == [CloseReason.CLOSED_BY_PEER])
            script.slots[1].answer([b"to nobody"])
            assert network.context.flight.used_bytes == 0
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_a_failing_handler_costs_its_connection_and_is_reported_once(tell):
    def fail_at_zero(_connection, frame, slot):
        slot.answer([b"%d" % (100 // int(bytes(frame)))])

    async def story():
        reports = []
        script = Script(fail_at_zero)
        async with loopback(on_failure=reports.append) as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as good:
                for _ in range(20):
                    async with raw_peer(server.port) as bad:
                        await bad.send(framed(b"5", b"0", b"10"))
                        assert await bad.frame() == b"20", "what was answered before still leaves"
                        assert await bad.frame() is None
                await good.send(framed(b"4"))
                assert await good.frame() == b"25"
            await server.stop(timeout_ms=1_000)
            assert [type(report.error) for report in reports] == [ZeroDivisionError]
            assert network.reports.total == 20
            assert network.counters.closed[CloseReason.HANDLER_FAILED] == 20

    tell(story)


def test_a_peer_that_sends_no_request_costs_its_connection_and_is_no_failure_of_ours(tell, caplog):
    def understand(_connection, frame, slot):
        if not bytes(frame).isdigit():
            raise BadRequest(f"{bytes(frame)!r} is no number")
        slot.answer([bytes(frame)])

    async def story():
        reports = []
        script = Script(understand)
        async with loopback(on_failure=reports.append) as network:
            server = await network.listen(HOST, 0, script.accept)
            for _ in range(20):
                async with raw_peer(server.port) as bad:
                    await bad.send(framed(b"5", b"five", b"6"))
                    assert await bad.frame() == b"5", "what was answered before still leaves"
                    assert await bad.frame() is None
            await server.stop(timeout_ms=1_000)
            assert (reports, network.reports.total) == ([], 0)
            assert network.counters.closed[CloseReason.BAD_REQUEST] == 20

    with caplog.at_level("WARNING"):
        tell(story)
    (line,) = caplog.messages
    assert "is hung up on: b'five' is no number" in line


def test_an_owner_can_stop_and_start_the_requests_of_a_connection(tell):
    def throttle(connection, frame, slot):
        slot.answer([bytes(frame)])
        if frame == b"greedy":
            connection.pause()

    async def story():
        script = Script(throttle)
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"greedy", b"next"))
                assert await peer.frame() == b"greedy", "the answer itself is not delayed"
                assert script.requests == [b"greedy"]
                script.connections[0].resume()
                assert await peer.frame() == b"next"
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_connections_beyond_the_limits_are_refused_and_counted(tell):
    async def story():
        limits = ConnectionLimits(total=4, per_address=2, reserve=1)
        async with loopback(connection_limits=limits) as network:
            server = await network.listen(HOST, 0, Script(echo).accept)
            inner = await network.listen(HOST, 0, Script(echo).accept, privileged=True)
            async with contextlib.AsyncExitStack() as stack:

                async def served(port):
                    peer = await stack.enter_async_context(raw_peer(port))
                    with contextlib.suppress(ConnectionError):
                        await peer.send(framed(b"?"))
                        return await peer.frame() == b"re:?"
                    return False

                assert [await served(server.port) for _ in range(3)] == [True, True, False]
                assert [await served(inner.port) for _ in range(3)] == [True, True, False]
            await until(lambda: network.admission.open == 0)
            closed = network.counters.closed
            assert closed[CloseReason.TOO_MANY_FROM_ADDRESS] == 1
            assert closed[CloseReason.TOO_MANY_CONNECTIONS] == 1
            await server.stop(timeout_ms=1_000)
            await inner.stop(timeout_ms=1_000)

    tell(story)


def test_the_reserve_is_for_privileged_listeners_and_places_are_given_back():
    admission = Admission(ConnectionLimits(total=3, per_address=9, reserve=1))
    for _ in range(2):
        assert admission.refusal("a", privileged=False) is None
        admission.enter("a")
    assert admission.refusal("b", privileged=False) is CloseReason.TOO_MANY_CONNECTIONS
    assert admission.refusal("b", privileged=True) is None
    admission.leave("a")
    assert admission.refusal("b", privileged=False) is None


def test_a_stopping_server_sends_what_it_owes_and_takes_nothing_new(tell):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            port = server.port
            async with raw_peer(port) as busy, raw_peer(port) as quiet:
                await busy.send(framed(b"parked"))
                await until(lambda: len(script.slots) == 1 and len(script.connections) == 2)
                stopping = asyncio.create_task(server.stop(timeout_ms=5_000))
                assert await quiet.frame() is None
                await busy.send(framed(b"too late"))
                with pytest.raises(PeerRefused):
                    await network.connect(HOST, port, timeout_ms=5_000)
                assert not stopping.done()
                script.slots[0].answer([b"as promised"])
                assert await busy.frame() == b"as promised"
                assert await stopping == 0
                assert script.requests == [b"parked"]
            assert network.counters.closed[CloseReason.STOPPED] == 2

    tell(story)


def test_a_stopping_server_does_not_wait_for_ever(tell):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"parked"))
                await until(lambda: len(script.slots) == 1)
                stopping = asyncio.create_task(server.stop(timeout_ms=5_000))
                await until(lambda: network.wheel.next_deadline_ms is not None)
                await asyncio.sleep(0)
                pass_time(network, 5_000)
                assert await stopping == 1
                await peer.ended()
            assert script.closed == [CloseReason.STOPPED_LATE]
            assert network.context.flight.used_bytes == 0

    tell(story)


@pytest.mark.parametrize("turns", range(6))
def test_a_stopped_server_leaves_nobody_connected_who_came_while_it_stopped(tell, turns):
    """Between the kernel's accepting and the first call of ours lie some turns of the loop."""

    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            with socket.create_connection((HOST, server.port)) as sock:
                sock.setblocking(False)
                for _ in range(turns):
                    await asyncio.sleep(0)
                await server.stop(timeout_ms=5_000)
                await RawPeer(sock).ended()
            assert len(script.closed) == len(script.connections)
            assert network.admission.open == 0

    tell(story)


def test_answering_twice_is_our_own_bug():
    from tidelog.host.reports import FailureReports
    from tidelog.host.server import FrameServer, ServerConnection, Slot

    context = make_context()
    admission = Admission(ConnectionLimits())
    server = FrameServer(
        context,
        Script().accept,
        admission=admission,
        reports=FailureReports(context.wheel.clock),
    )
    slot = Slot(ServerConnection(server, context, FrameLimits()), 0)
    slot.abandon()
    slot.answer_nothing()
    with pytest.raises(AssertionError, match="twice"):
        slot.answer([])
