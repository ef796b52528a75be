"""How a cleaned segment takes the place of the ones it was made from (replication.md §2.4).

    1  X.index.cleaned, X.timeindex.cleaned, X.txnindex.cleaned and X.log.cleaned are written
       and synced, their names too
    2  the three indexes are renamed to .swap, and that is synced
    3  X.log.cleaned becomes X.log.swap, synced: from here on the cleaning has happened
    4  the segments behind X that it covers become .deleted, the indexes get their final names,
       and that is synced
    5  X.log.swap becomes X.log, in place of the old one, synced

Before 3 there is no X.log.swap, and a load removes every trace. From 3 to 5 there is one, and
a load does 4 and 5 again: an index that is not there as .swap has its final name already,
because all three had been there, durably, when the log file was renamed. That is why there is
always a .txnindex, even an empty one: the old one must not stay in its place.

Steps 1 and 2 touch nothing that anybody reads, so an event loop may serve between them. The rest
is done in one piece.
"""

from collections.abc import Iterator, Sequence

from tidelog.host.ports import Disk
from tidelog.storage.atomic_file import discard, join
from tidelog.storage.errors import CorruptSegment
from tidelog.storage.scan import ScanRange, scan
from tidelog.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, Segment, file_name
from tidelog.wire.records import check_crc

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


def prepare_swap(disk: Disk, directory: str, cleaned: Segment) -> Iterator[None]:
    """Steps 1 and 2, in pieces of a few syncs."""
    cleaned.seal()
    cleaned.close()
    yield
    disk.sync_dir(directory)
    for suffix in INDEX_SUFFIXES:
        path = join(directory, file_name(cleaned.base_offset, suffix))
        disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    disk.sync_dir(directory)
    yield


def swap_in(
    disk: Disk, directory: str, old: Sequence[Segment], cleaned: Segment
) -> tuple[Segment, list[str]]:
    """What was prepared happens; durable when it returns. The segment under its final name, and
    the files to delete."""
    base = cleaned.base_offset
    span = base, cleaned.next_offset
    assert span == (old[0].base_offset, old[-1].next_offset), f"{cleaned.path}: {span}, not {old}"
    commit_swap(disk, directory, base)
    deleted = [path for segment in reversed(old[1:]) for path in segment.mark_deleted()]
    old[0].close()
    rename_indexes(disk, directory, base)
    disk.sync_dir(directory)
    rename_log(disk, directory, base)
    new = Segment(cleaned.place, base, gaps=True)
    new.next_offset = cleaned.next_offset
    new.transactions.load()
    return new, deleted


def commit_swap(disk: Disk, directory: str, base: int) -> None:
    """Step 3. The log file is renamed last: while it is not, nothing has happened."""
    path = join(directory, file_name(base, LOG_SUFFIX))
    disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    disk.sync_dir(directory)


def rename_indexes(disk: Disk, directory: str, base: int) -> None:
    for suffix in INDEX_SUFFIXES:
        path = join(directory, file_name(base, suffix))
        if disk.exists(path + SWAP_SUFFIX):
            disk.rename(path + SWAP_SUFFIX, path)


def rename_log(disk: Disk, directory: str, base: int) -> None:
    path = join(directory, file_name(base, LOG_SUFFIX))
    disk.rename(path + SWAP_SUFFIX, path)
    disk.sync_dir(directory)


def finish_swap(disk: Disk, directory: str, base: int, names: Sequence[str]) -> None:
    """After a crash: steps 4 and 5, whatever of them was done. CorruptSegment if the cleaned
    segment is bad: it was synced, so it is the disk's doing, and nothing is removed."""
    path = join(directory, file_name(base, LOG_SUFFIX + SWAP_SUFFIX))
    end = end_of(disk, path, base)
    bases = [int(name[: -len(LOG_SUFFIX)]) for name in names if is_log(name)]
    if end == base or min((later for later in bases if later >= end), default=end) != end:
        reason = f"it ends at {end}, where no segment begins"
        raise CorruptSegment(path, position=0, offset=base, reason=reason)
    # Segments go only once it is known that the cleaned one is whole.
    for name in names:
        digits, dot, suffix = name.partition(".")
        covered = digits.isdigit() and base < int(digits) < end
        if covered and dot + suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            discard(disk, join(directory, name))
    rename_indexes(disk, directory, base)
    disk.sync_dir(directory)
    rename_log(disk, directory, base)


def is_log(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) and name[: -len(LOG_SUFFIX)].isdigit()


def end_of(disk: Disk, path: str, base: int) -> int:
    """The end offset of a file of batches, every one of them checked."""
    file = disk.open(path)
    try:
        end = base
        where = ScanRange(file, path, base, 0, file.size())
        for batch in scan(where, next_offset=base, intact=check_crc, gaps=True):
            end = batch.header.next_offset
        return end
    finally:
        file.close()


def discard_cleaned(disk: Disk, directory: str, base: int) -> None:
    """A cleaning that was given up before step 3 leaves nothing behind."""
    log = join(directory, file_name(base, LOG_SUFFIX))
    if disk.exists(log + SWAP_SUFFIX):
        return  # the directory failed in the middle of a swap: the next load finishes it
    discard(disk, log + CLEANED_SUFFIX)
    for suffix in INDEX_SUFFIXES:
        path = join(directory, file_name(base, suffix))
        discard(disk, path + CLEANED_SUFFIX)
        discard(disk, path + SWAP_SUFFIX)
