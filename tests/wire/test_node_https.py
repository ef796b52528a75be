"""The HTTP port of a node with TLS, on both event loops."""

import asyncio
import json
import ssl

import pytest
import uvloop

from support.certificates import Authority
from support.loopback import loopback, run
from tidelog.core.security.tls_settings import TlsSettings
from tidelog.host.tls import TlsSource
from tidelog.host.tls_streams import TlsStreams
from tidelog.observe.http_server import HttpServer, json_response

AUTHORITY = Authority()
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
LARGE = "x" * 60_000


def source(leaf):
    return TlsSource(TlsSettings(key=leaf.key, chain=leaf.certificate), server_side=True)


def trusting(authority=AUTHORITY):
    return ssl.create_default_context(cadata=authority.certificate)


async def echo(request):
    return json_response({"peer": request.peer, "body": request.body.decode(), "large": LARGE})


def served(story, loop):
    async def whole():
        async with loopback() as network:
            tls = source(AUTHORITY.leaf("first"))
            server = HttpServer(echo, TlsStreams(tls, network.context))
            await server.start("127.0.0.1", 0)
            try:
                await story(server, tls)
            finally:
                await server.stop()
            assert server.open == 0

    run(whole, loop)


async def ask(server, context, body=b""):
    """The answer, and who the server said it is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    try:
        answer = await reader.read()
        shown = writer.get_extra_info("peercert")
        return json.loads(answer.partition(b"\r\n\r\n")[2]), dict(shown["subject"][0])["commonName"]
    finally:
        writer.close()
        await writer.wait_closed()


@LOOPS
def test_requests_and_answers_pass_whole(loop):
    async def story(server, _tls):
        body = b"y" * 50_000
        answers = await asyncio.gather(*(ask(server, trusting(), body) for _ in range(8)))
        for answer, name in answers:
            assert answer == {"peer": "127.0.0.1", "body": body.decode(), "large": LARGE}
            assert name == "first"

    served(story, loop)


@LOOPS
def test_a_new_certificate_is_shown_to_the_next_connection(loop):
    async def story(server, tls):
        assert (await ask(server, trusting()))[1] == "first"
        second = AUTHORITY.leaf("second")
        tls.adopt(tls.read(TlsSettings(key=second.key, chain=second.certificate)))
        assert (await ask(server, trusting()))[1] == "second"

    served(story, loop)


@LOOPS
def test_whoever_speaks_no_tls_or_does_not_trust_us_is_let_go(loop):
    async def story(server, _tls):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP/1.1" not in await reader.read()
        writer.close()
        await writer.wait_closed()
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(server, trusting(Authority("another")))
        assert (await ask(server, trusting(), b"still here"))[0]["body"] == "still here"
        assert server.closed["tls"] >= 1

    served(story, loop)


@LOOPS
def test_a_stop_does_not_wait_for_somebody_who_says_nothing(loop):
    async def story(server, _tls):
        _, silent = await asyncio.open_connection("127.0.0.1", server.port)
        reader, idle = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting())
        await server.stop()
        assert await reader.read() == b""
        for each in (silent, idle):
            each.close()
            await each.wait_closed()

    served(story, loop)
