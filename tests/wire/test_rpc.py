"""Two ends of Kafka's protocol over real sockets."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from support.loopback import answer_of
from tidelog.host import event_loop
from tidelog.host.clock import SystemClock
from tidelog.host.gate import GatedNetwork
from tidelog.host.network import TcpNetwork
from tidelog.host.ports import CloseReason, Network, NetworkError, PeerConnection, PeerRefused
from tidelog.host.workers import ThreadWorkers
from tidelog.rpc import ApiTable, Call, Peer, serve
from tidelog.rpc.connection import LARGE_PLAIN_FRAME_BYTES
from tidelog.wire.protocol import Listener, RequestHeader, encode_request
from tidelog.wire.protocol.schemas.find_coordinator_request import FindCoordinatorRequest
from tidelog.wire.protocol.schemas.find_coordinator_response import FindCoordinatorResponse
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest

FIND_COORDINATOR = 10
WAIT_MS = 5_000

Story = Callable[[TcpNetwork], Coroutine[Any, Any, None]]


def told(story: Story) -> None:
    async def main() -> None:
        network = TcpNetwork(SystemClock())
        try:
            await asyncio.wait_for(story(network), 10)
        finally:
            network.close()

    event_loop.run(main())


def echo(call: Call) -> None:
    assert isinstance(call.request, FindCoordinatorRequest)
    call.answer(FindCoordinatorResponse(host=call.request.key, port=9092))


def table(handler: Callable[[Call], None] = echo) -> ApiTable:
    return ApiTable(Listener.CLIENT, {FIND_COORDINATOR: handler})


def test_a_peer_connects_when_it_is_first_asked_and_gets_its_answers_in_order() -> None:
    async def story(network: TcpNetwork) -> None:
        listener = await network.listen("127.0.0.1", 0, serve(table(), "PLAINTEXT"))
        peer = Peer(network, ("127.0.0.1", listener.port), "story")
        asked = [
            peer.ask(FindCoordinatorRequest(key=f"group-{n}"), 2, timeout_ms=WAIT_MS)
            for n in range(20)
        ]
        answers = await asyncio.gather(*asked)
        assert [getattr(each, "host", None) for each in answers] == [
            f"group-{n}" for n in range(20)
        ]
        peer.close()
        await listener.stop(timeout_ms=WAIT_MS)

    told(story)


def test_a_refused_connection_fails_what_waits_and_the_next_question_tries_again() -> None:
    async def story(network: TcpNetwork) -> None:
        listener = await network.listen("127.0.0.1", 0, serve(table(), "PLAINTEXT"))
        port = listener.port
        await listener.stop(timeout_ms=WAIT_MS)
        peer = Peer(network, ("127.0.0.1", port), "story")
        with pytest.raises(PeerRefused):
            await peer.ask(FindCoordinatorRequest(key="a"), 2, timeout_ms=WAIT_MS)
        listener = await network.listen("127.0.0.1", port, serve(table(), "PLAINTEXT"))
        answer = await peer.ask(FindCoordinatorRequest(key="b"), 2, timeout_ms=WAIT_MS)
        assert isinstance(answer, FindCoordinatorResponse)
        assert answer.host == "b"
        peer.close()
        await listener.stop(timeout_ms=WAIT_MS)

    told(story)


@pytest.mark.parametrize("gated", [False, True])
def test_a_connection_that_ended_while_nobody_asked_costs_no_question(*, gated: bool) -> None:
    """Another process may be behind the address by now, and it is well."""

    async def story(network: TcpNetwork) -> None:
        listener = await network.listen("127.0.0.1", 0, serve(table(), "PLAINTEXT"))
        port = listener.port
        way: Network = GatedNetwork(network, network.wheel) if gated else network
        peer = Peer(way, ("127.0.0.1", port), "story")
        await peer.ask(FindCoordinatorRequest(key="a"), 2, timeout_ms=WAIT_MS)
        await listener.stop(timeout_ms=WAIT_MS)
        while network.counters.closed[CloseReason.CLOSED_BY_PEER] == 0:
            await asyncio.sleep(0)
        listener = await network.listen("127.0.0.1", port, serve(table(), "PLAINTEXT"))
        try:
            answer = await peer.ask(FindCoordinatorRequest(key="b"), 2, timeout_ms=WAIT_MS)
        finally:
            peer.close()
            await listener.stop(timeout_ms=WAIT_MS)
        assert isinstance(answer, FindCoordinatorResponse)
        assert answer.host == "b"

    told(story)


def test_a_client_from_the_future_is_told_what_we_speak() -> None:
    """KIP-511: the oldest answer, error 35, and every range."""

    async def story(network: TcpNetwork) -> None:
        listener = await network.listen("127.0.0.1", 0, serve(table(), "PLAINTEXT"))
        connection = await network.connect("127.0.0.1", listener.port, timeout_ms=WAIT_MS)
        header = b"\x00\x12\x00\x63" + (7).to_bytes(4, "big") + b"\xff\xff" + b"\x00garbage"
        frame = await answer_of(connection, [header], timeout_ms=WAIT_MS)
        assert bytes(frame[:6]) == (7).to_bytes(4, "big") + (35).to_bytes(2, "big")
        connection.close()
        await listener.stop(timeout_ms=WAIT_MS)

    told(story)


def test_an_api_that_is_not_served_ends_the_connection_and_its_owner_hears_of_it() -> None:
    async def story(network: TcpNetwork) -> None:
        ended: list[CloseReason] = []

        def on_closed(_: PeerConnection, reason: CloseReason) -> None:
            ended.append(reason)

        listener = await network.listen(
            "127.0.0.1", 0, serve(table(), "PLAINTEXT", on_closed=on_closed)
        )
        peer = Peer(network, ("127.0.0.1", listener.port), "story")
        with pytest.raises(NetworkError):
            await peer.ask(MetadataRequest(), 12, timeout_ms=WAIT_MS)
        peer.close()
        await listener.stop(timeout_ms=WAIT_MS)
        assert ended

    told(story)


def test_a_handler_may_answer_from_a_coroutine() -> None:
    async def story(network: TcpNetwork) -> None:
        released = asyncio.Event()

        def park(call: Call) -> None:
            async def later() -> None:
                await released.wait()
                echo(call)

            call.run(later())

        listener = await network.listen("127.0.0.1", 0, serve(table(park), "PLAINTEXT"))
        peer = Peer(network, ("127.0.0.1", listener.port), "story")
        asked = asyncio.ensure_future(
            peer.ask(FindCoordinatorRequest(key="late"), 2, timeout_ms=WAIT_MS)
        )
        await asyncio.sleep(0)
        assert not asked.done()
        released.set()
        answer = await asked
        assert isinstance(answer, FindCoordinatorResponse)
        assert answer.host == "late"
        peer.close()
        await listener.stop(timeout_ms=WAIT_MS)

    told(story)


def test_the_table_advertises_only_what_it_serves() -> None:
    assert [each.key for each in table().ranges] == [FIND_COORDINATOR]


Result = TypeVar("Result")


class WatchedWorkers(ThreadWorkers):
    """Counts what it is given to do."""

    __slots__ = ("runs",)

    def __init__(self, name: str, threads: int) -> None:
        super().__init__(name, threads)
        self.runs = 0

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        self.runs += 1
        return super().run(work)


def test_a_large_request_is_decoded_beside_the_loop_and_nothing_of_its_connection_overtakes_it():
    served: list[int] = []

    def note(call: Call) -> None:
        assert isinstance(call.request, FindCoordinatorRequest)
        served.append(len(call.request.coordinator_keys))
        call.answer(FindCoordinatorResponse())

    async def story(network: TcpNetwork) -> None:
        decoders = WatchedWorkers("decoding", 1)
        listener = await network.listen(
            "127.0.0.1", 0, serve(table(note), "PLAINTEXT", decoders=decoders)
        )
        peer = Peer(network, ("127.0.0.1", listener.port), "story")
        sizes = [LARGE_PLAIN_FRAME_BYTES, 1, 2]
        await asyncio.gather(
            *(
                peer.ask(
                    FindCoordinatorRequest(coordinator_keys=["k"] * size), 4, timeout_ms=WAIT_MS
                )
                for size in sizes
            )
        )
        peer.close()
        await listener.stop(timeout_ms=WAIT_MS)
        decoders.close()
        assert served == sizes
        assert decoders.runs == 1, "the large one alone"

    told(story)


def test_a_large_request_that_makes_no_sense_ends_its_connection_and_is_told_of() -> None:
    closed: list[CloseReason] = []

    async def story(network: TcpNetwork) -> None:
        decoders = WatchedWorkers("decoding", 1)
        accept = serve(
            table(),
            "PLAINTEXT",
            on_closed=lambda _, reason: closed.append(reason),
            decoders=decoders,
        )
        listener = await network.listen("127.0.0.1", 0, accept)
        connection = await network.connect("127.0.0.1", listener.port, timeout_ms=WAIT_MS)
        header = RequestHeader(FIND_COORDINATOR, 4, 7, "story")
        frame = b"".join(encode_request(header, FindCoordinatorRequest(coordinator_keys=[])))
        body = b"\xff" * LARGE_PLAIN_FRAME_BYTES  # an array without end
        with pytest.raises(NetworkError):
            await answer_of(connection, [frame[:-2] + body], timeout_ms=WAIT_MS)
        await listener.stop(timeout_ms=WAIT_MS)
        decoders.close()
        assert closed == [CloseReason.BAD_REQUEST]
        assert decoders.runs == 1

    told(story)
