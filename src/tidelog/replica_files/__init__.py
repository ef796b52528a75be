"""Replicas read by their files, from outside: nothing is changed, no node is asked.

The nodes may run or lie dead. What is below a high watermark does not change any more, so it can
be read while a broker appends behind it; whole files may go (retention) or be replaced
(compaction), and whoever reads finds the segment anew.
"""

from tidelog.replica_files.bounds import last_stable_offset, log_end, shared_end
from tidelog.replica_files.directory import DataDirectory, NoDataDirectory, Replica, find_replicas
from tidelog.replica_files.missing_start import missing_at_start
from tidelog.replica_files.segments import (
    SegmentFile,
    aborted_transactions,
    offset_index,
    segments_of,
    time_index,
)
from tidelog.replica_files.times import offset_at_time
from tidelog.replica_files.walking import (
    REGION_BYTES,
    Region,
    SegmentWalk,
    Stopped,
    resume_after,
)
from tidelog.storage.errors import CorruptFile

__all__ = [
    "REGION_BYTES",
    "CorruptFile",
    "DataDirectory",
    "NoDataDirectory",
    "Region",
    "Replica",
    "SegmentFile",
    "SegmentWalk",
    "Stopped",
    "aborted_transactions",
    "find_replicas",
    "last_stable_offset",
    "log_end",
    "missing_at_start",
    "offset_at_time",
    "offset_index",
    "resume_after",
    "segments_of",
    "shared_end",
    "time_index",
]
