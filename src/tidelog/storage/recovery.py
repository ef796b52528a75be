"""Loading a log, and what a crash leaves of it (replication.md §2.4).

A crash may tear what was not synced: the end of the log is then cut at the last whole batch.
What lies below the recovery point was synced, so a crash cannot have hurt it; if it is bad the
disk lost it, and cutting would hide that. Then loading refuses with CorruptSegment and changes
no record. With another replica to fetch from, `repair` cuts there as if it were a torn tail.
"""

from typing import NamedTuple

from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.producers import ProducerStates
from tidelog.host.ports import Disk
from tidelog.storage import checkpoints
from tidelog.storage.atomic_file import TEMPORARY_SUFFIX, discard, join
from tidelog.storage.epoch_file import path_in
from tidelog.storage.errors import (
    ContradictedSegment,
    CorruptFile,
    CorruptSegment,
    MissingRecords,
    OffsetsGoBack,
)
from tidelog.storage.indexes import AbortedTransaction, OffsetIndex, TimeIndex
from tidelog.storage.producer_replay import SnapshotFiles, rebuild
from tidelog.storage.producer_snapshots import SUFFIX as SNAPSHOT_SUFFIX
from tidelog.storage.repairs import INDEX_MADE_ANEW, PRODUCERS_REPLAYED, Repair, Repairs
from tidelog.storage.segment import DELETED_SUFFIX, INDEX_SUFFIXES, LOG_SUFFIX, Segment, file_name
from tidelog.storage.segment_place import SegmentPlace
from tidelog.storage.swap import CLEANED_SUFFIX, SWAP_SUFFIX, finish_swap, is_log
from tidelog.wire.records import HEADER_SIZE, BatchHeader, InvalidBatch, check_crc, read_header

LARGEST_OFFSET = (1 << 63) - 1


class LoadRequest(NamedTuple):
    """Where the log is, and what the checkpoints of its directory say about it."""

    place: SegmentPlace
    recovery_point: int
    log_start: int
    knows_start: bool
    """Whether the log start was stored: then a segment above it proves that some are gone."""
    clean_shutdown: bool
    repair: bool
    gaps: bool = False

    @property
    def disk(self) -> Disk:
        return self.place.disk

    @property
    def directory(self) -> str:
        return self.place.directory

    @property
    def may_have_gaps(self) -> bool:
        return self.gaps or self.place.config.compacts

    def note(self, fault: CorruptFile, done: str) -> None:
        self.place.repairs.append(Repair(fault, done))

    @property
    def epochs_end(self) -> int:
        """Below it the epoch checkpoint is complete."""
        return LARGEST_OFFSET if self.clean_shutdown else self.recovery_point


class LoadedLog(NamedTuple):
    segments: list[Segment]
    recovered: list[Segment]
    log_start: int
    recovery_point: int
    epochs: EpochHistory
    stored_epoch: int
    """The latest one in the epoch checkpoint."""
    producers: ProducerStates
    snapshots: SnapshotFiles
    gaps_are_noted: bool
    leaving: list[str]
    """Files that prove that the segments below the log start went on purpose."""


def load(request: LoadRequest) -> LoadedLog:
    """The log as it is after whatever happened to it. A second load changes nothing more."""
    disk, directory = request.disk, request.directory
    finish_swaps(disk, directory)
    leaving = sweep_leftovers(request)
    segments = open_segments(request)
    hole = None if leaving else hole_at_start(request, segments)
    if hole is not None:
        if not request.repair:
            raise hole
        drop_segments(request, segments)
        segments.clear()
    epochs = load_epochs(request, segments)
    stored = epochs.latest_epoch
    recovered = recover_segments(request, segments, epochs)
    refuse_lost_records(request, segments)
    log_start = settle_start(request, segments, epochs)
    stored = settle_epochs(request, epochs, stored, log_start, segments[-1].next_offset)
    producers, snapshots = load_producers(request, segments, recovered)
    end = segments[-1].next_offset
    assert log_start <= end, f"{directory}: log start {log_start} behind log end {end}"
    recovery_point = end if request.clean_shutdown else min(request.recovery_point, end)
    return LoadedLog(
        segments,
        recovered,
        log_start,
        recovery_point,
        epochs,
        stored,
        producers,
        snapshots,
        request.gaps,
        leaving,
    )


