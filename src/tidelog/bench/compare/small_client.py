"""A process that sends one record per request on many connections (see client_process).

The least a client can cost: requests are encoded once, each connection sends the next when the
last was answered, and of an answer only the error code is looked at.
"""

import select
import socket
import struct
import time
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.bench.compare.client_process import Job, answer
from tidelog.bench.compare.raw_connection import (
    CLIENT_ID,
    SILENCE_S,
    SIZE,
    Refused,
    ask,
    connect,
    framed,
)
from tidelog.wire.protocol import RequestHeader, decode_response
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersionsResponse
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse
from tidelog.wire.records import Record, encode

PRODUCE, API_VERSIONS = 0, 18
LOWEST_VERSION, HIGHEST_VERSION = 9, 11
"""Compact strings, and topics by name: answers have the same shape, which is looked into below."""
TIMEOUT_MS = 30_000
ANSWER_MAX = 4096
_ERROR_CODE = struct.Struct(">h")


class Target(NamedTuple):
    host: str
    port: int
    partition: int


def produce_frame(job: Job, partition: int, version: int) -> bytes:
    """A whole request with its size before it, one record in it."""
    batch = encode([Record(0, int(time.time() * 1000), None, bytes(job["record_bytes"]))])
    data = [PartitionProduceData(index=partition, records=batch)]
    request = ProduceRequest(
        acks=job["acks"],
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=job["topic"], partition_data=data)],
    )
    return framed(RequestHeader(PRODUCE, version, partition, CLIENT_ID), request)


def error_position(topic: str) -> int:
    """Where the error code of the only partition stands in an answer, after its size.

    Before it: correlation id, tags of the header, count of topics, the name with its length,
    count of partitions, index."""
    return 4 + 1 + 1 + (1 + len(topic.encode())) + 1 + 4


def common_version(address: tuple[str, int], settings: Mapping[str, str]) -> int:
    """The newest version of Produce that this program and the broker have."""
    with connect(address, settings) as connection:
        found = ask(connection, API_VERSIONS, 0, ApiVersionsRequest())
    assert isinstance(found, ApiVersionsResponse), found
    offered = next(each for each in found.api_keys if each.api_key == PRODUCE)
    version = min(HIGHEST_VERSION, offered.max_version)
    if version < max(LOWEST_VERSION, offered.min_version):
        raise Refused(f"the broker offers Produce {offered.min_version} to {offered.max_version}")
    return int(version)


def send_for(job: Job) -> Job:
    """Answers per second of all connections, after a while in which nothing is counted."""
    targets = [Target(*each) for each in job["targets"]]
    addresses = dict.fromkeys((each.host, each.port) for each in targets)
    version = min(common_version(each, job["settings"]) for each in addresses)
    loop = _Loop(job, targets, version)
    try:
        loop.run(job["warm_up_s"])
        loop.answers = 0
        begin = time.perf_counter()
        loop.run(job["seconds"])
        return {"per_second": loop.answers / (time.perf_counter() - begin), "version": version}
    finally:
        loop.close()


class _Loop:
    """All connections of one process: a request in flight on each, always."""

    __slots__ = ("_error_end", "_error_start", "_frames", "_poller", "_sockets", "answers")

    def __init__(self, job: Job, targets: list[Target], version: int) -> None:
        self.answers = 0
        self._error_start = SIZE.size + error_position(job["topic"])
        self._error_end = self._error_start + _ERROR_CODE.size
        self._sockets: dict[int, socket.socket] = {}
        self._frames: dict[int, bytes] = {}
        self._poller = select.epoll()
        for target in targets:
            connection = connect((target.host, target.port), job["settings"])
            number = connection.fileno()
            self._sockets[number] = connection
            self._frames[number] = produce_frame(job, target.partition, version)
            self._check_first(connection, self._frames[number], version)
            connection.sendall(self._frames[number])
            self._poller.register(number, select.EPOLLIN)

    def run(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            ready = self._poller.poll(SILENCE_S)
            if not ready:
                raise Refused(f"no answer for {SILENCE_S:g} s")
            for number, _ in ready:
                self._next(number)

    def close(self) -> None:
        self._poller.close()
        for connection in self._sockets.values():
            connection.close()

    def _next(self, number: int) -> None:
        connection = self._sockets[number]
        data = _whole_answer(connection)
        if data[self._error_start : self._error_end] != b"\0\0":
            (code,) = _ERROR_CODE.unpack_from(data, self._error_start)
            raise Refused(f"a request was answered with error code {code}")
        self.answers += 1
        connection.sendall(self._frames[number])

    def _check_first(self, connection: socket.socket, frame: bytes, version: int) -> None:
        """The first answer is decoded as a whole: the place of the error code is right."""
        connection.sendall(frame)
        data = _whole_answer(connection)
        _, found = decode_response(data[SIZE.size :], PRODUCE, version)
        assert isinstance(found, ProduceResponse), found
        code = found.responses[0].partition_responses[0].error_code
        (at_place,) = _ERROR_CODE.unpack_from(data, self._error_start)
        if code or code != at_place:
            raise Refused(f"the first request was answered with error code {code}")


def _whole_answer(connection: socket.socket) -> bytes:
    data = connection.recv(ANSWER_MAX)
    while len(data) < SIZE.size or len(data) < SIZE.size + SIZE.unpack_from(data)[0]:
        more = connection.recv(ANSWER_MAX)
        if not more:
            raise Refused("the broker closed the connection")
        data += more
    return data


if __name__ == "__main__":
    answer(send_for)
