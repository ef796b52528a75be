"""Making logs, many of them at once.

A new log is a directory, the id of its topic and an empty segment, and each of them is synced: a
thousand logs made one after the other wait for the disk for seconds. The work on one log touches
nothing of another, so it may run on several threads, whose syncs the file system does together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.host.ports import Disk
from tidelog.storage import partition_metadata
from tidelog.storage.atomic_file import join
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.config import LogConfig
from tidelog.storage.errors import NoSpace
from tidelog.storage.log import Log
from tidelog.storage.repairs import Repairs


class NewLog(NamedTuple):
    """What has to be made, and where."""

    disk: Disk
    directory: str
    topic_id: bytes
    config: LogConfig
    gaps: bool
    repairs: Repairs


NewLogs = Mapping[PartitionName, bytes]
"""With the ids of their topics."""
Made = Log | NoSpace
RunAll = Callable[[Callable[[NewLog], Made], Iterable[NewLog]], Iterable[Made]]
"""Does the same to each, in order or at once: `map`, or that of an executor."""


def make_all(orders: Sequence[NewLog], run_all: RunAll) -> list[Made]:
    """All of it is durable when this returns, the names of their directories too."""
    made = list(run_all(make, orders))
    orders[0].disk.sync_dir("")
    return made


def make(new: NewLog) -> Made:
    """All of it is durable but the name of its directory."""
    try:
        new.disk.make_dir(new.directory)
        path = join(new.directory, partition_metadata.FILE_NAME)
        partition_metadata.write_topic_id(new.disk, path, new.topic_id)
        return Log.open(new.disk, new.directory, new.config, gaps=new.gaps, repairs=new.repairs)
    except NoSpace as full:
        return full
