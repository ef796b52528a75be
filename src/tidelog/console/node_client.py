"""Asking a node over HTTP without holding the loop: one answer, or its events without an end."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from tidelog.client.security import BadProperties, read_properties
from tidelog.cluster.free_ports import HOST
from tidelog.cluster.node_http import NodeHttp
from tidelog.host.tls import TlsError, make_context

ANSWER_WITHIN_SECONDS = 3
SILENCE_SECONDS = 30
"""A node says every ten seconds that it is still there."""
LINE_MAX_BYTES = 1024 * 1024
BODY_MAX_BYTES = 64 * 1024 * 1024
OFF_LOOP_BYTES = 64 * 1024
"""Larger documents are parsed on a thread."""


class NodeSilent(Exception):  # noqa: N818 - it names what is so
    """Nobody answered, or not with what was asked for."""


class ToldEvent(NamedTuple):
    name: str
    id: str | None
    data: dict[str, Any]


class NodeClient:
    """One node. Each question is a connection of its own, as nodes have it."""

    __slots__ = ("_context", "_headers", "node_id", "port")

    def __init__(self, node_id: int, node: NodeHttp) -> None:
        """NodeSilent if nobody can log in with these properties."""
        self.node_id = node_id
        self.port = node.port
        try:
            tls = read_properties(node.properties).tls
            self._context: ssl.SSLContext | None = None
            if tls is not None:
                self._context = make_context(tls, server_side=False)
            self._headers = node.login()
        except (OSError, TlsError, BadProperties) as reason:
            raise NodeSilent(f"node {node_id}: {reason}") from None

    async def get(self, path: str) -> Any:
        """The JSON of a path."""
        body = await self._body(path)
        try:
            if len(body) > OFF_LOOP_BYTES:
                return await asyncio.to_thread(json.loads, body)
            return json.loads(body)
        except ValueError:
            raise NodeSilent(f"node {self.node_id} answers no JSON to {path}") from None

    async def get_text(self, path: str) -> str:
        return (await self._body(path)).decode("utf-8", "replace")

    async def _body(self, path: str) -> bytes:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_SECONDS):
                reader, writer = await self._ask(path)
                try:
                    status, headers = await _head(reader)
                    length = int(headers.get("content-length", "0"))
                    if length > BODY_MAX_BYTES:
                        raise NodeSilent(f"node {self.node_id} answers {length} bytes to {path}")
                    body = await reader.readexactly(length)
                finally:
                    writer.close()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as reason:
            raise NodeSilent(f"node {self.node_id} does not answer: {reason}") from None
        if status != 200:
            raise NodeSilent(f"node {self.node_id} answers {status} to {path}")
        return body

    async def events(self, last_id: str | None) -> AsyncGenerator[ToldEvent, None]:
        """From an event on, or all that are kept. Ends when the node ends it; NodeSilent if it
        breaks or cannot be had."""
        query = "/events?since=0" if last_id is None else "/events"
        extra = {} if last_id is None else {"Last-Event-ID": last_id}
        try:
            async with asyncio.timeout(ANSWER_WITHIN_SECONDS):
                reader, writer = await self._ask(query, extra)
                status, _ = await _head(reader)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as reason:
            raise NodeSilent(f"node {self.node_id} does not answer: {reason}") from None
        try:
            if status != 200:
                raise NodeSilent(f"node {self.node_id} answers {status} to {query}")
            async for told in _events_in(reader):
                yield told
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as reason:
            raise NodeSilent(f"the events of node {self.node_id} broke off: {reason}") from None
        finally:
            writer.close()

    async def _ask(
        self, target: str, extra: dict[str, str] | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            HOST, self.port, ssl=self._context, limit=LINE_MAX_BYTES
        )
        headers = {"Host": f"{HOST}:{self.port}", **self._headers, **(extra or {})}
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        return reader, writer


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(head[0].split(" ")[1]), headers


async def _events_in(reader: asyncio.StreamReader) -> AsyncGenerator[ToldEvent, None]:
    name, number, data = "message", None, ""
    while True:
        async with asyncio.timeout(SILENCE_SECONDS):
            line = (await reader.readuntil(b"\n")).decode("utf-8").rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("id: "):
            number = line[4:]
        elif line.startswith("data: "):
            data = line[6:]
        elif not line and data:
            yield ToldEvent(name, number, json.loads(data))
            name, number, data = "message", None, ""
