"""Taking logs out of service: they lose their names together, and only then their files.

A directory that has its new name and is synced is gone for good, whatever happens next: the next
start removes what is left of it, or keeps a stray. One sync is enough for many.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.host.ports import Disk
from tidelog.storage.atomic_file import discard_tree
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.directory_names import directory_of


class Removal(NamedTuple):
    """A log that is out of service, and the name its directory gets."""

    name: PartitionName
    target: str


def take_names_away(disk: Disk, removals: Sequence[Removal]) -> None:
    """On any thread. Durable when it returns. If it fails in between, it may be tried again."""
    for removal in removals:
        source = directory_of(removal.name)
        if disk.exists(source):
            disk.rename(source, removal.target)
    disk.sync_dir("")


def discard_files(disk: Disk, removals: Sequence[Removal]) -> None:
    """On any thread, after `take_names_away`."""
    for removal in removals:
        discard_tree(disk, removal.target)