# Step 2: files that were on their way out or in


def finish_swaps(disk: Disk, directory: str) -> None:
    """Those that a crash interrupted."""
    names = disk.list(directory)
    cleaned = [base_of(name) for name in names if name.endswith(LOG_SUFFIX + CLEANED_SUFFIX)]
    unfinished = min(cleaned, default=1 << 63)
    for name in names:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX) and base_of(name) < unfinished:
            finish_swap(disk, directory, base_of(name), names)


def sweep_leftovers(request: LoadRequest) -> list[str]:
    """Finish deletions that a crash interrupted; drop indexes without a segment. Kept for now are
    those segments without which the log would seem to have lost its start."""
    disk, directory = request.disk, request.directory
    names = disk.list(directory)
    leaving = segments_on_their_way_out(request, names)
    changed = False
    for name in names:
        if name in leaving:
            continue
        leftover = name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX))
        orphan = name.endswith(INDEX_SUFFIXES) and name.partition(".")[0] + LOG_SUFFIX not in names
        if leftover or orphan:
            discard(disk, join(directory, name))
            changed = True
    if changed:
        disk.sync_dir(directory)
    return [join(directory, name) for name in leaving]


def segments_on_their_way_out(request: LoadRequest, names: list[str]) -> list[str]:
    """A crash came before the log start was stored that retention had raised. An orderly stop
    stores it."""
    bases = [base_of(name) for name in names if is_log(name)]
    if request.clean_shutdown or not request.knows_start or not bases:
        return []
    out = [name for name in names if name.endswith(LOG_SUFFIX + DELETED_SUFFIX)]
    explains = any(base_of(name) <= request.log_start for name in out)
    return out if explains and min(bases) > request.log_start else []


def base_of(name: str) -> int:
    digits = name.partition(".")[0]
    return int(digits) if digits.isdigit() else 0


# Step 3: segments


def open_segments(request: LoadRequest) -> list[Segment]:
    """In offset order; each ends where the next one begins, the last one is not known yet."""
    disk, directory = request.disk, request.directory
    bases = sorted(base_of(name) for name in disk.list(directory) if is_log(name))
    segments = [Segment(request.place, base, gaps=request.may_have_gaps) for base in bases]
    for segment, following in zip(segments, bases[1:], strict=False):
        segment.next_offset = following
    return segments


def hole_at_start(request: LoadRequest, segments: list[Segment]) -> MissingRecords | None:
    """A log start moves by retention, DeleteRecords or a leader that did one of these, and each
    of them is on disk before the segments below go. So a first segment above the log start that
    is on disk means that files were lost, and not that the log starts later (mutant M46)."""
    if not request.knows_start or not segments or segments[0].base_offset <= request.log_start:
        return None
    first = segments[0]
    return MissingRecords(first.path, position=0, offset=request.log_start, end=first.base_offset)


def recover_segments(
    request: LoadRequest, segments: list[Segment], epochs: EpochHistory
) -> list[Segment]:
    """Step 4: walk over every segment that cannot be trusted; cut at the first bad batch and
    drop everything behind it. The segments whose indexes were made anew."""
    recovered: list[Segment] = []
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        noted = len(request.place.repairs)
        doubts = doubts_about(request, segment, is_last)
        if doubts is None:
            continue
        recovered.append(segment)
        following = None if is_last else segments[number + 1]
        fault = recover_segment(segment, following, epochs, request.epochs_end)
        fault = fault or gap_behind(segment, following)
        if fault is None:
            request.place.repairs.extend(doubts)
            continue
        del request.place.repairs[noted:]  # its indexes only did not fit what is left of it
        if is_corruption(fault, request) and not request.repair:
            raise fault
        request.note(fault, cut_in_words(fault, dropped=len(segments) - number - 1))
        cut_torn_tail(segment, fault)
        drop_segments(request, segments[number + 1 :])
        del segments[number + 1 :]
        break
    return recovered


