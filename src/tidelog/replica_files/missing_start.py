"""Records at the start of a replica whose files are gone, though nothing deleted them."""

import os

from tidelog.replica_files.directory import Replica
from tidelog.replica_files.read_only_disk import ReadOnlyDisk
from tidelog.storage import checkpoints
from tidelog.storage.errors import CorruptFile
from tidelog.storage.segment import DELETED_SUFFIX, LOG_SUFFIX

Offsets = tuple[int, int]
"""First and end, excluded."""


def missing_at_start(replica: Replica) -> Offsets | None:
    """A broker stores a raised log start before the last trace of the segments below it goes
    (ADR 0031). So names are listed first and the log start is read afterwards, and this holds
    while the broker runs, too. None if nothing is missing, or the log start was never stored."""
    try:
        names = os.listdir(replica.directory)
        disk = ReadOnlyDisk(os.path.dirname(replica.directory))
        stored = checkpoints.read_offsets(disk, checkpoints.LOG_STARTS)
    except (OSError, CorruptFile):
        return None
    log_start = stored.get((replica.topic, replica.partition))
    bases = _bases(names, LOG_SUFFIX)
    leaving = _bases(names, LOG_SUFFIX + DELETED_SUFFIX)
    if log_start is None or not bases or min(bases) <= log_start:
        return None
    return None if any(base <= log_start for base in leaving) else (log_start, min(bases))


def _bases(names: list[str], suffix: str) -> list[int]:
    digits = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [int(each) for each in digits if each.isdigit()]
