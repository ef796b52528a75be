"""The replicas of one partition compared, for tests and demonstrations that have no command line.

Only the files are looked at, so the nodes may run or lie dead.
"""

from collections.abc import Mapping
from pathlib import Path

from tidelog.audit.replica_batches import Standing, scan_replica
from tidelog.audit.replica_comparison import (
    DIVERGING,
    IDENTICAL,
    LAGGING,
    Comparison,
    offsets_only_in,
)
from tidelog.audit.replicas import PartitionWork, audit_partition, with_standing
from tidelog.replica_files import DataDirectory, Replica

__all__ = ["DIVERGING", "IDENTICAL", "LAGGING", "Comparison", "compare", "records_only_in"]


def compare(directories: Mapping[int, Path], partition: str, high_watermark: int) -> Comparison:
    """Of `orders-0`, in the data directories of these nodes, below the high watermark."""
    topic, _, number = partition.rpartition("-")
    where = (topic, int(number))
    found = [DataDirectory(path, node).replica(where) for node, path in directories.items()]
    replicas = [each for each in found if each is not None]
    missing = set(directories) - {each.node_id for each in replicas}
    work = PartitionWork(
        *where,
        high_watermark,
        tuple(with_standing(replicas, ())),
        tuple((node, Standing()) for node in sorted(missing)),
    )
    return audit_partition(work)


def records_only_in(directory: Path, other: Path) -> int:
    """How many offsets from the first difference on the replica in one directory holds that the
    replica in another one does not."""
    ours, theirs = (scan_replica(Replica(0, "", 0, str(each))) for each in (directory, other))
    return offsets_only_in(ours, theirs)
