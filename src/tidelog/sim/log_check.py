"""Is a log on disk what it says it is? (replication.md §12, rules 2 and 19)

A slow, obvious reader beside the fast one: it reads the files whole, believes nothing the log
keeps in memory, and says in words what does not fit.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.producers import ProducerEntry, ProducerStates
from tidelog.host.ports import Disk
from tidelog.storage.atomic_file import read_file
from tidelog.storage.checkpoints import RECOVERY_POINTS, read_epochs, read_offsets
from tidelog.storage.directory_names import parse_directory
from tidelog.storage.epoch_file import path_in
from tidelog.storage.errors import CorruptFile
from tidelog.storage.log import Log
from tidelog.storage.producer_replay import follow_batch
from tidelog.storage.segment import Segment
from tidelog.wire.records import BatchHeader, InvalidBatch, check_crc, read_header

_LEFTOVERS = (".deleted", ".cleaned", ".swap", ".tmp")


class StoredBatch(NamedTuple):
    header: BatchHeader
    data: bytes
    position: int


def log_faults(disk: Disk, log: Log, *, leftovers: bool = False) -> list[str]:
    """Everything that is wrong, in words. With `leftovers` files in deletion are allowed."""
    faults: list[str] = []
    batches: list[StoredBatch] = []
    for segment in log.segments:
        own, torn = stored_batches(disk, segment)
        faults += torn
        faults += offset_index_faults(disk, segment, own)
        faults += time_index_faults(disk, segment, own)
        faults += end_faults(log, segment, own)
        batches += own
    if faults:
        return faults
    faults += chain_faults(log, batches)
    faults += epoch_faults(disk, log, batches)
    faults += producer_faults(log, batches)
    faults += read_faults(log, batches)
    if not leftovers:
        names = disk.list(log.directory)
        faults += [f"{name} was left over" for name in names if name.endswith(_LEFTOVERS)]
    return faults


def stored_batches(disk: Disk, segment: Segment) -> tuple[list[StoredBatch], list[str]]:
    """The batches in the file; a fault if anything in it is not one."""
    content = read_file(disk, segment.path) or b""
    batches: list[StoredBatch] = []
    position = 0
    if len(content) != segment.size:
        return [], [f"{segment.path} has {len(content)} bytes, not {segment.size}"]
    while position < len(content):
        try:
            header = read_header(content, position)
            intact = check_crc(content, position, header)
        except InvalidBatch as error:
            return batches, [f"{segment.path} byte {position}: {error}"]
        if not intact:
            return batches, [f"{segment.path} byte {position}: bad checksum"]
        end = position + header.size_bytes
        batches.append(StoredBatch(header, content[position:end], position))
        position = end
    return batches, []


def offset_index_faults(disk: Disk, segment: Segment, batches: list[StoredBatch]) -> list[str]:
    """An entry: some batch ends with its offset, one begins at its position, not behind it."""
    segment.load_indexes()
    path = segment.offsets.file.path
    content = read_file(disk, path)
    if content is None:
        return [f"{path} is gone"]
    base = segment.base_offset
    written = [(base + offset, position) for offset, position in _pairs(content, ">ii")]
    entries = segment.offsets.entries()
    waiting = segment.offsets.file.waiting_bytes // segment.offsets.ENTRY_SIZE
    if written != entries[: len(entries) - waiting]:
        return [f"{path} holds {written}, in memory {entries}, of which {waiting} wait"]
    starts = {batch.position: batch.header.base_offset for batch in batches}
    ends = {batch.header.last_offset for batch in batches}
    faults = [
        f"{path}: {offset} at {position} is no batch"
        for offset, position in entries
        if offset not in ends or starts.get(position, offset + 1) > offset
    ]
    if entries != sorted(set(entries)):
        faults.append(f"{path}: {entries} do not increase")
    return faults


def time_index_faults(disk: Disk, segment: Segment, batches: list[StoredBatch]) -> list[str]:
    """An entry: the first batch that brought this largest timestamp so far."""
    path = segment.times.file.path
    content = read_file(disk, path)
    if content is None:
        return [f"{path} is gone"]
    base = segment.base_offset
    written = [(timestamp, base + offset) for timestamp, offset in _pairs(content, ">qi")]
    entries = segment.times.entries()
    waiting = segment.times.file.waiting_bytes // segment.times.ENTRY_SIZE
    if written != entries[: len(entries) - waiting]:
        return [f"{path} holds {written}, in memory {entries}, of which {waiting} wait"]
    largest = -1
    records: list[tuple[int, int]] = []
    for batch in batches:
        if batch.header.max_timestamp > largest:
            largest = batch.header.max_timestamp
            records.append((largest, batch.header.last_offset))
    faults = [f"{path}: {entry} never was the newest" for entry in entries if entry not in records]
    if segment.max_timestamp != largest:
        faults.append(f"{path}: largest timestamp {segment.max_timestamp}, really {largest}")
    return faults


def _pairs(content: bytes, layout: str) -> Iterator[tuple[int, int]]:
    size = struct.calcsize(layout)
    yield from struct.iter_unpack(layout, content[: len(content) // size * size])


def end_faults(log: Log, segment: Segment, batches: list[StoredBatch]) -> list[str]:
    """A segment ends where the next one begins, compacted or not."""
    following = [s.base_offset for s in log.segments if s.base_offset > segment.base_offset]
    end = batches[-1].header.next_offset if batches else segment.base_offset
    if following and following[0] != end:
        return [f"{segment.path} ends at {end}, the next one begins at {following[0]}"]
    return []


def chain_faults(log: Log, batches: list[StoredBatch]) -> list[str]:
    """Batches follow one another from the first segment to the log end, without a gap unless
    the log was compacted."""
    faults: list[str] = []
    first = log.segments[0].base_offset
    expected = first
    epoch = -1
    for batch in batches:
        base = batch.header.base_offset
        if base < expected or (base > expected and not log.may_have_gaps):
            faults.append(f"offset {batch.header.base_offset} where {expected} belongs")
        if batch.header.leader_epoch < epoch:
            faults.append(f"epoch {batch.header.leader_epoch} after {epoch} at {expected}")
        epoch = batch.header.leader_epoch
        expected = batch.header.next_offset
    if log.log_end_offset != expected:
        faults.append(f"log end {log.log_end_offset}, the last batch ends at {expected}")
    if not first <= log.log_start_offset <= log.log_end_offset:
        faults.append(f"log start {log.log_start_offset} outside {first}..{expected}")
    if not log.recovery_point <= log.log_end_offset:
        faults.append(f"recovery point {log.recovery_point} behind {log.log_end_offset}")
    return faults


def epoch_faults(disk: Disk, log: Log, batches: list[StoredBatch]) -> list[str]:
    """The history on disk, the one in memory and the batches tell the same story. The file may
    lack what began behind the recovery point on disk."""
    faults: list[str] = []
    entries = log.epochs.entries
    stored = EpochHistory(read_epochs(disk, path_in(log.directory)))
    stored.truncate_from_start(log.log_start_offset)
    known = len(stored.entries)
    point = stored_recovery_point(disk, log)
    if stored.entries != entries[:known] or any(start < point for _, start in entries[known:]):
        faults.append(f"epochs on disk {stored}, in memory {entries}, recovery point {point}")
    for batch in batches:
        last = batch.header.last_offset
        if last >= log.log_start_offset and log.epochs.epoch_at(last) != batch.header.leader_epoch:
            faults.append(f"epoch {batch.header.leader_epoch} at {last}, history {entries}")
    return faults


def stored_recovery_point(disk: Disk, log: Log) -> int:
    """0 if nobody promised anything."""
    name = parse_directory(log.directory)
    try:
        points = read_offsets(disk, RECOVERY_POINTS)
    except CorruptFile:
        return 0
    return points.get(name, 0) if name is not None else 0


def producer_faults(log: Log, batches: list[StoredBatch]) -> list[str]:
    """Each producer's remembered batches and open transaction are the ones in the log. Producers
    and batches whose records are gone may still be known."""
    replayed = ProducerStates()
    for batch in batches:
        follow_batch(replayed, batch.header, batch.data, 0)
    known = {entry.producer_id: entry for entry in log.producers.entries()}
    first = log.segments[0].base_offset
    return [
        f"producer {entry.producer_id} is not as the log says"
        for entry in replayed.entries()
        if entry.producer_id not in known or not _same(entry, known[entry.producer_id], first)
    ]


def _same(replayed: ProducerEntry, known: ProducerEntry, first_offset: int) -> bool:
    if replayed.producer_epoch != known.producer_epoch:
        return False
    # The timestamp of the last row of a snapshot is the producer's, which a marker may have moved.
    remembered = [batch[:4] for batch in known.batches]
    expected = [batch[:4] for batch in replayed.batches]
    if expected and (not remembered or remembered[-1] != expected[-1]):
        return False
    # Compaction takes batches from between others, so a log may hold one that is forgotten here.
    oldest = known.batches[0].first_offset if remembered else 0
    if any(each.first_offset >= oldest and each[:4] not in remembered for each in replayed.batches):
        return False
    since = known.current_txn_first_offset
    # A transaction may have begun in a segment that retention has taken since.
    return since == replayed.current_txn_first_offset or 0 <= since < first_offset


def read_faults(log: Log, batches: list[StoredBatch]) -> list[str]:
    """Reading finds every batch that lies at or behind the log start, also from the gap that
    compaction may have left in front of it."""
    faults: list[str] = []
    end = log.segments[0].base_offset
    for batch in batches:
        header = batch.header
        if header.last_offset >= log.log_start_offset:
            first = max(header.base_offset, log.log_start_offset)
            for wanted in dict.fromkeys((first, max(end, log.log_start_offset))):
                found = b"".join(log.read(wanted, header.next_offset, 1))
                if found != batch.data:
                    faults.append(f"read of {wanted} finds {len(found)} bytes, not the batch there")
        end = header.next_offset
    return faults
