"""A blocking connection for a client that writes its requests itself: plain, TLS, or with a login.

Settings have librdkafka's names. Of logins, only SCRAM is known: it is what a secured cluster has.
"""

import secrets
import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any

from tidelog.core.security.protocols import PLAINTEXT, has_sasl, has_tls
from tidelog.core.security.sasl import ScramClient
from tidelog.core.security.scram import ScramMechanism
from tidelog.wire.protocol import RequestHeader, decode_response, encode_request
from tidelog.wire.protocol.schemas.sasl_authenticate_request import SaslAuthenticateRequest
from tidelog.wire.protocol.schemas.sasl_handshake_request import SaslHandshakeRequest

SIZE = struct.Struct(">i")
SILENCE_S = 30.0
CLIENT_ID = "small"
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2


class Refused(Exception):  # noqa: N818 - it names what is so
    """A request was not answered as it should be."""


def connect(address: tuple[str, int], settings: Mapping[str, str]) -> socket.socket:
    """Ready for the first request, logged in if the settings say so."""
    protocol = settings.get("security.protocol", PLAINTEXT).upper()
    connection = socket.create_connection(address, SILENCE_S)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if has_tls(protocol):
            context = ssl.create_default_context(cafile=settings["ssl.ca.location"])
            connection = context.wrap_socket(connection, server_hostname=address[0])
        if has_sasl(protocol):
            _log_in(connection, settings)
    except BaseException:
        connection.close()
        raise
    return connection


def framed(header: RequestHeader, request: Any) -> bytes:
    """A whole request with its size before it."""
    body = b"".join(bytes(part) for part in encode_request(header, request))
    return SIZE.pack(len(body)) + body


def ask(connection: socket.socket, api_key: int, version: int, request: Any) -> Any:
    """One request, and its answer."""
    connection.sendall(framed(RequestHeader(api_key, version, 0, CLIENT_ID), request))
    (size,) = SIZE.unpack(_exactly(connection, SIZE.size))
    _, found = decode_response(_exactly(connection, size), api_key, version)
    return found


def _log_in(connection: socket.socket, settings: Mapping[str, str]) -> None:
    name = settings["sasl.mechanism"]
    mechanism = ScramMechanism.of_sasl_name(name)
    if mechanism is None:
        raise Refused(f"this client can log in with SCRAM only, not with {name}")
    handshake = SaslHandshakeRequest(mechanism=name)
    _check(ask(connection, SASL_HANDSHAKE, HANDSHAKE_VERSION, handshake))
    nonce = secrets.token_hex(16)
    conversation = ScramClient(
        mechanism, settings["sasl.username"], settings["sasl.password"], nonce
    )
    message: bytes | None = conversation.begin()
    while message is not None:
        request = SaslAuthenticateRequest(auth_bytes=message)
        answer = ask(connection, SASL_AUTHENTICATE, AUTHENTICATE_VERSION, request)
        _check(answer)
        message = conversation.answer(bytes(answer.auth_bytes))


def _check(answer: Any) -> None:
    if answer.error_code:
        raise Refused(f"the login was answered with error code {answer.error_code}")


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise Refused("the broker closed the connection")
        data += more
    return data
