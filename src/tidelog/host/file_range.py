"""Bytes of a file that go to a socket without passing through this process.

The kernel takes them from its page cache (`sendfile`). No copy is kept: a write to the file, a cut
or a close would change what is sent. Therefore a range is sent, or read, in the callback that made
it, before anything else can happen; bytes that the socket does not take immediately are read.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Sequence
from typing import cast

from tidelog.host.ports import Buffer, FileRange

LEAST_BYTES = 64 * 1024
"""Smaller ones are read: two more system calls cost more than a small copy."""


class OpenRange:
    """A part of an open file."""

    __slots__ = ("_descriptor", "_path", "_position", "_size_bytes")

    def __init__(self, descriptor: int, path: str, position: int, size_bytes: int) -> None:
        self._descriptor = descriptor
        self._path = path
        self._position = position
        self._size_bytes = size_bytes

    def __len__(self) -> int:
        return self._size_bytes

    def read(self, start: int = 0) -> bytes:
        wanted = self._size_bytes - start
        data = os.pread(self._descriptor, wanted, self._position + start)
        if len(data) != wanted:
            raise OSError(errno.EIO, f"ends {wanted - len(data)} bytes early", self._path)
        return data

    def send(self, socket_descriptor: int) -> int:
        sent, size_bytes = 0, self._size_bytes
        while sent < size_bytes:
            try:
                taken = os.sendfile(
                    socket_descriptor, self._descriptor, self._position + sent, size_bytes - sent
                )
            except OSError:
                break  # it is full or broken: the transport meets the same, and knows what to do
            if not taken:
                break
            sent += taken
        return sent


def has_range(parts: Sequence[Buffer | FileRange]) -> bool:
    return not all(isinstance(each, Buffer) for each in parts)


def read_all(parts: Sequence[Buffer | FileRange]) -> list[Buffer]:
    """The same without ranges, to be kept."""
    return [each if isinstance(each, Buffer) else each.read() for each in parts]


def send_all(transport: asyncio.Transport, parts: Sequence[Buffer | FileRange]) -> None:
    """Write to a transport whose buffer limit is 0, so that it sends at once what it can.
    OSError if a file does not give what it should: half an answer has left then."""
    if not has_range(parts):
        transport.writelines(cast(Sequence[Buffer], parts))
        return
    peer: socket.socket | None = transport.get_extra_info("socket")
    if peer is None:  # what leaves has to be encrypted first
        transport.writelines(read_all(parts))
        return
    waiting: list[Buffer] = []
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # no packet for a few bytes between
    try:
        for each in parts:
            if isinstance(each, Buffer):
                waiting.append(each)
                continue
            transport.writelines(waiting)
            waiting = []
            sent = 0 if transport.get_write_buffer_size() else each.send(peer.fileno())
            if sent < len(each):
                waiting.append(each.read(sent))
        transport.writelines(waiting)
    finally:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
