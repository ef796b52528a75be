"""How often the checkpoints of log directories are written."""

from collections.abc import Mapping

import pytest

from tidelog.host.ports import Disk
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import PartitionName


def writings_of(path: str, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[PartitionName, int]]:
    """What is written from now on, into the file of this name of any directory."""
    written: list[Mapping[PartitionName, int]] = []
    write_offsets = checkpoints.write_offsets

    def noted(disk: Disk, name: str, offsets: Mapping[PartitionName, int]) -> None:
        if name == path:
            written.append(dict(offsets))
        write_offsets(disk, name, offsets)

    monkeypatch.setattr(checkpoints, "write_offsets", noted)
    return written
