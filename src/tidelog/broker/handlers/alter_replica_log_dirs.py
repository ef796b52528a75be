"""AlterReplicaLogDirs (API 34, v1–2): in which log directory of this broker a replica shall be.

`kafka-reassign-partitions.sh` asks before the replica is there, and again until it is: the wish is
remembered, and the log is made in the right place (KIP-113).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from tidelog.broker.broker import Broker
    from tidelog.rpc import Call
    from tidelog.storage.log_directory import LogDirectory


def handle(broker: Broker, call: Call) -> None:
    request = call.request
    assert isinstance(request, AlterReplicaLogDirsRequest), request
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for wish in request.dirs:
        directory = named(broker, wish.path)
        for topic in wish.topics:
            results.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=answer(broker, (topic.name, index), directory)
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


def named(broker: Broker, path: str) -> LogDirectory | None:
    directories = broker.replicas.directories.all
    by_path = dict(zip(broker.config.log_dirs, directories, strict=True))
    return by_path.get(path) or by_path.get(path.rstrip("/"))


def answer(broker: Broker, name: PartitionName, directory: LogDirectory | None) -> Error:
    if directory is None:
        return Error.LOG_DIR_NOT_FOUND
    if not directory.online:
        return Error.KAFKA_STORAGE_ERROR
    topic, index = name
    hosted = broker.replicas.named(topic, index)
    if hosted is None:
        if broker.replicas.directories.refusal(name) is not None:
            return Error.KAFKA_STORAGE_ERROR
        topic_id = broker.image.topic_ids.get(topic, b"")
        if broker.image.partition(PartitionId(topic_id, index)) is not None:
            broker.replicas.directories.preferred[name] = directory
        return Error.REPLICA_NOT_AVAILABLE
    broker.moves.begin(hosted, directory)
    return Error.NONE