def doubts_about(request: LoadRequest, segment: Segment, is_last: bool) -> Repairs | None:
    """None if it need not be walked over. It must be, after a crash: the segment that reaches the
    recovery point and all behind it. One that ends exactly there may have been the last one when
    the recovery point was stored, and its indexes are synced only after a roll. Always: one whose
    indexes are missing or bad, which are named, and the last one if it does not end with a whole
    batch."""
    if not request.clean_shutdown and (is_last or segment.next_offset >= request.recovery_point):
        return []
    if not is_last and not request.may_have_gaps and not seems_to_reach_its_end(segment):
        return [bad_index(request, segment, f"it does not lead to offset {segment.next_offset}")]
    for suffix in (OffsetIndex.SUFFIX, TimeIndex.SUFFIX):
        path = join(request.directory, file_name(segment.base_offset, suffix))
        if not request.disk.exists(path):
            return [Repair(CorruptFile(path, "byte 0", "the file is gone"), INDEX_MADE_ANEW)]
    try:
        segment.transactions.load()
        if is_last:
            segment.find_end()
    except CorruptSegment as error:  # if the segment is sound, it was the index
        return [bad_index(request, segment, error.reason)]
    except CorruptFile as error:
        return [Repair(error, INDEX_MADE_ANEW)]
    return None


def bad_index(request: LoadRequest, segment: Segment, reason: str) -> Repair:
    path = join(request.directory, file_name(segment.base_offset, OffsetIndex.SUFFIX))
    return Repair(CorruptFile(path, "byte 0", reason), INDEX_MADE_ANEW)


def seems_to_reach_its_end(segment: Segment) -> bool:
    """Do its batches end where the next segment begins, as far as the last index entry and the
    headers behind it tell? If not, only a walk over all of it makes sure."""
    position, end = segment.offsets.stored_last_position(), segment.base_offset
    try:
        while position < segment.size:
            header = read_header(segment.file.read(position, HEADER_SIZE))
            position, end = position + header.size_bytes, header.next_offset
    except InvalidBatch:
        return False
    return position == segment.size and end == segment.next_offset


class Suspect(NamedTuple):
    """A batch that may be the wrong one, and where the log ends without it. What the batch itself
    says of its offset is not to be trusted: a checksum does not cover it."""

    position: int
    end_before: int

    def fault(self, segment: Segment, kind: type[CorruptSegment], reason: str) -> CorruptSegment:
        return kind(segment.path, position=self.position, offset=self.end_before, reason=reason)


def recover_segment(
    segment: Segment, following: Segment | None, epochs: EpochHistory, synced_end: int
) -> CorruptSegment | None:
    """Check every batch and index it; behind `synced_end` learn its epoch. What stopped it before
    the end of the file, if anything. Where epochs fall, the last one that was learned may be the
    wrong one: the doubt begins there."""
    segment.next_offset = segment.base_offset
    segment.forget_indexes()
    segment.mark_unsynced()
    limit = LARGEST_OFFSET if following is None else following.base_offset
    learned = previous = None
    try:
        for batch in segment.batches(intact=is_intact):
            this = Suspect(batch.position, segment.next_offset)
            if batch.header.next_offset > limit:
                reason = f"offset {batch.header.base_offset}, the next segment begins at {limit}"
                return this.fault(segment, CorruptSegment, reason)
            if batch.header.next_offset > synced_end and learn_epoch(
                batch.header, epochs, this.end_before
            ):
                learned = this
            contradiction = contradicts_history(batch.header, epochs)
            if contradiction is not None:
                return (learned or this).fault(segment, ContradictedSegment, contradiction)
            segment.index_batch(batch.position, batch.header)
            previous = this
    except OffsetsGoBack as fault:
        if previous is not None and was_synced(segment.next_offset, previous, synced_end):
            return previous.fault(segment, CorruptSegment, fault.reason)
        return fault
    except CorruptSegment as fault:
        return fault
    finally:
        segment.flush_indexes()
    return None


