"""Asking a peer over real sockets, and telling apart the ways in which that fails."""

import asyncio
import contextlib
import re
import socket
import struct

import pytest

from support.loopback import Script, answer_of, echo, loopback, pass_time, until
from tidelog.host.network_context import SCRATCH_BYTES
from tidelog.host.ports import (
    CloseReason,
    ConnectionClosed,
    NetworkError,
    PeerRefused,
    PeerReset,
    PeerTimedOut,
    PeerUnreachable,
    RequestTimedOut,
    TooManyInFlight,
    UnexpectedResponse,
)

HOST = "127.0.0.1"
PATIENT_MS = 30_000


@contextlib.asynccontextmanager
async def conversation(script, **connecting):
    """A network, a server that follows the script, and a connection to it."""
    async with loopback() as network:
        server = await network.listen(HOST, 0, script.accept)
        connection = await network.connect(HOST, server.port, timeout_ms=PATIENT_MS, **connecting)
        try:
            yield network, connection
        finally:
            connection.close()
            await until(lambda: not server.connections)
            await server.stop(timeout_ms=PATIENT_MS)


async def failure_of(future):
    with pytest.raises(NetworkError) as caught:
        await future
    return caught.value


def trusting_echo(connection, frame, slot):
    connection.trusted = True
    echo(connection, frame, slot)


def test_pipelined_requests_get_their_own_answers_which_may_be_kept(tell):
    async def story():
        async with conversation(Script(trusting_echo)) as (_, connection):
            await answer_of(connection, [b"trust me"], timeout_ms=PATIENT_MS)
            bodies = [b"%d" % n * size for n in range(20) for size in (1, 500, SCRATCH_BYTES)]
            waiting = [answer_of(connection, [body], timeout_ms=PATIENT_MS) for body in bodies]
            assert connection.in_flight == len(bodies)
            answers = await asyncio.gather(*waiting)
            assert [bytes(answer) for answer in answers] == [b"re:" + body for body in bodies]
            assert connection.in_flight == 0

    tell(story)


def test_a_post_expects_nothing(tell):
    async def story():
        def silent_for_posts(connection, frame, slot):
            slot.answer_nothing() if frame == b"post" else echo(connection, frame, slot)

        script = Script(silent_for_posts)
        async with conversation(script) as (_, connection):
            connection.post([b"po", b"st"])
            answer = await answer_of(connection, [b"ask"], timeout_ms=PATIENT_MS)
            assert (bytes(answer), script.requests) == (b"re:ask", [b"post", b"ask"])

    tell(story)


def test_a_deadline_fails_one_request_and_its_late_answer_is_not_taken_for_the_next(tell):
    async def story():
        script = Script()
        async with conversation(script) as (network, connection):
            hasty = answer_of(connection, [b"hasty"], timeout_ms=100)
            patient = answer_of(connection, [b"patient"], timeout_ms=PATIENT_MS)
            await until(lambda: len(script.slots) == 2)
            pass_time(network, 105)
            assert isinstance(await failure_of(hasty), RequestTimedOut)
            assert connection.in_flight == 2
            script.slots[1].answer([b"for the patient"])
            script.slots[0].answer([b"for nobody"])
            assert bytes(await patient) == b"for the patient"
            assert (connection.in_flight, connection.closed) == (0, None)

    tell(story)


def test_a_caller_that_went_away_disturbs_nobody(tell):
    async def story():
        script = Script()
        async with conversation(script) as (_, connection):
            gone = answer_of(connection, [b"gone"], timeout_ms=PATIENT_MS)
            here = answer_of(connection, [b"here"], timeout_ms=PATIENT_MS)
            gone.cancel()
            await until(lambda: len(script.slots) == 2)
            for slot in script.slots:
                slot.answer([b"yes"])
            assert bytes(await here) == b"yes"

    tell(story)


@pytest.mark.parametrize("answered", [b"\0\0\0\7", b"\0"], ids=["another id", "unreadable"])
def test_an_answer_with_the_wrong_correlation_id_ends_the_connection(tell, answered):
    async def story():
        script = Script(lambda _connection, _frame, slot: slot.answer([answered]))

        def correlation_of(frame):
            return struct.unpack_from(">i", frame)[0]

        async with conversation(script, correlation_of=correlation_of) as (_, connection):
            first = answer_of(connection, [b"?"], timeout_ms=PATIENT_MS, correlation_id=6)
            second = answer_of(connection, [b"?"], timeout_ms=PATIENT_MS, correlation_id=7)
            assert isinstance(await failure_of(first), UnexpectedResponse)
            assert isinstance(await failure_of(second), UnexpectedResponse)
            with pytest.raises(UnexpectedResponse):
                answer_of(connection, [b"?"], timeout_ms=PATIENT_MS)

    tell(story)


