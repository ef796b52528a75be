"""DescribeLogDirs (API 35, v1–5): what each log directory contains, and how full its disk is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.errors import Error
from tidelog.rpc import Call
from tidelog.storage.log_directory import LogDirectory
from tidelog.wire.protocol.schemas.describe_log_dirs_request import DescribeLogDirsRequest
from tidelog.wire.protocol.schemas.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.logs.moves import Move, Moves
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.config.node_config import NodeConfig
    from tidelog.host.node_host import NodeHost

UNKNOWN_SIZE = -1


class Parts(NamedTuple):
    """What this handler uses."""

    replicas: Replicas
    moves: Moves
    config: NodeConfig
    host: NodeHost


def handle(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeLogDirsRequest), request
    hosted = list(asked_for(parts, request))
    results = [
        describe(parts, path, directory, hosted)
        for path, directory in zip(
            parts.config.log_dirs, parts.replicas.directories.all, strict=True
        )
    ]
    call.answer(DescribeLogDirsResponse(results=results))


def asked_for(parts: Parts, request: DescribeLogDirsRequest) -> Iterable[Hosted]:
    """Null means all. What is not hosted here is left out of the answer."""
    if request.topics is None:
        return parts.replicas.hosted.values()
    names = dict.fromkeys(
        (each.topic, index) for each in request.topics for index in each.partitions
    )
    found = (parts.replicas.named(topic, index) for topic, index in names)
    return [each for each in found if each is not None]


def describe(
    parts: Parts, path: str, directory: LogDirectory, asked: list[Hosted]
) -> DescribeLogDirsResult:
    if not directory.online:
        return DescribeLogDirsResult(error_code=Error.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for each in [each for each in asked if each.directory is directory]:
        topics.setdefault(each.topic, []).append(described(each))
    for move in parts.moves.under_way.values():
        if move.destination is directory and move.hosted in asked:
            topics.setdefault(move.hosted.topic, []).append(described_future(move))
    space = parts.host.disk_space(path)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[
            DescribeLogDirsTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
        total_bytes=UNKNOWN_SIZE if space is None else space.total_bytes,
        usable_bytes=UNKNOWN_SIZE if space is None else space.usable_bytes,
    )


def described_future(move: Move) -> DescribeLogDirsPartition:
    """A log on its way here: tools take it for done when it is not listed any more."""
    size_bytes = 0 if move.future is None else move.future.size_bytes
    end_offset = 0 if move.future is None else move.future.log_end_offset
    return DescribeLogDirsPartition(
        partition_index=move.hosted.index,
        partition_size=size_bytes,
        offset_lag=max(0, move.hosted.log.log_end_offset - end_offset),
        is_future_key=True,
    )


def described(hosted: Hosted) -> DescribeLogDirsPartition:
    """The lag is what the log still lacks of the committed records."""
    lag = hosted.replica.high_watermark - hosted.log.log_end_offset
    return DescribeLogDirsPartition(
        partition_index=hosted.index,
        partition_size=hosted.log.size_bytes,
        offset_lag=max(0, lag),
        is_future_key=False,
    )
