"""The names of partition directories: `<topic>-<partition>`, and with a suffix when they are
on their way out (`-delete`), in (`-future`), or belong to nobody (`-stray`)."""

from tidelog.storage.checkpoints import PartitionName

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
OUT_OF_SERVICE_SUFFIXES = (DELETE_SUFFIX, STRAY_SUFFIX)
METADATA: PartitionName = ("__cluster_metadata", 0)
_LONGEST_NAME = 255


def directory_of(name: PartitionName) -> str:
    topic, partition = name
    return f"{topic}-{partition}"


def parse_directory(text: str) -> PartitionName | None:
    """None if it is not the directory of a partition in service."""
    topic, dash, partition = text.rpartition("-")
    if not (dash and topic and partition.isascii() and partition.isdigit()):
        return None
    name = (topic, int(partition))
    return name if directory_of(name) == text else None  # no leading zeros


def aside(name: PartitionName, unique: str, suffix: str) -> str:
    """Another name for a directory that leaves service; it can exist beside a new one. The name
    of a topic is cut where it is too long, never the number of the partition."""
    topic, partition = name
    tail = f"-{partition}.{unique}{suffix}"
    return topic[: _LONGEST_NAME - len(tail)] + tail
