"""The checkpoints of a log directory as a start finds them: read, or replaced by what is safe, and
the logs that they know of and that are gone."""

from collections.abc import Container, Mapping, Sequence

from tidelog.host.ports import Disk
from tidelog.storage import checkpoints
from tidelog.storage.atomic_file import read_file
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.directory_names import OUT_OF_SERVICE_SUFFIXES, directory_of
from tidelog.storage.errors import CorruptFile
from tidelog.storage.repairs import Repair, Repairs

WITHOUT_CHECKPOINT = {
    checkpoints.RECOVERY_POINTS: "every log is read from its start",
    checkpoints.LOG_STARTS: "every log starts with its first segment",
    checkpoints.HIGH_WATERMARKS: "high watermarks begin at the log starts, leaders tell the rest",
    checkpoints.CLEAN_POINTS: "compaction begins again at the start of every log",
}


def stored_offsets(
    disk: Disk, path: str, *, stopped_in_order: bool, repairs: Repairs
) -> dict[PartitionName, int]:
    """Without a checkpoint that can be read, 0 is safe for all of them: scan everything, show
    everything, know of nothing committed or compacted."""
    try:
        offsets = checkpoints.read_offsets(disk, path)
        if not offsets and stopped_in_order:
            require_written(disk, path)
        return offsets
    except CorruptFile as error:
        repairs.append(Repair(error, WITHOUT_CHECKPOINT[path]))
        return {}


def missing_logs(
    entries: Sequence[str],
    recovery_points: Mapping[PartitionName, int],
    present: Container[PartitionName],
) -> list[CorruptFile]:
    """Someone may have removed logs and left the rest. One that has a synced record and no
    directory, and was not on its way out when the last process ended, is lost."""
    leaving = {e.rpartition(".")[0] for e in entries if e.endswith(OUT_OF_SERVICE_SUFFIXES)}
    return [
        CorruptFile(
            directory_of(name),
            "*",
            f"records up to {offset} were on disk, and the directory is gone",
        )
        for name, offset in recovery_points.items()
        if offset > 0 and name not in present and directory_of(name) not in leaving
    ]


def require_written(disk: Disk, path: str) -> None:
    """An orderly stop writes all of them but that of compaction."""
    if path != checkpoints.CLEAN_POINTS and not read_file(disk, path):
        raise CorruptFile(path, "line 1", "the file is gone or empty")
