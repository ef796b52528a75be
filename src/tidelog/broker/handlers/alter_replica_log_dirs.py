"""AlterReplicaLogDirs (API 34, v1–2): which log directory of this broker a replica belongs in.

`kafka-reassign-partitions.sh` asks before the replica is there, and again until it is: the wish is
remembered, and the log is made in the right place (KIP-113).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.errors import Error
from tidelog.core.types import PartitionId
from tidelog.storage.checkpoints import PartitionName
from tidelog.wire.protocol.schemas.alter_replica_log_dirs_request import (
    AlterReplicaLogDirsRequest,
)
from tidelog.wire.protocol.schemas.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.logs.moves import Moves
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.config.node_config import NodeConfig
    from tidelog.rpc import Call
    from tidelog.storage.log_directory import LogDirectory


class Parts(NamedTuple):
    """What this handler uses."""

    metadata: LocalMetadata
    replicas: Replicas
    moves: Moves
    config: NodeConfig


def handle(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, AlterReplicaLogDirsRequest), request
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for wish in request.dirs:
        directory = named(parts, wish.path)
        for topic in wish.topics:
            results.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=answer(parts, (topic.name, index), directory)
                )
                for index in topic.partitions
            )
    call.answer(
        AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(topic_name=topic, partitions=partitions)
                for topic, partitions in results.items()
            ]
        )
    )


def named(parts: Parts, path: str) -> LogDirectory | None:
    directories = parts.replicas.directories.all
    by_path = dict(zip(parts.config.log_dirs, directories, strict=True))
    return by_path.get(path) or by_path.get(path.rstrip("/"))


def answer(parts: Parts, name: PartitionName, directory: LogDirectory | None) -> Error:
    if directory is None:
        return Error.LOG_DIR_NOT_FOUND
    if not directory.online:
        return Error.KAFKA_STORAGE_ERROR
    topic, index = name
    hosted = parts.replicas.named(topic, index)
    if hosted is None:
        if parts.replicas.directories.refusal(name) is not None:
            return Error.KAFKA_STORAGE_ERROR
        topic_id = parts.metadata.image.topic_ids.get(topic, b"")
        if parts.metadata.image.partition(PartitionId(topic_id, index)) is not None:
            parts.replicas.directories.preferred[name] = directory
        return Error.REPLICA_NOT_AVAILABLE
    parts.moves.begin(hosted, directory)
    return Error.NONE
