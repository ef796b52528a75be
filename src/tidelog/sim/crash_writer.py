"""What the workloads of the crash-state proof write, and what is owed of it."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.sim.disk import SimDisk
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.wire.records import EndTxnMarker, Record, encode, encode_end_txn_marker

CLUSTER = "crash-states"
NODE = 1
TOPIC_ID = b"topic of crashes"
PRODUCER = 7
PROPERTIES = MetaProperties(CLUSTER, NODE, b"disk that breaks")
ORDERS: PartitionName = ("orders", 0)
WIDE: PartitionName = ("wide", 3)
GATHERED: PartitionName = ("gathered", 1)
LATEST: PartitionName = ("latest", 0)

History = tuple[bytes, ...]
"""The batches of a log, from its first one ever; position n holds offset n."""


class Owed(NamedTuple):
    """What any crash from here on must leave of one log. Every batch has one record, so that
    offsets count batches. With `compacted` some of them may be gone."""

    histories: tuple[History, ...]
    end_at_least: int = 0
    start_at_least: int = 0
    start_at_most: int = 0
    may_be_gone: bool = False
    compacted: bool = False
    may_be_refused: bool = False
    """Somebody is taking its files away."""
    must_be_refused: bool = False


class Mark(NamedTuple):
    """What the workload says when it got somewhere."""

    logs: Mapping[PartitionName, Owed]
    high_watermarks: tuple[Mapping[PartitionName, int], ...] = ()
    formatted: bool = True


def open_directory(disk: SimDisk) -> LogDirectory:
    return LogDirectory.open(disk, config_of, cluster_id=CLUSTER, node_id=NODE)


def config_of(topic: str) -> LogConfig:
    """Three batches to a segment or many; index entries written as they come, or two together."""
    config = LogConfig(
        segment_bytes=4000 if topic in (WIDE[0], GATHERED[0]) else 330,
        index_interval_bytes=90,
        index_write_bytes=16 if topic == GATHERED[0] else 1,
        retention_ms=10_000,
    )
    if topic == LATEST[0]:
        config.cleanup_policy = ("compact",)
        config.min_cleanable_dirty_ratio = 0.0
        config.delete_retention_ms = 100
        config.index_interval_bytes = 1000
    return config


# Batches of one record each


def one_record(offset: int, *, time_ms: int = 1000, padding: int = 20, tag: str = "r") -> bytearray:
    """Another tag is another producer: what it wrote must not be mistaken for the first one's."""
    return encode(
        [Record(0, time_ms, None, f"{tag}{offset}".encode().ljust(padding, b"."))],
        producer_id=PRODUCER if tag == "r" else PRODUCER + 1,
        producer_epoch=0,
        base_sequence=offset,
    )


class Writer:
    """Appends to one log and keeps the history that a crash may leave a part of."""

    def __init__(self, disk: SimDisk, directory: LogDirectory, name: PartitionName) -> None:
        self.disk = disk
        self.directory = directory
        self.name = name
        self.log = directory.logs[name]
        self.history: list[bytes] = []
        self.beside: dict[PartitionName, Owed] = {}
        self.start_at_most = 0
        self.start_at_least = 0
        self.compacted = False

    def owed(self, *others: History) -> Owed:
        return Owed(
            (tuple(self.history), *others),
            end_at_least=self.log.durable_offset,
            start_at_least=self.start_at_least,
            start_at_most=self.start_at_most,
            compacted=self.compacted,
        )

    def mark(self) -> None:
        self.disk.mark(Mark({**self.beside, self.name: self.owed()}))

    def append(self, epoch: int, *, tag: str = "r", padding: int = 20, time_ms: int = 1000) -> None:
        """From before the append on, the batch may be there."""
        offset = self.log.log_end_offset
        data = one_record(offset, tag=tag, padding=padding, time_ms=time_ms)
        self._append(data, epoch)

    def put(self, epoch: int, key: bytes, *, deleted: bool = False, producer: int = -1) -> None:
        """A record with a key; with a producer, in a transaction. A tombstone if deleted."""
        offset = self.log.log_end_offset
        value = None if deleted else b"v%d" % offset
        data = encode(
            [Record(0, 1000 + offset, key, value)],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=offset if producer >= 0 else -1,
            transactional=producer >= 0,
        )
        self._append(data, epoch)

    def end_transaction(self, epoch: int, *, commit: bool) -> None:
        marker = EndTxnMarker(commit, PRODUCER, 0, 0)
        self._append(encode_end_txn_marker(marker, timestamp_ms=1000), epoch)

    def _append(self, data: bytearray, epoch: int) -> None:
        self.history.append(stamped(data, len(self.history), epoch))
        self.mark()
        self.log.append_as_leader(data, epoch)

    def sync(self) -> None:
        """From after the sync on, it must be there."""
        self.directory.sync_dirty()
        self.mark()


def stamped(data: bytearray, offset: int, epoch: int) -> bytes:
    copy = bytearray(data)
    copy[0:8] = offset.to_bytes(8, "big")
    copy[12:16] = epoch.to_bytes(4, "big")
    return bytes(copy)


def started(disk: SimDisk, *, name: PartitionName = ORDERS) -> Writer:
    """A formatted directory with one log. Nothing of that is in doubt any more."""
    format_directory(disk, PROPERTIES)
    directory = open_directory(disk)
    directory.create_log(name, TOPIC_ID)
    return Writer(disk, directory, name)
