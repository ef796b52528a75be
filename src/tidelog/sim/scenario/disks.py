"""What lies on the disks of a scene before its processes start, and what a story does to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidelog.broker.replication.topic_settings import settings_before_metadata
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.types import NO_EPOCH, NO_LEADER
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.member import QUORUM_STATE_PATH
from tidelog.sim.disk import SimDisk
from tidelog.sim.nodes.cluster import DATA
from tidelog.sim.scenario.process import CLUSTER_ID, StoryServer
from tidelog.sim.scenario.words import StoryBatch, read_batches
from tidelog.storage import checkpoints
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.metadata_log import MetadataLog
from tidelog.storage.quorum_state_file import write_quorum_state
from tidelog.wire.records import Record, encode

TOPIC = "orders"
NAME = (TOPIC, 0)
EVERYTHING = 1 << 62
PLENTY_BYTES = 1 << 30
WRITTEN_AT_MS = 1_700_000_000_000


def encode_batch(
    names: Sequence[str],
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """One batch; each record is called by its value."""
    records = [Record(n, WRITTEN_AT_MS, None, each.encode()) for n, each in enumerate(names)]
    return encode(
        records,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def write_metadata(server: StoryServer, records: Sequence[MetadataRecord], end_offset: int) -> None:
    """All that was ever committed, as a snapshot that ends there."""
    disk, codec = server.files.open(DATA), KafkaEntryCodec()
    snapshot = SnapshotId(end_offset, 0)
    log = MetadataLog.open(disk, codec)
    log.install_snapshot(snapshot, codec.encode_snapshot(snapshot, records, (), 0))
    log.close()
    write_quorum_state(disk, QUORUM_STATE_PATH, (0, NO_LEADER, None))


def write_log(
    server: StoryServer, topic_id: bytes, records: Sequence[tuple[str, int]], high_watermark: int
) -> None:
    """One batch for each record, so that the log can be cut anywhere."""
    directory = _open_directory(server)
    log = directory.create_log(NAME, topic_id)
    for name, epoch in records:
        log.append_as_leader(encode_batch([name]), epoch)
    directory.close(broker_epoch=NO_EPOCH, high_watermarks={NAME: high_watermark})


def note_high_watermark(server: StoryServer, high_watermark: int | None) -> None:
    """The checkpoint, as a process wrote it before it died; None: the file is gone."""
    disk = server.files.open(DATA)
    if high_watermark is None:
        disk.remove(checkpoints.HIGH_WATERMARKS)
    else:
        checkpoints.write_offsets(disk, checkpoints.HIGH_WATERMARKS, {NAME: high_watermark})


def lose_tail(server: StoryServer, keep: int) -> tuple[int, int]:
    """Only records below `keep` had reached the disk. How many are left, and of how many."""
    disk = server.files.open(DATA)
    log = Log.open(disk, f"{TOPIC}-0", settings_before_metadata(server.config, TOPIC))
    held = log.log_end_offset - log.log_start_offset
    if keep < log.log_end_offset:
        log.truncate_to(keep)
    left = log.log_end_offset - log.log_start_offset
    log.close()
    stored = checkpoints.read_offsets(disk, checkpoints.RECOVERY_POINTS)
    if stored.get(NAME, 0) > log.log_end_offset:
        stored[NAME] = log.log_end_offset
        checkpoints.write_offsets(disk, checkpoints.RECOVERY_POINTS, stored)
    return left, held


class StoredReplica:
    """What a process that is down has left of the partition."""

    __slots__ = ("high_watermark", "log")

    def __init__(self, server: StoryServer) -> None:
        copy = server.files.open(DATA).copy()
        self.log = Log.open(copy, f"{TOPIC}-0", settings_before_metadata(server.config, TOPIC))
        stored = checkpoints.read_offsets(copy, checkpoints.HIGH_WATERMARKS)
        self.high_watermark = min(stored.get(NAME, 0), self.log.log_end_offset)


def holds_log(disk: SimDisk) -> bool:
    return disk.exists(f"{TOPIC}-0")


def batches_of(log: Log) -> list[StoryBatch]:
    found: list[StoryBatch] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        for run in log.read(position, EVERYTHING, PLENTY_BYTES):
            found += read_batches(run)
        position = found[-1].last_offset + 1
    return found


def _open_directory(server: StoryServer) -> LogDirectory:
    return LogDirectory.open(
        server.files.open(DATA),
        partial(settings_before_metadata, server.config),
        cluster_id=CLUSTER_ID,
        node_id=server.node_id,
    )
