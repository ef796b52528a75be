"""Logs that metadata does not place on this broker: their records are kept, not served."""

from collections.abc import Callable, Iterable, Sequence

from tidelog.broker.control.local_metadata import LocalMetadata
from tidelog.core.events import Event, StraySetAside
from tidelog.core.types import PartitionId
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.log_directory import LogDirectory

Emit = Callable[[Event], None]


def set_strays_aside(
    directories: Iterable[LogDirectory], metadata: LocalMetadata, emit: Emit
) -> None:
    for directory in directories:
        strays = []
        for name, topic_id in directory.topic_ids.items():
            state = metadata.image.partition(PartitionId(topic_id, name[1]))
            if state is None or metadata.own_id not in state.replicas:
                strays.append(name)
        set_aside(directory, strays, metadata.own_id, emit)


def set_aside(
    directory: LogDirectory, names: Sequence[PartitionName], own_id: int, emit: Emit
) -> None:
    partitions = [PartitionId(directory.topic_ids[name], name[1]) for name in names]
    for partition, kept_as in zip(partitions, directory.set_aside_strays(names), strict=True):
        emit(StraySetAside(partition, own_id, kept_as))