def test_an_answer_that_nobody_asked_for_ends_the_connection(tell):
    async def story():
        script = Script(echo)
        async with conversation(script) as (_, connection):
            connection.post([b"this one should have had no answer"])
            await until(lambda: connection.closed is not None)
            assert connection.closed is CloseReason.UNEXPECTED_RESPONSE

    tell(story)


def test_closing_fails_what_waits_and_what_comes_after(tell):
    async def story():
        async with conversation(Script()) as (network, connection):
            waiting = [answer_of(connection, [b"?"], timeout_ms=PATIENT_MS) for _ in range(3)]
            connection.close()
            for future in waiting:
                assert isinstance(await failure_of(future), ConnectionClosed)
            with pytest.raises(ConnectionClosed):
                connection.post([b"?"])
            await until(lambda: len(network.wheel) <= 1)  # the server's idle timer may be left

    tell(story)


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_a_peer_that_resets_is_told_from_one_that_closes(tell, reset):
    async def story():
        loop = asyncio.get_running_loop()
        with socket.create_server((HOST, 0)) as listening:
            listening.setblocking(False)
            async with loopback() as network:
                port = listening.getsockname()[1]
                connection = await network.connect(HOST, port, timeout_ms=PATIENT_MS)
                accepted, _ = await loop.sock_accept(listening)
                waiting = [answer_of(connection, [b"?"], timeout_ms=PATIENT_MS) for _ in range(2)]
                await loop.sock_recv(accepted, 100)
                if reset:
                    linger = struct.pack("ii", 1, 0)
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                accepted.close()
                expected = PeerReset if reset else ConnectionClosed
                for future in waiting:
                    assert type(await failure_of(future)) is expected
                await until(lambda: len(network.wheel) == 0)

    tell(story)


def test_nobody_listening_is_refused_at_once(tell):
    async def story():
        with socket.create_server((HOST, 0)) as listening:
            port = listening.getsockname()[1]
        async with loopback() as network:
            for name in (HOST, "localhost"):
                with pytest.raises(PeerRefused, match=f"{name}:{port}"):
                    await network.connect(name, port, timeout_ms=PATIENT_MS)

    tell(story)


@pytest.mark.parametrize("name", ["no..name", "long" * 20], ids=["hole", "long"])
def test_a_name_that_cannot_have_an_address_is_unreachable(tell, name):
    async def story():
        async with loopback() as network:
            with pytest.raises(PeerUnreachable, match=re.escape(f"{name}:9092")):
                await network.connect(name, 9092, timeout_ms=PATIENT_MS)

    tell(story)


def test_a_peer_that_does_not_answer_to_connecting_times_out(tell):
    async def story():
        async with loopback() as network:
            # A listener that accepts nothing and whose queue is full drops what comes further.
            with socket.socket() as listening, contextlib.ExitStack() as stack:
                listening.bind((HOST, 0))
                listening.listen(0)
                port = listening.getsockname()[1]
                for _ in range(3):
                    filler = stack.enter_context(socket.socket())
                    filler.setblocking(False)
                    filler.connect_ex((HOST, port))
                with pytest.raises(PeerTimedOut):
                    await network.connect(HOST, port, timeout_ms=50)

    tell(story)


def test_a_peer_owes_only_so_many_answers(tell):
    async def story():
        async with conversation(Script()) as (_, connection):
            for _ in range(1_000):
                connection.send([b"?"], lambda _outcome: None, timeout_ms=PATIENT_MS)
            with pytest.raises(TooManyInFlight):
                connection.send([b"?"], lambda _outcome: None, timeout_ms=PATIENT_MS)

    tell(story)


def test_a_receiver_that_fails_does_not_cost_the_other_answers():
    """Told on a bare loop: here the loop is meant to hear of an error."""

    async def story():
        heard = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: heard.append(what))
        async with conversation(Script(echo)) as (_, connection):
            connection.send([b"a"], lambda _outcome: 1 // 0, timeout_ms=PATIENT_MS)
            assert bytes(await answer_of(connection, [b"b"], timeout_ms=PATIENT_MS)) == b"re:b"
            assert connection.closed is None
        assert [type(what["exception"]) for what in heard] == [ZeroDivisionError]

    asyncio.run(asyncio.wait_for(story(), 60))
