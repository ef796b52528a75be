"""What a node lets somebody do who shows nothing: asked as a stranger would, over its own sockets.

Nothing is changed on the way. A wrong login is tried once, which the node writes down.
"""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

from tidelog.core.security.acls import Operation
from tidelog.core.security.certificates import CertificateError, read_certificate
from tidelog.core.security.sasl import PLAIN, PlainClient
from tidelog.wire.protocol import (
    Message,
    ProtocolError,
    RequestHeader,
    decode_response,
    encode_request,
)
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.describe_cluster_request import DescribeClusterRequest
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest
from tidelog.wire.protocol.schemas.sasl_authenticate_request import SaslAuthenticateRequest
from tidelog.wire.protocol.schemas.sasl_handshake_request import SaslHandshakeRequest

WITHIN_S: Final = 5
LONGEST_BYTES: Final = 16 * 1024 * 1024
NO_MECHANISM: Final = "NONE"
UNSUPPORTED_SASL_MECHANISM: Final = 33
METADATA_VERSION: Final = 9
GUESSED: Final = "tidelog-secure-check"
"""As whom, and with which password, a stranger tries to log in."""
SILENCE = (OSError, EOFError, TimeoutError, ProtocolError)

Address = tuple[str, int]


class Seen(NamedTuple):
    """One address, through the eyes of a stranger."""

    answers: bool
    tls: bool = False
    expires_ms: int | None = None
    """When its certificate ends."""
    old_tls: bool = False
    """It speaks a version of TLS that is no longer safe."""
    mechanisms: tuple[str, ...] = ()
    """How it wants people to log in."""
    lets_in: bool = False
    """Without a login, or with a made-up one."""
    operations: tuple[str, ...] | None = None
    """What a stranger may do with the cluster; None if that cannot be asked there."""
    topics: Mapping[str, tuple[str, ...]] = {}
    """And with topics."""


class Conversation:
    """Requests on one connection, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: Message, version: int) -> Any:
        """One of SILENCE if there is no answer that can be understood."""
        key = request.__api_key__
        frame = b"".join(encode_request(RequestHeader(key, version, 1, GUESSED), request))
        async with asyncio.timeout(WITHIN_S):
            self._writer.write(len(frame).to_bytes(4, "big") + frame)
            size_bytes = int.from_bytes(await self._reader.readexactly(4), "big")
            if size_bytes > LONGEST_BYTES:
                raise ProtocolError("no broker answers so much")
            return decode_response(await self._reader.readexactly(size_bytes), key, version)[1]


async def look(address: Address) -> Seen:
    """Plain text first: what answers to that is open to every eye."""
    if not await _listens(address):
        return Seen(answers=False)
    if await _speaks(address, None):
        return await _look_inside(address, None, Seen(answers=True))
    context = trusting_anybody()
    has_tls, expires_ms = await certificate_end(address, context)
    if not has_tls:
        return Seen(answers=True)
    old_tls = await _takes_old_tls(address)
    seen = Seen(answers=True, tls=True, expires_ms=expires_ms, old_tls=old_tls)
    if await _speaks(address, context):
        return await _look_inside(address, context, seen)
    return seen  # it wants a certificate


async def _look_inside(address: Address, tls: ssl.SSLContext | None, seen: Seen) -> Seen:
    async with connected(address, tls) as conversation:
        answer = await conversation.ask(SaslHandshakeRequest(mechanism=NO_MECHANISM), 1)
    if answer.error_code == UNSUPPORTED_SASL_MECHANISM:
        mechanisms = tuple(answer.mechanisms)
        lets_in = PLAIN in mechanisms and await _lets_anybody_log_in(address, tls)
        return seen._replace(mechanisms=mechanisms, lets_in=lets_in)
    return await _rights(address, tls, seen._replace(lets_in=True))


async def _rights(address: Address, tls: ssl.SSLContext | None, seen: Seen) -> Seen:
    """Brokers say what somebody may do, if they are asked; nothing is tried."""
    with suppress(*SILENCE):
        async with connected(address, tls) as conversation:
            cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
            bits = (await conversation.ask(cluster, 0)).cluster_authorized_operations
            seen = seen._replace(operations=operations_in(bits))
            everything = MetadataRequest(
                topics=None,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
            )
            found = (await conversation.ask(everything, METADATA_VERSION)).topics
            return seen._replace(
                topics={
                    str(each.name): operations_in(each.topic_authorized_operations) or ()
                    for each in found
                }
            )
    return seen


async def _lets_anybody_log_in(address: Address, tls: ssl.SSLContext | None) -> bool:
    with suppress(*SILENCE):
        async with connected(address, tls) as conversation:
            await conversation.ask(SaslHandshakeRequest(mechanism=PLAIN), 1)
            message = PlainClient(GUESSED, GUESSED).begin()
            answer = await conversation.ask(SaslAuthenticateRequest(auth_bytes=message), 1)
            return bool(answer.error_code == 0)
    return False


async def _listens(address: Address) -> bool:
    try:
        async with asyncio.timeout(WITHIN_S), connected(address, None):
            return True
    except SILENCE:
        return False


async def _speaks(address: Address, tls: ssl.SSLContext | None) -> bool:
    """The protocol of Kafka, to somebody who shows nothing."""
    try:
        async with connected(address, tls) as conversation:
            await conversation.ask(ApiVersionsRequest(), 0)
    except SILENCE:
        return False
    return True


async def certificate_end(address: Address, context: ssl.SSLContext) -> tuple[bool, int | None]:
    """Whether there is TLS, and when the certificate ends, if it can be read."""
    certificate = await _certificate(address, context)
    with suppress(CertificateError):
        if certificate is not None:
            return True, read_certificate(certificate).not_after_ms
    return certificate is not None, None


async def _certificate(address: Address, context: ssl.SSLContext) -> bytes | None:
    """That of the server; None if it speaks no TLS."""
    try:
        async with asyncio.timeout(WITHIN_S):
            _, writer = await asyncio.open_connection(*address, ssl=context)
    except SILENCE:
        return None
    try:
        shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    finally:
        writer.transport.abort()


async def _takes_old_tls(address: Address) -> bool:
    context = trusting_anybody()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that it is old is the point
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return await _certificate(address, context) is not None


def trusting_anybody() -> ssl.SSLContext:
    """A stranger does not mind to whom he talks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@asynccontextmanager
async def connected(address: Address, tls: ssl.SSLContext | None) -> AsyncIterator[Conversation]:
    async with asyncio.timeout(WITHIN_S):
        reader, writer = await asyncio.open_connection(*address, ssl=tls)
    try:
        yield Conversation(reader, writer)
    finally:
        writer.transport.abort()


def operations_in(bits: int) -> tuple[str, ...] | None:
    """Of the field that brokers answer with; None if they do not say."""
    if bits < 0:
        return None
    return tuple(each.name for each in Operation if bits >> each & 1)
