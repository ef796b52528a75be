"""Peers without manners, on plain sockets, and what they send."""

import contextlib
import io
import socket
import struct
import zlib

import lz4.frame
import zstandard

from tidelog.wire.protocol import RequestHeader, encode_request
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.records import BatchHeader
from tidelog.wire.records.header import HEADER, HEADER_SIZE, seal

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
ANSWER_WITHIN_S = 60
MEGABYTE = 1 << 20
ZEROS = bytes(MEGABYTE)


class Attacker:
    """One connection."""

    def __init__(self, address, **options):
        self.socket = socket.socket()
        if "receive_bytes" in options:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["receive_bytes"])
        self.socket.settimeout(ANSWER_WITHIN_S)
        self.socket.connect(address)

    def send(self, data):
        """As much as the node wants to hear before it hangs up."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def ask(self, message, version):
        """The frame of the answer, without its length; None if the node hung up."""
        self.send(framed(message, version))
        try:
            head = self._exactly(4)
            return self._exactly(struct.unpack(">i", head)[0]) if head else None
        except ConnectionError:
            return None

    def is_hung_up_on(self):
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self):
        self.socket.close()

    def _exactly(self, count):
        data = bytearray()
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                return None
            data += more
        return bytes(data)


@contextlib.contextmanager
def attackers(address, count=1, **options):
    made = []
    try:
        for _ in range(count):
            made.append(Attacker(address, **options))
        yield made
    finally:
        for each in made:
            each.close()


def framed(message, version):
    header = RequestHeader(message.__api_key__, version, 7, "attacker")
    body = b"".join(encode_request(header, message))
    return struct.pack(">i", len(body)) + body


def raw_request(api_key, version, body, *, flexible):
    """A header that is right, and a body that need not be."""
    head = struct.pack(">hhih", api_key, version, 7, -1) + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head + body)) + head + body


def batch_of(payload, *, codec=0, records=1):
    """A batch with a sound header and checksum around any bytes."""
    header = BatchHeader(
        0, HEADER_SIZE - 12 + len(payload), -1, 2, 0, codec, records - 1, 1000, 1000, -1, -1, -1,
        records,
    )  # fmt: skip
    data = bytearray(HEADER_SIZE + len(payload))
    HEADER.pack_into(data, 0, *header)
    data[HEADER_SIZE:] = payload
    seal(data, 0, header)
    return data


def produce_of(topic, batch):
    partition = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )


def bombs():
    """Payloads below 1 MB by codec, and what they say they hold."""
    return {GZIP: gzip_bomb(), SNAPPY: snappy_bomb(), LZ4: lz4_bomb(), ZSTD: zstd_bomb()}


def gzip_bomb(megabytes=512):
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(squeeze.compress(ZEROS) for _ in range(megabytes)) + squeeze.flush()


def snappy_bomb(claimed_bytes=(1 << 32) - 1):
    """It claims 4 GiB, and begins like it: copies of the byte before, 64 bytes each."""
    length = bytearray()
    while claimed_bytes >= 0x80:
        length.append(claimed_bytes & 0x7F | 0x80)
        claimed_bytes >>= 7
    length.append(claimed_bytes)
    return bytes(length) + b"\x00\x00" + (b"\xfe\x01\x00" * 300_000)


def lz4_bomb(megabytes=240):
    return lz4.frame.compress(ZEROS * megabytes, block_size=lz4.frame.BLOCKSIZE_MAX4MB)


def zstd_bomb(megabytes=2048):
    out = io.BytesIO()
    squeeze = zstandard.ZstdCompressor(level=1).compressobj()
    for _ in range(megabytes):
        out.write(squeeze.compress(ZEROS))
    out.write(squeeze.flush())
    return out.getvalue()
