"""Space that is set aside on a disk: a file of zeros that is given up when nothing else is left.

That records stop early does not help when somebody else fills the disk to its last byte. Metadata,
checkpoints and the notes of deletions are small, but without any space the node has to end. Then
this file goes, and they have its space.
"""

from tidelog.host.ports import Disk
from tidelog.storage.atomic_file import discard

FILE_NAME = "disk.reserve"
MOST_BYTES = 16 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024


def size_for(reserve_bytes: int) -> int:
    """Half of what is kept free of records, and no more than metadata need for days."""
    return min(MOST_BYTES, reserve_bytes // 2)


def keep(disk: Disk, size_bytes: int) -> None:
    """There is such a file of this size when this returns. An OSError leaves none."""
    file = disk.open(FILE_NAME, create=True)
    try:
        for position in range(file.size(), size_bytes, _PIECE_BYTES):
            file.write(position, bytes(min(_PIECE_BYTES, size_bytes - position)))
    except OSError:
        release(disk)
        raise
    finally:
        file.close()


def release(disk: Disk) -> None:
    discard(disk, FILE_NAME)
