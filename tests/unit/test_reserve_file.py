"""The space that is set aside on a disk: all of it, or nothing."""

import errno

import pytest

from tidelog.sim.disk import SimDisk
from tidelog.storage import reserve_file
from tidelog.storage.reserve_file import FILE_NAME, MOST_BYTES, keep, release, size_for


def test_half_of_the_reserve_is_a_file_and_not_more_than_16_mib() -> None:
    assert (size_for(0), size_for(1_000_000), size_for(2**30)) == (0, 500_000, MOST_BYTES)


def test_it_is_made_once_completed_after_a_crash_and_given_up() -> None:
    disk = SimDisk()
    keep(disk, 1_500_000)
    assert len(disk.files()[FILE_NAME]) == 1_500_000
    disk.open(FILE_NAME).truncate(100)
    keep(disk, 1_500_000)
    assert len(disk.files()[FILE_NAME]) == 1_500_000
    release(disk)
    release(disk)
    assert FILE_NAME not in disk.files()


def test_half_of_it_is_not_kept_on_a_disk_that_has_no_more() -> None:
    disk = SimDisk()
    disk.inject("write", error=errno.ENOSPC, after=1)
    with pytest.raises(OSError, match=FILE_NAME):
        keep(disk, 3 * reserve_file._PIECE_BYTES)
    assert FILE_NAME not in disk.files()
