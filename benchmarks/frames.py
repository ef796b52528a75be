"""Frames echoed per second over loopback: what the network layer costs before any work is done.

Run as `python benchmarks/frames.py [--loop asyncio] [--seconds 2]`. Server and clients share one
process and one loop, so the figures are for both ends together; CPU time, not waiting, is shown.
"""

import argparse
import asyncio
import time
from collections.abc import Callable

from tidelog.host import event_loop
from tidelog.host.client import FrameConnection, Outcome
from tidelog.host.clock import SystemClock
from tidelog.host.network import TcpNetwork
from tidelog.host.ports import CloseReason, PeerConnection, RequestHandler, ResponseSlot
from tidelog.host.timers import TimerWheel

TIMEOUT_MS = 30_000
CASES = ((100, 1, 1), (100, 1, 100), (100, 50, 5), (16 * 1024, 1, 16), (1024 * 1024, 1, 4))
"""Bytes of a request, connections, requests in flight on each."""


class ShortAnswers:
    """Answers every request with a few bytes, as a broker answers a produce."""

    def on_request(self, frame: memoryview, slot: ResponseSlot) -> None:
        slot.answer([bytes(frame[:8]), b"fine"])

    def on_closed(self, reason: CloseReason) -> None:
        """Nothing is kept."""


def accept(connection: PeerConnection) -> RequestHandler:
    connection.trusted = True
    return ShortAnswers()


def keep_asking(connection: FrameConnection, body: bytes, going: Callable[[], bool]) -> None:
    def again(outcome: Outcome) -> None:
        if isinstance(outcome, memoryview) and going():
            connection.send([body], again, timeout_ms=TIMEOUT_MS)

    connection.send([body], again, timeout_ms=TIMEOUT_MS)


async def measure(body_bytes: int, connections: int, in_flight: int, seconds: float) -> None:
    network = TcpNetwork(SystemClock())
    server = await network.listen("127.0.0.1", 0, accept)
    peers = [
        await network.connect("127.0.0.1", server.port, timeout_ms=TIMEOUT_MS)
        for _ in range(connections)
    ]
    end = time.perf_counter() + seconds
    started, cpu_started = time.perf_counter(), time.process_time()
    for peer in peers:
        for _ in range(in_flight):
            keep_asking(peer, bytes(body_bytes), lambda: time.perf_counter() < end)
    while any(peer.in_flight for peer in peers):
        await asyncio.sleep(0.02)
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    requests = network.counters.frames_out // 2
    writes = network.counters.writes
    for peer in peers:
        peer.close()
    await server.stop(timeout_ms=TIMEOUT_MS)
    network.close()
    print(
        f"{body_bytes:>9} B  {connections:>3} connections  {in_flight:>3} in flight  "
        f"{requests / elapsed:>9,.0f} requests/s  {cpu / requests * 1e6:>7.1f} µs CPU per request "
        f"(both ends)  {requests * body_bytes / elapsed / 1e6:>6,.0f} MB/s  "
        f"{2 * requests / writes:.1f} frames per write"
    )


def measure_wheel(count: int = 200_000) -> None:
    wheel = TimerWheel(SystemClock())
    started = time.perf_counter()
    for _ in range(count):
        wheel.after(TIMEOUT_MS, print).cancel()
    print(f"timer wheel: {(time.perf_counter() - started) / count * 1e6:.2f} µs per add and cancel")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", choices=("best", "asyncio"), default="best")
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    factory = event_loop.loop_factory() if options.loop == "best" else asyncio.new_event_loop
    measure_wheel()
    with asyncio.Runner(loop_factory=factory) as runner:
        print(f"loop: {type(runner.get_loop()).__module__}")
        for case in CASES:
            runner.run(measure(*case, options.seconds))


if __name__ == "__main__":
    main()
