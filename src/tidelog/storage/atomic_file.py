"""Small files that are replaced whole: after a crash there is the old content or the new one."""

from tidelog.host.ports import Buffer, Disk
from tidelog.storage.errors import StorageError

TEMPORARY_SUFFIX = ".tmp"


def replace_file(disk: Disk, path: str, content: Buffer) -> None:
    """Durable when it returns. The data is synced before the rename: a name that points to
    bytes not yet on disk would be a checkpoint of nothing (mutant M38)."""
    temporary = path + TEMPORARY_SUFFIX
    try:
        write_and_sync(disk, temporary, content)
    except StorageError:
        discard(disk, temporary)  # a full disk: the old content stays, and it is still true
        raise
    disk.rename(temporary, path)
    disk.sync_dir(parent_of(path))


def write_and_sync(disk: Disk, path: str, content: Buffer) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, content)
        file.sync()
    finally:
        file.close()


def write(disk: Disk, path: str, content: Buffer) -> None:
    """All of a file, which is not on disk before somebody syncs it."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write(0, content)
    finally:
        file.close()


def read_file(disk: Disk, path: str) -> bytes | None:
    """All of it; None if there is none."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def discard(disk: Disk, path: str) -> None:
    """Remove a file that nobody needs; nothing happens if it is gone or the disk is."""
    try:
        disk.remove(path)
    except (FileNotFoundError, StorageError):
        return


def discard_tree(disk: Disk, path: str) -> None:
    """A directory of files, which nobody needs."""
    for entry in disk.list(path):
        discard(disk, join(path, entry))
    discard(disk, path)


def parent_of(path: str) -> str:
    """The directory a name lives in; "" is the root of the disk."""
    return path.rpartition("/")[0]


def join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
