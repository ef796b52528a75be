"""Asks every broker for its API versions again and again, from a process of its own.

Nothing else runs here, so what is measured is the broker: one thread and one connection for each
of them, plain sockets. Ends with its standard input, and then writes down what it saw.

    python -m tidelog.bench.silence.prober HOST:PORT …
"""

import json
import socket
import struct
import sys
import threading
import time

EVERY_S = 0.02
GIVE_UP_S = 60.0
AGAIN_S = 0.05
QUESTION = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""ApiVersions v0 without a client id, as a whole frame."""


class Probe:
    """One broker, asked one question at a time."""

    __slots__ = ("_address", "_stopped", "answers", "lateness")

    def __init__(self, address: str, stopped: threading.Event) -> None:
        self._address = address
        self._stopped = stopped
        self.answers: list[float] = []
        """When each answer came, by the monotonic clock, which all processes share."""
        self.lateness: list[tuple[float, float]] = []
        """When we woke up, and how much later than we wanted: the machine's own part."""

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._ask_for_ever()
            except OSError:  # refused, reset or silent for long: that is silence too
                self._stopped.wait(AGAIN_S)

    def _ask_for_ever(self) -> None:
        host, _, port = self._address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=GIVE_UP_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self._stopped.is_set():
                connection.sendall(QUESTION)
                size = struct.unpack(">i", _exactly(connection, 4))[0]
                _exactly(connection, size)
                now = time.monotonic()
                self.answers.append(now)
                time.sleep(EVERY_S)
                self.lateness.append((now + EVERY_S, time.monotonic() - now - EVERY_S))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError("the broker closed the connection")
        data += more
    return data


def main(addresses: list[str]) -> None:
    stopped = threading.Event()
    probes = {address: Probe(address, stopped) for address in addresses}
    for probe in probes.values():
        threading.Thread(target=probe.run, daemon=True).start()
    sys.stdin.read()
    stopped.set()
    seen = {
        address: {"answers": list(probe.answers), "lateness": list(probe.lateness)}
        for address, probe in probes.items()
    }
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1:])
