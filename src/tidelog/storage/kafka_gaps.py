"""Segments that Kafka compacted, before their logs are opened.

With us a segment ends where the next one begins; a record that is missing at its end is a loss.
Kafka's compaction lets the last batches of a segment go. So, where Kafka ran last and stopped in
order, a segment below the clean point that ends early gets an empty batch over the offsets that
are gone: what our own compaction leaves there, and Kafka reads.

Whether Kafka ran last is seen by the broker epoch of the orderly stop: ours is also in a file of
our own, and every registration has a new one.
"""

from itertools import pairwise

from tidelog.host.ports import Disk
from tidelog.storage import atomic_file, checkpoints, clean_shutdown
from tidelog.storage.append_info import info_of
from tidelog.storage.atomic_file import join, read_file
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.config import LogConfig
from tidelog.storage.directory_names import directory_of
from tidelog.storage.errors import CorruptFile
from tidelog.storage.guarded_disk import guard
from tidelog.storage.recovery import base_of
from tidelog.storage.segment import LOG_SUFFIX, Segment
from tidelog.storage.segment_place import SegmentPlace
from tidelog.wire.records import encode, read_header

FILE_NAME = ".tidelog-stopped"


def note_stop(disk: Disk, broker_epoch: int) -> None:
    """This directory was closed in order by us, as that incarnation."""
    atomic_file.replace_file(disk, FILE_NAME, f"{broker_epoch}\n".encode())


def kafka_ran_last(disk: Disk) -> bool:
    """And stopped in order. After a crash nobody knows, and nothing may be assumed."""
    stopped_as = clean_shutdown.read_marker(disk)
    ours = (read_file(disk, FILE_NAME) or b"").decode("ascii", "replace").strip()
    return stopped_as is not None and ours != str(stopped_as)


def fill_gaps(disk: Disk) -> dict[str, int]:
    """By log directory: how many of its segments ended early. Durable when this returns."""
    if not kafka_ran_last(disk):
        return {}
    try:
        clean_points = checkpoints.read_offsets(disk, checkpoints.CLEAN_POINTS)
    except CorruptFile:
        return {}  # whoever opens the directory says so
    filled = {directory_of(name): _fill(disk, name, end) for name, end in clean_points.items()}
    return {directory: count for directory, count in filled.items() if count}


def _fill(disk: Disk, name: PartitionName, clean_point: int) -> int:
    directory = directory_of(name)
    if not disk.exists(directory):
        return 0
    bases = sorted(
        base_of(each)
        for each in disk.list(directory)
        if each.endswith(LOG_SUFFIX) and each.removesuffix(LOG_SUFFIX).isdigit()
    )
    count = 0
    for base, following in pairwise(bases):
        if following <= clean_point:
            count += _fill_segment(disk, directory, base, following)
    return count


def _fill_segment(disk: Disk, directory: str, base: int, following: int) -> bool:
    segment = Segment(SegmentPlace(guard(disk), directory, LogConfig(), []), base, gaps=True)
    try:
        segment.find_end()
        end = segment.next_offset
        if end >= following:
            return False
        batch = encode(
            (),
            base_offset=end,
            leader_epoch=_epoch_at(disk, directory, following - 1),
            last_offset_delta=following - 1 - end,
        )
        segment.append(batch, info_of(read_header(batch)))
        segment.seal()
        return True
    except CorruptFile:
        return False  # bad in another way: whoever opens the log says so
    finally:
        segment.close()


def _epoch_at(disk: Disk, directory: str, offset: int) -> int:
    entries = checkpoints.read_epochs(disk, join(directory, checkpoints.EPOCHS))
    return max((epoch for epoch, start in entries if start <= offset), default=0)