def was_synced(end: int, batch: Suspect, synced_end: int) -> bool:
    """Offsets go back behind this batch, which ends at `end`. If it was synced, and was not the
    last one that was, then so was the batch behind it. No crash has torn that one: either of the
    two has rotted, and the log is whole only before both."""
    return batch.end_before < synced_end != end


def is_intact(data: bytes, position: int, header: BatchHeader) -> bool:
    """The checksum decides whether all bytes of a batch reached the disk (mutant M35)."""
    return check_crc(data, position, header)


def learn_epoch(header: BatchHeader, epochs: EpochHistory, end: int) -> bool:
    """The file may lack the epochs that began behind the recovery point (ADR 0028). A gap before
    a new epoch belongs to it, as in `Log`. True if this one was not known."""
    is_new = header.leader_epoch > epochs.latest_epoch
    if is_new:
        epochs.assign(header.leader_epoch, min(header.base_offset, end))
    return is_new


def contradicts_history(header: BatchHeader, epochs: EpochHistory) -> str | None:
    """The epoch of a batch lies outside its checksum, and a history that knows it is right."""
    expected = epochs.epoch_at(header.last_offset)
    if header.leader_epoch == expected or expected < 0:
        return None
    return f"leader epoch {header.leader_epoch}, the history says {expected}"


def gap_behind(segment: Segment, following: Segment | None) -> CorruptSegment | None:
    """A segment may end with a whole batch and yet have lost some."""
    if following is None or segment.next_offset == following.base_offset:
        return None
    end = segment.next_offset
    path, position = segment.path, segment.size
    return MissingRecords(path, position=position, offset=end, end=following.base_offset)


def is_corruption(fault: CorruptSegment, request: LoadRequest) -> bool:
    """Bytes that were synced cannot be torn by a crash, and an orderly stop syncs all."""
    if request.clean_shutdown or isinstance(fault, ContradictedSegment):
        return True
    return fault.offset < request.recovery_point


def cut_torn_tail(segment: Segment, fault: CorruptSegment) -> None:
    """Nothing but whole batches may remain in the file (mutant M36)."""
    segment.cut_at(fault.position, fault.offset)


def cut_in_words(fault: CorruptSegment, *, dropped: int) -> str:
    later = f", {dropped} later segments removed" if dropped else ""
    again = f"records from offset {fault.offset} on are fetched again if a leader has them"
    return f"cut to {fault.position} bytes{later}, {again}"


def drop_segments(request: LoadRequest, segments: list[Segment]) -> None:
    """With one sync for all: an event loop may wait for it. A crash in between may leave a hole.
    The next load drops what stands behind it, or refuses the log, to be repaired once more."""
    gone = [path for segment in reversed(segments) for path in segment.mark_deleted()]
    if gone:
        request.disk.sync_dir(request.directory)
    for path in gone:
        discard(request.disk, path)


# Steps 5 and 6: where it starts and ends


def refuse_lost_records(request: LoadRequest, segments: list[Segment]) -> None:
    """Records below the recovery point were on disk. If the log ends before it they are gone,
    and an empty log must not be invented in their place (reliability.md P7)."""
    end = segments[-1].next_offset if segments else 0
    if end < request.recovery_point and not request.repair:
        last = segments[-1].path if segments else join(request.directory, "*" + LOG_SUFFIX)
        raise CorruptSegment(
            last,
            position=segments[-1].size if segments else 0,
            offset=end,
            reason=f"records up to {request.recovery_point} were on disk and are gone",
        )


def settle_start(request: LoadRequest, segments: list[Segment], epochs: EpochHistory) -> int:
    """The log start offset. A log that a crash left ending before it holds nothing that may be
    shown. After an orderly stop it cannot end before it: then the checkpoint is wrong."""
    if segments and segments[-1].next_offset < request.log_start:
        if request.clean_shutdown:
            where = f"{request.directory} {request.log_start}"
            reason = f"the log ends at {segments[-1].next_offset}"
            fault = CorruptFile(checkpoints.LOG_STARTS, where, reason)
            request.note(fault, "the log starts with its first segment")
            return segments[0].base_offset
        drop_segments(request, segments)
        segments.clear()
    if not segments:
        if epochs.entries:
            epochs.clear()
            checkpoints.write_epochs(request.disk, path_in(request.directory), ())
        segments.append(
            Segment.create(request.place, request.log_start, gaps=request.may_have_gaps)
        )
        request.disk.sync_dir(request.directory)
    return max(request.log_start, segments[0].base_offset)


