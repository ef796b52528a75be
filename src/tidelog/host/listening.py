"""Listening sockets: streams for protocols without frames, and a close that loses no connection."""

import asyncio
from collections.abc import Callable

OnStreams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


async def listen_streams(
    on_accepted: OnStreams, host: str, port: int, *, line_bytes_max: int
) -> asyncio.Server:
    """On every address if `host` is empty. OSError if the address cannot be had."""
    return await asyncio.start_server(on_accepted, host or None, port, limit=line_bytes_max)


async def close_listening(server: asyncio.Server) -> None:
    """Accept nothing any more. Whoever was accepted already still gets to their protocol.

    asyncio gives an accepted socket its transport one turn later. If the server is closed in
    between, the socket stays open and nobody knows of it (CPython issue 109564). So accepting
    ends first, and the server a turn later.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        # uvloop has no reader here to remove, and no such turn either.
        loop.remove_reader(listening.fileno())
    try:
        await asyncio.sleep(0)
    finally:
        server.close()
