"""What a node finds on its disks before any of its parts runs."""

import logging
import os
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from tidelog.broker.replication.topic_settings import settings_before_metadata
from tidelog.config.node_config import NodeConfig
from tidelog.host.failures import CannotGoOn
from tidelog.host.ports import Clock, Disk, Filesystem, Lock
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.member import QUORUM_STATE_PATH
from tidelog.storage import clean_shutdown, kafka_gaps, meta_properties, repairs
from tidelog.storage.errors import (
    CorruptFile,
    ForeignDirectory,
    StorageError,
    UnknownContent,
)
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties
from tidelog.storage.metadata_log import MetadataLog
from tidelog.storage.quorum_state_file import read_quorum_state
from tidelog.storage.repairs import Repair

BAD_VOTE = (
    "while the other controllers have a leader, or if there is none but this one: move that file "
    'away and start again; see "A vote that cannot be read" in docs/operations.md'
)
FORMAT = "tidelog format --config FILE, with the cluster id of the other nodes"

_LOGGER = logging.getLogger("tidelog.node")


class CannotStart(CannotGoOn):
    """The node must not run like this."""


def cannot_listen(address: str, key: str, error: OSError) -> CannotStart:
    """In the kernel's words alone: event loops wrap them in theirs; a resolver has its own."""
    number = error.errno or 0
    reason = os.strerror(number) if number > 0 else error.strerror or str(error)
    why = f"cannot listen on {address}: {reason.lower()}"
    return CannotStart(why, advice=f"another address in {key}, or stop whoever has this one")


class HeldLock:
    """The lock of a directory that this process took before it looked into it."""

    __slots__ = ("_lock",)

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        self._lock.release()


class Disks(NamedTuple):
    metadata: Disk
    identity: MetaProperties
    """Of the directory that holds the metadata log; all agree on cluster and node."""
    locks: dict[str, Lock]
    """Of every directory of this node, by path: held until `release`."""

    def release(self) -> None:
        for lock in self.locks.values():
            lock.release()


def open_disks(config: NodeConfig, filesystem: Filesystem) -> Disks:
    """Every directory is there, formatted for this node and locked, before any file is opened:
    opening the logs of a node that runs would truncate them under its hands."""
    paths = dict.fromkeys([config.metadata_log_dir])
    if config.is_broker:
        paths.update(dict.fromkeys(config.log_dirs))
    owners = {path: _identity(_disk(filesystem, path), path) for path in paths}
    identity = owners[config.metadata_log_dir]
    for path, owner in owners.items():
        _require_ours(path, owner, identity.cluster_id, config)
    locks: dict[str, Lock] = {}
    disks = Disks(filesystem.open(config.metadata_log_dir), identity, locks)
    try:
        for path in paths:
            locks[path] = _locked(filesystem, path)
    except BaseException:
        disks.release()
        raise
    return disks


def open_log_directories(
    config: NodeConfig, disks: Disks, filesystem: Filesystem
) -> list[LogDirectory]:
    """Every log is loaded, and recovered where the last process did not stop in order. What had
    to be repaired is told."""
    opened = []
    for path in config.log_dirs:
        try:
            _take_over_from_kafka(filesystem.open(path), path)
            directory = LogDirectory.open(
                filesystem.open(path),
                partial(settings_before_metadata, config),
                cluster_id=disks.identity.cluster_id,
                node_id=config.node_id,
                lock=HeldLock(disks.locks[path]),
            )
        except (StorageError, OSError) as error:
            raise unusable(path, error) from error
        repairs.tell(path, directory.repairs)
        opened.append(directory)
    return opened


def _take_over_from_kafka(disk: Disk, path: str) -> None:
    for directory, count in kafka_gaps.fill_gaps(disk).items():
        _LOGGER.warning(
            "%s/%s: Kafka compacted the end of %d segments away; an empty batch stands there now",
            path,
            directory,
            count,
        )


def note_stop(config: NodeConfig, filesystem: Filesystem, broker_epoch: int) -> None:
    """So that the next start knows whether Kafka ran in between."""
    for path in config.log_dirs:
        with suppress(StorageError, OSError):
            kafka_gaps.note_stop(filesystem.open(path), broker_epoch)


def open_metadata_log(
    config: NodeConfig, disks: Disks, codec: KafkaEntryCodec, clock: Clock
) -> MetadataLog:
    """With everything that had to be repaired told."""
    path = config.metadata_log_dir
    try:
        log = MetadataLog.open(disks.metadata, codec, clock=clock)
        voted = _has_voted(disks.metadata, path)
    except UnknownContent as error:
        raise CannotStart(
            f"{path}: {error}", advice="a release of Tidelog that knows it; see docs/moving.md"
        ) from error
    except (StorageError, OSError) as error:
        raise unusable(path, error) from error
    if log.log_end_offset > 0 and not voted:
        fault = CorruptFile(QUORUM_STATE_PATH, "byte 0", "the file is gone")
        log.repairs.append(Repair(fault, "the node forgot its last vote, and begins without one"))
    repairs.tell(path, log.repairs)
    return log


def _has_voted(disk: Disk, path: str) -> bool:
    """Before anything listens: a member of the quorum that cannot read its vote must not run."""
    try:
        return read_quorum_state(disk, QUORUM_STATE_PATH) is not None
    except CorruptFile as error:
        raise CannotStart(
            f"{path}: {error}; a node that forgot its vote might vote twice", advice=BAD_VOTE
        ) from error


def _disk(filesystem: Filesystem, path: str) -> Disk:
    if not filesystem.is_directory(path):
        there = "is not a directory" if filesystem.exists(path) else "does not exist"
        raise CannotStart(f"{path} {there}", advice=FORMAT)
    return filesystem.open(path)


def _identity(disk: Disk, path: str) -> MetaProperties:
    try:
        identity = meta_properties.read_meta_properties(disk)
    except (StorageError, OSError) as error:
        raise unusable(path, error) from error
    if identity is None:
        raise CannotStart(f"{path} is not formatted", advice=FORMAT)
    return identity


def _require_ours(path: str, owner: MetaProperties, cluster_id: str, config: NodeConfig) -> None:
    try:
        meta_properties.check_owner(owner, cluster_id=cluster_id, node_id=config.node_id)
    except ForeignDirectory as error:
        raise CannotStart(
            f"{path}: {error}", advice="the right node.id, log.dirs or metadata.log.dir"
        ) from error


def _locked(filesystem: Filesystem, path: str) -> Lock:
    lock = filesystem.lock(path)
    try:
        acquired = lock.acquire()
    except OSError as error:
        raise unusable(path, error) from error
    if not acquired:
        raise CannotStart(
            f"another process uses {path}",
            advice="stop that node first, or give this one a log.dirs of its own",
        )
    return lock


def unusable(path: str, error: StorageError | OSError) -> CannotStart:
    return CannotStart(f"{path}: {error}", advice="look at that file, its owner and its disk")


def previous_broker_epoch(directories: list[LogDirectory]) -> int:
    """The incarnation whose acknowledged records are all here, if every directory agrees."""
    return clean_shutdown.previous_broker_epoch(
        [directory.intact_since_epoch() for directory in directories]
    )