def load_epochs(request: LoadRequest, segments: list[Segment]) -> EpochHistory:
    """From its file. Without one that can be read, from the batches of the whole log."""
    path = path_in(request.directory)
    try:
        entries = checkpoints.read_epochs(request.disk, path)
        if covers_log(entries, segments, request):
            return EpochHistory(entries)
        fault = CorruptFile(path, "line 1", "it does not know the oldest records")
    except CorruptFile as error:
        fault = error
    request.note(fault, "made anew from the batches of the log")
    epochs = epochs_of_batches(segments)
    checkpoints.write_epochs(request.disk, path, epochs.entries)
    return epochs


def covers_log(
    entries: list[tuple[int, int]], segments: list[Segment], request: LoadRequest
) -> bool:
    """Does the history know the first record that is shown, or will recovery learn it?"""
    if not any(segment.size for segment in segments):
        return True
    first = max(request.log_start, segments[0].base_offset)
    return (entries[0][1] if entries else request.epochs_end) <= first


def epochs_of_batches(segments: list[Segment]) -> EpochHistory:
    """As far as the batches can be walked over; recovery judges the rest."""
    epochs = EpochHistory()
    for segment in segments:
        end = segment.base_offset
        try:
            for batch in segment.batches(intact=is_intact):
                learn_epoch(batch.header, epochs, end)
                end = batch.header.next_offset
        except CorruptSegment:
            return epochs
    return epochs


def settle_epochs(
    request: LoadRequest, epochs: EpochHistory, stored_epoch: int, log_start: int, log_end: int
) -> int:
    """Forget epochs of records that a crash, a truncation or retention took away. The latest one
    that is stored then: those that were learned from batches are not, and need not be."""
    forgotten = epochs.truncate_from_end(log_end) and epochs.latest_epoch < stored_epoch
    if epochs.truncate_from_start(log_start) or forgotten:
        checkpoints.write_epochs(request.disk, path_in(request.directory), epochs.entries)
        return epochs.latest_epoch
    return stored_epoch


# Step 7: producers


def note_missing_snapshot(request: LoadRequest, snapshots: SnapshotFiles, last: Segment) -> None:
    """An orderly stop leaves one of the end of the log."""
    if request.clean_shutdown and last.size and last.next_offset not in snapshots.offsets():
        path = join(request.directory, file_name(last.next_offset, SNAPSHOT_SUFFIX))
        request.note(CorruptFile(path, "byte 0", "the file is gone"), PRODUCERS_REPLAYED)


def trusted_end(request: LoadRequest, end: int) -> int:
    """After a crash: a snapshot that was taken behind the recovery point may be torn."""
    return end if request.clean_shutdown else min(request.recovery_point, end)


def load_producers(
    request: LoadRequest, segments: list[Segment], recovered: list[Segment]
) -> tuple[ProducerStates, SnapshotFiles]:
    """Newest good snapshot and replay; the aborted transactions of segments whose indexes were
    made anew are found on the way."""
    disk, directory = request.disk, request.directory
    end = segments[-1].next_offset
    snapshots = SnapshotFiles(disk, directory)
    note_missing_snapshot(request, snapshots, segments[-1])
    if snapshots.remove_after(trusted_end(request, end)):
        disk.sync_dir(directory)
    producers = ProducerStates()

    def note(segment: Segment, entry: AbortedTransaction) -> None:
        if segment in recovered:
            segment.transactions.add(entry)

    replay_from = recovered[0].base_offset if recovered else end
    bad = rebuild(producers, snapshots, segments, replay_from=replay_from, aborted=note)
    for fault in bad:
        request.note(fault, PRODUCERS_REPLAYED)
    if not request.clean_shutdown and end > segments[0].base_offset:
        snapshots.take(end, producers)
        snapshots.prune([segment.base_offset for segment in segments])
    return producers, snapshots
