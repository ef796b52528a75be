"""What a node finds on its disks, before anything of it runs."""

import os
from typing import NamedTuple

from tidelog.broker.topic_settings import topic_settings
from tidelog.config.node_config import NodeConfig
from tidelog.core.metadata.image import MetadataImage
from tidelog.host.directory_lock import DirectoryLock
from tidelog.host.disk import FileDisk
from tidelog.storage import clean_shutdown, meta_properties
from tidelog.storage.config import LogConfig
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties


class CannotStart(Exception):  # noqa: N818 - it says what it means
    """The node must not run like this. The message says why and what to do."""


class Disks(NamedTuple):
    metadata: FileDisk
    identity: MetaProperties
    """Of the directory that holds the metadata log; all agree on cluster and node."""


def open_metadata_disk(config: NodeConfig) -> Disks:
    disk = _disk(config.metadata_log_dir)
    identity = _identity(disk, config.metadata_log_dir)
    if identity.node_id != config.node_id:
        raise CannotStart(
            f"{config.metadata_log_dir} belongs to node {identity.node_id}, "
            f"this is node {config.node_id}: wrong node.id or wrong directory"
        )
    return Disks(disk, identity)


def open_log_directories(config: NodeConfig, cluster_id: str) -> list[LogDirectory]:
    """Every log is loaded, and recovered where the last process did not stop in order."""

    def config_of(topic: str) -> LogConfig:
        # Its own settings come with the metadata, which are not known yet.
        return topic_settings(MetadataImage(), config, topic).log

    opened = []
    for path in config.log_dirs:
        disk = _disk(path)
        _identity(disk, path)
        try:
            opened.append(
                LogDirectory.open(
                    disk,
                    config_of,
                    cluster_id=cluster_id,
                    node_id=config.node_id,
                    lock=DirectoryLock(path),
                )
            )
        except StorageError as error:
            raise CannotStart(f"{path}: {error}") from error
    return opened


def _disk(path: str) -> FileDisk:
    if not os.path.isdir(path):
        raise CannotStart(f"{path} is not a directory: make it with `tidelog format`")
    return FileDisk(path)


def _identity(disk: FileDisk, path: str) -> MetaProperties:
    try:
        identity = meta_properties.read_meta_properties(disk)
    except StorageError as error:
        raise CannotStart(f"{path}: {error}") from error
    if identity is None:
        raise CannotStart(f"{path} is not formatted: run `tidelog format --config …` first")
    return identity


def previous_broker_epoch(directories: list[LogDirectory]) -> int:
    """The incarnation whose acknowledged records are all here, if every directory agrees."""
    return clean_shutdown.previous_broker_epoch(
        [directory.intact_since_epoch() for directory in directories]
    )
