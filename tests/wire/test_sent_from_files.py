"""Answers of which a part lies in a file, on real sockets."""

import os
import random

import pytest

from support.loopback import Script, framed, loopback, raw_peer, until
from tidelog.host.file_range import OpenRange
from tidelog.host.ports import CloseReason

HOST = "127.0.0.1"
SIZE = 24 * 2**20
CONTENT = random.Random(4711).randbytes(SIZE)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    descriptor = os.open(path, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def part(descriptor, position, size_bytes):
    return OpenRange(descriptor, "segment", position, size_bytes)


def test_ranges_and_bytes_arrive_in_their_order(tell, file):
    parts = [(7, 100_000), (1_000_000, 65_536), (3, 2_000_000)]
    answer = [b"head", part(file, *parts[0]), b"", b"between", part(file, *parts[1])]
    answer += [part(file, *parts[2]), b"tail"]
    found = [CONTENT[start : start + size] for start, size in parts]
    expected = b"head" + found[0] + b"between" + found[1] + found[2] + b"tail"

    async def story():
        script = Script(lambda _connection, _frame, slot: slot.answer(answer))
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"1", b"2"))
                for _ in range(2):
                    assert await peer.frame() == expected
            await server.stop(timeout_ms=1_000)
            assert network.counters.bytes_out == 2 * (len(expected) + 4)
            assert network.context.answers.owed_bytes == 0

    tell(story)


def test_who_reads_slowly_gets_what_the_file_held_when_it_was_answered(tell, file):
    """More than sockets hold: the rest was read before anybody could write to the file."""

    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port, receive_bytes=4096) as peer:
                await peer.send(framed(b"x", b"y"))
                await until(lambda: len(script.slots) == 2)
                script.slots[0].answer([b"head", part(file, 0, SIZE), b"tail"])
                assert script.connections[0].congested
                script.slots[1].answer([b"a", part(file, 5, 70_000)])  # while it is behind
                # Where nothing of it can be on its way any more.
                os.pwrite(file, bytes(SIZE // 2), SIZE // 2)
                assert await peer.frame() == b"head" + CONTENT + b"tail"
                assert await peer.frame() == b"a" + CONTENT[5:70_005]
                assert (network.context.answers.owed_bytes, script.closed) == (0, [])
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_an_answer_that_waits_for_an_earlier_one_is_read_while_it_is_right(tell, file):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"first", b"second"))
                await until(lambda: len(script.slots) == 2)
                first, second = script.slots
                second.answer([part(file, 0, 100_000)])
                os.pwrite(file, bytes(100_000), 0)
                first.answer([b"1"])
                assert [await peer.frame(), await peer.frame()] == [b"1", CONTENT[:100_000]]
            await server.stop(timeout_ms=1_000)

    tell(story)


@pytest.mark.parametrize("position", [SIZE - 50_000, SIZE + 50_000])
def test_half_an_answer_ends_the_connection(tell, file, position):
    """A file that is shorter than it was is the work of somebody else."""

    async def story():
        script = Script(lambda _c, _f, slot: slot.answer([b"head", part(file, position, 100_000)]))
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"x"))
                await peer.ended()
            await until(lambda: script.closed == [CloseReason.FILE_FAILED])
            assert network.context.answers.owed_bytes == 0
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_an_answer_in_waiting_whose_file_fails_ends_the_connection(tell, file):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"first", b"second"))
                await until(lambda: len(script.slots) == 2)
                script.slots[1].answer([part(file, SIZE, 100_000)])
                await peer.ended()
            await until(lambda: script.closed == [CloseReason.HANDLER_FAILED])
            script.slots[0].answer([b"1"])
            await server.stop(timeout_ms=1_000)

    tell(story)


def test_a_peer_that_went_is_sent_nothing_more(tell, file):
    async def story():
        script = Script()
        async with loopback() as network:
            server = await network.listen(HOST, 0, script.accept)
            async with raw_peer(server.port) as peer:
                await peer.send(framed(b"1", b"2"))
                await until(lambda: len(script.slots) == 2)
                peer.reset()
                for slot in script.slots:
                    slot.answer([part(file, 0, 200_000), b"between", part(file, 9, 200_000)])
            await until(lambda: len(script.closed) == 1)
            assert script.closed[0] in (CloseReason.RESET_BY_PEER, CloseReason.CLOSED_BY_PEER)
            await until(lambda: network.context.answers.owed_bytes == 0)
            await server.stop(timeout_ms=1_000)

    tell(story)
