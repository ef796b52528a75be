"""Answers that their readers do not take, on real sockets: counted, bounded, and let go."""

import weakref

from support.loopback import Script, framed, loopback, raw_peer, until

HOST = "127.0.0.1"


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
            await server.stop(timeout_ms=1_000)

    tell(story)
