"""Answers that their readers do not take, on real sockets: counted, bounded, and let go."""

import collections
import contextlib
import weakref

from support.loopback import Script, framed, loopback, raw_peer, until
from tidelog.host.ports import CloseReason

HOST = "127.0.0.1"
BATCH_BYTES = 900_000


def test_what_slow_readers_owe_is_known_to_the_node_until_they_take_it_or_go(tell):
    size = 24 * 2**20

    async def story():
        script = Script(lambda _connection, _frame, slot: slot.answer([bytes(size)]))
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            answers = network.context.answers
            async with raw_peer(server.port) as patient, raw_peer(server.port) as gone:
                await gone.send(framed(b"x"))
                await until(lambda: answers.owed_bytes > 0)
                assert answers.owed_bytes == size + 4, "whole: it is kept until all of it is sent"
                await patient.send(framed(b"x"))
                await until(lambda: answers.owed_bytes == 2 * (size + 4))
                assert len(await patient.frame()) == size
                await until(lambda: answers.owed_bytes == size + 4)
            await until(lambda: answers.owed_bytes == 0)
            assert answers.owing == 0
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_an_answer_that_waits_for_an_earlier_one_is_owed_too(tell):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            answers = network.context.answers
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"first", b"second", b"silent", b"fourth"))
                await until(lambda: len(script.slots) == 4)
                first, second, silent, fourth = script.slots
                fourth.answer([bytes(1_000)])
                silent.answer_nothing()
                second.answer([bytes(100)])
                assert (answers.owed_bytes, answers.owing) == (1_100, 1)
                first.answer([b"1"])
                assert [len(await peer.frame()) for _ in range(3)] == [1, 100, 1_000]
                assert (answers.owed_bytes, answers.owing) == (0, 0)
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_who_does_as_the_budget_says_keeps_to_it_however_many_ask_at_once(tell):
    """All are answered in the same moment, as fetches are that waited for the same record."""

    async def story():
        asked = collections.defaultdict(list)
        script = Script(lambda connection, _frame, slot: asked[connection].append(slot))
        async with loopback() as network, contextlib.AsyncExitStack() as stack:
            server = await network.listen(HOST, 0, script.accept)
            answers = network.context.answers
            for _ in range(200):
                peer = await stack.enter_async_context(raw_peer(server.port, receive_bytes=4096))
                await peer.send(framed(b"1", b"2", b"3"))
            await until(lambda: len(script.slots) == 600)
            most = 0
            for connection, slots in asked.items():
                for slot in reversed(slots):  # so that two are held back by the first
                    allowed = connection.allowance_bytes
                    size = max(min(allowed, 14 * BATCH_BYTES), BATCH_BYTES) if allowed else 0
                    slot.answer([bytes(size)])
                    most = max(most, answers.owed_bytes)
            assert answers.limit_bytes <= most < answers.limit_bytes + 2 * BATCH_BYTES
            await stack.aclose()
            await until(lambda: answers.owed_bytes == 0)
            assert answers.owing == 0
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_above_the_budget_who_does_not_read_is_hung_up_on_and_who_reads_is_served(tell):
    size = 8 * 2**20

    async def story():
        script = Script(lambda _connection, _frame, slot: slot.answer([bytes(size)]))
        async with loopback() as network, contextlib.AsyncExitStack() as stack:
            server = await network.listen(HOST, 0, script.accept)
            answers = network.context.answers
            for number in range(1, 41):
                peer = await stack.enter_async_context(raw_peer(server.port, receive_bytes=4096))
                await peer.send(framed(b"x"))
                await until(lambda number=number: len(script.requests) == number)
                assert answers.owed_bytes < answers.limit_bytes + 2 * size
            async with raw_peer(server.port) as polite:
                await polite.send(framed(b"x"))
                assert len(await polite.frame()) == size
            await until(lambda: answers.owed_bytes < answers.limit_bytes)
            assert set(script.closed) - {CloseReason.CLOSED_BY_PEER} == {CloseReason.SLOW_READER}
            assert len(script.closed) < 35, "only as many as must"
            await stack.aclose()
            await until(lambda: answers.owed_bytes == 0)
            assert answers.owing == 0
            await server.stop(timeout_ms=1_000)

    tell(story)


class Body(bytearray):
    """Bytes that can be seen to go."""


def test_an_answer_that_was_sent_is_not_kept_by_who_gave_it(tell):
    """Parked requests wait for the garbage collector, in cycles with their timers."""

    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"first", b"second", b"third"))
                await until(lambda: len(script.slots) == 3)
                first, second, third = script.slots
                bodies = [Body(b"2"), Body(b"3")]
                seen = [weakref.ref(body) for body in bodies]
                third.answer([bodies.pop()])
                second.answer([bodies.pop()])
                assert all(body() is not None for body in seen), "they wait for the first"
                first.answer([b"1"])
                assert [await peer.frame() for _ in range(3)] == [b"1", b"2", b"3"]
                assert all(body() is None for body in seen)
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_an_answer_to_somebody_who_is_gone_is_not_kept(tell):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"first", b"second"))
                await until(lambda: len(script.slots) == 2)
                body = Body(b"2")
                seen = weakref.ref(body)
                script.slots[1].answer([body])
                del body
                assert seen() is not None
            await until(lambda: script.closed)
            assert seen() is None
            assert network.context.answers.owed_bytes == 0
            await server.stop(timeout_ms=1_000)

    tell(story)
