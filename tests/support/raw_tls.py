"""One connection over TLS that asks whatever a story wants, and reads one answer at a time."""

import socket
import ssl
from typing import Any

from tidelog.wire.protocol import Message, RequestHeader, decode_response, encode_request
from tidelog.wire.protocol.schemas.sasl_authenticate_request import SaslAuthenticateRequest
from tidelog.wire.protocol.schemas.sasl_handshake_request import SaslHandshakeRequest

GUARD_S = 60
SIZE_BYTES = 4


class HungUp(Exception):  # noqa: N818 - it says what happened
    """The other end closed the connection without an answer."""


class RawTls:
    """`with RawTls(port, ca_file) as connection: …`"""

    def __init__(self, port: int, ca_file: object, certificate: object = None) -> None:
        context = ssl.create_default_context(cafile=str(ca_file))
        if certificate is not None:
            context.load_cert_chain(str(certificate))
        plain = socket.create_connection(("localhost", port), timeout=GUARD_S)
        try:
            self._socket = context.wrap_socket(plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> "RawTls":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: Message, version: int) -> Any:
        """Its answer, or HungUp."""
        header = RequestHeader(request.__api_key__, version, 1, "raw")
        frame = b"".join(bytes(part) for part in encode_request(header, request))
        self._socket.sendall(len(frame).to_bytes(SIZE_BYTES, "big") + frame)
        size = int.from_bytes(self._read(SIZE_BYTES), "big")
        return decode_response(self._read(size), request.__api_key__, version)[1]

    def log_in(self, user: str, password: str) -> None:
        """With PLAIN."""
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        words = f"\0{user}\0{password}".encode()
        assert self.ask(SaslAuthenticateRequest(auth_bytes=words), 2).error_code == 0

    def _read(self, size: int) -> bytes:
        read = b""
        while len(read) < size:
            more = self._socket.recv(size - len(read))
            if not more:
                raise HungUp(f"after {len(read)} of {size} bytes")
            read += more
        return read
