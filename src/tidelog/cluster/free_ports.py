"""Ports for the nodes of a local cluster.

The system gives outgoing connections any port of its own range, also one that a node had before it
was stopped or will have in a moment. So ports are taken from below that range, and processes that
make clusters at the same time look in different places.
"""

import itertools
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

HOST = "127.0.0.1"
LOWEST = 10_000
BLOCK = 64
"""Where one process looks first; enough for a few clusters at once."""

_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_turn = itertools.count()
"""A port is not given again before its block has been used up."""


def free_ports(count: int, wanted: Sequence[int] = ()) -> list[int]:
    """Ports nobody listens on: those wanted if they are all free, any others if not."""
    if len(wanted) >= count:
        found = _bindable(wanted, count)
        if found == list(wanted[:count]):
            return found
    found = _bindable(_candidates(), count)
    return found if len(found) == count else _bindable(itertools.repeat(0), count)


def _candidates() -> Iterator[int]:
    above = _first_outgoing()
    blocks = (above - LOWEST) // BLOCK
    if blocks < 1:
        return
    mine = os.getpid() % blocks
    for _ in range(BLOCK):
        yield LOWEST + mine * BLOCK + next(_turn) % BLOCK
    for other in range(1, blocks):
        start = LOWEST + (mine + other) % blocks * BLOCK
        yield from range(start, start + BLOCK)


def _first_outgoing() -> int:
    try:
        return int(_OUTGOING.read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return LOWEST  # not known: the system shall choose


def _bindable(candidates: Iterable[int], count: int) -> list[int]:
    """The first that can be had, all held until the last is found."""
    ports: list[int] = []
    with ExitStack() as held:
        for port in candidates:
            if len(ports) == count:
                break
            bound = held.enter_context(socket.socket())
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                bound.bind((HOST, port))
            except OSError:
                continue
            ports.append(bound.getsockname()[1])
    return ports
